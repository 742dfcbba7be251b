//! From HTTP to WebSocket: what both sides of the handshake must say.

use std::fmt;

use ::http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use ::http::{HeaderMap, Method, StatusCode, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::headers::{single_text, trim_ows};
use crate::socket::SUBPROTOCOL;

/// The version of the WebSocket protocol that exists.
pub const VERSION: &str = "13";

/// The name of the protocol in `Upgrade`.
pub const WEBSOCKET: &str = "websocket";

/// A handshake that can be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<'a> {
    /// What the answer proves to have read.
    pub key: &'a str,
    /// The subprotocol to name in the answer; nothing: the client named none.
    pub subprotocol: Option<&'static str>,
}

/// Why a handshake is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not a GET.
    Method,
    /// Not by HTTP/1.1.
    Http,
    /// A plain request.
    NoUpgrade,
    /// A version of the WebSocket protocol that we do not speak.
    Version,
    /// No key, or one that is not 16 bytes.
    Key,
    /// Only subprotocols that we do not speak.
    Subprotocol,
}

impl Refused {
    /// The status that says so.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoUpgrade | Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Http | Self::Key | Self::Subprotocol => StatusCode::BAD_REQUEST,
        }
    }

    /// In words, with what to do.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Method => "a WebSocket is opened by GET",
            Self::Http => "a WebSocket is opened by HTTP/1.1",
            Self::NoUpgrade => "this is a WebSocket, ask for an upgrade to websocket",
            Self::Version => "sec-websocket-version must be 13",
            Self::Key => "sec-websocket-key must be 16 bytes in base64",
            Self::Subprotocol => "the only subprotocol here is mcp, offer it or none",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

/// Server: can this request become a WebSocket? Whether its sender may call us was judged before.
pub fn offer<'a>(method: &Method, version: Version, headers: &'a HeaderMap) -> Result<Offer<'a>, Refused> {
    if method != Method::GET {
        return Err(Refused::Method);
    }
    if version != Version::HTTP_11 {
        return Err(Refused::Http);
    }
    if !lists(&UPGRADE, WEBSOCKET, headers) || !lists(&CONNECTION, UPGRADE.as_str(), headers) {
        return Err(Refused::NoUpgrade);
    }
    if single_text(&SEC_WEBSOCKET_VERSION, headers) != Ok(Some(VERSION)) {
        return Err(Refused::Version);
    }
    let key = single_text(&SEC_WEBSOCKET_KEY, headers).ok().flatten().ok_or(Refused::Key)?;
    if !STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
        return Err(Refused::Key);
    }
    // Subprotocols are case-sensitive, unlike the tokens above.
    let subprotocol = if headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
        let offered = tokens(&SEC_WEBSOCKET_PROTOCOL, headers).any(|token| token == SUBPROTOCOL);
        Some(offered.then_some(SUBPROTOCOL).ok_or(Refused::Subprotocol)?)
    } else {
        None
    };
    Ok(Offer { key, subprotocol })
}

/// Why an answer with status 101 opens no WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unagreed {
    /// It switches to something else.
    Upgrade,
    /// It does not prove to have read our key.
    Accept,
    /// It names a subprotocol that we did not offer.
    Subprotocol(Box<str>),
    /// It uses an extension that we did not offer.
    Extension,
}

impl fmt::Display for Unagreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade => f.write_str("the server switches to something that is no WebSocket"),
            Self::Accept => f.write_str("the server does not prove to have read our key"),
            Self::Subprotocol(name) => write!(f, "the server speaks `{}`, not mcp", super::excerpt(name)),
            Self::Extension => f.write_str("the server uses an extension that was not offered"),
        }
    }
}

/// Client: does the answer with status 101 open a WebSocket? `accept` is what our key must become. A server
/// that names no subprotocol is taken at its word that it is an MCP server.
pub fn agreed(headers: &HeaderMap, accept: &str) -> Result<(), Unagreed> {
    if !lists(&UPGRADE, WEBSOCKET, headers) || !lists(&CONNECTION, UPGRADE.as_str(), headers) {
        return Err(Unagreed::Upgrade);
    }
    if single_text(&SEC_WEBSOCKET_ACCEPT, headers) != Ok(Some(accept)) {
        return Err(Unagreed::Accept);
    }
    match single_text(&SEC_WEBSOCKET_PROTOCOL, headers) {
        Ok(None | Some(SUBPROTOCOL)) => {}
        Ok(Some(other)) => return Err(Unagreed::Subprotocol(other.into())),
        Err(_) => return Err(Unagreed::Subprotocol("".into())),
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(Unagreed::Extension);
    }
    Ok(())
}

/// The tokens of a header that lists some, over all its lines.
fn tokens<'a>(name: &HeaderName, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(trim_ows)
}

fn lists(name: &HeaderName, token: &str, headers: &HeaderMap) -> bool {
    tokens(name, headers).any(|listed| listed.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    /// Headers to set, or to leave out.
    type Change<'a> = &'a [(&'static str, Option<&'a str>)];

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(change: Change<'_>) -> Result<Option<&'static str>, Refused> {
        let mut map = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", KEY),
        ]);
        for (name, value) in change {
            match value {
                Some(value) => drop(map.insert(*name, HeaderValue::from_str(value).unwrap())),
                None => drop(map.remove(*name)),
            }
        }
        offer(&Method::GET, Version::HTTP_11, &map).map(|offer| offer.subprotocol)
    }

    /// S2-11, S1-38: the subprotocol is `mcp` or none, and the handshake is complete.
    #[test]
    fn s2_11_offers_are_judged() {
        let table: [(Change<'_>, Result<Option<&str>, Refused>); 12] = [
            (&[], Ok(None)),
            (&[("sec-websocket-protocol", Some("mcp"))], Ok(Some("mcp"))),
            (&[("sec-websocket-protocol", Some("soap , mcp"))], Ok(Some("mcp"))),
            (&[("sec-websocket-protocol", Some("MCP"))], Err(Refused::Subprotocol)),
            (&[("sec-websocket-protocol", Some("soap, wamp"))], Err(Refused::Subprotocol)),
            (&[("upgrade", Some("h2c"))], Err(Refused::NoUpgrade)),
            (&[("connection", Some("close"))], Err(Refused::NoUpgrade)),
            (&[("connection", None)], Err(Refused::NoUpgrade)),
            (&[("sec-websocket-version", Some("8"))], Err(Refused::Version)),
            (&[("sec-websocket-version", None)], Err(Refused::Version)),
            (&[("sec-websocket-key", Some("c2hvcnQ="))], Err(Refused::Key)),
            (&[("sec-websocket-key", None)], Err(Refused::Key)),
        ];
        for (change, wanted) in table {
            assert_eq!(request(change), wanted, "{change:?}");
        }
        let plain = HeaderMap::new();
        assert_eq!(offer(&Method::POST, Version::HTTP_11, &plain), Err(Refused::Method));
        assert_eq!(offer(&Method::GET, Version::HTTP_2, &plain), Err(Refused::Http));
        assert_eq!(Refused::Version.status(), 426);
        assert_eq!(Refused::Subprotocol.status(), 400);
    }

    /// S1-38: an answer that proves nothing, or brings what was not offered, opens no link.
    #[test]
    fn s1_38_answers_are_judged() {
        let base = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", "x=")];
        let with = |extra: (&'static str, &str)| {
            let mut map = headers(&base);
            map.insert(extra.0, HeaderValue::from_str(extra.1).unwrap());
            agreed(&map, "x=")
        };
        assert_eq!(agreed(&headers(&base), "x="), Ok(()));
        assert_eq!(with(("sec-websocket-protocol", "mcp")), Ok(()));
        assert_eq!(with(("sec-websocket-protocol", "soap")), Err(Unagreed::Subprotocol("soap".into())));
        assert_eq!(with(("sec-websocket-extensions", "permessage-deflate")), Err(Unagreed::Extension));
        assert_eq!(with(("sec-websocket-accept", "y=")), Err(Unagreed::Accept));
        assert_eq!(with(("upgrade", "h2c")), Err(Unagreed::Upgrade));
    }
}
