//! Do the headers of a modern POST say what its body says?
//!
//! Proxies route on the headers, servers act on the body, so a difference is refused. The order of
//! the checks is fixed: it decides which of several faults a client sees. A later check may rely
//! on an earlier one, and everything here precedes the first byte of the answer.

use std::fmt;

use ::http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;

use super::excerpt;
use super::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, Malformed, Mirroring, One};
use super::param::{Mirrors, Mismatch};
use super::stray::TooMany;
use super::value::{self, BadValue};
use crate::jsonrpc::envelope::Param;
use crate::jsonrpc::fault::code;
use crate::method::Method;

/// What a body says, as far as headers mirror it.
#[derive(Debug, Clone, Copy)]
pub struct BodyFacts<'a> {
    /// Whether the body is a call, a note or a reply.
    pub kind: BodyKind,
    /// `method`; a reply has none.
    pub method: Option<&'a Method>,
    /// The member of `params` that [`name_member`] gives for the method, if it is a string.
    pub name: Option<&'a str>,
    /// The version of `_meta`, if it is a string.
    pub meta_version: Option<&'a str>,
    /// Whether the required fields of `_meta` are there.
    pub meta: Meta,
    /// For `tools/call` of a tool that we know: what it mirrors, and the arguments.
    pub params: Option<(&'a Mirrors, &'a Value)>,
}

/// The shape of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// It has a method and an id.
    Call,
    /// It has a method and no id.
    Note,
    /// It has an id and no method.
    Reply,
}

/// The required fields of `_meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// All there and of the right type.
    Complete,
    /// This field is missing or of another type.
    Lacks(&'static str),
}

/// What a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Whether a POST has headers of tool parameters, known or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamHeaders {
    /// It has none.
    Absent,
    /// It has some: those that are known agree.
    Present,
}

/// Which member of `params` is mirrored in `Mcp-Name`. The three methods of tasks are an
/// extension's; where it is not served, the method is unknown and refused before.
pub fn name_member(method: &Method) -> Option<Param> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some(Param::Name),
        Method::ResourcesRead => Some(Param::Uri),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some(Param::TaskId),
        _ => None,
    }
}

/// Checks a modern POST. `serves_version` and `serves_method` say what the server offers. What is told of headers of
/// parameters is a by-product, so that nobody need look for them where there are none.
pub fn agree(
    body: &BodyFacts<'_>,
    headers: &HeaderMap,
    serves_version: impl Fn(&str) -> Offered,
    serves_method: impl Fn(&Method) -> Offered,
) -> Result<ParamHeaders, Refusal> {
    let method = match (body.kind, body.method) {
        // What headers a note needs is not defined, so none is missed.
        (BodyKind::Note, _) => return Ok(ParamHeaders::Absent),
        (BodyKind::Call, Some(method)) => method,
        (BodyKind::Reply, _) | (BodyKind::Call, None) => return Err(Refusal::Reply),
    };
    let version = match (body.meta, body.meta_version) {
        (Meta::Lacks(field), _) => return Err(Refusal::Meta { field }),
        (Meta::Complete, None) => return Err(Refusal::Meta { field: "protocolVersion" }),
        (Meta::Complete, Some(version)) => version,
    };
    let said = Mirroring::of(headers);
    // The difference is told before the version: of two versions we could not say which to name.
    same(MCP_PROTOCOL_VERSION, version, &said.version)?;
    if serves_version(version) == Offered::No {
        return Err(Refusal::Version { requested: version.to_owned() });
    }
    same(MCP_METHOD, method.name(), &said.method)?;
    if serves_method(method) == Offered::No {
        return Err(Refusal::Method { method: method.clone() });
    }
    if name_member(method).is_some() {
        same_name(body.name, &said.name)?;
    }
    if let Some((mirrors, arguments)) = body.params {
        mirrors.compare(arguments, headers).map_err(Refusal::Param)?;
    }
    Ok(if said.params { ParamHeaders::Present } else { ParamHeaders::Absent })
}

fn same(header: HeaderName, want: &str, sent: &One<'_>) -> Result<(), Refusal> {
    match sent.text() {
        Err(why) => Err(Refusal::Malformed { header, why }),
        Ok(None) => Err(Refusal::Missing { header }),
        Ok(Some(text)) if text == want => Ok(()),
        Ok(Some(text)) => Err(Refusal::Differs { header, says: text.to_owned() }),
    }
}

fn same_name(want: Option<&str>, sent: &One<'_>) -> Result<(), Refusal> {
    let header = MCP_NAME;
    let sent = match sent.single() {
        Err(why) => return Err(Refusal::Malformed { header, why }),
        Ok(None) => return Err(Refusal::Missing { header }),
        Ok(Some(sent)) => sent,
    };
    match value::decode(sent) {
        Err(why) => Err(Refusal::Value { header, why }),
        Ok(text) if Some(text.as_ref()) == want => Ok(()),
        Ok(text) => Err(Refusal::Differs { header, says: text.into_owned() }),
    }
}

/// Why a modern POST is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Modern clients have no calls to reply to.
    Reply,
    /// A required field of `_meta` is missing or of another type.
    Meta {
        /// The field.
        field: &'static str,
    },
    /// A required header is missing.
    Missing {
        /// The header.
        header: HeaderName,
    },
    /// A header is not one plain value.
    Malformed {
        /// The header.
        header: HeaderName,
        /// What is wrong with it.
        why: Malformed,
    },
    /// A header value stands for no text.
    Value {
        /// The header.
        header: HeaderName,
        /// What is wrong with it.
        why: BadValue,
    },
    /// A header says something else than the body.
    Differs {
        /// The header.
        header: HeaderName,
        /// What it says, decoded.
        says: String,
    },
    /// Header and body agree on a revision that is not served. The fault's data names those that are.
    Version {
        /// The revision, to be echoed.
        requested: String,
    },
    /// Header and body agree on a method that is not served.
    Method {
        /// The method.
        method: Method,
    },
    /// A mirrored parameter disagrees.
    Param(Mismatch),
    /// There is more beside what is known than can be passed on.
    Strays(TooMany),
}

impl Refusal {
    /// The code of the fault to answer with.
    pub fn code(&self) -> i64 {
        match self {
            Self::Reply | Self::Strays(_) => code::INVALID_REQUEST,
            Self::Meta { .. } => code::INVALID_PARAMS,
            Self::Missing { .. }
            | Self::Malformed { .. }
            | Self::Value { .. }
            | Self::Differs { .. }
            | Self::Param(_) => code::HEADER_MISMATCH,
            Self::Version { .. } => code::UNSUPPORTED_VERSION,
            Self::Method { .. } => code::METHOD_NOT_FOUND,
        }
    }

    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Method { .. } => StatusCode::NOT_FOUND,
            Self::Strays(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply => f.write_str("a reply was posted, but this server makes no calls"),
            Self::Meta { field } => write!(f, "params._meta lacks {field}, or it has the wrong type"),
            Self::Missing { header } => write!(f, "header {header} is missing, send what the body says"),
            Self::Malformed { header, why } => write!(f, "header {header} {why}"),
            Self::Value { header, why } => write!(f, "header {header} {why}"),
            Self::Differs { header, says } => {
                write!(f, "header {header} says {:?}, the body does not", excerpt(says))
            }
            Self::Version { requested } => write!(f, "revision {:?} is not supported", excerpt(requested)),
            Self::Method { method } => write!(f, "method {:?} is not known here", excerpt(method.name())),
            Self::Param(mismatch) => mismatch.fmt(f),
            Self::Strays(too_many) => too_many.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}
