//! What is seen of a server while a command runs: log notes, deviations, its stderr.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cardan_proto::finding::Finding;
use cardan_proto::model::logging::LogParams;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Event, Progress};
use cardan_transport::stderr::Stderr;

use crate::failure::Failure;
use crate::output::tell;

/// What was seen so far. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
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

#[derive(Debug, Default)]
struct Seen {
    findings: Vec<Finding>,
    stderr: Option<Stderr>,
}

/// The last ones explain a failure best; more would bury it.
const MAX_FINDINGS: usize = 5;

impl Watch {
    pub(crate) fn new(loudness: Loudness, secrets: Redactor) -> Self {
        Self { seen: Arc::default(), loudness, secrets }
    }

    /// What is not to be shown of anything.
    pub(crate) fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    /// A failure with what was seen, and without secrets.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        failure.seen(self.findings(), self.stderr()).hiding(&self.secrets)
    }

    pub(crate) fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// The newest child is the one that counts.
    pub(crate) fn attach(&self, stderr: Stderr) {
        self.lock().stderr = Some(stderr);
    }

    /// Something happened on the link.
    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Logged { params } => tell(&self.secrets.redact(&log_line(params))),
            Event::Found(finding) => self.found(finding),
            _ => {}
        }
    }

    fn found(&self, finding: &Finding) {
        if self.loudness == Loudness::Verbose {
            tell(&format!("finding: {finding}"));
        }
        let findings = &mut self.lock().findings;
        if findings.len() == MAX_FINDINGS {
            findings.remove(0);
        }
        findings.push(finding.clone());
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }

    /// The tail of the server's stderr, unless it was shown already.
    pub(crate) fn stderr(&self) -> Option<String> {
        match self.loudness {
            Loudness::Normal => Some(self.lock().stderr.as_ref().map(Stderr::tail).unwrap_or_default()),
            Loudness::Verbose => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_line(params: &[u8]) -> String {
    let Ok(note) = serde_json::from_slice::<LogParams>(params) else {
        return format!("log: {}", String::from_utf8_lossy(params));
    };
    let level = serde_json::to_value(note.level).unwrap_or_default();
    let level = level.as_str().unwrap_or_default();
    let data = match note.data.read::<String>() {
        Ok(text) => text,
        Err(_) => note.data.as_str().to_owned(),
    };
    match note.logger {
        Some(logger) => format!("{level}: {logger}: {data}"),
        None => format!("{level}: {data}"),
    }
}

/// How far a call is, in one line.
pub(crate) fn progress_line(progress: &Progress) -> String {
    let mut line = match progress.total {
        Some(total) => format!("progress: {} of {total}", progress.progress),
        None => format!("progress: {}", progress.progress),
    };
    if let Some(message) = &progress.message {
        line.push_str(", ");
        line.push_str(message);
    }
    line
}
