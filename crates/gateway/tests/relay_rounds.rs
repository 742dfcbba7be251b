//! What a legacy server asks at once is asked in one round, and what it logs before the next is told with that.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::limits::fleet::GATHER;
use cardan_proto::method::Method;
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, Ask, CallOptions, Called, LogLevel, Rounds};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use relaying::{answering, connect, logging, making_legacy, soon};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// A server that asks as often as there are times, each so many milliseconds after it was called.
struct Asking(&'static [u64]);

impl Service for Asking {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let times = self.0;
        Box::pin(async move {
            if called.call.method == Method::ToolsCall {
                let mut asks = JoinSet::new();
                for time in times {
                    let cx = cx.clone();
                    asks.spawn(async move {
                        sleep(Duration::from_millis(*time)).await;
                        cx.ask(Ask { method: Method::RootsList, params: None }).await
                    });
                }
                asks.join_all().await;
            }
            Answer::Done(Bytes::from_static(b"{\"tools\":[],\"content\":[]}"))
        })
    }
}

/// How many questions a modern client has in the first round, and after how long.
async fn first_round(times: &'static [u64]) -> (usize, Duration) {
    let (making, _) = making_legacy(Asking(times), "asking", &json!({ "tools": {} }), Interests::Kept);
    let options = Options { behind: Behind::One, ..Options::default() };
    let relay = Relay::start(making, options).await.unwrap();
    let client = connect(&relay, Era::Modern, answering("ada")).await;
    let params = Some(Bytes::from(json!({ "name": "ask", "arguments": {} }).to_string()));
    let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
    let began = Instant::now();
    let raw = client.raw(Method::ToolsCall, params, options).await.unwrap();
    let took = began.elapsed();
    let result: Value = serde_json::from_slice(&raw).unwrap();
    assert_eq!(result["resultType"], "input_required", "{result}");
    relay.end("done").await;
    (result["inputRequests"].as_object().unwrap().len(), took)
}

/// What a round takes but for the waiting: nothing, while time is paused, but timers are coarse.
const TICK: Duration = Duration::from_millis(2);

/// MRTR-1, MRTR-3: three questions that come shortly one after the other are one round.
#[tokio::test(start_paused = true)]
async fn what_is_asked_at_once_is_one_round() {
    let (questions, took) = first_round(&[0, 5, 15]).await;
    assert_eq!(questions, 3);
    assert!(took < GATHER + TICK, "{took:?}");
}

/// One that is alone waits no longer than it must, and one that comes later is asked later.
#[tokio::test(start_paused = true)]
async fn who_asks_alone_is_not_held_up() {
    for times in [&[0][..], &[0, 1000]] {
        let (questions, took) = first_round(times).await;
        assert_eq!(questions, 1, "{times:?}");
        assert!(took < GATHER + TICK, "{times:?} {took:?}");
    }
}

/// A server that asks, logs while its client is away, and logs again when it has the answer. Where it does not wait for that, it has
/// ended meanwhile.
struct Logging {
    waits: bool,
    go_on: Arc<Notify>,
    said: Arc<Notify>,
}

impl Service for Logging {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let (waits, go_on, said) = (self.waits, Arc::clone(&self.go_on), Arc::clone(&self.said));
        Box::pin(async move {
            if called.call.method == Method::ToolsCall {
                log(&cx, LogLevel::Info, "before");
                let asked = cx.ask(Ask { method: Method::RootsList, params: None });
                go_on.notified().await;
                log(&cx, LogLevel::Info, "meanwhile");
                log(&cx, LogLevel::Debug, "not wanted");
                log(&cx, LogLevel::Error, "meanwhile too");
                said.notify_one();
                if waits {
                    asked.await;
                    log(&cx, LogLevel::Info, "after");
                }
            }
            Answer::Done(Bytes::from_static(b"{\"tools\":[],\"content\":[]}"))
        })
    }
}

fn log(cx: &CallCx, level: LogLevel, data: &str) {
    let params = json!({ "level": level.name(), "data": data });
    cx.log(level, Bytes::from(params.to_string()));
}

/// LOG-5: what is logged while the client answers belongs to its call, and is told when it is back, before all that comes then.
#[tokio::test(start_paused = true)]
async fn what_is_logged_while_the_client_is_away_is_told_with_its_retry() {
    for waits in [true, false] {
        let (go_on, said) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let server = Logging { waits, go_on: Arc::clone(&go_on), said: Arc::clone(&said) };
        let offered = json!({ "tools": {}, "logging": {} });
        let (making, _) = making_legacy(server, "logging", &offered, Interests::Kept);
        let options = Options { behind: Behind::One, ..Options::default() };
        let relay = Relay::start(making, options).await.unwrap();
        let (connector, logs) = logging(answering("ada"));
        let client = connect(&relay, Era::Modern, connector).await;
        client.set_level(LogLevel::Info);
        let call = async |params: Value| {
            let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
            let raw = client.raw(Method::ToolsCall, Some(Bytes::from(params.to_string())), options).await;
            serde_json::from_slice::<Value>(&raw.unwrap()).unwrap()
        };
        let mut params = json!({ "name": "log", "arguments": {} });
        let asked = soon("asked", call(params.clone())).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        go_on.notify_one();
        soon("said", said.notified()).await;
        // In virtual time: whatever can happen has happened.
        sleep(Duration::from_secs(1)).await;
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({ "ask-1": { "roots": [] } });
        soon("done", call(params)).await;
        let told: Vec<_> = logs.lock().unwrap().iter().map(|note| note["data"].clone()).collect();
        let all = ["before", "meanwhile", "meanwhile too", "after"];
        assert_eq!(told, all[..if waits { 4 } else { 3 }], "waits: {waits}");
        relay.end("done").await;
    }
}
