//! Why a schema is refused.

use std::error::Error;
use std::fmt;

/// Why a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// `$schema` names a dialect that is not supported.
    Dialect(String),
    /// A reference leads out of the schema. Nothing is fetched.
    Reference(String),
    /// Checking against it could cost too much.
    TooLarge(&'static str),
    /// It is no schema of its dialect, or a pattern in it needs more than linear time.
    Invalid {
        /// JSON pointer into the schema.
        at: String,
        /// What is wrong there.
        what: String,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect(named) => write!(
                f,
                "unsupported schema dialect {named:?}; use draft 4, 6, 7, 2019-09 or 2020-12, or leave $schema out"
            ),
            Self::Reference(to) => {
                write!(
                    f,
                    "the schema refers to {to:?}, which is not in it; nothing is fetched, put it into $defs"
                )
            }
            Self::TooLarge(what) => write!(f, "the schema is refused: {what}; make it smaller"),
            Self::Invalid { at, what } if at.is_empty() => write!(f, "not a valid schema: {what}"),
            Self::Invalid { at, what } => write!(f, "not a valid schema: {at}: {what}"),
        }
    }
}

impl Error for SchemaError {}
