//! The head of a request: what is admitted, and which fault is told first.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::type_complexity)] // rows of tables are tuples

use std::net::{IpAddr, Ipv4Addr};

use cardan_proto::http::agree::BodyKind;
use cardan_proto::http::challenge::Bearer;
use cardan_proto::http::headers::{Accepts, SessionHeader};
use cardan_proto::http::ingress::{
    AcceptRule, Access, Admission, Batches, Config, Head, LegacyServing, Refusal, Shape, admit, check_shape,
};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

type Pairs<'a> = &'a [(&'a str, &'a str)];

const HOST: (&str, &str) = ("host", "localhost");
const JSON: (&str, &str) = ("content-type", "application/json");
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

fn config(legacy: LegacyServing) -> Config {
    let none: &[&str] = &[];
    let allow = Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), Ports::Any, none, none).unwrap();
    Config::new(allow, legacy, &Limits { body_bytes: 1000, head_bytes: 500, ..Limits::DEFAULT })
}

fn head(pairs: Pairs<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// Runs the checks and hands the admission out as text, or the refusal.
fn run(
    config: &Config,
    method: &Method,
    length: Option<u64>,
    pairs: Pairs<'_>,
    access: Access,
) -> Result<String, Refusal> {
    let headers = head(pairs);
    let uri = Uri::from_static("/mcp");
    let head = Head { method, uri: &uri, headers: &headers, content_length: length };
    admit(head, config, |_| access).map(|admission| format!("{admission:?}"))
}

fn status(config: &Config, method: &Method, pairs: Pairs<'_>) -> u16 {
    run(config, method, None, pairs, Access::Granted).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
}

/// HTTP-3, HTTP-19, AUTS-1, HTM-18: all faults at once, then one less each time.
#[test]
fn checks_run_in_order() {
    let off = config(LegacyServing::Off);
    let big = "x".repeat(600);
    let filler = ("x-filler", big.as_str());
    let text = ("content-type", "text/plain");
    let html = ("accept", "text/html");
    let missing = || Access::Missing(Bearer::default());
    let steps: Vec<(Method, Option<u64>, Vec<(&str, &str)>, Access, u16)> = vec![
        (Method::GET, Some(2000), vec![("host", "evil"), filler, text, html], missing(), 403),
        (Method::GET, Some(2000), vec![HOST, filler, text, html], missing(), 405),
        (Method::POST, Some(2000), vec![HOST, filler, text, html], missing(), 401),
        (
            Method::POST,
            Some(2000),
            vec![HOST, filler, text, html],
            Access::Insufficient(Bearer::default()),
            403,
        ),
        (Method::POST, Some(2000), vec![HOST, filler, text, html], Access::Granted, 431),
        (Method::POST, Some(2000), vec![HOST, text, html], Access::Granted, 413),
        (Method::POST, Some(1000), vec![HOST, text, html], Access::Granted, 415),
        (Method::POST, Some(1000), vec![HOST, JSON, html], Access::Granted, 406),
    ];
    for (method, length, pairs, access, want) in steps {
        let refusal = run(&off, &method, length, &pairs, access).unwrap_err();
        assert_eq!(refusal.status.as_u16(), want, "{method} {pairs:?}");
    }
    assert!(run(&off, &Method::POST, Some(1000), &[HOST, JSON, BOTH], Access::Granted).is_ok());
}

/// HTTP-1, HTL-10, HTL-11, HTL-25, HTM-18: methods and what they need, by what is served.
#[test]
fn methods_are_admitted_by_era() {
    use LegacyServing::*;
    let session = ("mcp-session-id", "s");
    let events = ("accept", "text/event-stream");
    let table: Vec<(LegacyServing, Method, Vec<(&str, &str)>, u16)> = vec![
        (Off, Method::GET, vec![HOST, events, session], 405),
        (Off, Method::DELETE, vec![HOST, session], 405),
        (Off, Method::OPTIONS, vec![HOST], 405),
        (Off, Method::PUT, vec![HOST, JSON, BOTH], 405),
        (Sessions, Method::GET, vec![HOST, events, session], 200),
        (Sessions, Method::GET, vec![HOST, events], 405),
        (Sessions, Method::GET, vec![HOST, ("accept", "application/json"), session], 406),
        (Sessions, Method::GET, vec![HOST, events, ("mcp-session-id", "a b")], 400),
        (Sessions, Method::DELETE, vec![HOST, session], 200),
        (Sessions, Method::DELETE, vec![HOST], 405),
        (Sessions, Method::DELETE, vec![HOST, session, session], 400),
        (Sessions, Method::HEAD, vec![HOST], 405),
        (Sessionless, Method::GET, vec![HOST, events], 200),
        (Sessionless, Method::GET, vec![HOST, events, session], 200),
        (Sessionless, Method::DELETE, vec![HOST], 405),
        (Sessionless, Method::PATCH, vec![HOST], 405),
    ];
    for (legacy, method, pairs, want) in table {
        assert_eq!(status(&config(legacy), &method, &pairs), want, "{legacy:?} {method} {pairs:?}");
    }
}

/// 405 says what is allowed, and has no body.
#[test]
fn method_not_allowed_names_the_methods() {
    for (legacy, want) in [(LegacyServing::Off, "POST"), (LegacyServing::Sessions, "GET, POST, DELETE")] {
        let refusal = run(&config(legacy), &Method::PUT, None, &[HOST], Access::Granted).unwrap_err();
        assert_eq!((refusal.allow.unwrap(), refusal.fault), (HeaderValue::from_static(want), None));
    }
}

/// HTL-17, HTM-19, HTM-20: what an admission carries on. A malformed session of a POST is left to the
/// era that may ignore it.
#[test]
fn admission_carries_what_later_steps_need() {
    let sessions = config(LegacyServing::Sessions);
    let uri = Uri::from_static("/mcp");
    let headers = head(&[HOST, ("mcp-session-id", "s"), ("last-event-id", "7"), BOTH, JSON]);
    let of = |method: &'static Method, headers: &HeaderMap| {
        let head = Head { method, uri: &uri, headers, content_length: None };
        admit(head, &sessions, |_| Access::Granted).map(|admission| format!("{admission:?}")).unwrap()
    };
    let accepts = Accepts { json: true, event_stream: true };
    let session = SessionHeader::Named("s");
    assert_eq!(of(&Method::POST, &headers), format!("{:?}", Admission::Post { session, accepts }));
    let push = Admission::Push { session: Some("s"), last_event_id: Some("7") };
    assert_eq!(of(&Method::GET, &headers), format!("{push:?}"));
    assert_eq!(of(&Method::DELETE, &headers), format!("{:?}", Admission::End { session: "s" }));
    let headers = head(&[HOST, ("mcp-session-id", "a b"), ("accept", "application/json"), JSON]);
    let session = SessionHeader::Malformed;
    let accepts = Accepts { json: true, event_stream: false };
    assert_eq!(of(&Method::POST, &headers), format!("{:?}", Admission::Post { session, accepts }));
}

/// HTTP-7: one type is enough unless both are asked for.
#[test]
fn accept_rule_is_either_or_both() {
    let either = config(LegacyServing::Off);
    let both = Config { accept: AcceptRule::Both, ..either.clone() };
    for (accept, want_either, want_both) in [
        ("application/json, text/event-stream", 200, 200),
        ("*/*", 200, 200),
        ("application/json", 200, 406),
        ("text/event-stream", 200, 406),
        ("text/html", 406, 406),
        ("application/json;q=0, text/event-stream;q=0", 406, 406),
    ] {
        let pairs = [HOST, JSON, ("accept", accept)];
        assert_eq!(status(&either, &Method::POST, &pairs), want_either, "{accept}");
        assert_eq!(status(&both, &Method::POST, &pairs), want_both, "{accept}");
    }
}

/// T2: origins by content types; only an absent or own origin with JSON passes.
#[test]
fn origin_by_content_type() {
    let off = config(LegacyServing::Off);
    let origins = [
        (None, true),
        (Some("null"), false),
        (Some("http://evil"), false),
        (Some("http://localhost:9"), false),
        (Some("http://localhost"), true),
    ];
    let types = [
        ("application/json", true),
        ("text/plain", false),
        ("application/x-www-form-urlencoded", false),
        ("multipart/form-data", false),
    ];
    for (origin, own) in origins {
        for (content, json) in types {
            let mut pairs = vec![HOST, BOTH, ("content-type", content)];
            pairs.extend(origin.map(|origin| ("origin", origin)));
            let want = match (own, json) {
                (false, _) => 403,
                (true, false) => 415,
                (true, true) => 200,
            };
            assert_eq!(status(&off, &Method::POST, &pairs), want, "{origin:?} {content}");
        }
    }
    assert_eq!(status(&off, &Method::POST, &[HOST, BOTH]), 415);
}

/// HTTP-5, AUTS-1, AUTS-3, AUTS-6, AUTS-11: tokens.
#[test]
fn token_is_handed_to_the_verifier_and_refusals_challenge() {
    let off = config(LegacyServing::Off);
    let uri = Uri::from_static("/mcp");
    let token = |pairs: Pairs<'_>| {
        let headers = head(pairs);
        let head = Head { method: &Method::POST, uri: &uri, headers: &headers, content_length: None };
        let mut seen = None;
        let result = admit(head, &off, |token| {
            seen = Some(token.map(str::to_owned));
            Access::Granted
        });
        (seen, result.map_err(|refusal| refusal.status.as_u16()).map(drop))
    };
    let with = |value: &'static str| token(&[HOST, JSON, BOTH, ("authorization", value)]);
    assert_eq!(with("Bearer abc"), (Some(Some("abc".to_owned())), Ok(())));
    assert_eq!(with("bEARER   abc "), (Some(Some("abc".to_owned())), Ok(())));
    assert_eq!(with("Basic abc"), (Some(None), Ok(())));
    assert_eq!(with("Bearer"), (None, Err(400)));
    assert_eq!(token(&[HOST, JSON, BOTH]), (Some(None), Ok(())));
    let twice = [HOST, JSON, BOTH, ("authorization", "Bearer a"), ("authorization", "Bearer b")];
    assert_eq!(token(&twice), (None, Err(400)));
    // A stranger is turned away before the token is looked at.
    assert_eq!(token(&[("host", "evil"), ("authorization", "Bearer a")]), (None, Err(403)));

    let challenge = |access| {
        let refusal = run(&off, &Method::POST, None, &[HOST, JSON, BOTH], access).unwrap_err();
        (refusal.status.as_u16(), refusal.challenge.unwrap().to_str().unwrap().to_owned())
    };
    let at = || Bearer::default().with("resource_metadata", "https://a/m");
    let text = |error: &str| format!("Bearer resource_metadata=\"https://a/m\"{error}");
    assert_eq!(challenge(Access::Missing(at())), (401, text("")));
    assert_eq!(challenge(Access::Invalid(at())), (401, text(", error=\"invalid_token\"")));
    assert_eq!(challenge(Access::Insufficient(at())), (403, text(", error=\"insufficient_scope\"")));
    let unwritable = Bearer::default().with("scope", "\n");
    assert_eq!(challenge(Access::Missing(unwritable)), (401, "Bearer".to_owned()));
}

/// HTM-23, INT-6: sizes, at the bound and one beyond.
#[test]
fn sizes_are_bounded() {
    let off = config(LegacyServing::Off);
    let of = |length, pairs: Pairs<'_>| {
        run(&off, &Method::POST, length, pairs, Access::Granted).map_err(|r| r.status.as_u16()).map(drop)
    };
    let small = [HOST, JSON, BOTH];
    assert_eq!(of(None, &small), Ok(()));
    assert_eq!(of(Some(1000), &small), Ok(()));
    assert_eq!(of(Some(1001), &small), Err(413));
    assert_eq!(of(Some(u64::MAX), &small), Err(413));
    let used: usize = small.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let room = 500 - used - "x".len() - 4;
    let (fits, spills) = ("y".repeat(room), "y".repeat(room + 1));
    assert_eq!(of(None, &[HOST, JSON, BOTH, ("x", &fits)]), Ok(()));
    assert_eq!(of(None, &[HOST, JSON, BOTH, ("x", &spills)]), Err(431));
}

/// BASE-16, HTTP-8, HTTP-9, HTTP-11, HTL-1: step 5, the shape of the body.
#[test]
fn shape_of_the_body_is_checked() {
    let (named, absent) = (SessionHeader::Named("s"), SessionHeader::Absent);
    let table = [
        (Shape::Unreadable, named, Batches::Allowed, Some(-32700)),
        (Shape::NotAMessage, named, Batches::Allowed, Some(-32600)),
        (Shape::Batch, named, Batches::Refused, Some(-32600)),
        (Shape::Batch, absent, Batches::Allowed, None),
        (Shape::One(BodyKind::Call), absent, Batches::Refused, None),
        (Shape::One(BodyKind::Note), absent, Batches::Refused, None),
        (Shape::One(BodyKind::Reply), named, Batches::Refused, None),
        (Shape::One(BodyKind::Reply), absent, Batches::Refused, Some(-32600)),
        (Shape::One(BodyKind::Reply), SessionHeader::Malformed, Batches::Refused, Some(-32600)),
    ];
    for (shape, session, batches, want) in table {
        let got = check_shape(shape, session, batches);
        let code = got.as_ref().err().map(|refusal| refusal.fault.as_ref().unwrap().0);
        assert_eq!(code, want, "{shape:?} {session:?} {batches:?}");
        assert!(got.is_ok() || got.unwrap_err().status.as_u16() == 400);
    }
}
