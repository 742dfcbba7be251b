//! Which failures are the peers' own: those that are there without us.
//!
//! Where a cell fails at a check, pairs are run directly, one after the other (`witness`), until one of them fails at it
//! in words that are alike. Where that one is of two strangers the limit is a peer's; what only a pair with us in it shows is told
//! apart.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    Again, Cells, Judged,
    cast::{Side, Way},
    process::{self, Env, Outcome, Reports, Serving, run_client},
    witness::{self, Pair, Seen},
};
use crate::run::say;

/// What every client reports; `ping` is left out where there is none.
pub(super) const CHECKS: [&str; 20] = [
    "connect",
    "list",
    "call",
    "structured",
    "tool_error",
    "unknown_tool",
    "progress",
    "cancel",
    "elicit",
    "sample",
    "roots",
    "read",
    "prompt",
    "complete",
    "log",
    "changed",
    "updated",
    "fault",
    "ping",
    "large",
];

/// A judged cell.
#[derive(Debug, Default, Clone)]
pub(super) struct Cell {
    pub(super) passed: usize,
    /// Checks that fail in direct runs too, and what then was seen.
    pub(super) explained: Vec<(&'static str, Seen)>,
    /// Checks that failed once and not when they were tried alone: what was said the first time, and what was seen of it in a
    /// direct run.
    pub(super) second: Vec<(&'static str, String, Option<Seen>)>,
    /// Checks that fail with a bridge only, and why.
    pub(super) failed: Vec<(&'static str, String)>,
}

/// What a cell comes to, the worst that is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// All of it passed.
    Green,
    /// What failed fails between two strangers too.
    Limit,
    /// Something passed at the second try only.
    Second,
    /// Something fails, and fails directly too, but with us on one side.
    OneSided,
    /// Something fails with a bridge only.
    Failed,
}

impl Cell {
    pub(super) fn standing(&self) -> Standing {
        if !self.failed.is_empty() {
            Standing::Failed
        } else if self.explained.iter().any(|(_, seen)| !seen.among_strangers()) {
            Standing::OneSided
        } else if !self.second.is_empty() {
            Standing::Second
        } else if !self.explained.is_empty() {
            Standing::Limit
        } else {
            Standing::Green
        }
    }

    /// Whether something failed once, and nothing direct tells why.
    pub(super) fn is_lucky(&self) -> bool {
        self.second.iter().any(|(_, _, seen)| seen.is_none())
    }

    /// What is wrong with it, if anything is.
    pub(super) fn complaint(&self, client: Side, server: Side) -> Option<String> {
        let mut text = String::new();
        for (check, why) in &self.failed {
            let _ = writeln!(text, "{} > {}: {check}: {why}", client.word(), server.word());
        }
        (!text.is_empty()).then_some(text)
    }
}

/// How a run went, in a few words.
pub(super) fn short(reports: &Reports) -> String {
    let failed: Vec<&str> = CHECKS.into_iter().filter(|check| failure(reports, check).is_some()).collect();
    if failed.is_empty() { "all passed".to_owned() } else { format!("failed {}", failed.join(", ")) }
}

/// Why a check was not passed, if it was not.
fn failure(reports: &Reports, check: &str) -> Option<String> {
    match reports.get(check) {
        Some(Outcome::Passed | Outcome::Absent) => None,
        Some(Outcome::Failed(why)) => Some(why.clone()),
        None => Some(match reports.get("end") {
            Some(Outcome::Failed(why)) => why.clone(),
            _ => "not reached".to_owned(),
        }),
    }
}

/// How far is looked for a pair that shows the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// The two themselves, and pairs that have been run: what fails by chance is not worth more.
    Near,
    /// All that tell something.
    Far,
}

/// Runs pairs without us, each once.
pub(super) struct Judge<'a> {
    root: &'a Path,
    direct: BTreeMap<(Side, Side), Reports>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, direct: BTreeMap::new() }
    }

    pub(super) fn all(&mut self, cells: &Cells, again: &Again, search: Search) -> Judged {
        let mut judged = Judged::new();
        for ((client, server), reports) in cells {
            let mut cell = Cell::default();
            for check in CHECKS {
                match (failure(reports, check), reports.get(check)) {
                    (Some(why), _) => match self.explain((*client, *server), check, &why, search) {
                        Some(seen) => cell.explained.push((check, seen)),
                        None => cell.failed.push((check, why)),
                    },
                    (None, Some(Outcome::Passed)) => cell.passed += 1,
                    _ => {}
                }
            }
            for (check, why) in again.get(&(*client, *server)).into_iter().flatten() {
                if failure(reports, check).is_none() {
                    let seen = self.explain((*client, *server), check, why, Search::Near);
                    cell.second.push((*check, why.clone(), seen));
                }
            }
            judged.insert((*client, *server), cell);
        }
        judged
    }

    /// What a direct run shows, if it fails at the same check in words that are alike.
    fn explain(&mut self, (client, server): Pair, check: &str, why: &str, search: Search) -> Option<Seen> {
        for pair in witness::pairs(client, server) {
            let near =
                self.direct.contains_key(&pair) || (pair.0.kit, pair.1.kit) == (client.kit, server.kit);
            if search == Search::Near && !near {
                continue;
            }
            let reports = self.directly(pair.0, pair.1);
            // Who never met shows nothing about the rest, and our own client may have been the one that gave up.
            if failure(reports, "connect").is_some() {
                continue;
            }
            if let Some(seen) = failure(reports, check).filter(|seen| witness::alike(seen, why)) {
                return Some(Seen { pair, why: seen });
            }
        }
        None
    }

    fn directly(&mut self, client: Side, server: Side) -> &Reports {
        let key = (client, server);
        if !self.direct.contains_key(&key) {
            let reports = direct(self.root, client, server).unwrap_or_else(|why| process::broken(&why));
            say(&format!("interop: directly, {} > {}: {}", client.word(), server.word(), short(&reports)));
            self.direct.insert(key, reports);
        }
        &self.direct[&key]
    }
}

/// The client at the server, with nothing in between.
fn direct(root: &Path, client: Side, server: Side) -> Result<Reports> {
    let mut words = client.kit.client(root, client.era);
    let command = server.kit.server(root, server.way);
    if server.way == Way::Stdio {
        words.extend(command);
        return run_client(&words, &Env::new(), &[]);
    }
    let serving = Serving::start(&command)?;
    words.push(server.way.url(&serving.address));
    run_client(&words, &Env::new(), &[&serving.cancels])
}
