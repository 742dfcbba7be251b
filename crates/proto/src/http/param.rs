//! Tool parameters mirrored to headers: the `x-mcp-header` annotations of an input schema.
//!
//! [`Mirrors::collect`] reads the annotations and says why a tool must not be offered over HTTP.
//! [`Mirrors::derive`] makes the headers of a call, [`Mirrors::compare`] checks them. A value is
//! spelled by its own JSON type; whether it fits the schema is decided later, by validation.

mod number;
mod schema;

use std::fmt;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::headers::{self, Malformed};
use super::value::{self, BadValue};
use crate::jsonrpc::pointer;
use number::Integer;

/// The annotation. Whatever does not have it mirrors nothing, and need not be read.
pub const ANNOTATION: &str = "x-mcp-header";

/// The parameters of one tool that are mirrored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors(Vec<Mirror>);

/// One mirrored parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Where the value is in the arguments: the property names from the root.
    pub path: Vec<String>,
    /// The header that carries it, with the prefix.
    pub header: HeaderName,
    /// The type that the schema declares.
    pub kind: Kind,
}

/// The types that can be mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sent as it is, encoded where needed.
    String,
    /// Sent in decimal, within plus or minus 2^53 - 1.
    Integer,
    /// Sent as `true` or `false`.
    Boolean,
}

impl Mirrors {
    /// Reads the annotations of an input schema, or says what is wrong with the first bad one.
    pub fn collect(schema: &Value) -> Result<Self, Defect> {
        schema::collect(schema).map(Self)
    }

    /// The mirrored parameters, in the order in which the schema was read.
    pub fn iter(&self) -> impl Iterator<Item = &Mirror> {
        self.0.iter()
    }

    /// Whether nothing is mirrored, so that the arguments need not be parsed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is this the header of one of them?
    pub fn has(&self, header: &HeaderName) -> bool {
        self.0.iter().any(|mirror| mirror.header == *header)
    }

    /// The headers of a call with these arguments.
    pub fn derive(&self, arguments: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, Unfit> {
        let mut derived = Vec::with_capacity(self.0.len());
        for mirror in &self.0 {
            if let Some(scalar) = mirror.read(arguments)? {
                derived.push((mirror.header.clone(), scalar.spell()));
            }
        }
        Ok(derived)
    }

    /// Checks that the headers say what the arguments say. Headers of parameters that are not
    /// annotated are ignored.
    pub fn compare(&self, arguments: &Value, headers: &HeaderMap) -> Result<(), Mismatch> {
        self.0.iter().try_for_each(|mirror| mirror.compare(arguments, headers))
    }
}

impl Mirror {
    /// The value at the path; absent and null are the same.
    fn read<'a>(&self, arguments: &'a Value) -> Result<Option<Scalar<'a>>, Unfit> {
        let found = self.path.iter().try_fold(arguments, |value, name| value.as_object()?.get(name));
        let scalar = match found {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => Scalar::Text(text),
            Some(Value::Bool(flag)) => Scalar::Flag(*flag),
            Some(Value::Number(number)) => match Integer::of(number) {
                Some(integer) => Scalar::Integer(integer),
                None => return Err(self.unfit(UnfitReason::Number)),
            },
            Some(Value::Array(_) | Value::Object(_)) => return Err(self.unfit(UnfitReason::Compound)),
        };
        Ok(Some(scalar))
    }

    fn unfit(&self, reason: UnfitReason) -> Unfit {
        Unfit { path: pointer(&self.path), header: self.header.clone(), reason }
    }

    fn compare(&self, arguments: &Value, headers: &HeaderMap) -> Result<(), Mismatch> {
        let header = || self.header.clone();
        let sent = headers::single(&self.header, headers)
            .map_err(|why| Mismatch::Malformed { header: header(), why })?;
        match (self.read(arguments).map_err(Mismatch::Unfit)?, sent) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(Mismatch::Missing { header: header() }),
            // Someone on the way may have acted on the header, so it must not stand for nothing.
            (None, Some(_)) => Err(Mismatch::Surplus { header: header() }),
            (Some(scalar), Some(sent)) => {
                let text = value::decode(sent).map_err(|why| Mismatch::Value { header: header(), why })?;
                if scalar.equals(&text) { Ok(()) } else { Err(Mismatch::Differs { header: header() }) }
            }
        }
    }
}

/// An argument that can be a header value.
enum Scalar<'a> {
    Text(&'a str),
    Integer(Integer),
    Flag(bool),
}

impl Scalar<'_> {
    fn spell(&self) -> HeaderValue {
        match self {
            Self::Text(text) => value::encode(text),
            Self::Integer(integer) => HeaderValue::from(integer.value()),
            Self::Flag(true) => HeaderValue::from_static("true"),
            Self::Flag(false) => HeaderValue::from_static("false"),
        }
    }

    fn equals(&self, text: &str) -> bool {
        match self {
            Self::Text(own) => *own == text,
            Self::Integer(own) => Integer::parse(text).as_ref() == Some(own),
            Self::Flag(own) => text == if *own { "true" } else { "false" },
        }
    }
}

/// Which tools of a listing are kept and which are dropped, with the reason to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sifted<T> {
    /// Tools that can be called over HTTP, with what they mirror.
    pub kept: Vec<(T, Mirrors)>,
    /// Tools that must not be offered, with what is wrong.
    pub dropped: Vec<(T, Defect)>,
}

/// Sifts a listing: one bad tool does not take the others with it.
pub fn sift<T>(tools: impl IntoIterator<Item = T>, schema_of: impl Fn(&T) -> &Value) -> Sifted<T> {
    let mut sifted = Sifted { kept: Vec::new(), dropped: Vec::new() };
    for tool in tools {
        match Mirrors::collect(schema_of(&tool)) {
            Ok(mirrors) => sifted.kept.push((tool, mirrors)),
            Err(defect) => sifted.dropped.push((tool, defect)),
        }
    }
    sifted
}

/// What is wrong with an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// JSON pointer to the annotated schema, from the root of the input schema.
    pub at: String,
    /// Which rule it breaks.
    pub reason: Reason,
}

/// The rule that an annotation breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The annotation is not a string.
    NotText,
    /// The annotation is the empty string.
    Empty,
    /// The annotation cannot be a part of a header name.
    NotAToken,
    /// Another parameter has the same header, case aside.
    Duplicate,
    /// The parameter is of type `number`, whose spelling is not unique.
    Number,
    /// The parameter is of no type, or of one that is no string, integer or boolean.
    NotScalar,
    /// The annotated schema is not reached by `properties` alone, but through this keyword.
    Through(&'static str),
    /// The annotation is at the root, which is no parameter.
    Root,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = super::excerpt(if self.at.is_empty() { "the root" } else { &self.at });
        write!(f, "x-mcp-header at {at} of the input schema ")?;
        match &self.reason {
            Reason::NotText => f.write_str("is not a string"),
            Reason::Empty => f.write_str("is empty"),
            Reason::NotAToken => f.write_str("is not an RFC 9110 token"),
            Reason::Duplicate => f.write_str("repeats a header of another parameter, case aside"),
            Reason::Number => f.write_str("is on a number, use integer or string"),
            Reason::NotScalar => f.write_str("is on a parameter that is no string, integer or boolean"),
            Reason::Through(keyword) => write!(f, "is reached through {keyword}, use properties alone"),
            Reason::Root => f.write_str("is on no parameter"),
        }
    }
}

impl std::error::Error for Defect {}

/// An argument that is annotated and cannot be mirrored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// JSON pointer into the arguments.
    pub path: String,
    /// The header that should carry it.
    pub header: HeaderName,
    /// Why it cannot.
    pub reason: UnfitReason,
}

/// Why an argument cannot be mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfitReason {
    /// A fraction, or an integer beyond plus or minus 2^53 - 1.
    Number,
    /// An array or an object.
    Compound,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            UnfitReason::Number => "is not an integer within plus or minus 2^53 - 1",
            UnfitReason::Compound => "is an array or object",
        };
        write!(f, "argument {} {why}, so it cannot be sent as {}", super::excerpt(&self.path), self.header)
    }
}

impl std::error::Error for Unfit {}

/// How a mirrored header and its argument disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The argument is present, the header is not.
    Missing {
        /// The header.
        header: HeaderName,
    },
    /// The header is present, the argument is absent or null.
    Surplus {
        /// The header.
        header: HeaderName,
    },
    /// The header is not one plain value.
    Malformed {
        /// The header.
        header: HeaderName,
        /// What is wrong with it.
        why: Malformed,
    },
    /// The header value stands for no text.
    Value {
        /// The header.
        header: HeaderName,
        /// What is wrong with it.
        why: BadValue,
    },
    /// Both are present and say different things.
    Differs {
        /// The header.
        header: HeaderName,
    },
    /// No header could carry the argument.
    Unfit(Unfit),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { header } => write!(f, "header {header} is missing, its argument is present"),
            Self::Surplus { header } => write!(f, "header {header} is present, its argument is not"),
            Self::Malformed { header, why } => write!(f, "header {header} {why}"),
            Self::Value { header, why } => write!(f, "header {header} {why}"),
            Self::Differs { header } => write!(f, "header {header} differs from its argument"),
            Self::Unfit(unfit) => unfit.fmt(f),
        }
    }
}

impl std::error::Error for Mismatch {}

fn pointer<S: AsRef<str>>(path: &[S]) -> String {
    let mut out = String::new();
    path.iter().for_each(|name| pointer::push(&mut out, name.as_ref()));
    out
}
