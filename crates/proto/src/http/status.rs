//! Faults as HTTP statuses, and what a client concludes from the statuses it gets.
//!
//! The same status means opposite things in the two eras: a legacy 404 says that the session is
//! gone, a modern one that the method is unknown. So a status is never read without the era or,
//! while the era is sought, without the body.

use ::http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::era::Era;
use crate::jsonrpc::fault::code;

/// How far a call had come when its fault was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its head or body was refused before any handler ran.
    Ingress,
    /// It was dispatched.
    Dispatch,
}

/// The status that carries a fault.
///
/// A missing `_meta` field is [`Stage::Ingress`]; the same code from a handler is an ordinary fault
/// and travels with 200.
pub fn of_fault(code: i64, era: Era, stage: Stage) -> StatusCode {
    match (era, stage, code) {
        (Era::Modern, _, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        (Era::Modern, _, code) if is_modern_code(code) => StatusCode::BAD_REQUEST,
        (Era::Modern, Stage::Dispatch, code::BUSY) => StatusCode::TOO_MANY_REQUESTS,
        (_, Stage::Ingress, code::INTERNAL) => StatusCode::INTERNAL_SERVER_ERROR,
        (_, Stage::Ingress, _) => StatusCode::BAD_REQUEST,
        (_, Stage::Dispatch, _) => StatusCode::OK,
    }
}

/// Whether only a modern server has this code.
pub fn is_modern_code(code: i64) -> bool {
    matches!(code, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)
}

/// What a body is, as far as the era shows in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No JSON-RPC reply: empty, a page, a text.
    NoReply,
    /// A fault with this code.
    Fault(i64),
    /// A result that lists versions and capabilities, as only the answer to `server/discover` does.
    Discovery,
    /// A result with `resultType`.
    Typed,
    /// Any other result.
    Untyped,
}

impl Body {
    /// Reads a whole JSON body. A cut-off one is [`Body::NoReply`], so the bound on what is read must
    /// be large enough for a fault.
    pub fn read(bytes: &[u8]) -> Self {
        match serde_json::from_slice::<Reply>(bytes) {
            Ok(Reply { error: Some(fault), .. }) => Self::Fault(fault.code),
            Ok(Reply { result: Some(result), .. }) => match result {
                ResultHead { supported_versions: Some(_), capabilities: Some(_), .. } => Self::Discovery,
                ResultHead { result_type: Some(_), .. } => Self::Typed,
                _ => Self::Untyped,
            },
            Ok(Reply { error: None, result: None }) | Err(_) => Self::NoReply,
        }
    }
}

#[derive(Deserialize)]
struct Reply {
    error: Option<FaultHead>,
    result: Option<ResultHead>,
}

#[derive(Deserialize)]
struct FaultHead {
    code: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultHead {
    supported_versions: Option<Vec<String>>,
    capabilities: Option<serde_json::Map<String, serde_json::Value>>,
    result_type: Option<IgnoredAny>,
}

/// With what a client asked which era a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `server/discover`, which every modern server has.
    Discover,
    /// Another modern call.
    Other,
}

/// What the answer to a probe says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A modern server. With a fault, repair the call or choose a version; never fall back.
    Modern {
        /// The fault, if it was one.
        fault: Option<i64>,
    },
    /// Not a modern server: try `initialize`.
    Legacy,
    /// Authorize first, then ask again. Says nothing about the era.
    Auth,
    /// The question was not answered. Says nothing about the era.
    Failure,
}

/// Reads the answer to a probe.
pub fn of_probe(probe: Probe, status: StatusCode, body: Body) -> Verdict {
    if is_auth(status) {
        return Verdict::Auth;
    }
    if !(status.is_success() || status.is_client_error()) || is_unanswered(status) {
        return Verdict::Failure;
    }
    match (body, probe) {
        (Body::Fault(code), _) if is_modern_code(code) => Verdict::Modern { fault: Some(code) },
        (Body::Fault(code), Probe::Other)
            if code == code::METHOD_NOT_FOUND && status == StatusCode::NOT_FOUND =>
        {
            Verdict::Modern { fault: Some(code) }
        }
        (Body::Discovery, Probe::Discover) | (Body::Typed | Body::Discovery, Probe::Other)
            if status.is_success() =>
        {
            Verdict::Modern { fault: None }
        }
        _ => Verdict::Legacy,
    }
}

/// What the answer to `initialize` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A legacy server over Streamable HTTP.
    Open,
    /// A modern server after all: probe once more.
    Modern {
        /// The fault that gave it away.
        fault: i64,
    },
    /// No Streamable HTTP here: GET the URL and wait for the `endpoint` event of 2024-11-05.
    TryEventStream,
    /// Authorize first, then ask again.
    Auth,
    /// The server understood and said no.
    Refused {
        /// The fault.
        fault: i64,
    },
    /// The question was not answered.
    Failure,
}

/// Reads the answer to `initialize`.
pub fn of_initialize(status: StatusCode, body: Body) -> Opening {
    match body {
        _ if is_auth(status) => Opening::Auth,
        Body::Fault(fault) if is_modern_code(fault) && !status.is_server_error() => Opening::Modern { fault },
        Body::Fault(fault) if status.is_success() => Opening::Refused { fault },
        Body::Discovery | Body::Typed | Body::Untyped if status.is_success() => Opening::Open,
        // The oldest text that describes this says any 4xx.
        _ if status.is_client_error() && !is_unanswered(status) => Opening::TryEventStream,
        _ => Opening::Failure,
    }
}

/// Whether a legacy request named a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSent {
    /// It did.
    Yes,
    /// It did not.
    No,
}

/// What a status says to a client that knows the era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The body has the answer, be it a result or a fault.
    Answered,
    /// The session is gone: `initialize` anew, without its id.
    SessionGone,
    /// Authorize, then send again.
    Auth,
    /// The request is larger than the server takes; the same one again would be refused too.
    TooLarge,
    /// Refused, with the reason in the status and perhaps in the body.
    Refused,
    /// The server or something before it failed.
    Failure,
}

/// Reads the status of any later request.
pub fn of_reply(era: Era, session: SessionSent, status: StatusCode, body: Body) -> Standing {
    match (era, session, status) {
        (_, _, status) if status.is_success() => Standing::Answered,
        (Era::Legacy, SessionSent::Yes, StatusCode::NOT_FOUND) => Standing::SessionGone,
        (_, _, status) if is_auth(status) => Standing::Auth,
        (_, _, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) => {
            Standing::TooLarge
        }
        (Era::Modern, _, status) if status.is_client_error() && matches!(body, Body::Fault(_)) => {
            Standing::Answered
        }
        (_, _, status) if status.is_client_error() && !is_unanswered(status) => Standing::Refused,
        _ => Standing::Failure,
    }
}

/// Whether the status asks for authorization.
pub(super) fn is_auth(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// Client errors that speak of the way or the moment, not of what was asked.
fn is_unanswered(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> StatusCode {
        StatusCode::from_u16(code).unwrap()
    }

    /// HTM-3, HTM-4, HTM-5, VER-16, VER-17, VER-22: the statuses of both eras.
    #[test]
    fn faults_travel_with_the_status_of_their_era() {
        use Era::*;
        use Stage::*;
        let table = [
            (-32020, Modern, Ingress, 400),
            (-32021, Modern, Ingress, 400),
            (-32021, Modern, Dispatch, 400),
            (-32022, Modern, Ingress, 400),
            (-32602, Modern, Ingress, 400),
            (-32602, Modern, Dispatch, 200),
            (-32601, Modern, Ingress, 404),
            (-32601, Modern, Dispatch, 404),
            (-32603, Modern, Dispatch, 200),
            (-32603, Modern, Ingress, 500),
            (-32700, Modern, Ingress, 400),
            (-32600, Modern, Ingress, 400),
            (42_900, Modern, Dispatch, 429),
            (42_900, Legacy, Dispatch, 200),
            (1234, Modern, Dispatch, 200),
            (-32601, Legacy, Dispatch, 200),
            (-32602, Legacy, Dispatch, 200),
            (-32002, Legacy, Dispatch, 200),
            (-32020, Legacy, Dispatch, 200),
            (-32700, Legacy, Ingress, 400),
            (-32600, Legacy, Ingress, 400),
        ];
        for (code, era, stage, want) in table {
            assert_eq!(of_fault(code, era, stage), status(want), "{code} {era:?} {stage:?}");
        }
    }

    #[test]
    fn body_is_read_for_its_era() {
        let table = [
            ("", Body::NoReply),
            ("<html>", Body::NoReply),
            ("{}", Body::NoReply),
            ("[]", Body::NoReply),
            (r#"{"error":"no"}"#, Body::NoReply),
            (r#"{"error":{"code":-32022,"message":"m"#, Body::NoReply),
            (r#"{"jsonrpc":"2.0","error":{"code":-32022,"message":"m"}}"#, Body::Fault(-32022)),
            (r#"{"id":null,"error":{"code":-32601,"message":"m"},"result":null}"#, Body::Fault(-32601)),
            (r#"{"result":{"resultType":"complete","tools":[]}}"#, Body::Typed),
            (r#"{"result":{"tools":[]}}"#, Body::Untyped),
            (
                r#"{"result":{"supportedVersions":["x"],"capabilities":{},"resultType":"complete"}}"#,
                Body::Discovery,
            ),
            (r#"{"result":{"supportedVersions":["x"]}}"#, Body::Untyped),
        ];
        for (text, want) in table {
            assert_eq!(Body::read(text.as_bytes()), want, "{text}");
        }
    }

    /// VER-29, VER-30, VER-31, SSE0-6: what a probe concludes.
    #[test]
    fn probe_tells_modern_from_legacy_from_neither() {
        use Body::*;
        use Probe::Discover;
        let (legacy, modern) = (Verdict::Legacy, |code| Verdict::Modern { fault: Some(code) });
        let done = Verdict::Modern { fault: None };
        let table = [
            (Discover, 200, Discovery, done),
            (Discover, 200, Typed, legacy),
            (Discover, 200, Untyped, legacy),
            (Discover, 200, Fault(-32601), legacy),
            (Discover, 200, Fault(-32022), modern(-32022)),
            (Discover, 200, NoReply, legacy),
            (Discover, 400, Fault(-32020), modern(-32020)),
            (Discover, 400, Fault(-32021), modern(-32021)),
            (Discover, 400, Fault(-32022), modern(-32022)),
            (Discover, 400, Fault(-32602), legacy),
            (Discover, 400, Fault(-32600), legacy),
            (Discover, 400, Fault(-32000), legacy),
            (Discover, 400, NoReply, legacy),
            (Discover, 404, Fault(-32601), legacy),
            (Discover, 404, NoReply, legacy),
            (Discover, 405, NoReply, legacy),
            (Discover, 406, NoReply, legacy),
            (Discover, 415, NoReply, legacy),
            (Discover, 422, NoReply, legacy),
            (Discover, 400, Discovery, legacy),
            (Probe::Other, 200, Typed, done),
            (Probe::Other, 200, Untyped, legacy),
            (Probe::Other, 404, Fault(-32601), modern(-32601)),
            (Probe::Other, 400, Fault(-32601), legacy),
            (Probe::Other, 200, Fault(-32601), legacy),
            (Probe::Other, 404, NoReply, legacy),
        ];
        for (probe, code, body, want) in table {
            assert_eq!(of_probe(probe, status(code), body), want, "{probe:?} {code} {body:?}");
        }
    }

    /// VER-31: statuses that are no sign of an era, whatever the body.
    #[test]
    fn auth_and_failures_are_no_era_signals() {
        for body in [Body::NoReply, Body::Fault(-32601), Body::Fault(-32022), Body::Discovery] {
            for probe in [Probe::Discover, Probe::Other] {
                for code in [401, 403] {
                    assert_eq!(of_probe(probe, status(code), body), Verdict::Auth, "{code} {body:?}");
                    assert_eq!(of_initialize(status(code), body), Opening::Auth, "{code} {body:?}");
                }
                for code in [500, 502, 503, 504, 301, 307, 407, 408, 429] {
                    assert_eq!(of_probe(probe, status(code), body), Verdict::Failure, "{code} {body:?}");
                }
            }
        }
    }

    /// SSE0-6: when a client falls back once more, to the oldest transport.
    #[test]
    fn initialize_opens_or_falls_back() {
        let table = [
            (200, Body::Untyped, Opening::Open),
            (200, Body::Typed, Opening::Open),
            (200, Body::Fault(-32602), Opening::Refused { fault: -32602 }),
            (200, Body::Fault(-32022), Opening::Modern { fault: -32022 }),
            (400, Body::Fault(-32022), Opening::Modern { fault: -32022 }),
            (400, Body::Fault(-32600), Opening::TryEventStream),
            (400, Body::NoReply, Opening::TryEventStream),
            (404, Body::NoReply, Opening::TryEventStream),
            (404, Body::Fault(-32601), Opening::TryEventStream),
            (405, Body::NoReply, Opening::TryEventStream),
            (429, Body::NoReply, Opening::Failure),
            (500, Body::NoReply, Opening::Failure),
            (500, Body::Fault(-32022), Opening::Failure),
            (307, Body::NoReply, Opening::Failure),
            (200, Body::NoReply, Opening::Failure),
        ];
        for (code, body, want) in table {
            assert_eq!(of_initialize(status(code), body), want, "{code} {body:?}");
        }
    }

    /// HTL-24, HTM-5, HTM-23: the same status, read by era.
    #[test]
    fn later_statuses_are_read_by_era() {
        use Era::*;
        let unknown = Body::Fault(-32601);
        let table = [
            (Legacy, SessionSent::Yes, 404, Body::NoReply, Standing::SessionGone),
            (Legacy, SessionSent::Yes, 404, unknown, Standing::SessionGone),
            (Legacy, SessionSent::No, 404, Body::NoReply, Standing::Refused),
            (Legacy, SessionSent::Yes, 400, Body::Fault(-32600), Standing::Refused),
            (Legacy, SessionSent::Yes, 200, Body::Fault(-32601), Standing::Answered),
            (Legacy, SessionSent::Yes, 202, Body::NoReply, Standing::Answered),
            (Legacy, SessionSent::Yes, 405, Body::NoReply, Standing::Refused),
            (Modern, SessionSent::No, 404, unknown, Standing::Answered),
            (Modern, SessionSent::No, 404, Body::NoReply, Standing::Refused),
            (Modern, SessionSent::No, 400, Body::Fault(-32020), Standing::Answered),
            (Modern, SessionSent::No, 413, Body::Fault(-32600), Standing::TooLarge),
            (Modern, SessionSent::No, 431, Body::NoReply, Standing::TooLarge),
            (Modern, SessionSent::No, 401, Body::NoReply, Standing::Auth),
            (Modern, SessionSent::No, 403, Body::Fault(-32600), Standing::Auth),
            (Modern, SessionSent::No, 429, Body::NoReply, Standing::Failure),
            (Modern, SessionSent::No, 503, Body::NoReply, Standing::Failure),
            (Modern, SessionSent::No, 308, Body::NoReply, Standing::Failure),
        ];
        for (era, session, code, body, want) in table {
            assert_eq!(
                of_reply(era, session, status(code), body),
                want,
                "{era:?} {session:?} {code} {body:?}"
            );
        }
    }
}
