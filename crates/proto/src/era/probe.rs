//! Client: which era is this server? The answer to `server/discover` tells.
//!
//! Never keyed to one error code: whatever is not modern evidence means legacy, and a modern
//! error never leads to the handshake, unless it names a revision that has one.

use bytes::Bytes;
use serde::Deserialize;

use super::revision::{Era, Revision, Revisions};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::object::Object;
use crate::session::event::Cause;

/// What the probe brought.
#[derive(Debug, Clone, Copy)]
pub enum Evidence<'a> {
    /// A result.
    Result(&'a Bytes),
    /// A fault.
    Fault(&'a Fault),
    /// Nothing in time, or nothing that is a reply.
    Silence,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The server is modern: use this revision. The capabilities come from its answer.
    Modern {
        /// The best both speak.
        revision: Revision,
        /// What the server declared.
        capabilities: Bytes,
    },
    /// Probe once more, with this revision.
    Retry(Revision),
    /// Do the handshake.
    Handshake,
    /// Give up.
    Fail(Cause),
}

/// Which of our revisions to try, and whether falling back is allowed.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// What we speak.
    pub ours: Revisions,
    /// Is this the second try?
    pub retried: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDiscover<'a> {
    supported_versions: Vec<String>,
    #[serde(borrow)]
    capabilities: &'a serde_json::value::RawValue,
}

#[derive(Deserialize)]
struct WireUnsupported {
    supported: Vec<String>,
}

impl Probe {
    /// Judges the evidence.
    #[must_use]
    pub fn judge(self, evidence: Evidence<'_>) -> Next {
        match evidence {
            Evidence::Silence => self.fall_back(|| Cause::OpenTimeout),
            Evidence::Fault(fault) => self.judge_fault(fault),
            Evidence::Result(result) => match serde_json::from_slice::<Object<WireDiscover<'_>>>(result) {
                Ok(Object(wire)) => self.choose(&wire.supported_versions, || {
                    result.slice_ref(wire.capabilities.get().as_bytes())
                }),
                // A result, but not of this method: a lenient legacy server.
                Err(_) => self.fall_back(|| no_common(&[])),
            },
        }
    }

    fn choose(self, theirs: &[String], capabilities: impl Fn() -> Bytes) -> Next {
        match self.common(theirs, Era::Modern) {
            Some(revision) => Next::Modern { revision, capabilities: capabilities() },
            // A server that lists legacy revisions only is a legacy one.
            None if self.common(theirs, Era::Legacy).is_some() => Next::Handshake,
            None => Next::Fail(no_common(theirs)),
        }
    }

    fn judge_fault(self, fault: &Fault) -> Next {
        match fault.code {
            code::UNSUPPORTED_VERSION => {
                let theirs = fault
                    .data
                    .as_ref()
                    .and_then(|data| serde_json::from_slice::<Object<WireUnsupported>>(data).ok())
                    .map_or_else(Vec::new, |wire| wire.0.supported);
                match self.common(&theirs, Era::Modern) {
                    Some(revision) if !self.retried => Next::Retry(revision),
                    // Choosing a revision that the server names is no fall-back.
                    None if self.common(&theirs, Era::Legacy).is_some() => Next::Handshake,
                    _ => Next::Fail(no_common(&theirs)),
                }
            }
            code::HEADER_MISMATCH | code::MISSING_CAPABILITY => Next::Fail(Cause::OpenRefused(fault.clone())),
            _ => self.fall_back(|| Cause::OpenRefused(fault.clone())),
        }
    }

    /// The handshake, or, for who has none, the reason why the modern era is not there.
    fn fall_back(self, otherwise: impl FnOnce() -> Cause) -> Next {
        match self.ours.newest(Era::Legacy) {
            Some(_) => Next::Handshake,
            None => Next::Fail(otherwise()),
        }
    }

    fn common(self, theirs: &[String], era: Era) -> Option<Revision> {
        self.ours.of(era).find(|ours| theirs.iter().any(|date| date == ours.date()))
    }
}

fn no_common(theirs: &[String]) -> Cause {
    Cause::NoCommonRevision { theirs: theirs.iter().map(|date| date.as_str().into()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(evidence: Evidence<'_>) -> Next {
        Probe { ours: Revisions::ALL, retried: false }.judge(evidence)
    }

    fn discovered(versions: &[&str]) -> Bytes {
        Bytes::from(json!({"supportedVersions": versions, "capabilities": {"tools": {}}}).to_string())
    }

    fn unsupported(versions: &[&str]) -> Fault {
        Fault::new(code::UNSUPPORTED_VERSION, "no")
            .with_data(&json!({"supported": versions, "requested": "x"}))
    }

    #[test]
    fn a_discover_result_means_modern() {
        let next = judge(Evidence::Result(&discovered(&["2026-07-28", "2025-11-25"])));
        assert_eq!(
            next,
            Next::Modern {
                revision: Revision::V2026_07_28,
                capabilities: Bytes::from_static(br#"{"tools":{}}"#)
            }
        );
    }

    /// A server that lists only legacy revisions is a legacy one; one with none in common is a failure.
    #[test]
    fn the_list_decides() {
        assert_eq!(judge(Evidence::Result(&discovered(&["2025-06-18"]))), Next::Handshake);
        assert!(matches!(judge(Evidence::Result(&discovered(&["2031-01-01"]))), Next::Fail(_)));
    }

    /// VER-29: any other error, nonsense or silence means legacy.
    #[test]
    fn whatever_is_not_modern_is_legacy() {
        for code in [-32601, -32602, -32600, -32000, -32700, -32603, 0, 42] {
            assert_eq!(judge(Evidence::Fault(&Fault::new(code, "no"))), Next::Handshake, "{code}");
        }
        assert_eq!(judge(Evidence::Silence), Next::Handshake);
        for nonsense in ["{}", "[]", r#"{"tools":[]}"#, "null"] {
            assert_eq!(judge(Evidence::Result(&Bytes::from_static(nonsense.as_bytes()))), Next::Handshake);
        }
    }

    /// VER-30, VER-18: a modern error is never followed by the handshake, unless it names a legacy revision.
    #[test]
    fn modern_errors_stay_modern() {
        assert_eq!(judge(Evidence::Fault(&unsupported(&["2026-07-28"]))), Next::Retry(Revision::V2026_07_28));
        let again = Probe { ours: Revisions::ALL, retried: true };
        assert!(matches!(again.judge(Evidence::Fault(&unsupported(&["2026-07-28"]))), Next::Fail(_)));
        assert!(matches!(judge(Evidence::Fault(&unsupported(&["2031-01-01"]))), Next::Fail(_)));
        assert_eq!(judge(Evidence::Fault(&unsupported(&["2025-11-25"]))), Next::Handshake);
        for code in [code::HEADER_MISMATCH, code::MISSING_CAPABILITY] {
            assert!(matches!(judge(Evidence::Fault(&Fault::new(code, "no"))), Next::Fail(_)));
        }
    }

    #[test]
    fn a_modern_only_client_never_shakes_hands() {
        let modern = Probe { ours: Revisions::MODERN, retried: false };
        assert!(matches!(modern.judge(Evidence::Silence), Next::Fail(_)));
        assert!(matches!(modern.judge(Evidence::Fault(&Fault::new(-32601, "no"))), Next::Fail(_)));
    }
}
