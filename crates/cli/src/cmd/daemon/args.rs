//! The command line of `cardan daemon`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::seconds;
use crate::home::path;
use crate::log::Log;
use crate::output::Form;

#[derive(Debug, Args)]
#[command(after_help = "\
Commands that are given --daemon reach configured servers through it; so do all where CARDAN_DAEMON is 1 or `daemon = true` is \
in the user's cardan.toml. The first such command starts it, so there is no need to do so by hand. A server starts when it is \
first called, and runs until the daemon ends: on `cardan daemon stop`, on SIGTERM or SIGINT, and when nobody has called for \
the time that --idle says.

There is one for each user, configuration and working folder. The configuration's files are followed, and looked at at once on
SIGHUP. It outlives the terminal that it was started from.

Examples:
  cardan call weather forecast city=Bonn --daemon
  cardan daemon status
  cardan daemon stop
  cardan daemon --idle 0")]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    /// Keep the servers that are configured in this file and no other
    #[arg(long, value_name = "FILE", value_parser = path(), global = true)]
    pub(crate) config: Option<PathBuf>,
    /// End after so long without a call; 0 never ends
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub(crate) idle: Duration,
    /// Started by a command, which waits for a word
    #[arg(long, hide = true)]
    pub(crate) on_demand: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the daemons that run, and how their servers stand
    #[command(after_help = "\
Exits with 4 where none runs.

Examples:
  cardan daemon status
  cardan daemon status --json")]
    Status {
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// End the daemon; what runs may finish
    #[command(after_help = "\
Examples:
  cardan daemon stop
  cardan daemon stop --all")]
    Stop {
        /// End all daemons of this user, not only the one for here
        #[arg(long)]
        all: bool,
    },
}

impl DaemonArgs {
    pub(crate) fn form(&self) -> Form {
        match self.verb {
            Some(Verb::Status { json: true }) => Form::Json,
            _ => Form::Text,
        }
    }
}
