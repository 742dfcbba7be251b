//! What is written about the commands: help, version and manual pages.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;

use cardan_proto::era::Revision;
use common::{Scratch, cardan};

/// The commands that `--help` names.
fn commands() -> Vec<String> {
    let help = cardan(&["--help"]).exits(0).stdout;
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_examples_in_its_help() {
    let commands = commands();
    assert!(commands.len() > 12, "{commands:?}");
    for name in &commands {
        let help = cardan(&[name, "--help"]).exits(0).stdout;
        assert!(help.contains("Examples:"), "cardan {name} --help has no examples");
        assert!(help.contains(&format!("cardan {name}")), "cardan {name} --help does not use it");
    }
}

#[test]
fn the_version_names_the_revisions() {
    let long = cardan(&["--version"]).exits(0).stdout;
    for revision in Revision::ALL {
        assert!(long.contains(revision.date()), "{long}");
    }
    let short = cardan(&["-V"]).exits(0).stdout;
    assert!(long.starts_with(short.trim_end()) && short.lines().count() == 1, "{short}");
}

#[test]
fn every_command_has_a_manual_page() {
    let scratch = Scratch::new("manual");
    let folder = scratch.file("man");
    cardan(&["manual", &folder]).exits(0);
    for name in commands() {
        let page = fs::read_to_string(format!("{folder}/cardan-{name}.1")).unwrap();
        assert!(page.contains(".TH") && page.contains("Examples:"), "cardan-{name}.1: {page}");
    }
    assert!(fs::read_to_string(format!("{folder}/cardan.1")).unwrap().contains("Exit codes"));
}
