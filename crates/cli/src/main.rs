//! The `cardan` command: call, list and read from any MCP server, and a server to try it on.
//!
//! Results go to stdout, everything else to stderr; what happened is told by the exit code
//! ([`exit`]). What is meant by the words on the command line is settled in [`args`] and [`target`],
//! how a server is reached in [`connect`], what is asked of a person in [`talk`], and each command has a file of its own in [`cmd`].

mod access;
mod answers;
mod args;
mod arguments;
mod catalogs;
mod cmd;
mod connect;
mod daemon;
mod demo;
mod ear;
mod exit;
mod failure;
mod function;
mod hangup;
mod home;
mod interrupt;
mod log;
mod look;
mod members;
mod memory;
mod misread;
mod named;
mod output;
mod progress;
mod results;
mod save;
mod schema;
mod spelled;
mod tab;
mod tagged;
mod talk;
mod target;
mod telemetry;
mod trace;
mod visits;
mod warm;
mod watch;

use std::io::{self, Write as _};
use std::pin::Pin;
use std::process::ExitCode;

use args::{Cli, Command};
use exit::Exit;
use failure::Failure;
use look::Tagging;
use look::args::asked;
use output::Form;

fn main() -> ExitCode {
    if let Some(exit) = tab::answer(std::env::args_os().skip(1).map_while(|word| word.into_string().ok())) {
        return exit;
    }
    let words: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::read(&words) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return misread::report(&error, &words),
        Err(help) => {
            look::settle(asked(&words), Tagging::Result);
            // Help and version are no errors.
            let written = help.print().and_then(|()| io::stdout().flush());
            return output::read(written)
                .map_or_else(|failure| failure.report(Form::Text), |_| Exit::Done.into());
        }
    };
    look::settle(cli.look.color, cli.command.tagging());
    let mut builder = match cli.command {
        // Many clients at once.
        Command::Serve(_) | Command::Bridge(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::usage(format!("cannot start: {error}")).report(cli.command.form()),
    };
    let form = cli.command.form();
    let outcome = runtime.block_on(run(cli.command));
    // A thread may still block on a terminal's stdin; nobody waits for it.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => Exit::Done.into(),
        Err(failure) => failure.report(form),
    }
}

/// Each command has the memory that it needs itself: in one piece all would take what the largest does, on the stack.
#[inline(never)]
fn apart<F: Future>(begin: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(begin())
}

async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Call(args) => apart(|| cmd::call::run(args.0)).await,
        Command::List(args) => apart(|| cmd::list::run(args.0)).await,
        Command::Read(args) => apart(|| cmd::read::run(args.0)).await,
        Command::Prompt(args) => apart(|| cmd::prompt::run(args.0)).await,
        Command::Info(args) => apart(|| cmd::info::run(args.0)).await,
        Command::Complete(args) => apart(|| cmd::complete::run(args.0)).await,
        Command::Listen(args) => apart(|| cmd::listen::run(args.0)).await,
        Command::Ping(args) => apart(|| cmd::ping::run(args.0)).await,
        Command::Raw(args) => apart(|| cmd::raw::run(args.0)).await,
        Command::Demo(args) => apart(|| cmd::demo::run(args.0)).await,
        Command::Serve(args) => apart(|| cmd::serve::run(args.0)).await,
        Command::Bridge(args) => apart(|| cmd::bridge::run(args.0)).await,
        Command::Config(args) => cmd::config::run(args.0),
        Command::Key(args) => cmd::key::run(&args.0),
        Command::Manual(args) => cmd::manual::run(&args.0),
        Command::Pin(args) => apart(|| cmd::pin::run(args.0)).await,
        Command::Servers(args) => apart(|| cmd::servers::run(args.0)).await,
        Command::Search(args) => cmd::search::run(&args.0),
        Command::Completions(args) => cmd::completions::run(&args.0),
        Command::Daemon(args) => apart(|| cmd::daemon::run(args.0)).await,
    }
}
