//! What is seen of a server while a command runs: log notes, deviations, its stderr.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cardan_proto::finding::{Finding, Rule, Strictness};
use cardan_proto::model::logging::LogParams;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Event, LogLevel};

use crate::ear::Ear;
use crate::failure::{Failure, keep};
use crate::look::style::Style;
use crate::look::text::Line;
use crate::look::{Tagging, tagging};
use crate::output::{tell, tell_line};
use crate::tagged;

/// What was seen so far. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    loudness: Loudness,
    strictness: Strictness,
    secrets: Redactor,
    /// Who listens, if that is what the command is for.
    ear: Option<Ear>,
}

/// How much is told while it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// Log notes and progress.
    Normal,
    /// Deviations and the server's stderr too.
    Verbose,
}

#[derive(Debug, Default)]
struct Seen {
    /// What the server did wrong, the first and the last of it.
    findings: Vec<Finding>,
    /// How many were told as they came.
    told: usize,
}

/// What is repaired is told so often; a server that does nothing right would bury the rest.
const MAX_TOLD: usize = 20;

impl Watch {
    pub(crate) fn new(
        loudness: Loudness,
        strictness: Strictness,
        secrets: Redactor,
        ear: Option<Ear>,
    ) -> Self {
        Self { seen: Arc::default(), loudness, strictness, secrets, ear }
    }

    /// What is not to be shown of anything.
    pub(crate) fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    /// A failure with what was seen, and without secrets.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        let failure = failure.seen(self.findings());
        let failure = match self.loudness {
            Loudness::Normal => failure,
            Loudness::Verbose => failure.wordless(),
        };
        let failure = match self.strictness {
            Strictness::Lenient => failure.leniently(),
            Strictness::Standard => failure,
            Strictness::Strict => failure.strictly(),
        };
        failure.hiding(&self.secrets)
    }

    pub(crate) fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// Something happened on the link.
    pub(crate) fn event(&self, event: &Event) {
        if let Some(ear) = &self.ear {
            ear.event(event, &self.secrets);
        }
        match event {
            Event::Changed { .. } if self.ear.is_some() => return,
            _ => tagged::event(event, &self.secrets),
        }
        match event {
            // Told on stdout by now.
            _ if tagging() == Tagging::Lines && !matches!(event, Event::Found(_)) => {}
            Event::Logged { params } => tell_line(&log_line(params, &self.secrets)),
            Event::Found(finding) => self.found(finding),
            _ => {}
        }
    }

    fn found(&self, finding: &Finding) {
        let hidden = |text: &str| self.secrets.redact(text).into();
        let (detail, bytes) = (hidden(&finding.detail), hidden(&finding.bytes));
        let finding = Finding { detail, bytes, ..finding.clone() };
        let mut seen = self.lock();
        // Whoever has mistakes repaired is to know of them.
        match (self.loudness, self.strictness) {
            (Loudness::Verbose, _) => tell(&format!("finding: {finding}")),
            (Loudness::Normal, Strictness::Lenient) if seen.told < MAX_TOLD => {
                tell(&format!("finding: {finding}"));
            }
            (Loudness::Normal, Strictness::Lenient) if seen.told == MAX_TOLD => {
                tell("more was found that is not shown; see --verbose");
            }
            (Loudness::Normal, _) => {}
        }
        seen.told += 1;
        keep(&mut seen.findings, finding);
    }

    /// Tells what deviates from its shape, unless it was told as it came.
    pub(crate) fn tell_misshapen(&self) {
        if (self.loudness, self.strictness) == (Loudness::Normal, Strictness::Standard) {
            let found = self.findings();
            let misshapen = found.iter().filter(|finding| finding.rule == Rule::ResultShape);
            misshapen.for_each(|finding| tell(&format!("finding: {finding}")));
        }
    }

    /// Something was found beside the link. It is told to everybody: a failure that would tell it need not follow.
    pub(crate) fn found_beside(&self, rule: Rule, detail: &str) {
        let detail = self.secrets.redact(detail).into();
        let finding = Finding { frame: 0, rule, call: None, detail, bytes: "".into() };
        if (self.loudness, self.strictness) == (Loudness::Normal, Strictness::Standard) {
            tell(&format!("finding: {finding}"));
        }
        self.event(&Event::Found(finding));
    }

    pub(crate) fn strictness(&self) -> Strictness {
        self.strictness
    }

    fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log note, its level in a colour of its own.
fn log_line(params: &[u8], secrets: &Redactor) -> Line {
    let Ok(note) = serde_json::from_slice::<LogParams>(params) else {
        return Line::from(format!("log: {}", secrets.redact(&String::from_utf8_lossy(params))).as_str());
    };
    let data = match note.data.read::<String>() {
        Ok(text) => text,
        Err(_) => note.data.as_str().to_owned(),
    };
    let mut line = Line::of(style(note.level), note.level.name()).with(Style::Plain, ": ");
    if let Some(logger) = note.logger {
        line.push(Style::Faint, &format!("{}: ", secrets.redact(&logger)));
    }
    line.with(Style::Plain, &secrets.redact(&data))
}

const fn style(level: LogLevel) -> Style {
    match level {
        LogLevel::Debug => Style::Faint,
        LogLevel::Info => Style::Plain,
        LogLevel::Notice => Style::Required,
        LogLevel::Warning => Style::Warning,
        LogLevel::Error | LogLevel::Critical | LogLevel::Alert | LogLevel::Emergency => Style::Bad,
    }
}
