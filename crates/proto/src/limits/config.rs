//! Bounds of configuration: fixed, because files are read before anyone can have said otherwise.

use std::time::Duration;

/// One file of a tool. A larger one is not read, which is a problem of the file: `~/.claude.json` holds whole histories and
/// grows to some megabytes.
pub const FILE_BYTES: u64 = 64 << 20;

/// A file that values come from: variables, or one value. A larger one is a problem of its server. Keys, certificates and
/// long lists of variables fit; a log does not.
pub const VALUE_FILE_BYTES: u64 = 1 << 20;

/// Tables and lists inside each other. Deeper is a problem of the file, and no configuration.
pub const TREE_DEPTH: usize = 64;

/// Placeholders inside the defaults of placeholders. Deeper ones are plain text.
pub const TEXT_DEPTH: usize = 8;

/// Backups of one file. With so many nothing is written: whoever has them should tidy up first.
pub const BACKUPS: usize = 10_000;

/// A name for which a similar one is looked for. A longer one is like nothing: comparing takes the square of it.
pub const NAME_CHARS: usize = 128;

/// The new name of a tool: what the specification recommends. Longer ones are refused by the interfaces of some models.
pub const TOOL_NAME_CHARS: usize = 128;

/// Attempts, new links and repetitions that a file may ask for. More would be a crash loop by another name, and new links
/// are remembered one by one.
pub const RECONNECT_COUNT: u32 = 1000;

/// Waits between attempts that a file may ask for. Whoever wants a longer one wants the server off.
pub const RECONNECT_TIME: Duration = Duration::from_secs(24 * 3600);

/// A command that prints a value or headers. Then it is ended with all it started. Longer than any password manager takes
/// that needs no hand.
pub const COMMAND_TIME: Duration = Duration::from_secs(10);

/// What such a command prints. More is no value: it is ended, and its server has a problem.
pub const COMMAND_BYTES: u64 = 64 << 10;

/// Between two looks at a command that has printed everything and not ended yet.
pub const COMMAND_POLL: Duration = Duration::from_millis(5);
