//! The matrix as a page, and as lines of a record.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Cells, Judged,
    cast::{self, Side},
    judge::{Cell, Standing},
    process::{Outcome, Reports},
};

const BEGIN: &str = "<!-- made by `cargo xtask interop`: do not edit from here -->";
const END: &str = "<!-- to here -->";

/// A table for each server, then what the numbers in brackets mean.
pub(super) fn markdown(clients: &[Side], servers: &[Side], judged: &Judged) -> String {
    let (mut text, notes) = (summary(judged), Notes::of(judged));
    let kits: BTreeSet<_> = servers.iter().map(|server| server.kit).collect();
    for kit in kits {
        let columns: Vec<&Side> = servers.iter().filter(|server| server.kit == kit).collect();
        let _ = writeln!(text, "\n### Servers: {}\n", kit.name());
        let head: Vec<String> =
            columns.iter().map(|side| format!("{}, {}", side.era.name(), side.way.name())).collect();
        let _ = writeln!(text, "| client | {} |\n|---|{}", head.join(" | "), "---|".repeat(columns.len()));
        for client in clients {
            let cells: Vec<String> = columns
                .iter()
                .map(|server| {
                    judged.get(&(*client, **server)).map_or_else(String::new, |it| cell(it, &notes))
                })
                .collect();
            let _ = writeln!(text, "| {} | {} |", client.label(), cells.join(" | "));
        }
    }
    text + &notes.sections()
}

fn summary(judged: &Judged) -> String {
    let count = |standing| judged.values().filter(|cell| cell.standing() == standing).count();
    let (green, limit, second) = (count(Standing::Green), count(Standing::Limit), count(Standing::Second));
    let (one_sided, bad) = (count(Standing::OneSided), count(Standing::Failed));
    let checks: usize = judged.values().map(|cell| cell.passed).sum();
    let mut text = format!(
        "{} cells: {green} green, {limit} with a limit of a peer, {second} green at the second try only, {one_sided} with a \
         failure that only runs with Cardan on one side show, {bad} with a failure. {checks} checks passed.\n",
        judged.len()
    );
    if bad + one_sided + judged.values().filter(|cell| cell.is_lucky()).count() == 0 {
        text.push_str("Nothing fails that does not fail without Cardan too.\n");
    }
    text
}

/// What the numbers in brackets mean, by the section that each belongs to.
struct Notes(Vec<(Section, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Strangers,
    OneSided,
    Second,
}

impl Section {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Strangers, "Limits of the peers, as seen without Cardan"),
        (Self::OneSided, "Failures that only a run with Cardan on one side shows"),
        (Self::Second, "What failed at the first try, and passed alone"),
    ];
}

impl Notes {
    fn of(judged: &Judged) -> Self {
        let mut notes: Vec<(Section, String)> = Vec::new();
        for note in judged.values().flat_map(noted) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        // Numbered without gaps in each section.
        notes.sort_by_key(|(section, _)| *section);
        Self(notes)
    }

    fn numbers(&self, cell: &Cell) -> BTreeSet<usize> {
        let place = |note| self.0.iter().position(|known| *known == note).map(|at| at + 1);
        noted(cell).into_iter().filter_map(place).collect()
    }

    fn sections(&self) -> String {
        let mut text = String::new();
        for (section, title) in Section::ALL {
            let notes = self.0.iter().enumerate().filter(|(_, (of, _))| *of == section);
            let lines: String = notes.map(|(at, (_, note))| format!("{}. {note}\n", at + 1)).collect();
            if !lines.is_empty() {
                let _ = write!(text, "\n### {title}\n\n{lines}");
            }
        }
        text
    }
}

/// What is to be said of a cell.
fn noted(cell: &Cell) -> Vec<(Section, String)> {
    let explained = cell.explained.iter().map(|(check, seen)| {
        let section = if seen.among_strangers() { Section::Strangers } else { Section::OneSided };
        (section, format!("`{check}`: {}", seen.told()))
    });
    let second = cell.second.iter().map(|(check, why, seen)| {
        let seen = seen.as_ref().map(|seen| format!("; {}", seen.told())).unwrap_or_default();
        (Section::Second, format!("`{check}`: {why}{seen}"))
    });
    explained.chain(second).map(|(section, note)| (section, note.replace('|', "\\|"))).collect()
}

/// How many checks passed; in brackets what did not or not at once, in bold what is our own fault.
fn cell(cell: &Cell, notes: &Notes) -> String {
    let mut text = cell.passed.to_string();
    let numbers: Vec<String> = notes.numbers(cell).iter().map(usize::to_string).collect();
    if !numbers.is_empty() {
        let _ = write!(text, " [{}]", numbers.join(", "));
    }
    let failed: Vec<&str> = cell.failed.iter().map(|(check, _)| *check).collect();
    if !failed.is_empty() {
        let _ = write!(text, " **not {}**", failed.join(", "));
    }
    text
}

/// Puts the text in the place of what was made before.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let page = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let page =
        placed(&page, text).with_context(|| format!("{} has no place for the table", path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn placed(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))
}

/// One cell as a line.
pub(super) fn record(client: Side, server: Side, reports: &Reports) -> Value {
    let told: BTreeMap<&String, Value> = reports
        .iter()
        .map(|(check, outcome)| match outcome {
            Outcome::Passed => (check, json!(true)),
            Outcome::Failed(why) => (check, json!(why)),
            Outcome::Absent => (check, Value::Null),
        })
        .collect();
    json!({ "client": client.word(), "server": server.word(), "reports": told })
}

/// The cells of a record. What cannot be read was not finished, and is run again.
pub(super) fn recorded(text: &str) -> Cells {
    let (clients, servers) = (cast::clients(), cast::servers());
    let side = |sides: &[Side], word: &Value| sides.iter().copied().find(|side| *word == *side.word());
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let reports = line["reports"].as_object()?.iter().map(|(check, told)| {
            let outcome = match told {
                Value::Bool(true) => Outcome::Passed,
                Value::String(why) => Outcome::Failed(why.clone()),
                _ => Outcome::Absent,
            };
            (check.clone(), outcome)
        });
        Some(((side(&clients, &line["client"])?, side(&servers, &line["server"])?), reports.collect()))
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::witness::Seen, *};

    /// Each kind of failure stands under words that are true of it, and is counted by itself.
    #[test]
    fn what_only_we_have_seen_is_told_apart() {
        let (clients, servers) = (cast::clients(), cast::servers());
        let ours = *servers.iter().find(|side| side.kit == cast::Kit::Ours).expect("we take part");
        let seen = |to: Side| Seen { pair: (clients[0], to), why: "no | such thing".into() };
        let (limit, doubt) = (("roots", seen(servers[0])), ("sample", seen(ours)));
        let late = ("log", "no answer".to_owned(), None);
        let cells = [
            Cell { passed: 19, explained: vec![limit.clone()], ..Cell::default() },
            Cell { passed: 18, explained: vec![doubt, limit], ..Cell::default() },
            Cell { passed: 20, second: vec![late], ..Cell::default() },
        ];
        let judged: Judged =
            cells.into_iter().zip(&servers).map(|(it, to)| ((clients[0], *to), it)).collect();
        let text = markdown(&clients[..1], &servers[..3], &judged);
        let late: Judged = judged.clone().into_iter().filter(|(_, cell)| !cell.second.is_empty()).collect();
        assert!(!summary(&late).contains("Nothing fails"), "a failure that came once is none of the peers'");
        assert!(text.starts_with(
            "3 cells: 0 green, 1 with a limit of a peer, 1 green at the second try only, 1 with"
        ));
        assert!(!text.contains("Nothing fails"), "{text}");
        assert!(text.contains("| 19 [1] | 18 [1, 2] | 20 [3] |"), "{text}");
        let sections: Vec<&str> = text.split("\n### ").skip(2).collect();
        let starts = [
            "Limits of the peers, as seen without Cardan\n\n1. `roots`: TypeScript 1 directly at server-everything, ",
            "Failures that only a run with Cardan on one side shows\n\n2. `sample`: TypeScript 1 directly at Cardan, ",
            "What failed at the first try, and passed alone\n\n3. `log`: no answer\n",
        ];
        assert_eq!(sections.len(), starts.len(), "{text}");
        for (section, start) in sections.iter().zip(starts) {
            assert!(section.starts_with(start), "{section}");
        }
        assert!(text.contains("no \\| such thing"), "{text}");
    }
}
