//! Progress: the token that a caller chooses, and the notes that carry it back.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::meta::Meta;

/// A string or an integer; `7` and `"7"` are two tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum ProgressToken {
    /// An integer.
    Number(i64),
    /// A string.
    Text(Box<str>),
}

impl From<i64> for ProgressToken {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for ProgressToken {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for ProgressToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for ProgressToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Token;
        impl Visitor<'_> for Token {
            type Value = ProgressToken;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a progress token: a string or an integer")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<ProgressToken, E> {
                Ok(ProgressToken::Number(number))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<ProgressToken, E> {
                i64::try_from(number).map(ProgressToken::Number).map_err(E::custom)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ProgressToken, E> {
                Ok(ProgressToken::Text(text.into()))
            }
        }
        deserializer.deserialize_any(Token)
    }
}

/// Params of a progress note.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressParams {
    /// The token of the call.
    pub progress_token: ProgressToken,
    /// How far; grows with every note.
    pub progress: f64,
    /// How far it will go, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Since 2025-03-26: what is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRG-1: string or integer, and never one for the other.
    #[test]
    fn tokens_are_strings_or_integers() {
        for text in ["7", "-7", "\"7\"", "\"\"", "9223372036854775807"] {
            let token: ProgressToken = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&token).unwrap(), text);
        }
        for text in ["1.5", "true", "null", "[]", "{}", "9223372036854775808"] {
            assert!(serde_json::from_str::<ProgressToken>(text).is_err(), "{text}");
        }
        assert_ne!(ProgressToken::from(7), ProgressToken::from("7"));
    }
}
