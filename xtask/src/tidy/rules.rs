//! The rules, one function each.

use super::{
    Breach,
    spell::{has_code, has_word, is_method, is_revision},
};
use crate::{lex::Line, scope::Scope, walk::File};

/// A file, taken apart.
pub(super) struct Source<'a> {
    pub(super) file: &'a File,
    pub(super) lines: &'a [Line],
    pub(super) scopes: &'a [Scope],
}

/// A rule and the name by which exceptions refer to it.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) check: fn(&Source<'_>) -> Vec<Breach>,
}

/// All of them.
pub(super) const ALL: [Rule; 8] = [
    Rule { name: "file-length", check: file_length },
    Rule { name: "pure-core", check: pure_core },
    Rule { name: "revisions-in-era", check: revisions_in_era },
    Rule { name: "methods-in-table", check: methods_in_table },
    Rule { name: "codes-in-fault", check: codes_in_fault },
    Rule { name: "nothing-put-off", check: nothing_put_off },
    Rule { name: "no-sleep", check: no_sleep },
    Rule { name: "facade-only", check: facade_only },
];

const FILE_LINES: usize = 600;

/// What the core must not know of. Addresses such as `IpAddr` are plain values, sockets are not;
/// tests may take an instant to start from.
const WORLD: [&str; 12] = [
    "tokio",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "std::process",
    "process::Command",
    "std::thread",
    "thread::spawn",
    "thread::sleep",
    "Instant::now",
    "SystemTime::now",
];

impl Source<'_> {
    fn below(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.file.path.starts_with(folder))
    }

    /// The lines that are shipped, numbered from 1.
    fn product(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.numbered()
            .filter(|(_, _, scope)| *scope == Scope::Product)
            .map(|(number, line, _)| (number, line))
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Line, Scope)> {
        self.lines.iter().zip(self.scopes).enumerate().map(|(at, (line, scope))| (at + 1, line, *scope))
    }
}

fn file_length(source: &Source<'_>) -> Vec<Breach> {
    let length = source.lines.len();
    if length <= FILE_LINES || source.file.is_test() {
        return Vec::new();
    }
    vec![Breach { line: 0, what: format!("{length} lines, the wall is {FILE_LINES}; split by concern") }]
}

fn pure_core(source: &Source<'_>) -> Vec<Breach> {
    if !source.below(&["crates/proto/src/"]) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (line, text) in source.product() {
        if let Some(name) = WORLD.iter().find(|name| has_word(&text.code, name)) {
            out.push(Breach {
                line,
                what: format!("the core must not name `{name}`; take it as an argument"),
            });
        }
    }
    out
}

fn revisions_in_era(source: &Source<'_>) -> Vec<Breach> {
    if !source.below(&["crates/"]) || source.below(&["crates/proto/src/era/"]) {
        return Vec::new();
    }
    literals(source, is_revision, "a revision is spelled outside proto's era module")
}

fn methods_in_table(source: &Source<'_>) -> Vec<Breach> {
    let ruled = source.below(&["crates/proto/src/", "crates/runtime/src/", "crates/transport/src/"]);
    if !ruled || source.file.path.ends_with("/method.rs") {
        return Vec::new();
    }
    literals(source, is_method, "a method is spelled outside proto's method.rs")
}

fn literals(source: &Source<'_>, bad: fn(&str) -> bool, what: &str) -> Vec<Breach> {
    let mut out = Vec::new();
    for (line, text) in source.product() {
        for literal in text.literals.iter().filter(|literal| bad(literal)) {
            out.push(Breach { line, what: format!("{what}: \"{literal}\"") });
        }
    }
    out
}

fn codes_in_fault(source: &Source<'_>) -> Vec<Breach> {
    let ruled = source.below(&["crates/proto/src/", "crates/runtime/src/", "crates/transport/src/"]);
    if !ruled || source.file.path.ends_with("/fault.rs") {
        return Vec::new();
    }
    let coded = source.product().filter(|(_, text)| has_code(&text.code));
    coded
        .map(|(line, _)| Breach { line, what: "an error code is spelled outside fault.rs".to_owned() })
        .collect()
}

fn nothing_put_off(source: &Source<'_>) -> Vec<Breach> {
    let mut out = Vec::new();
    for (line, text, _) in source.numbered() {
        for mark in ["todo!", "unimplemented!", "#[ignore"] {
            if text.code.contains(mark) {
                out.push(Breach { line, what: format!("`{mark}` puts off what must be done or dropped") });
            }
        }
    }
    out
}

fn no_sleep(source: &Source<'_>) -> Vec<Breach> {
    // With time paused a sleep is an event like any other and takes no time.
    let paused = source
        .lines
        .iter()
        .any(|line| line.code.contains("start_paused") || line.code.contains("time::pause("));
    let mut out = Vec::new();
    for (line, text, scope) in source.numbered() {
        let sleeps = has_word(&text.code, "sleep") && (!paused || text.code.contains("thread::sleep("));
        if scope != Scope::Product && sleeps {
            out.push(Breach { line, what: "a test sleeps; pause time or wait for the event".to_owned() });
        }
    }
    out
}

fn facade_only(source: &Source<'_>) -> Vec<Breach> {
    if source.below(&["crates/cardan/"]) {
        return Vec::new();
    }
    let passed_on =
        source.product().filter(|(_, text)| text.code.trim_start().starts_with("pub use cardan_"));
    passed_on
        .map(|(line, _)| Breach { line, what: "only the facade passes on names of other crates".to_owned() })
        .collect()
}
