//! `cardan manual FOLDER`: a manual page for each command, for whoever makes packages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::args::Cli;
use crate::failure::Failure;
use crate::home::path;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cardan manual ~/.local/share/man/man1")]
pub(crate) struct ManualArgs {
    /// Where the pages go
    #[arg(value_parser = path())]
    folder: PathBuf,
}

pub(crate) fn run(args: &ManualArgs) -> Result<(), Failure> {
    let written = fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), &args.folder));
    written.map_err(|error| Failure::usage(format!("{}: {error}", args.folder.display())))
}
