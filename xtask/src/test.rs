//! `test`: set up the peers, then run everything.

use std::process::Command;

use anyhow::Result;

use crate::{
    args::Args,
    autobahn, conformance, interop,
    peers::{self, Peers},
    run::{build, cargo, say, succeed, works},
    walk,
};

/// Sets up and runs. The summary of the runner is the last thing printed.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = walk::root();
    say("step 1 of 8: peers");
    let peers = peers::set_up(&root)?;
    say("step 2 of 8: everything is built, once for all that follows");
    // Each part alone would want other features of the same crates, and so build them again.
    build(&root, &["--workspace", "--all-features", "--lib", "--bins", "--examples", "--tests"])?;
    say("step 3 of 8: examples in the documentation");
    succeed(cargo(&root).args(["test", "--doc", "--workspace", "--all-features"]))?;
    say("step 4 of 8: the official conformance suite");
    match peers {
        Peers::Ready => conformance::both(&root)?,
        Peers::Missing => say("SKIPPED: the official conformance suite, because peers are missing"),
    }
    say("step 5 of 8: the same through a bridge, the reduced form");
    match peers {
        Peers::Ready => conformance::through(&root)?,
        Peers::Missing => {
            say("SKIPPED: the official conformance suite through a bridge, because peers are missing")
        }
    }
    say("step 6 of 8: clients and servers of other SDKs through a bridge and a gateway, the reduced forms");
    match peers {
        Peers::Ready => interop::quick(&root)?,
        Peers::Missing => say("SKIPPED: the interop matrix, because peers are missing"),
    }
    say("step 7 of 8: the Autobahn suite for WebSockets");
    match autobahn::python().filter(|_| peers == Peers::Ready) {
        Some(python) => autobahn::both(python)?,
        None => say("SKIPPED: the Autobahn suite, because peers or a Python 2.7 with pip are missing"),
    }
    say("step 8 of 8: tests");
    let mut runner = cargo(&root);
    if works(cargo(&root).args(["nextest", "--version"])) {
        // All that fails is told, not only what fails first.
        runner.args(["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"]);
    } else {
        say("cargo-nextest is not installed, `cargo test` does the same more slowly");
        runner.args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"]);
    }
    if !works(Command::new("strace").args(["-qq", "-o", "/dev/null", "true"])) {
        say(
            "SKIPPED: what a loss of power leaves of a file (F33) and processes that the system refuses (F31), because strace cannot be used here",
        );
    }
    if peers == Peers::Ready {
        // A peer that is set up must not be passed over.
        runner.env("CARDAN_PEERS", "required");
    }
    succeed(&mut runner)
}
