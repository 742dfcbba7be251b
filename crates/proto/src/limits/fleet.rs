//! Bounds of a fleet of servers and of what follows its configuration.

use std::time::Duration;

/// Servers that start at a time, unless told otherwise; the others wait. More would only be in each other's way.
pub const STARTS: usize = 8;

/// For how long a listing waits for servers that are starting, unless told otherwise, and for how long a starting one holds
/// its place. What a person takes for at once.
pub const WINDOW: Duration = Duration::from_millis(250);

/// The longest start of a server whose configuration sets no bound (`start_timeout = 0`). Images and packages may have to be
/// fetched, but starting always ends.
pub const START_MAX: Duration = Duration::from_secs(3600);

/// Events of a fleet that nobody has read yet. Who reads more slowly misses the oldest, and is told how many.
pub const EVENTS: usize = 1024;

/// Calls that wait for a place at one server that takes so many at a time (`concurrency`). One more is refused, not sent: what a
/// server does not keep up with for so long must not pile up here.
pub const QUEUE: usize = 256;

/// How long one of them waits. Then it is refused, not sent: most clients have given up by then.
pub const QUEUE_WAIT: Duration = Duration::from_secs(60);

/// A server that is asked as one of several which may know something. Who is silent for longer is passed over, so that the others
/// are heard in a time that people wait: as long as one that was lost is waited for.
pub const ANSWER: Duration = Duration::from_secs(5);

/// After so long without an answer the next server is asked beside the one that was guessed before it: most answer sooner, and no
/// more are woken than need be.
pub const GUESS: Duration = Duration::from_millis(250);

/// What a legacy server asks at once comes one by one, over HTTP perhaps in several reads. A modern client is to be asked in one
/// round, so the first waits so long for the others. Nobody who is asked notices.
pub const GATHER: Duration = Duration::from_millis(20);

/// Log notes of one call that wait for its client, which answers what was asked. The oldest make room.
pub const UNHEARD: usize = 256;

/// The same in bytes. A note that is larger by itself is not kept.
pub const UNHEARD_BYTES: usize = 256 << 10;

/// What runs when a gateway or a bridge is asked to stop, unless told otherwise. Then each call is answered as lost. Whoever
/// supervises processes waits ten seconds at least before it kills one, most of them thirty.
pub const GRACE: Duration = Duration::from_secs(10);

/// One catalog on disk. A larger one is not read, and as good as absent: no server's lists are that long.
pub const CATALOG_BYTES: u64 = 64 << 20;

/// A catalog that was not told again. Then it is removed: it belongs to a server that nobody has any more.
pub const CATALOG_AGE: Duration = Duration::from_secs(90 * 24 * 3600);

/// Legacy servers that are remembered as such. The one that was found longest ago makes room.
pub const ERAS: usize = 256;

/// The file that remembers them. A larger one is not ours, and as good as absent.
pub const ERA_BYTES: u64 = 64 << 10;

/// For so long a server that was legacy is taken for legacy. Then it is asked again: it may have become modern.
pub const ERA_AGE: Duration = Duration::from_secs(24 * 3600);

/// A list that did not come is asked for again after so long, then after twice as long, and so on.
pub const LIST_WAIT_MIN: Duration = Duration::from_secs(5);

/// But at least so often.
pub const LIST_WAIT_MAX: Duration = Duration::from_secs(600);

/// A list is not asked for more often than this because its server says that it holds for a moment only.
pub const LIST_FRESH_MIN: Duration = Duration::from_secs(10);

/// Readings of a configuration in a row, where each names more files to look at. Then the last one counts, and the next look
/// sees what is left: files that name each other for ever are not waited for.
pub const READINGS: usize = 4;

/// A file that was written so lately is told apart by its contents too. Longer than any file system's clock stands still.
pub const RECENT: Duration = Duration::from_secs(2);

/// Turns of a configuration that nobody has read of yet. With so many no further look is taken until one is read.
pub const TURNS: usize = 16;

/// Listings of one list that a kept connection follows at a time. One more makes the oldest be forgotten, so that its list counts
/// as not known: a few applications may share a connection, and each pages through one listing.
pub const LISTINGS: usize = 4;

/// A wait for another process that writes down approved tools. It takes milliseconds; one that takes longer is stuck, and nothing
/// is remembered until it is gone.
pub const PIN_HOLD_TIME: Duration = Duration::from_secs(2);

/// Between two looks whether it is done.
pub const PIN_HOLD_POLL: Duration = Duration::from_millis(2);

/// Forms of one tool that single sessions told and that wait to be approved: one more does not wait until one of them is. And as
/// many that were approved: there one more takes the place of the oldest.
pub const PIN_FORMS: usize = 8;

/// Entries that a cursor remembers. If all of them are gone, the list is told from its first page.
pub const CURSOR_ENTRIES: usize = 4;

const _: () = {
    assert!(LIST_WAIT_MIN.as_secs() <= LIST_WAIT_MAX.as_secs(), "waits grow");
    assert!(READINGS >= 2, "what a first reading names is looked at");
};
