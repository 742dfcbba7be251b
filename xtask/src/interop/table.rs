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
    judge::Cell,
    process::{Outcome, Reports},
};

const BEGIN: &str = "<!-- made by `cargo xtask interop`: do not edit from here -->";
const END: &str = "<!-- to here -->";

/// A table for each server, then what the numbers in brackets mean.
pub(super) fn markdown(clients: &[Side], servers: &[Side], judged: &Judged) -> String {
    let (mut text, mut notes) = (summary(judged), Vec::new());
    let kits: BTreeSet<_> = servers.iter().map(|server| server.kit).collect();
    for kit in kits {
        let columns: Vec<&Side> = servers.iter().filter(|server| server.kit == kit).collect();
        let _ = writeln!(text, "\n### Servers: {}\n", kit.name());
        let head: Vec<String> =
            columns.iter().map(|side| format!("{}, {}", side.era.name(), side.way.name())).collect();
        let _ = writeln!(text, "| client | {} |\n|---|{}", head.join(" | "), "---|".repeat(columns.len()));
        for client in clients {
            let cells: Vec<String> =
                columns.iter().map(|server| cell(judged.get(&(*client, **server)), &mut notes)).collect();
            let _ = writeln!(text, "| {} | {} |", client.label(), cells.join(" | "));
        }
    }
    if !notes.is_empty() {
        text.push_str("\n### Limits of the peers, as seen without Cardan\n\n");
    }
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. {note}", number + 1);
    }
    text
}

fn summary(judged: &Judged) -> String {
    let count = |takes: &dyn Fn(&Cell) -> bool| judged.values().filter(|cell| takes(cell)).count();
    let green = count(&|cell| cell.failed.is_empty() && cell.explained.is_empty());
    let explained = count(&|cell| cell.failed.is_empty() && !cell.explained.is_empty());
    let bad = count(&|cell| !cell.failed.is_empty());
    let checks: usize = judged.values().map(|cell| cell.passed).sum();
    let mut text = format!(
        "{} cells: {green} green, {explained} with a limit of a peer, {bad} with a failure. {checks} checks passed.\n",
        judged.len()
    );
    if bad == 0 {
        text.push_str("Nothing failed that does not fail without Cardan too.\n");
    }
    text
}

/// How many checks passed; in brackets what did not, in bold what is our own fault.
fn cell(cell: Option<&Cell>, notes: &mut Vec<String>) -> String {
    let Some(cell) = cell else { return String::new() };
    let mut text = cell.passed.to_string();
    let mut numbers = BTreeSet::new();
    for (check, seen) in &cell.explained {
        let note = format!("`{check}`: {}", seen.replace('|', "\\|"));
        let known = notes.iter().position(|known| *known == note);
        numbers.insert(known.unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        }));
    }
    if !numbers.is_empty() {
        let numbers: Vec<String> = numbers.iter().map(|number| (number + 1).to_string()).collect();
        let _ = write!(text, " [{}]", numbers.join(", "));
    }
    let passed = |check: &&&str| !cell.failed.iter().any(|(failed, _)| failed == *check);
    let second: Vec<&str> = cell.second.iter().filter(passed).copied().collect();
    if !second.is_empty() {
        let _ = write!(text, " ({} at the second try)", second.join(", "));
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
