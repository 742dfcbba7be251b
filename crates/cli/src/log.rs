//! What someone who serves tells of it on stderr: for people, or a line of JSON for each event. No secrets: causes come from the
//! fleet, which hides them. The one exception is a token that was made at the start, which has no other way to its user.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::interrupt::Interrupts;
use crate::output::{json_line, tell, tell_page};

/// The heading in `--help` for what is told beside.
pub(crate) const LOG: &str = "Log and traces";

/// What is told of it, and how.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Log {
    /// How events are told on stderr: for people, or as one line of JSON each
    #[arg(long = "log", value_name = "FORM", value_enum, default_value = "text", help_heading = LOG)]
    style: Style,
    /// How important an event has to be
    #[arg(long = "log-level", value_name = "LEVEL", value_enum, default_value = "info", help_heading = LOG)]
    level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Text,
    Json,
}

/// How important an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl Log {
    /// For commands that have no choice to offer.
    pub(crate) const USUAL: Self = Self { style: Style::Text, level: Level::Info };

    /// Something happened, perhaps to a server.
    pub(crate) fn say(self, level: Level, event: &str, server: Option<&str>, message: &str) {
        if level > self.level {
            return;
        }
        match self.style {
            Style::Text => tell(message),
            Style::Json => self.put(level, event, message, |line| {
                if let Some(server) = server {
                    line["server"] = json!(server);
                }
            }),
        }
    }

    /// Something is wrong, or may be.
    pub(crate) fn warn(self, event: &str, message: &str) {
        self.warn_of(event, None, message);
    }

    /// The same, perhaps of a server.
    pub(crate) fn warn_of(self, event: &str, server: Option<&str>, message: &str) {
        match self.style {
            Style::Text => self.say(Level::Warn, event, server, &format!("warning: {message}")),
            Style::Json => self.say(Level::Warn, event, server, message),
        }
    }

    /// We serve, at this address. People get a greeting instead.
    pub(crate) fn start(self, address: &str, greeting: &str) {
        match self.style {
            _ if self.level < Level::Info => {}
            Style::Text => tell_page(greeting),
            Style::Json => self.put(Level::Info, "start", "serving", |line| line["address"] = json!(address)),
        }
    }

    /// What has to be known, however little is wanted.
    pub(crate) fn insist(self, event: &str, message: &str) {
        match self.style {
            Style::Text => tell_page(message),
            Style::Json => self.put(Level::Warn, event, message, |_| {}),
        }
    }

    /// Waits until we are asked to stop, and tells of it.
    pub(crate) async fn asked(self, stop: &Interrupts) {
        stop.first().await;
        let message = "asked to stop: nothing new is taken, what runs may finish; ask again to end at once";
        self.say(Level::Info, "drain", None, message);
    }

    fn put(self, level: Level, event: &str, message: &str, more: impl FnOnce(&mut Value)) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = json!({
            "time_ms": u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            "level": level.word(),
            "event": event,
            "message": message,
        });
        more(&mut line);
        tell_page(&json_line(&line.to_string()));
    }
}
