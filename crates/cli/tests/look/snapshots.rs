//! The same commands at three widths, with colours and without.

use std::path::Path;

use super::common::pty::{Pty, Shown};
use super::common::{CARDAN, Scratch, has_python, peer};
use super::{server, snapshot};

const WIDTHS: [u16; 3] = [60, 80, 120];

/// Runs a command at every width, with colours and without, and compares.
fn everywhere(name: &str, exit: i32, words: &[&str], target: &[&str]) {
    at_home(name, exit, &[words, &["--quiet"]].concat(), target, None);
}

/// The same for someone whose home this is.
fn at_home(name: &str, exit: i32, words: &[&str], target: &[&str], home: Option<&Path>) {
    for columns in WIDTHS {
        for color in ["always", "never"] {
            let words = [words, &["--color", color], target].concat();
            let pty = match home {
                Some(home) => Pty::new(columns).cwd(home).env("HOME", home.to_str().unwrap()),
                None => Pty::new(columns),
            };
            let pty =
                pty.env("XDG_CONFIG_HOME", "").env("XDG_CACHE_HOME", "").env("CARDAN_CONFIG", "cardan.toml");
            let shown = pty.run(&words).exits(exit);
            fits(&shown, columns, name);
            let colors = if color == "always" { "-colors" } else { "" };
            snapshot::same(&format!("{name}-{columns}{colors}"), &timeless(&shown.written()));
        }
    }
}

/// No line is wider than the terminal: code and long words aside, which a person may copy.
#[track_caller]
fn fits(shown: &Shown, columns: u16, name: &str) {
    for line in shown.left().lines() {
        let wide = |c: char| match c {
            '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{d7a3}' | '\u{f900}'..='\u{ff60}' => 2,
            '\u{1f000}'.. => 2,
            _ => 1,
        };
        let width: usize = line.chars().filter(|c| !matches!(c, '\u{1f3fb}'..='\u{1f3ff}')).map(wide).sum();
        assert!(width <= usize::from(columns), "{name}: {width} columns: {line}");
    }
}

/// Times are never the same twice.
fn timeless(text: &str) -> String {
    let line = |line: &str| match line.strip_suffix(" ms") {
        Some(rest) => format!("{}N ms", rest.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')),
        None => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// CLI-10: what a server offers, by names in any script, with what each takes, is for, and says that it does.
#[test]
fn lists() {
    everywhere("demo-tools", 0, &["list", "tools"], &["--", CARDAN, "demo"]);
    if has_python() {
        everywhere("neat-list", 0, &["list"], &server("neat"));
    }
}

#[test]
fn info() {
    everywhere("demo-info", 0, &["info", "--era", "modern"], &["--", CARDAN, "demo"]);
}

/// CLI-49, CLI-48: everything that is known of a failure is there, in its order, and what a server says cannot pass for ours.
#[test]
fn failures() {
    everywhere("demo-unknown", 5, &["call", "ecko", "message=hi"], &["--", CARDAN, "demo"]);
    if has_python() {
        everywhere("neat-fault", 10, &["call", "fault"], &server("neat"));
        everywhere("neat-died", 13, &["call", "die"], &server("neat"));
    }
}

#[test]
fn results() {
    everywhere("demo-add", 0, &["call", "add", "a=1", "b=2"], &["--", CARDAN, "demo"]);
    if has_python() {
        everywhere("neat-page", 0, &["read", "look://page"], &server("neat"));
        everywhere("neat-structure", 0, &["call", "structure"], &server("neat"));
        everywhere("neat-media", 0, &["call", "media"], &server("neat"));
    }
}

/// What is configured: where there is little room, where it comes from goes below it.
#[test]
fn tables() {
    let scratch = Scratch::new("tables");
    let config = r#"
[servers.demo]
command = "cardan-demo-that-has-a-rather-long-name"
args = ["--flag", "a word"]
[servers."天気"]
url = "https://weather.example.com/mcp"
enabled = false
"#;
    std::fs::write(scratch.file("cardan.toml"), config).unwrap();
    let home = std::fs::canonicalize(scratch.file(".")).unwrap();
    at_home("config-list", 0, &["config", "list"], &[], Some(&home));
}

/// CLI-1: the reference server of another hand, at the same widths.
#[test]
fn everything() {
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    if peer("node-everything", script).is_none() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-everything").join(script);
    let target = ["--", "node", path.to_str().unwrap(), "stdio"];
    everywhere("everything-tools", 0, &["list", "tools"], &target);
    everywhere("everything-prompts", 0, &["list", "prompts"], &target);
}
