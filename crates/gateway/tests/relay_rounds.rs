//! What a legacy server asks at once is asked in one round.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::time::Duration;

use bytes::Bytes;
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::limits::fleet::GATHER;
use cardan_proto::method::Method;
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, Ask, CallOptions, Called, Rounds};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use relaying::{answering, connect, making_legacy};
use serde_json::{Value, json};
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
