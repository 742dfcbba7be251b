//! Why one HTTP exchange brought no reply, kept apart as far as anyone acts on it.
//!
//! A failure belongs to one request. What it says about the era is asked with
//! [`HttpFailure::of_probe`], whether a new session helps with [`HttpFailure::is_session_gone`].

use std::fmt;

use ::http::StatusCode;

use super::challenge::Hints;
use super::page;
use super::param::Unfit;
use super::redirect::{BadEndpoint, Unfollowed};
use super::status::{self, Body, Probe, Verdict};
use crate::secret::Redactor;
use crate::session::event::Hurdle;

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpFailure {
    /// No connection: the name, the address, the proxy or TLS. Nothing was sent.
    Connect {
        /// What stood in the way.
        hurdle: Hurdle,
        /// In words.
        why: Box<str>,
    },
    /// The connection broke before the reply was here.
    Broken(Box<str>),
    /// A status that says no, without a fault that says why.
    Status {
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        excerpt: Box<str>,
        /// How to authorize and when to come again, where the server says so.
        hints: Box<Hints>,
    },
    /// The session that the request named is gone. Nothing was executed.
    SessionGone {
        /// The status that says so.
        status: StatusCode,
    },
    /// The same, and another session has taken its place since: that one may be good for what was refused.
    SessionReplaced {
        /// The status that says so.
        status: StatusCode,
    },
    /// The body is neither a message nor a lane.
    Content {
        /// The status it came with.
        status: StatusCode,
        /// What it says it is.
        content_type: Box<str>,
        /// Its beginning.
        excerpt: Box<str>,
    },
    /// The answer ended properly, without the reply.
    NoReply {
        /// The status it came with.
        status: StatusCode,
    },
    /// A redirect that is not followed.
    Redirect(Unfollowed),
    /// The stream of the oldest transport did not say where to post.
    NoEndpoint,
    /// The stream of the oldest transport says to post where nothing is sent.
    Endpoint(BadEndpoint),
    /// An argument that must be mirrored and cannot be. Nothing was sent.
    Unfit(Unfit),
    /// The oldest transport carries the legacy era only. Nothing was sent.
    LegacyOnly,
    /// A client takes no events for its call and reads no push lane, so a call to it has no lane. Nothing was
    /// sent.
    NoLane,
}

impl HttpFailure {
    /// The status, where there was one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. }
            | Self::SessionGone { status }
            | Self::SessionReplaced { status }
            | Self::Content { status, .. }
            | Self::NoReply { status } => Some(*status),
            _ => None,
        }
    }

    /// The same without secrets in the server's and the system's words.
    #[must_use]
    pub fn redacted(mut self, secrets: &Redactor) -> Self {
        match &mut self {
            Self::Connect { why: text, .. } | Self::Broken(text) => *text = secrets.redact(text).into(),
            Self::Status { excerpt, hints, .. } => {
                *excerpt = secrets.redact(excerpt).into();
                hints.redact(secrets);
            }
            Self::Content { content_type, excerpt, .. } => {
                *content_type = secrets.redact(content_type).into();
                *excerpt = secrets.redact(excerpt).into();
            }
            Self::Redirect(unfollowed) => unfollowed.to = secrets.redact(&unfollowed.to).into(),
            _ => {}
        }
        self
    }

    /// How to authorize, where the server says so.
    #[must_use]
    pub fn hints(&self) -> Option<&Hints> {
        match self {
            Self::Status { hints, .. } => Some(hints),
            _ => None,
        }
    }

    /// Does a new session help?
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        matches!(self, Self::SessionGone { .. })
    }

    /// Is there a new session already?
    #[must_use]
    pub fn is_session_replaced(&self) -> bool {
        matches!(self, Self::SessionReplaced { .. })
    }

    /// Did the answer end properly, without the reply?
    #[must_use]
    pub fn is_no_reply(&self) -> bool {
        matches!(self, Self::NoReply { .. })
    }

    /// Is the client to authorize itself?
    #[must_use]
    pub fn is_auth(&self) -> bool {
        matches!(self, Self::Status { status, .. } if status::is_auth(*status))
    }

    /// What it says about the era, as the answer to `server/discover`. What is no answer says nothing.
    #[must_use]
    pub fn of_probe(&self) -> Verdict {
        match (self, self.status()) {
            (Self::LegacyOnly, _) => Verdict::Legacy,
            (_, Some(status)) => status::of_probe(Probe::Discover, status, Body::NoReply),
            (_, None) => Verdict::Failure,
        }
    }
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { why, .. } => write!(f, "no connection: {why}"),
            Self::Broken(why) => write!(f, "the connection broke before the reply came: {why}"),
            Self::Status { status, excerpt, hints } => {
                write!(f, "the server answered {status}")?;
                page::write(excerpt, f)?;
                write_hints(hints, f)
            }
            Self::SessionGone { status } => write!(f, "the session is gone ({status})"),
            Self::SessionReplaced { status } => {
                write!(f, "the session is gone ({status}), and another has taken its place")
            }
            Self::Content { status, content_type, excerpt } => {
                let kind = if content_type.is_empty() { "of no named type" } else { content_type };
                write!(f, "the answer ({status}) is {kind}, neither JSON nor events")?;
                if content_type.contains("html") {
                    f.write_str("; is this the server's MCP address, or a login page before it")?;
                }
                page::write(excerpt, f)
            }
            Self::NoReply { status } => write!(f, "the answer ({status}) ended without the reply"),
            Self::Redirect(why) => why.fmt(f),
            Self::NoEndpoint => f.write_str("the event stream did not say where to post"),
            Self::Endpoint(why) => why.fmt(f),
            Self::Unfit(why) => why.fmt(f),
            Self::LegacyOnly => f.write_str("this transport carries the legacy era only"),
            Self::NoLane => f.write_str(
                "no lane leads to it; it must accept text/event-stream for its call, or open a push lane",
            ),
        }
    }
}

fn write_hints(hints: &Hints, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(bearer) = &hints.bearer {
        f.write_str("; it wants a bearer token")?;
        for (name, value) in bearer.params() {
            write!(f, ", {name} {}", super::excerpt(value))?;
        }
    }
    if !hints.other_schemes.is_empty() {
        write!(f, "; it takes {}", hints.other_schemes.join(", "))?;
    }
    if let Some(server) = &hints.auth_server {
        write!(f, "; its authorization server is {}", super::excerpt(server))?;
    }
    match &hints.retry_after {
        Some(again) => write!(f, "; it wants to be asked again {again}"),
        None => Ok(()),
    }
}

impl std::error::Error for HttpFailure {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::challenge::Bearer;
    use crate::http::redirect::RedirectRefusal;

    fn status(code: u16) -> HttpFailure {
        let status = StatusCode::from_u16(code).unwrap();
        HttpFailure::Status { status, excerpt: "".into(), hints: Box::default() }
    }

    /// VER-31, SSE0-6: which failures of the probe speak of the era, and which do not.
    #[test]
    fn failures_of_a_probe() {
        let table = [
            (status(400), Verdict::Legacy),
            (status(404), Verdict::Legacy),
            (status(405), Verdict::Legacy),
            (status(406), Verdict::Legacy),
            (status(401), Verdict::Auth),
            (status(403), Verdict::Auth),
            (status(429), Verdict::Failure),
            (status(500), Verdict::Failure),
            (status(503), Verdict::Failure),
            (HttpFailure::LegacyOnly, Verdict::Legacy),
            (HttpFailure::NoReply { status: StatusCode::ACCEPTED }, Verdict::Legacy),
            (HttpFailure::Connect { hurdle: Hurdle::Connect, why: "refused".into() }, Verdict::Failure),
            (HttpFailure::Broken("reset".into()), Verdict::Failure),
            (
                HttpFailure::Redirect(Unfollowed { why: RedirectRefusal::TooMany, to: "/x".into() }),
                Verdict::Failure,
            ),
        ];
        for (failure, want) in table {
            assert_eq!(failure.of_probe(), want, "{failure}");
        }
    }

    /// S0-59, S0-60: the error names the status, the body's beginning and every hint.
    #[test]
    fn hints_are_told() {
        let bearer =
            Bearer::default().with("resource_metadata", "https://a/.well-known/x").with("scope", "s");
        let hints = Hints {
            bearer: Some(bearer),
            other_schemes: vec!["DPoP".into()],
            auth_server: Some("https://as".into()),
            retry_after: None,
        };
        let (status, hints) = (StatusCode::UNAUTHORIZED, Box::new(hints));
        let failure = HttpFailure::Status { status, excerpt: "who?".into(), hints };
        assert_eq!(
            failure.to_string(),
            "the server answered 401 Unauthorized: who?; it wants a bearer token, \
             resource_metadata https://a/.well-known/x, scope s; it takes DPoP; \
             its authorization server is https://as"
        );
        assert!(failure.is_auth());
    }

    /// Who is turned away for now is told for how long.
    #[test]
    fn when_to_come_again_is_told() {
        for (value, told) in [
            ("7", Some("the server answered 429 Too Many Requests; it wants to be asked again in 7 s")),
            ("Wed, 21 Oct 2026 07:28:00 GMT", Some("asked again after Wed, 21 Oct 2026 07:28:00 GMT")),
            ("soon", None),
        ] {
            let mut headers = ::http::HeaderMap::new();
            headers.insert(::http::header::RETRY_AFTER, ::http::HeaderValue::from_static(value));
            let (status, hints) = (StatusCode::TOO_MANY_REQUESTS, Box::new(Hints::read(&headers)));
            let failure = HttpFailure::Status { status, excerpt: "".into(), hints }.to_string();
            assert!(failure.ends_with(told.unwrap_or("429 Too Many Requests")), "{failure}");
        }
    }

    /// A redirect that is not followed says where it leads, without what may be a secret.
    #[test]
    fn redirects_say_where_they_lead() {
        let mut headers = ::http::HeaderMap::new();
        let location = ::http::HeaderValue::from_static("https://login.test/start?state=s3cret");
        headers.insert(::http::header::LOCATION, location);
        let failure = HttpFailure::Redirect(Unfollowed::new(RedirectRefusal::MethodLost, &headers));
        assert!(failure.to_string().ends_with("(it leads to https://login.test/start)"), "{failure}");
    }

    /// S0-62: a page where a message should be is named as such.
    #[test]
    fn a_login_page_is_recognised() {
        let failure = HttpFailure::Content {
            status: StatusCode::OK,
            content_type: "text/html; charset=utf-8".into(),
            excerpt: "<!doctype html><title>Log in</title><p>Hello".into(),
        };
        assert!(failure.to_string().ends_with("login page before it: Log in"), "{failure}");
    }
}
