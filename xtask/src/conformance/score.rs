//! What counts: every check passes. A failure, a warning, a skip and a check that was not exercised are all the same
//! to us, but for what the suite skips whatever we do.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::suite::Found;

/// A check, by its scenario and its id; or by its name, where several share an id.
pub(super) type Named = (&'static str, &'static str);

/// Skipped for everybody: the suite has no harness for it yet, or the modern era has no such method.
const NOT_OURS: [Named; 3] = [
    ("tasks-status-notifications", "tasks-status-notifications"),
    ("http-standard-headers", "ClientMcpMethodHeader_initialize"),
    ("http-standard-headers", "ClientMcpMethodHeader_notifications_initialized"),
];

/// Not exercised where a reply that is there at once is no stream.
pub(super) const STREAMS: Named = ("server-sse-multiple-streams", "server-sse-streams-functional");

/// How one check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Passed,
    Failed,
    Warned,
    Skipped,
    /// Turned into a remark, because we gave the suite nothing to check.
    NotExercised,
    /// Nothing that we could pass.
    NotOurs,
    /// The suite did not run the scenario at all.
    Missing,
}

impl Status {
    /// Nothing: a line of the suite's log.
    pub(super) fn of(scenario: &str, check: &Value) -> Option<Self> {
        let id = text(check, "id");
        let is_named = |named: &Named| [(scenario, id), (scenario, text(check, "name"))].contains(named);
        Some(match text(check, "status") {
            "SUCCESS" => Self::Passed,
            "WARNING" => Self::Warned,
            "SKIPPED" if NOT_OURS.iter().any(is_named) => Self::NotOurs,
            "SKIPPED" => Self::Skipped,
            "INFO" if is_log(id) => return None,
            "INFO" => Self::NotExercised,
            _ => Self::Failed,
        })
    }

    fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::NotOurs)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Warned => "warned",
            Self::Skipped => "skipped",
            Self::NotExercised => "not exercised",
            Self::NotOurs => "not for us to pass",
            Self::Missing => "not run",
        }
    }
}

/// Remarks on what went over the wire share the form of checks.
fn is_log(id: &str) -> bool {
    id.starts_with("incoming-")
        || id.starts_with("outgoing-")
        || matches!(id, "stream-closed" | "server-info" | "scope-retry-auth-attempt")
}

fn text<'a>(check: &'a Value, member: &str) -> &'a str {
    check.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// One check of one scenario.
#[derive(Debug)]
struct Check {
    scenario: String,
    id: String,
    status: Status,
    why: String,
}

/// One run of the suite: a revision, or all.
#[derive(Debug)]
pub(crate) struct Run {
    label: String,
    scenarios: Vec<String>,
    checks: Vec<Check>,
}

impl Run {
    /// What was `found` of the `expected` scenarios.
    pub(crate) fn new(label: &str, expected: &[&str], found: Vec<Found>) -> Self {
        let mut checks = Vec::new();
        for name in expected {
            let mut exercised = false;
            for check in found.iter().filter(|(found, _)| found == name).flat_map(|(_, checks)| checks) {
                let Some(status) = Status::of(name, check) else { continue };
                exercised = true;
                let (id, why) = (text(check, "id").to_owned(), text(check, "errorMessage").to_owned());
                checks.push(Check { scenario: (*name).to_owned(), id, status, why });
            }
            if !exercised {
                let (id, why) = (String::new(), "no check was made".to_owned());
                checks.push(Check { scenario: (*name).to_owned(), id, status: Status::Missing, why });
            }
        }
        let scenarios = expected.iter().map(|name| (*name).to_owned()).collect();
        Self { label: label.to_owned(), scenarios, checks }
    }

    /// Accepts that one check is not exercised.
    pub(crate) fn without(mut self, named: Named) -> Self {
        self.accept(named, Status::NotExercised);
        self
    }

    /// Accepts that one check ends so, and nothing else: a grant that is not needed is taken back.
    pub(super) fn grant(mut self, named: Named, status: Status) -> Self {
        let (scenario, id) = named;
        if !self.accept(named, status) && self.scenarios.iter().any(|name| name == scenario) {
            let why = format!("it is granted that it is {}, which it is not", status.name());
            let (scenario, id) = (scenario.to_owned(), id.to_owned());
            self.checks.push(Check { scenario, id, status: Status::Failed, why });
        }
        self
    }

    /// Whether there was something to accept.
    fn accept(&mut self, named: Named, status: Status) -> bool {
        let mut any = false;
        let such = self.checks.iter_mut().filter(|check| check.status == status);
        for check in such.filter(|check| (check.scenario.as_str(), check.id.as_str()) == named) {
            check.status = Status::NotOurs;
            any = true;
        }
        any
    }

    fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }

    fn of<'a>(&'a self, scenario: &'a str) -> impl Iterator<Item = &'a Check> {
        self.checks.iter().filter(move |check| check.scenario == scenario)
    }

    fn clean_scenarios(&self) -> usize {
        self.scenarios.iter().filter(|name| self.of(name).all(|check| check.status.is_good())).count()
    }
}

/// All runs of a role.
#[derive(Debug)]
pub(crate) struct Report {
    /// Which role, and by which way if not directly.
    pub(crate) name: String,
    pub(crate) runs: Vec<Run>,
    /// Scenarios that are not run yet, by name.
    pub(crate) put_off: Vec<String>,
    /// Runs that gave less than the pinned suite should.
    short: Vec<String>,
}

impl Report {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), runs: Vec::new(), put_off: Vec::new(), short: Vec::new() }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.short.is_empty()
            && self.runs.iter().flat_map(|run| &run.checks).all(|check| check.status.is_good())
    }

    /// Holds the runs against `score.txt`: lines of role, revision, scenarios, checks passed.
    pub(crate) fn compare(&mut self, score: &str) -> Result<()> {
        for line in score.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [role, label, scenarios, passed] = words[..] else {
                anyhow::bail!("score.txt: `{line}` is not role, revision, scenarios, checks");
            };
            let number = |word: &str| word.parse().with_context(|| format!("score.txt: `{line}`"));
            let (scenarios, passed): (usize, usize) = (number(scenarios)?, number(passed)?);
            let Some(run) = self.runs.iter().find(|run| run.label == label && role == self.name) else {
                continue;
            };
            let found = (run.scenarios.len(), run.count(Status::Passed));
            if found.0 < scenarios || found.1 < passed {
                let (short_of, checks) = found;
                self.short.push(format!(
                    "{role} {label}: {short_of} scenarios with {checks} checks, not {scenarios} with {passed}"
                ));
            }
        }
        Ok(())
    }

    /// One line for each scenario, one column for each run: checks that passed, of how many if not all did.
    pub(crate) fn table(&self) -> String {
        let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (column, run) in self.runs.iter().enumerate() {
            for name in &run.scenarios {
                let checks = run.of(name).filter(|check| check.status != Status::NotOurs).count();
                let passed = run.of(name).filter(|check| check.status == Status::Passed).count();
                let cell =
                    if passed == checks { passed.to_string() } else { format!("{passed} of {checks}") };
                rows.entry(name).or_insert_with(|| vec![String::new(); self.runs.len()])[column] = cell;
            }
        }
        let mut out = format!("\n{:46}", format!("{} scenario", self.name));
        for run in &self.runs {
            let _ = write!(out, "{:>12}", run.label);
        }
        for (name, cells) in rows {
            let _ = write!(out, "\n{name:46}");
            for cell in cells {
                let _ = write!(out, "{cell:>12}");
            }
        }
        out.push_str("\n\n");
        out
    }

    /// What is not as it should be.
    pub(crate) fn complaints(&self) -> String {
        let mut out = String::new();
        for run in &self.runs {
            for check in run.checks.iter().filter(|check| check.status != Status::Passed) {
                let Check { scenario, id, status, why } = check;
                let _ = writeln!(out, "{} {scenario} {id}: {}: {why}", run.label, status.name());
            }
        }
        for line in &self.short {
            let _ = writeln!(out, "less than the suite has: {line}");
        }
        for name in &self.put_off {
            let _ = writeln!(out, "not yet applicable, needs authorization: {name}");
        }
        out
    }

    /// One line for each run.
    pub(crate) fn summary(&self) -> String {
        let mut out = String::new();
        for run in &self.runs {
            let _ = write!(
                out,
                "conformance {} {}: {}/{} scenarios",
                self.name,
                run.label,
                run.clean_scenarios(),
                run.scenarios.len()
            );
            use Status::*;
            for status in [Passed, Failed, Warned, Skipped, NotExercised] {
                let _ = write!(out, ", {} {}", run.count(status), status.name());
            }
            if run.count(Missing) > 0 {
                let _ = write!(out, ", {} {}", run.count(Missing), Missing.name());
            }
            out.push('\n');
        }
        out
    }
}
