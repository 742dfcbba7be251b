//! What a client tells of an answer before it, over links where each message is a POST of its own.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Answerers, Client};
use cardan_proto::method::Method;
use cardan_proto::model::sampling::CreateMessageResult;
use cardan_proto::session::config::EraChoice;
use common::*;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

/// PRG-5: what a client tells of an answer reaches the server in its order and before the answer, although each is a POST of its own;
/// a server that takes none of it has the answer all the same, without the rest.
#[tokio::test(start_paused = true)]
async fn steps_of_an_answer_keep_their_order() {
    for takes in [true, false] {
        let (tell, live) = mpsc::unbounded_channel();
        let live = Mutex::new(Some(live));
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "initialize") => welcome(asked, Some("s-1")),
            ("GET", _) => Say::Live(live.lock().unwrap().take().expect("one lane")),
            (_, "notifications/progress") if takes => {
                Say::After(Duration::from_millis(200), Box::new(Say::Status(202, "")))
            }
            (_, "notifications/progress") => Say::Hang,
            _ => Say::Status(202, ""),
        });
        let go = Arc::new(Notify::new());
        let waits = Arc::clone(&go);
        let answerers = Answerers::default().sample(move |_| {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                let content = json!({ "type": "text", "text": "x" });
                let answer = json!({ "role": "assistant", "content": content, "model": "m" });
                Ok(serde_json::from_value::<CreateMessageResult>(answer).unwrap())
            }
        });
        let connector = Client::builder("tester", "1.0").era(EraChoice::Legacy).answer(answerers);
        let http = stage.http();
        let client = connector.connect(async || http.link()).await.unwrap();
        settle().await;
        let params = json!({ "messages": [], "maxTokens": 1 });
        tell.send(message(
            &json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params }),
        ))
        .unwrap();
        settle().await;
        for step in 1..=3 {
            let params = json!({ "progressToken": "t", "progress": step }).to_string();
            client.note(Method::Progress, Some(params.into()));
        }
        settle().await;
        go.notify_one();
        let told = || -> Vec<_> {
            let asked = stage.asked().into_iter().map(|asked| asked.body);
            let told = asked.filter(|body| body["id"] == "q" || body["method"] == "notifications/progress");
            told.map(|body| body["params"]["progress"].as_u64()).collect()
        };
        settle().await;
        assert_eq!(told(), [Some(1)], "the others wait for it");
        // The answer to a ping does not.
        tell.send(message(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }))).unwrap();
        settle().await;
        assert_eq!(stage.asked().pop().unwrap().body["id"], "p");
        pass(Duration::from_secs(10)).await;
        let wanted = if takes { vec![Some(1), Some(2), Some(3), None] } else { vec![Some(1), None] };
        assert_eq!(told(), wanted);
    }
}

/// A server that takes its time for each of many steps takes them all the same: it is told the last of a flood, and the link goes on.
#[tokio::test(start_paused = true)]
async fn a_flood_of_steps_is_no_stalled_server() {
    let stage = Stage::new(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => Say::Status(405, ""),
        (_, "notifications/progress") => Say::After(Duration::from_secs(1), Box::new(Say::Status(202, ""))),
        _ => Say::Status(202, ""),
    });
    let http = stage.http();
    let connector = Client::builder("tester", "1.0").era(EraChoice::Legacy);
    let client = connector.connect(async || http.link()).await.unwrap();
    settle().await;
    let step = |step: u64| {
        let params = json!({ "progressToken": "t", "progress": step }).to_string();
        client.note(Method::Progress, Some(params.into()));
    };
    (1..=200).for_each(step);
    pass(Duration::from_secs(70)).await;
    step(201);
    pass(Duration::from_secs(2)).await;
    let told: Vec<u64> =
        stage.asked().iter().filter_map(|asked| asked.body["params"]["progress"].as_u64()).collect();
    assert_eq!(told, [1].into_iter().chain(137..=201).collect::<Vec<_>>());
}
