//! The old HTTP+SSE transport: one stream down, POSTs up.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use cardan_endpoint::{Endpoint, Options};
use cardan_proto::codec::sse::EventKind;
use cardan_proto::dialect::Dialect;
use cardan_proto::era::Revision;
use cardan_proto::limits::Limits;
use http::Request;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::rig::{JSON, Rig, STREAM, Step, allow, builder, cancel, initialize, note, said, tool_call};
use crate::wire::{Answer, Events};

const OLD: &str = Revision::V2024_11_05.date();

/// A stream that is open, and where to post.
struct Old<'a> {
    rig: &'a Rig,
    events: Events,
    address: String,
}

impl<'a> Old<'a> {
    async fn open(rig: &'a Rig, headers: &[(&str, &str)]) -> Self {
        let mut all = vec![STREAM];
        all.extend_from_slice(headers);
        let mut events = rig.send("GET", "/sse", &all, b"").await.events().await;
        let first = events.event().await.unwrap();
        assert_eq!(first.kind, EventKind::Other("endpoint".into()));
        let address = String::from_utf8(first.data.to_vec()).unwrap();
        Self { rig, events, address }
    }

    async fn post(&self, message: &Value) -> Answer {
        self.rig.ask("POST", &self.address, &[JSON], message.to_string().as_bytes()).await
    }

    async fn shake_hands(&mut self) {
        assert_eq!(self.post(&initialize(OLD)).await.status(), 202);
        assert_eq!(self.events.reply(0).await["result"]["protocolVersion"], OLD);
        assert_eq!(self.post(&note("notifications/initialized")).await.status(), 202);
    }
}

/// SSE0-1, SSE0-2, SSE0-4, SSE0-8: the address comes first; what is posted there gets 202, and replies come as
/// `message` events.
#[tokio::test]
async fn replies_come_on_the_stream() {
    let rig = Rig::start().await;
    let mut old = Old::open(&rig, &[]).await;
    assert!(old.address.starts_with("/message?sessionId="), "{}", old.address);
    assert_eq!(old.events.head.header("x-accel-buffering"), "no");
    old.shake_hands().await;
    let answer = old.post(&tool_call(1, "echo", json!({ "text": "hi" }))).await;
    assert_eq!(answer.status(), 202);
    let event = old.events.event().await.unwrap();
    assert_eq!((event.kind, event.id), (EventKind::Message, None));
    let reply: Value = serde_json::from_slice(&event.data).unwrap();
    assert_eq!((said(&reply), &reply["id"]), ("hi", &json!(1)));
}

/// SSE0-4: notes of calls and of changes come on the stream too, in order.
#[tokio::test]
async fn notes_come_on_the_stream() {
    let rig = Rig::start().await;
    let mut old = Old::open(&rig, &[]).await;
    old.shake_hands().await;
    old.post(&tool_call(1, "steps", json!({}))).await;
    assert_eq!(old.events.message().await["params"]["progress"], 1.0);
    old.post(&tool_call(2, "touch", json!({}))).await;
    let mut seen = [old.events.message().await, old.events.message().await];
    seen.sort_by_key(|message| message["id"].as_i64());
    assert_eq!(seen[0]["method"], "notifications/tools/list_changed");
    assert_eq!(seen[1]["id"], 2);
    rig.signals.go.notify_one();
    assert_eq!(old.events.message().await["params"]["progress"], 2.0);
    old.events.reply(1).await;
}

/// SSE0-1, SSE0-8: two streams are two sessions.
#[tokio::test]
async fn streams_are_sessions_of_their_own() {
    let rig = Rig::start().await;
    let mut one = Old::open(&rig, &[]).await;
    let mut other = Old::open(&rig, &[]).await;
    assert_ne!(one.address, other.address);
    one.shake_hands().await;
    other.shake_hands().await;
    one.post(&tool_call(1, "echo", json!({ "text": "one" }))).await;
    other.post(&tool_call(1, "echo", json!({ "text": "other" }))).await;
    assert_eq!(said(&one.events.reply(1).await), "one");
    assert_eq!(said(&other.events.reply(1).await), "other");
}

/// SSE0-8: a POST to a stream that is not there gets 404.
#[tokio::test]
async fn unknown_streams_are_told() {
    let rig = Rig::start().await;
    let body = note("notifications/initialized").to_string();
    for path in ["/message", "/message?sessionId=", "/message?sessionId=unknown", "/message?other=x"] {
        let answer = rig.ask("POST", path, &[JSON], body.as_bytes()).await;
        assert_eq!(answer.status(), 404, "{path}");
    }
}

/// SSE0-8, F28: the session ends with its stream: what runs is dropped, and its address is gone.
#[tokio::test]
async fn the_session_ends_with_its_stream() {
    let rig = Rig::start().await;
    let mut old = Old::open(&rig, &[]).await;
    old.shake_hands().await;
    old.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    let address = old.address;
    drop(old.events);
    rig.signals.expect(Step::Dropped).await;
    let body = note("notifications/initialized").to_string();
    assert_eq!(rig.ask("POST", &address, &[JSON], body.as_bytes()).await.status(), 404);
}

/// HTL-9: a cancel note stops the call; no reply follows.
#[tokio::test]
async fn a_cancel_note_stops_the_call() {
    let rig = Rig::start().await;
    let mut old = Old::open(&rig, &[]).await;
    old.shake_hands().await;
    old.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    old.post(&cancel(1)).await;
    rig.signals.expect(Step::Dropped).await;
    old.post(&tool_call(2, "echo", json!({ "text": "next" }))).await;
    assert_eq!(said(&old.events.reply(2).await), "next");
}

/// SSE0-1, S1-26: each of the two has its one method, and the stream must be acceptable.
#[tokio::test]
async fn each_path_has_its_method() {
    let rig = Rig::start().await;
    for (method, path, allow) in
        [("POST", "/sse", "GET"), ("DELETE", "/sse", "GET"), ("GET", "/message", "POST")]
    {
        let head = rig.send(method, path, &[JSON], b"").await.head().await;
        assert_eq!((head.status, head.header("allow")), (405, allow), "{method} {path}");
    }
    let answer = rig.ask("GET", "/sse", &[("Accept", "application/json")], b"").await;
    assert_eq!(answer.status(), 406);
}

/// HTTP-5, HTL-30: a stream takes messages from nobody but the one who opened it.
#[tokio::test]
async fn a_stream_belongs_to_its_principal() {
    let rig = Rig::guarded().await;
    let mut old = Old::open(&rig, &[("Authorization", "Bearer ada")]).await;
    let body = initialize(OLD).to_string();
    for (authorization, want) in [("Bearer bob", 404), ("Bearer nobody", 401), ("Bearer ada", 202)] {
        let headers = [JSON, ("Authorization", authorization)];
        let answer = rig.ask("POST", &old.address, &headers, body.as_bytes()).await;
        assert_eq!(answer.status(), want, "{authorization}");
    }
    old.events.reply(0).await;
}

/// A server that speaks the tutorial dialect.
async fn tutorial(limits: Limits) -> Rig {
    let (builder, signals) = builder(limits);
    Rig::of(builder.dialect(Dialect::Tutorial).build(), signals, |options| options).await
}

/// S2-8, SSE0-1: clients of the tutorial name their stream themselves, by a header on both; a name that is in use
/// is not given away.
#[tokio::test]
async fn s2_8_a_client_of_the_tutorial_may_name_its_stream() {
    let rig = tutorial(Limits::DEFAULT).await;
    let mut old = Old::open(&rig, &[("x-client-id", "me")]).await;
    assert_eq!(old.address, "/message?sessionId=me");
    let headers = [JSON, ("x-client-id", "me")];
    let body = initialize(OLD).to_string();
    assert_eq!(rig.ask("POST", "/message", &headers, body.as_bytes()).await.status(), 202);
    old.events.reply(0).await;
    let answer = rig.ask("GET", "/sse", &[STREAM, ("x-client-id", "me")], b"").await;
    assert_eq!(answer.status(), 409);
    let other = [JSON, ("x-client-id", "you")];
    assert_eq!(rig.ask("POST", "/message", &other, body.as_bytes()).await.status(), 404);
}

/// S2-7, S2-8, S2-10: where the dialect is not asked for, its header means nothing, whatever it says: streams have names that
/// nobody guesses, several clients may send the same header, and it finds no stream.
#[tokio::test]
async fn s2_8_nobody_else_names_a_stream() {
    let rig = Rig::start().await;
    let odd = [("x-client-id", "a&b"), ("x-client-id", "")];
    let mut open = Vec::new();
    for headers in [&[("x-client-id", "me")][..], &[("x-client-id", "me")], &odd] {
        let mut old = Old::open(&rig, headers).await;
        assert!(old.address.len() > "/message?sessionId=".len() + 20, "{}", old.address);
        let body = initialize(OLD).to_string();
        let named = [JSON, ("x-client-id", "me")];
        assert_eq!(rig.ask("POST", "/message", &named, body.as_bytes()).await.status(), 404);
        assert_eq!(rig.ask("POST", "/message?sessionId=me", &[JSON], body.as_bytes()).await.status(), 404);
        // What was announced works, whoever else is named beside it.
        assert_eq!(rig.ask("POST", &old.address, &named, body.as_bytes()).await.status(), 202);
        old.events.reply(0).await;
        assert!(open.iter().all(|other: &Old<'_>| other.address != old.address));
        open.push(old);
    }
}

/// SSE0-2: a name that would not survive in an address is refused; the address of any other works.
#[tokio::test]
async fn a_name_must_fit_an_address() {
    let rig = tutorial(Limits::DEFAULT).await;
    for name in ["a&b", "a b", "a#b", "100%", "a+b", "", "\u{f6}"] {
        let answer = rig.ask("GET", "/sse", &[STREAM, ("x-client-id", name)], b"").await;
        assert_eq!(answer.status(), 400, "{name}");
    }
    let twice = [STREAM, ("x-client-id", "a"), ("x-client-id", "b")];
    assert_eq!(rig.ask("GET", "/sse", &twice, b"").await.status(), 400);
    let mut old = Old::open(&rig, &[("x-client-id", "5f0c_Me.~-1")]).await;
    assert_eq!(old.post(&initialize(OLD)).await.status(), 202, "{}", old.address);
    old.events.reply(0).await;
}

/// T23, F28: streams are bounded, and one that its client left makes room.
#[tokio::test]
async fn streams_are_bounded() {
    let rig = tutorial(Limits { sessions: 1, ..Limits::DEFAULT }).await;
    let mut old = Old::open(&rig, &[("x-client-id", "one")]).await;
    old.shake_hands().await;
    old.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    let answer = rig.ask("GET", "/sse", &[STREAM], b"").await;
    assert_eq!((answer.status(), answer.header("retry-after")), (503, "5"), "too many, for now: {answer:?}");
    let taken = rig.ask("GET", "/sse", &[STREAM, ("x-client-id", "one")], b"").await;
    assert_eq!(
        (taken.status(), taken.header("retry-after")),
        (409, ""),
        "its name will not be free by waiting"
    );
    drop(old);
    rig.signals.expect(Step::Dropped).await;
    Old::open(&rig, &[]).await.shake_hands().await;
}

/// T19: what is posted while the stream is not read is bounded, by its bytes as by its number; there is room again when it
/// was read, and one message is taken however large.
#[tokio::test]
async fn what_waits_for_a_stream_is_bounded() {
    let bytes = |limits: &mut Limits| limits.inlet_bytes = 2500;
    let number = |limits: &mut Limits| limits.calls_inbound = 2;
    for bound in [bytes, number] {
        let mut limits = Limits::DEFAULT;
        bound(&mut limits);
        let options = Options::new(allow(SocketAddr::from((Ipv4Addr::LOCALHOST, 80))));
        let endpoint = Endpoint::new(builder(limits).0.build(), options);
        let asked = Request::get("/sse").header("host", "localhost");
        let mut stream = endpoint.answer(asked.body(Full::new(Bytes::new())).unwrap()).await.into_body();
        let opening = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        let opening = String::from_utf8(opening.to_vec()).unwrap();
        let address = opening.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let post = async |length: usize| {
            let message = json!({ "jsonrpc": "2.0", "method": "x".repeat(length) }).to_string();
            let asked = Request::post(address).header("host", "localhost").header(JSON.0, JSON.1);
            let answer = endpoint.answer(asked.body(Full::new(Bytes::from(message))).unwrap()).await;
            (answer.status().as_u16(), answer.headers().contains_key("retry-after"))
        };
        for _ in 0..2 {
            assert_eq!(post(1000).await, (202, false));
        }
        assert_eq!(post(1000).await, (429, true));
        // Whoever reads the stream drives the session, which takes what waits.
        poll_fn(|cx| {
            let nothing = Pin::new(&mut stream).poll_frame(cx).is_pending();
            assert!(nothing, "notes are not answered");
            Poll::Ready(())
        })
        .await;
        assert_eq!(post(4000).await, (202, false));
    }
}

/// SSE0-7: an endpoint may go without the old transport.
#[tokio::test]
async fn the_old_transport_can_be_left_out() {
    let paths = cardan_endpoint::Paths { events: None, messages: None, ..Default::default() };
    let rig = Rig::with(Limits::DEFAULT, |options| options.paths(paths)).await;
    assert_eq!(rig.ask("GET", "/sse", &[STREAM], b"").await.status(), 404);
    assert_eq!(rig.ask("POST", "/message", &[JSON], b"{}").await.status(), 404);
    rig.open(crate::rig::LEGACY).await;
}
