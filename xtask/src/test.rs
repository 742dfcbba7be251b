//! `test`: set up the peers, then run everything.

use anyhow::Result;

use crate::{
    args::Args,
    peers,
    run::{cargo, say, succeed, works},
    walk,
};

/// Sets up and runs. The runner's own summary is the last thing printed.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = walk::root();
    say("step 1 of 3: peers");
    peers::set_up(&root)?;
    say("step 2 of 3: examples in the documentation");
    succeed(cargo(&root).args(["test", "--doc", "--workspace", "--all-features"]))?;
    say("step 3 of 3: tests");
    if works(cargo(&root).args(["nextest", "--version"])) {
        succeed(cargo(&root).args(["nextest", "run", "--workspace", "--all-features"]))
    } else {
        say("cargo-nextest is not installed, `cargo test` does the same more slowly");
        succeed(cargo(&root).args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"]))
    }
}
