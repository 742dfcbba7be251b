//! The command line of `cardan servers`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::seconds;
use crate::home::path;
use crate::output::Form;

#[derive(Debug, Args)]
#[command(after_help = "\
Starts every server that is configured and enabled, shows how each stands, and ends them again. Servers that start when \
they are used (lazy) are left asleep. Tools are those of the server itself (told) or of an earlier run (cached).

With --at nothing is started: a gateway that runs there (`cardan serve --config`) says how its servers stand. Where it asks \
for a key, put a token into CARDAN_KEY, or into another variable and name it with --bearer-env.

Exits with 0 when all are up or asleep, with 4 when some are not; with --watch, with 0 on Ctrl-C. With --watch, SIGHUP \
reads the configuration again at once, and tries servers that are not up.

Examples:
  cardan servers
  cardan servers --watch
  cardan servers --json --window 0
  cardan servers --wait 30 --config ./cardan.toml
  cardan servers --at http://127.0.0.1:2273 --watch")]
pub(crate) struct ServersArgs {
    /// Use this file and no other
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) config: Option<PathBuf>,
    /// Ask the gateway at this address how its servers stand, and start nothing
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "wait", "window"])]
    pub(crate) at: Option<String>,
    /// Show the gateway the token in this variable [default: CARDAN_KEY, where that is set]
    #[arg(long, value_name = "VARIABLE", requires = "at")]
    pub(crate) bearer_env: Option<String>,
    /// Trust the certificates in this PEM file beside the machine's own
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "at")]
    pub(crate) ca: Option<PathBuf>,
    /// Longest wait until every server has told what it offers, or failed [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "window")]
    wait: Option<Duration>,
    /// Longest wait for servers of which nothing is known, as a client would wait; what was kept counts
    #[arg(long, value_name = "MILLISECONDS")]
    window: Option<u64>,
    /// Go on, and show every change; the configuration's files are followed
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print one line of JSON; with --watch, one more for every change
    #[arg(long)]
    json: bool,
}

/// What is waited for before anything is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until something is known of each.
    Window(Duration),
    /// Until each has started or failed.
    Started(Duration),
}

/// A person waits so long for a useful table.
const WAIT: Duration = Duration::from_secs(5);

impl ServersArgs {
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Text }
    }

    pub(super) fn patience(&self) -> Patience {
        match (self.wait, self.window) {
            (Some(wait), _) => Patience::Started(wait),
            (None, Some(window)) => Patience::Window(Duration::from_millis(window)),
            // What comes later is shown then.
            (None, None) if self.watch => Patience::Window(Duration::ZERO),
            (None, None) => Patience::Started(WAIT),
        }
    }
}
