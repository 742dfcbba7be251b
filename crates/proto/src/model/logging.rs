//! Levels and log notes.

use serde::{Deserialize, Serialize};

use super::meta::Meta;
use super::raw::Raw;

/// How grave a log note is, after RFC 5424; later variants are graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for whoever looks for a fault.
    Debug,
    /// The usual course of things.
    Info,
    /// Usual, but worth noting.
    Notice,
    /// May become an error.
    Warning,
    /// Something failed.
    Error,
    /// A part of the system failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// Every level, in order.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// From its name on the wire.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// Legacy: params of the call that sets the level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetLevelParams {
    /// The least level wanted.
    pub level: LogLevel,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SetLevelParams {
    /// The level in such params, as they are on the wire; nothing: none that there is.
    #[must_use]
    pub fn level_in(params: Option<&[u8]>) -> Option<LogLevel> {
        serde_json::from_slice(params?).ok().map(|params: Self| params.level)
    }
}

/// Params of a log note.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogParams {
    /// How grave.
    pub level: LogLevel,
    /// Which part says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says: any JSON, `null` included.
    pub data: Raw,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-9: eight levels, in this order, and no other word.
    #[test]
    fn levels_are_ordered_words() {
        let words = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels: Vec<LogLevel> =
            words.iter().map(|word| serde_json::from_value((*word).into()).unwrap()).collect();
        assert_eq!(levels, LogLevel::ALL);
        assert_eq!(words.map(LogLevel::parse), LogLevel::ALL.map(Some));
        assert_eq!(LogLevel::ALL.map(LogLevel::name), words);
        assert!(levels.is_sorted());
        assert_eq!(serde_json::to_string(&LogLevel::Warning).unwrap(), "\"warning\"");
        for odd in ["\"warn\"", "\"Debug\"", "\"\"", "3", "null"] {
            assert!(serde_json::from_str::<LogLevel>(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn data_is_required_and_may_be_null() {
        assert!(serde_json::from_str::<LogParams>(r#"{"level":"info","data":null}"#).unwrap().data.is_null());
        assert!(serde_json::from_str::<LogParams>(r#"{"level":"info"}"#).is_err());
    }
}
