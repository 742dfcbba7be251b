//! Which era serves a POST: the decision of a server that may speak both.
//!
//! Modern markers win over legacy ones, so that a modern call is never served with the state of a
//! session. `Mcp-Method` and `Mcp-Name` are no markers: legacy clients send them as well.

use std::fmt;

use ::http::{HeaderMap, StatusCode};

use super::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID, single_text};
use crate::era::{Era, Revision};
use crate::jsonrpc::fault::code;
use crate::method::Method;

/// Which legacy clients a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyOffer {
    /// None: modern only.
    Off,
    /// Those that name their revision in a header.
    Named,
    /// Also those from before the header existed.
    Unnamed,
}

/// The facts of a body that count for the era. For a batch: the first version key in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Markers<'a> {
    /// The version key of `_meta`, if it is there.
    pub meta_version: Option<&'a str>,
    /// The method, if the body is one call or note.
    pub method: Option<&'a Method>,
}

/// Decides the era of a POST.
pub fn decide(markers: Markers<'_>, headers: &HeaderMap, offer: LegacyOffer) -> Result<Era, Undecided> {
    let named = match single_text(&MCP_PROTOCOL_VERSION, headers) {
        Ok(text) => text.map(era_of),
        // Repeated or unreadable: no legacy revision, so the modern checks refuse it.
        Err(_) => Some(Era::Modern),
    };
    if markers.meta_version.is_some() || named == Some(Era::Modern) {
        return Ok(Era::Modern);
    }
    // A session counts whether it is known or not: an unknown one must be told that it is gone.
    let legacy_marker = markers.method == Some(&Method::Initialize)
        || headers.contains_key(MCP_SESSION_ID)
        || named == Some(Era::Legacy);
    match (legacy_marker, offer) {
        (true, LegacyOffer::Named | LegacyOffer::Unnamed) | (false, LegacyOffer::Unnamed) => Ok(Era::Legacy),
        (true, LegacyOffer::Off) => Err(Undecided::LegacyOff),
        (false, LegacyOffer::Off | LegacyOffer::Named) => Err(Undecided::Unmarked),
    }
}

/// The era of a header's revision. One that we do not know is for the modern checks to refuse: they
/// say what is served.
fn era_of(date: &str) -> Era {
    Revision::parse(date).map_or(Era::Modern, Revision::era)
}

/// Why no era serves a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// A legacy client at a modern server. The fault's data names the supported revisions.
    LegacyOff,
    /// Neither header nor body say which revision is spoken.
    Unmarked,
}

impl Undecided {
    /// The code of the fault to answer with.
    pub fn code(self) -> i64 {
        match self {
            Self::LegacyOff => code::UNSUPPORTED_VERSION,
            Self::Unmarked => code::HEADER_MISMATCH,
        }
    }

    /// The status to answer with.
    pub fn status(self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LegacyOff => {
                f.write_str("this server has no handshake, send _meta with a supported revision")
            }
            Self::Unmarked => {
                write!(f, "header {MCP_PROTOCOL_VERSION} is missing, send the revision you speak")
            }
        }
    }
}

impl std::error::Error for Undecided {}

#[cfg(test)]
mod tests {
    use ::http::{HeaderName, HeaderValue};

    use super::*;

    const OLD: &str = Revision::LATEST_LEGACY.date();
    const NEW: &str = Revision::LATEST_MODERN.date();
    static INITIALIZE: Method = Method::Initialize;
    static LIST: Method = Method::ToolsList;
    static CANCELLED: Method = Method::Cancelled;

    fn run(head: &[(HeaderName, &str)], markers: Markers<'_>, offer: LegacyOffer) -> Result<Era, Undecided> {
        let mut headers = HeaderMap::new();
        for (name, value) in head {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        decide(markers, &headers, offer)
    }

    fn call(method: &Method) -> Markers<'_> {
        Markers { meta_version: None, method: Some(method) }
    }

    fn modern_call(method: &Method) -> Markers<'_> {
        Markers { meta_version: Some(NEW), method: Some(method) }
    }

    /// VER-34, HTL-31, HTM-6, HTM-19: the decision table of a server
    /// with both eras.
    #[test]
    fn both_eras_on_one_endpoint() {
        use super::super::headers::MCP_METHOD;
        let (legacy, modern) = (Ok(Era::Legacy), Ok(Era::Modern));
        let version = |text| (MCP_PROTOCOL_VERSION, text);
        let padded = format!(" {OLD} ");
        let session = (MCP_SESSION_ID, "s");
        type Row<'a> = (&'a [(HeaderName, &'a str)], Markers<'a>, Result<Era, Undecided>);
        let table: &[Row<'_>] = &[
            (&[], modern_call(&LIST), modern),
            (&[version(NEW)], call(&LIST), modern),
            (&[version(NEW)], call(&INITIALIZE), modern),
            (&[], modern_call(&INITIALIZE), modern),
            (&[version(OLD)], modern_call(&LIST), modern),
            (&[version("2099-01-01")], call(&LIST), modern),
            (&[version("")], call(&LIST), modern),
            (&[version(OLD), version(OLD)], call(&LIST), modern),
            (&[version("\u{e9}")], call(&LIST), modern),
            (&[version(NEW), session.clone()], modern_call(&LIST), modern),
            (&[version(NEW), session.clone()], call(&CANCELLED), modern),
            (&[], call(&INITIALIZE), legacy),
            (&[version(OLD)], call(&INITIALIZE), legacy),
            (&[version(&padded)], call(&LIST), legacy),
            (&[version(OLD), (MCP_METHOD, "initialize")], call(&INITIALIZE), legacy),
            (std::slice::from_ref(&session), call(&LIST), legacy),
            (&[(MCP_SESSION_ID, "not valid")], call(&LIST), legacy),
            (std::slice::from_ref(&session), Markers::default(), legacy),
        ];
        for (head, markers, want) in table {
            for offer in [LegacyOffer::Named, LegacyOffer::Unnamed] {
                assert_eq!(run(head, *markers, offer), *want, "{head:?} {markers:?} {offer:?}");
            }
        }
        let bare = call(&LIST);
        assert_eq!(run(&[], bare, LegacyOffer::Unnamed), legacy);
        assert_eq!(run(&[], bare, LegacyOffer::Named), Err(Undecided::Unmarked));
    }

    /// VER-33, HTM-6: a modern server tells a legacy client what it speaks, and a bare call what is
    /// missing.
    #[test]
    fn modern_only_server_refuses_legacy() {
        let off = LegacyOffer::Off;
        let legacy_off = Err(Undecided::LegacyOff);
        assert_eq!(run(&[], call(&INITIALIZE), off), legacy_off);
        assert_eq!(run(&[(MCP_PROTOCOL_VERSION, OLD)], call(&LIST), off), legacy_off);
        assert_eq!(run(&[(MCP_SESSION_ID, "s")], call(&LIST), off), legacy_off);
        assert_eq!(run(&[], call(&LIST), off), Err(Undecided::Unmarked));
        assert_eq!(run(&[], modern_call(&LIST), off), Ok(Era::Modern));
        assert_eq!((Undecided::LegacyOff.code(), Undecided::Unmarked.code()), (-32022, -32020));
        assert_eq!(Undecided::Unmarked.status(), StatusCode::BAD_REQUEST);
    }
}
