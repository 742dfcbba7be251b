//! `test`: set up the peers, then run everything.

use anyhow::Result;

use crate::{
    args::Args,
    conformance,
    peers::{self, Peers},
    run::{cargo, say, succeed, works},
    walk,
};

/// Sets up and runs. The summary of the runner is the last thing printed.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = walk::root();
    say("step 1 of 4: peers");
    let peers = peers::set_up(&root)?;
    say("step 2 of 4: examples in the documentation");
    succeed(cargo(&root).args(["test", "--doc", "--workspace", "--all-features"]))?;
    say("step 3 of 4: the official conformance suite");
    match peers {
        Peers::Ready => conformance::both(&root)?,
        Peers::Missing => say("SKIPPED: the official conformance suite, because peers are missing"),
    }
    say("step 4 of 4: tests");
    let mut runner = cargo(&root);
    if works(cargo(&root).args(["nextest", "--version"])) {
        runner.args(["nextest", "run", "--workspace", "--all-features"]);
    } else {
        say("cargo-nextest is not installed, `cargo test` does the same more slowly");
        runner.args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"]);
    }
    if peers == Peers::Ready {
        // A peer that is set up must not be passed over.
        runner.env("CARDAN_PEERS", "required");
    }
    succeed(&mut runner)
}
