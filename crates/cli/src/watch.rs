//! What is seen of a server while a command runs: log notes, deviations, its stderr.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cardan_proto::finding::Finding;
use cardan_proto::model::logging::LogParams;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Event, LogLevel};

use crate::failure::Failure;
use crate::look::style::Style;
use crate::look::text::Line;
use crate::look::{Tagging, tagging};
use crate::output::{tell, tell_line};
use crate::tagged;

/// What was seen so far. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// What the server did wrong, the last of it.
    findings: Arc<Mutex<Vec<Finding>>>,
    loudness: Loudness,
    secrets: Redactor,
}

/// How much is told while it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// Log notes and progress.
    Normal,
    /// Deviations and the server's stderr too.
    Verbose,
}

/// The last ones explain a failure best; more would bury it.
const MAX_FINDINGS: usize = 5;

impl Watch {
    pub(crate) fn new(loudness: Loudness, secrets: Redactor) -> Self {
        Self { findings: Arc::default(), loudness, secrets }
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
        failure.hiding(&self.secrets)
    }

    pub(crate) fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// Something happened on the link.
    pub(crate) fn event(&self, event: &Event) {
        tagged::event(event, &self.secrets);
        match event {
            // Told on stdout by now.
            _ if tagging() == Tagging::Lines && !matches!(event, Event::Found(_)) => {}
            Event::Logged { params } => tell_line(&log_line(params, &self.secrets)),
            Event::Found(finding) => self.found(finding),
            _ => {}
        }
    }

    fn found(&self, finding: &Finding) {
        let finding = Finding { detail: self.secrets.redact(&finding.detail).into(), ..finding.clone() };
        if self.loudness == Loudness::Verbose {
            tell(&format!("finding: {finding}"));
        }
        let mut findings = self.lock();
        if findings.len() == MAX_FINDINGS {
            findings.remove(0);
        }
        findings.push(finding);
    }

    fn findings(&self) -> Vec<Finding> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Finding>> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
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
