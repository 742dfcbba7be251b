//! What is written about the commands: help, version and manual pages.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::process::Command;

use cardan_proto::era::Revision;
use common::{CARDAN, Scratch, cardan};

/// What `--help` says of a command, to somebody with a terminal so wide; none: to a pipe.
fn help(path: &[&str], columns: Option<usize>) -> String {
    let mut command = Command::new(CARDAN);
    command.args(path).arg("--help").env_remove("COLUMNS");
    command.envs(columns.map(|columns| ("COLUMNS", columns.to_string())));
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{path:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The commands that the help of another names.
fn named(help: &str) -> Vec<String> {
    let list = help.split("Commands:").nth(1).unwrap_or_default().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

fn commands() -> Vec<String> {
    named(&help(&[], None))
}

/// Every command with its own: `config`, `config list`, and so on.
fn all() -> Vec<Vec<String>> {
    let mut found = vec![vec!["manual".to_owned()]];
    let mut open: Vec<Vec<String>> = commands().into_iter().map(|name| vec![name]).collect();
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        for name in named(&help(&words, None)) {
            open.push([&path[..], &[name]].concat());
        }
        found.push(path);
    }
    found
}

#[test]
fn every_command_has_examples_in_its_help() {
    let all = all();
    assert!(all.len() > 30, "{all:?}");
    for path in &all {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let (help, path) = (help(&words, None), path.join(" "));
        let examples = help.split("Examples:\n").nth(1);
        let examples = examples.unwrap_or_else(|| panic!("cardan {path} --help has no examples"));
        assert!(examples.contains(&format!("cardan {path}")), "cardan {path} --help does not use it");
    }
}

/// Help fits the terminal, and is never wider than one reads with ease.
#[test]
fn help_fits_the_terminal() {
    let all = all();
    let paths = all.iter().map(Vec::as_slice).chain([&[][..]]);
    for path in paths {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        for (columns, most) in [(Some(80), 80), (Some(200), 100), (None, 100)] {
            for line in help(&words, columns).lines() {
                let width = line.chars().count();
                assert!(width <= most, "cardan {path:?} --help at {columns:?}: {width}: {line}");
            }
        }
    }
}

/// Options stand in groups, and words under one heading.
#[test]
fn options_of_a_call_stand_in_groups() {
    for name in ["call", "list", "read", "prompt", "info", "complete", "listen", "ping", "raw"] {
        let help = help(&[name], Some(80));
        let heads: Vec<&str> =
            help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
        for head in ["Output:", "Connection:", "Answers to what the server asks:", "Server:"] {
            assert!(heads.contains(&head), "cardan {name} --help has no {head} {heads:?}");
        }
        assert_eq!(heads.iter().filter(|head| **head == "Arguments:").count(), 1, "{name}: {heads:?}");
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
    let all = all();
    assert!(all.iter().any(|path| path.join(" ") == "config add"), "{all:?}");
    // How pages are made is told by no page.
    for path in all.iter().filter(|path| path[..] != ["manual"]) {
        let file = format!("{folder}/cardan-{}.1", path.join("-"));
        let page = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(page.contains(".TH") && page.contains("Examples:"), "{file}: {page}");
    }
    assert!(fs::read_to_string(format!("{folder}/cardan.1")).unwrap().contains("Exit codes"));
}
