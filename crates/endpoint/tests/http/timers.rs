//! What time does: sessions that nobody uses are forgotten, those at work never are. Time is paused and
//! everything is in memory, so hours take no time and nothing depends on luck.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_endpoint::{Body, Endpoint, Options};
use cardan_proto::limits::Limits;
use cardan_server::Server;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::rig::{
    LEGACY, Signals, Step, allow, builder, call, initialize, listen_to_tools, modern_headers, note, tool_call,
};

const IDLE: Duration = Limits::DEFAULT.session_idle_timeout;
const UNREAD: Duration = Limits::DEFAULT.session_unread_timeout;
const OPENING: Duration = Limits::DEFAULT.open_timeout;
/// How much later than due the sweeper may come.
const SWEEP: Duration = Duration::from_secs(31);

/// An endpoint without a port.
struct Inside {
    endpoint: Endpoint<Server>,
    signals: Signals,
}

impl Inside {
    fn new(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::DEFAULT;
        change(&mut limits);
        let (builder, signals) = builder(limits);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        Self { endpoint: Endpoint::new(builder.build(), Options::new(allow(address))), signals }
    }

    async fn send(&self, method: &str, session: &str, message: Option<&Value>) -> Response<Body> {
        let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        request = request.header("content-type", "application/json");
        if !session.is_empty() {
            request = request.header("mcp-session-id", session);
        }
        let modern = message.filter(|_| session.is_empty()).map(modern_headers).unwrap_or_default();
        for (name, value) in
            modern.iter().filter(|_| message.is_some_and(|message| message["method"] != "initialize"))
        {
            request = request.header(*name, value);
        }
        let body = message.map(Value::to_string).unwrap_or_default();
        self.endpoint.answer(request.body(Full::new(Bytes::from(body))).unwrap()).await
    }

    /// Calls `initialize` and nothing more.
    async fn initialize(&self) -> String {
        let answer = self.send("POST", "", Some(&initialize(LEGACY))).await;
        assert_eq!(answer.status(), 200);
        answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn open(&self) -> String {
        let id = self.initialize().await;
        assert_eq!(self.send("POST", &id, Some(&note("notifications/initialized"))).await.status(), 202);
        id
    }

    async fn ping(&self, session: &str) -> u16 {
        self.send("POST", session, Some(&call(1, "ping"))).await.status().as_u16()
    }
}

/// F28, SEC-5: a session that nobody uses is forgotten after its time, and not before.
#[tokio::test(start_paused = true)]
async fn an_idle_session_is_forgotten() {
    let inside = Inside::new(|_| {});
    let (used, idle) = (inside.open().await, inside.open().await);
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(inside.signals.unseen(), None);
    assert_eq!(inside.ping(&used).await, 200);
    sleep(SWEEP).await;
    assert_eq!(inside.signals.unseen(), Some(Step::Closed));
    assert_eq!(inside.signals.unseen(), None);
    assert_eq!(inside.ping(&idle).await, 404);
    assert_eq!(inside.ping(&used).await, 200);
}

/// T23, F28: a client that says no more than `initialize` is forgotten much sooner.
#[tokio::test(start_paused = true)]
async fn an_unfinished_handshake_is_forgotten() {
    let inside = Inside::new(|_| {});
    let (opened, silent) = (inside.open().await, inside.initialize().await);
    sleep(OPENING - Duration::from_secs(1)).await;
    assert_eq!(inside.signals.unseen(), None);
    sleep(SWEEP).await;
    assert_eq!(inside.signals.unseen(), Some(Step::Closed));
    assert_eq!(inside.ping(&silent).await, 404);
    assert_eq!(inside.ping(&opened).await, 200);
}

/// F29, S1-24: a running call keeps its session however long it takes, also for a while when its client has gone; then the
/// time begins.
#[tokio::test(start_paused = true)]
async fn a_running_call_keeps_its_session() {
    let inside = Inside::new(|_| {});
    let session = inside.open().await;
    let hold = tool_call(1, "hold", json!({}));
    let answering = inside.send("POST", &session, Some(&hold));
    tokio::select! {
        biased;
        _ = answering => {}
        () = sleep(5 * IDLE) => {}
    }
    assert_eq!(inside.signals.unseen(), Some(Step::Entered));
    sleep(2 * IDLE).await;
    assert_eq!(inside.signals.unseen(), None, "neither ended nor dropped");
    inside.signals.go.notify_one();
    inside.signals.expect(Step::Finished).await;
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(inside.signals.unseen(), None);
    sleep(SWEEP).await;
    assert_eq!(inside.signals.unseen(), Some(Step::Closed));
    assert_eq!(inside.ping(&session).await, 404);
}

/// F28: a call whose client does not come back is given up after a time of its own, and its session with it. Whatever the
/// client says or reads meanwhile puts that off; what the call does by itself does not.
#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_reads_is_given_up() {
    for sign in ["none", "note", "push"] {
        let inside = Inside::new(|_| {});
        let session = inside.open().await;
        let hold = tool_call(1, "hold", json!({}));
        tokio::select! {
            biased;
            _ = inside.send("POST", &session, Some(&hold)) => {}
            () = sleep(Duration::from_secs(1)) => {}
        }
        assert_eq!(inside.signals.unseen(), Some(Step::Entered));
        sleep(UNREAD - Duration::from_secs(10)).await;
        match sign {
            "note" => drop(inside.send("POST", &session, Some(&note("notifications/cancelled"))).await),
            "push" => {
                let push = inside.send("GET", &session, None).await;
                sleep(3 * UNREAD).await;
                drop(push);
            }
            _ => {}
        }
        if sign != "none" {
            sleep(UNREAD - Duration::from_secs(10)).await;
        }
        assert_eq!(inside.signals.unseen(), None, "{sign}: it goes on");
        sleep(SWEEP + Duration::from_secs(10)).await;
        assert_eq!(inside.signals.unseen(), Some(Step::Closed), "{sign}");
        assert_eq!(inside.signals.unseen(), Some(Step::Dropped), "{sign}");
        assert_eq!(inside.ping(&session).await, 404, "{sign}");
    }
}

/// F29: so does a reader of the push lane, also before the handshake is finished.
#[tokio::test(start_paused = true)]
async fn an_open_push_lane_keeps_its_session() {
    let inside = Inside::new(|_| {});
    for shakes_hands in [true, false] {
        let session = if shakes_hands { inside.open().await } else { inside.initialize().await };
        let push = inside.send("GET", &session, None).await;
        assert_eq!(push.status(), 200);
        sleep(5 * IDLE).await;
        assert_eq!(inside.signals.unseen(), None);
        assert_eq!(inside.ping(&session).await, 200);
        drop(push);
        sleep(IDLE + SWEEP).await;
        assert_eq!(inside.signals.unseen(), Some(Step::Closed));
        assert_eq!(inside.ping(&session).await, 404);
    }
}

/// HTTP-17, S1-34, S1-C16: signs of life come after fifteen seconds of silence, and only of silence.
#[tokio::test(start_paused = true)]
async fn signs_of_life_come_in_time() {
    let inside = Inside::new(|_| {});
    let mut listen = inside.send("POST", "", Some(&listen_to_tools(1))).await.into_body();
    let mut next = async || {
        let started = Instant::now();
        let frame = listen.frame().await.unwrap().unwrap().into_data().unwrap();
        (frame, started.elapsed().as_secs())
    };
    assert!(next().await.0.starts_with(b"data:"), "the acknowledgement");
    for _ in 0..2 {
        let (frame, seconds) = next().await;
        assert_eq!((&frame[..1], seconds), (&b":"[..], 15));
    }
    sleep(Duration::from_secs(10)).await;
    inside.endpoint.host().changed(&cardan_proto::session::event::Change::Tools);
    assert_eq!(next().await.1, 0);
    assert_eq!(next().await.1, 15);
}

/// HTTP-12, S1-C16: a call that takes longer than the silence may last becomes a stream, and says so in time; then
/// it beats on.
#[tokio::test(start_paused = true)]
async fn a_long_call_becomes_a_stream() {
    let inside = Inside::new(|_| {});
    let session = inside.open().await;
    let hold = tool_call(1, "hold", json!({}));
    let started = Instant::now();
    let answer = inside.send("POST", &session, Some(&hold)).await;
    assert_eq!(started.elapsed().as_secs(), 15);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    let mut gaps = Vec::new();
    for _ in 0..4 {
        let before = Instant::now();
        body.frame().await.unwrap().unwrap();
        gaps.push(before.elapsed().as_secs());
    }
    assert_eq!(gaps.iter().max(), Some(&15), "the longest silence of {gaps:?}");
    inside.signals.go.notify_one();
    let body = body.collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("held"));
}

/// A body that never ends.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// A body that comes a byte a second.
struct Dripping(Pin<Box<tokio::time::Sleep>>);

impl http_body::Body for Dripping {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::ready!(self.0.as_mut().poll(cx));
        self.0 = Box::pin(sleep(Duration::from_secs(1)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

/// T19: a body that does not come in time gets 408, also one that drips, on every route that takes one.
#[tokio::test(start_paused = true)]
async fn slow_bodies_are_refused() {
    let inside = Inside::new(|_| {});
    let request = |path: &str| {
        let request = Request::post(path).header("host", "localhost");
        request.header("content-type", "application/json")
    };
    let stream = Request::get("/sse").header("host", "localhost");
    let mut stream = inside.endpoint.answer(stream.body(Full::new(Bytes::new())).unwrap()).await;
    let opening = stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let opening = String::from_utf8(opening.to_vec()).unwrap();
    let messages = opening.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    for path in ["/mcp", messages] {
        let started = Instant::now();
        let answer = inside.endpoint.answer(request(path).body(Endless).unwrap()).await;
        assert_eq!((answer.status().as_u16(), started.elapsed().as_secs()), (408, 60), "{path}");
        let started = Instant::now();
        let dripping = Dripping(Box::pin(sleep(Duration::from_secs(1))));
        let answer = inside.endpoint.answer(request(path).body(dripping).unwrap()).await;
        assert_eq!((answer.status().as_u16(), started.elapsed().as_secs()), (408, 60), "{path}");
    }
}

/// T23, T19: sessions are bounded; one more is told to come later, and does when others have gone.
#[tokio::test(start_paused = true)]
async fn sessions_are_bounded() {
    let inside = Inside::new(|limits| limits.sessions = 20);
    for _ in 0..19 {
        inside.initialize().await;
    }
    // However they are spread, the bound is on all of them, and who leaves makes room.
    for _ in 0..3 {
        let last = inside.initialize().await;
        let ended = inside.send("DELETE", &last, None).await;
        assert_eq!(ended.status(), 204);
    }
    inside.initialize().await;
    let refused = inside.send("POST", "", Some(&initialize(LEGACY))).await;
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert!(!refused.headers().contains_key("mcp-session-id"));
    sleep(OPENING + SWEEP).await;
    inside.initialize().await;
}
