//! Which failures are the peers' own: those that are there without us.
//!
//! A cell that fails at a check is run again directly, as far as the two sides have a transport and an era in common:
//! the client at the server, the client at our demo server, our client at the server. Where one of these fails at the
//! same check, the limit is a peer's.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    Again, Cells, Judged,
    cast::{self, Kit, Side, Way},
    process::{self, Outcome, Reports, Serving, run_client},
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
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) passed: usize,
    /// Checks that fail without us too, and what then was seen.
    pub(super) explained: Vec<(&'static str, String)>,
    /// Checks that failed once and not when they were tried alone.
    pub(super) second: Vec<&'static str>,
    /// Checks that fail with us only, and why.
    pub(super) failed: Vec<(&'static str, String)>,
}

impl Cell {
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

/// Runs pairs without us, each once.
pub(super) struct Judge<'a> {
    root: &'a Path,
    direct: BTreeMap<(Side, Side), Reports>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, direct: BTreeMap::new() }
    }

    pub(super) fn all(&mut self, cells: &Cells, again: &Again) -> Judged {
        let mut judged = Judged::new();
        for ((client, server), reports) in cells {
            let second = again.get(&(*client, *server)).cloned().unwrap_or_default();
            let mut cell = Cell { second, ..Cell::default() };
            for check in CHECKS {
                match (failure(reports, check), reports.get(check)) {
                    (Some(why), _) => match self.explain(*client, *server, check) {
                        Some(seen) => cell.explained.push((check, seen)),
                        None => cell.failed.push((check, why)),
                    },
                    (None, Some(Outcome::Passed)) => cell.passed += 1,
                    _ => {}
                }
            }
            judged.insert((*client, *server), cell);
        }
        judged
    }

    /// What a direct run shows, if it fails at the same check.
    fn explain(&mut self, client: Side, server: Side, check: &'static str) -> Option<String> {
        for (from, to) in direct_pairs(client, server) {
            let reports = self.directly(from, to);
            // Who never met shows nothing about the rest, and our own client may have been the one that gave up.
            if failure(reports, "connect").is_some() {
                continue;
            }
            if let Some(why) = failure(reports, check) {
                let pair = format!("{} directly at {}", from.kit.name(), to.kit.name());
                return Some(format!("{pair}, {}, {}: {why}", to.era.name(), to.way.name()));
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

/// The runs without us that tell something about a cell; both sides of each go the same way, in the same era.
pub(super) fn direct_pairs(client: Side, server: Side) -> Vec<(Side, Side)> {
    let (clients, servers) = (cast::clients(), cast::servers());
    let shared = |way: Way| {
        let (from, to) = (Side { way, ..client }, Side { way, ..server });
        (client.era == server.era && clients.contains(&from) && servers.contains(&to)).then_some((from, to))
    };
    let demo = Side { kit: Kit::Ours, ..client };
    let ours = Side { kit: Kit::Ours, ..server };
    let pair = shared(server.way).or_else(|| shared(client.way)).or_else(|| shared(Way::Stdio));
    // Without a peer in it a pair shows nothing of a peer.
    let candidates = [pair, Some((client, demo)), Some((ours, server))];
    let foreign = |(from, to): &(Side, Side)| from.kit != Kit::Ours || to.kit != Kit::Ours;
    candidates.into_iter().flatten().filter(foreign).collect()
}

/// The client at the server, with nothing in between.
fn direct(root: &Path, client: Side, server: Side) -> Result<Reports> {
    let mut words = client.kit.client(root, client.era);
    let command = server.kit.server(root, server.way);
    if server.way == Way::Stdio {
        words.extend(command);
        return run_client(&words, &[]);
    }
    let serving = Serving::start(&command)?;
    words.push(server.way.url(&serving.address));
    run_client(&words, &[&serving.cancels])
}
