//! One server as a row of the table, and as JSON.

use std::sync::Arc;
use std::time::Duration;

use cardan_gateway::catalog::{Catalog, Kind};
use cardan_gateway::fleet::{Fleet, Health, Known, Status, Upstream};
use cardan_gateway::rules::RuleSet;
use cardan_proto::era::Era;
use serde_json::{Value, json};

use crate::look::style::Style;
use crate::look::table::{self, Fit};
use crate::look::text::Line;

/// How one server stands, and what it shows.
pub(crate) struct Row {
    status: Status,
    /// What it offers; nothing: not known.
    catalog: Option<Arc<Catalog>>,
    /// What of that is shown.
    rules: Arc<RuleSet>,
}

impl Row {
    /// All servers, in their configured order.
    pub(crate) fn all(fleet: &Fleet) -> Vec<Self> {
        fleet.upstreams().iter().map(|upstream| Self::of(upstream)).collect()
    }

    pub(crate) fn of(upstream: &Upstream) -> Self {
        let (rules, catalog) = (upstream.rules(), upstream.catalog());
        Self { status: upstream.status(), catalog, rules }
    }

    /// The names of the tools that are shown; nothing: not known.
    fn tools(&self) -> Option<impl Iterator<Item = &str>> {
        let rules = self.rules.of(Kind::Tools);
        let tools = &self.catalog.as_ref()?.tools.entries;
        Some(tools.iter().map(|tool| tool.key()).filter(|own| rules.show(own)).map(|own| rules.name(own)))
    }

    /// How many that are. It is asked often, so no name is copied for it.
    fn tool_count(&self) -> Option<usize> {
        self.tools().map(Iterator::count)
    }

    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn name(&self) -> &str {
        &self.status.name
    }

    /// Up, or asleep as it is meant to be.
    pub(super) fn is_fine(&self) -> bool {
        self.status.health.is_up() || self.status.health == Health::Asleep
    }

    /// What is listed badly, in all lists: how much, and the first of it.
    fn misshapen(&self) -> Option<(usize, &str)> {
        let lists =
            Kind::ALL.into_iter().filter_map(|kind| self.catalog.as_ref()?.list(kind).misshapen.as_ref());
        lists.fold(None, |sum, each| {
            let (count, first) = sum.unwrap_or((0, &*each.first));
            Some((count + each.count, first))
        })
    }

    /// The same for those who may not know all names: only how many tools there are, and how much is listed badly.
    pub(crate) fn health(&self) -> Value {
        let misshapen = self.misshapen().map(|(count, _)| json!({ "count": count }));
        self.json_with(json!(self.tool_count()), json!(misshapen))
    }

    /// What the table shows.
    fn shown(&self) -> Value {
        self.json_with(json!(self.tool_count()), self.misshapen_in_full())
    }

    pub(super) fn json(&self) -> Value {
        self.json_with(json!(self.tools().map(Iterator::collect::<Vec<_>>)), self.misshapen_in_full())
    }

    fn misshapen_in_full(&self) -> Value {
        json!(self.misshapen().map(|(count, first)| json!({ "count": count, "first": first })))
    }

    fn json_with(&self, tools: Value, misshapen: Value) -> Value {
        let status = &self.status;
        let (catalog, age) = match status.known {
            Known::Nothing => (None, None),
            Known::Cached(age) => (Some("cached"), Some(millis(age))),
            Known::Told => (Some("told"), None),
        };
        json!({
            "name": status.name,
            "transport": status.kind,
            "era": status.revision.map(|revision| era(revision.era())),
            "revision": status.revision.map(|revision| revision.date()),
            "state": status.health.to_string(),
            "up": status.health.is_up(),
            "cause": status.cause.as_deref(),
            "since_ms": millis(status.since),
            "restarts": status.restarts,
            "tools": tools,
            "catalog": catalog,
            "catalog_age_ms": age,
            "misshapen": misshapen,
        })
    }

    /// How it stands, in a few words.
    pub(crate) fn brief(&self) -> String {
        let tools = match self.tool_count() {
            Some(1) => ", 1 tool".to_owned(),
            Some(count) => format!(", {count} tools"),
            None => String::new(),
        };
        let cause = self.cause().filter(|_| !self.status.health.is_up());
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        format!("{}{tools}{cause}", self.status.health)
    }

    /// What it lists badly, in a line.
    pub(crate) fn listed_badly(&self) -> Option<String> {
        listed_badly(&self.misshapen_in_full())
    }

    /// Why it is not up, or was not.
    pub(crate) fn cause(&self) -> Option<String> {
        let status = &self.status;
        told(status.cause.as_deref()?, status.health.is_up(), status.restarts.into())
    }
}

/// A cause in its first line, where it explains how a server stands.
fn told(cause: &str, up: bool, restarts: u64) -> Option<String> {
    let cause = cause.lines().next().unwrap_or_default();
    match (up, restarts) {
        (false, _) => Some(cause.to_owned()),
        (true, 0) => None,
        (true, _) => Some(format!("before: {cause}")),
    }
}

/// What a server lists badly, in its first line.
fn listed_badly(misshapen: &Value) -> Option<String> {
    let entries = match misshapen["count"].as_u64()? {
        0 => return None,
        1 => "1 entry is".to_owned(),
        count => format!("{count} entries are"),
    };
    let first = misshapen["first"].as_str().and_then(|first| first.lines().next());
    Some(first.map_or_else(
        || format!("{entries} listed badly"),
        |first| format!("{entries} listed badly: {first}"),
    ))
}

/// What [`Row::health`] says, as cells of the table. It may come from elsewhere, so nothing in it is obeyed.
fn cells(health: &Value) -> [Line; 9] {
    let text = |name: &str| health[name].as_str();
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let up = health["up"] == true;
    let restarts = health["restarts"].as_u64().unwrap_or_default();
    let catalog = match (text("catalog"), health["catalog_age_ms"].as_u64()) {
        (Some(word), Some(age)) => Some(format!("{word} {} ago", span(Duration::from_millis(age)))),
        (word, _) => word.map(str::to_owned),
    };
    let why = [text("cause").and_then(|cause| told(cause, up, restarts)), listed_badly(&health["misshapen"])];
    let why: Vec<_> = why.into_iter().flatten().collect();
    let protocol = text("era").zip(text("revision")).map(|(era, revision)| format!("{era} {revision}"));
    let cells = [
        (Style::Name, or_none(text("name").map(str::to_owned))),
        (Style::Plain, or_none(text("transport").map(str::to_owned))),
        (Style::Plain, or_none(protocol)),
        (state(up, text("state")), or_none(text("state").map(str::to_owned))),
        (Style::Plain, span(Duration::from_millis(health["since_ms"].as_u64().unwrap_or_default()))),
        (if restarts > 0 { Style::Warning } else { Style::Plain }, restarts.to_string()),
        (Style::Plain, or_none(health["tools"].as_u64().map(|count| count.to_string()))),
        (Style::Faint, or_none(catalog)),
        (Style::Plain, why.join("; ")),
    ];
    cells.map(|(style, cell)| Line::of(style, &cell))
}

/// Whether someone has to look at it.
fn state(up: bool, word: Option<&str>) -> Style {
    match (up, word) {
        (_, Some("degraded")) => Style::Warning,
        (true, _) => Style::Good,
        (false, Some("asleep" | "waiting" | "starting")) => Style::Faint,
        (false, _) => Style::Bad,
    }
}

const HEAD: [&str; 9] =
    ["SERVER", "TRANSPORT", "PROTOCOL", "STATE", "FOR", "RESTARTS", "TOOLS", "CATALOG", "CAUSE"];

/// What can be done without where there is little room, first of all: catalog, restarts, protocol, how long, transport.
const SPARE: [usize; 5] = [7, 5, 2, 4, 1];

/// All of them as lines that fit.
pub(super) fn table(rows: &[Row], columns: Option<usize>) -> Vec<Line> {
    let rows: Vec<_> = rows.iter().map(Row::shown).collect();
    health_table(&rows, columns)
}

/// The same for what [`Row::health`] says, here or elsewhere.
pub(super) fn health_table(rows: &[Value], columns: Option<usize>) -> Vec<Line> {
    let head = HEAD.map(|name| Line::of(Style::Faint, name));
    let cells: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    table::lines(&cells, Fit { columns, spare: &SPARE })
}

fn era(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time for people, in its largest unit.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::style::Paint;

    /// Columns that can be done without go first, and what explains a server goes below it.
    #[test]
    fn the_table_fits() {
        let rows = [
            json!({ "name": "天気", "transport": "http", "era": "modern", "revision": "R", "state": "ready", "up": true,
                    "since_ms": 61_000, "restarts": 0, "tools": 12, "catalog": "told" }),
            json!({ "name": "lost", "transport": "stdio", "state": "down", "up": false, "since_ms": 5_000, "restarts": 3,
                    "cause": "cannot start `nowhere`: there is\x1b[2J no such file; check the path" }),
            json!({ "name": "odd", "transport": "stdio", "state": "ready", "up": true, "restarts": 0, "tools": 2,
                    "misshapen": { "count": 2, "first": "tools/list: /tools/0: no\x07 name\nx" } }),
        ];
        let shown = |columns| -> Vec<String> {
            health_table(&rows, columns).iter().map(|line| line.painted(Paint::Plain)).collect()
        };
        assert_eq!(
            shown(Some(60)),
            [
                "SERVER  TRANSPORT  STATE  TOOLS  CAUSE",
                "天気    http       ready  12",
                "lost    stdio      down   -",
                "    cannot start `nowhere`: there is\\u{1b}[2J no such file;",
                "    check the path",
                "odd     stdio      ready  2",
                "    2 entries are listed badly: tools/list: /tools/0:",
                "    no\\u{7} name",
            ]
        );
        assert_eq!(
            shown(Some(120))[0],
            "SERVER  TRANSPORT  PROTOCOL  STATE  FOR    RESTARTS  TOOLS  CATALOG  CAUSE"
        );
        assert!(shown(None)[2].ends_with("check the path"), "nothing is cut where no one looks");
    }

    #[test]
    fn times_are_told_in_their_largest_unit() {
        let rows =
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (11_000, "3 h"), (200_000, "2 d")];
        for (seconds, text) in rows {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
