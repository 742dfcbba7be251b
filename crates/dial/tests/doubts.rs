//! The push lane of a legacy session as a sign of its server: when its end is a reason to look after the link.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Mutex;
use std::time::Duration;

use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use common::*;
use serde_json::json;
use tokio::sync::mpsc;

/// A legacy server that answers the first GETs so, the last said first, and those that follow not at all. Its calls take for ever.
fn stage(gets: Vec<Say>) -> Stage {
    let gets = Mutex::new(gets);
    Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => gets.lock().unwrap().pop().unwrap_or(Say::Hang),
        (_, "tools/call") => Say::Hang,
        _ => Say::Status(202, ""),
    })
}

/// How often the link was doubted within an hour.
async fn doubts(gets: Vec<Say>, calls: usize) -> usize {
    let stage = stage(gets);
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Legacy, Limits::DEFAULT).await;
    let client = client.unwrap();
    let calling: Vec<_> = (0..calls).map(|_| client.call_tool("t", &json!({})).unwrap()).collect();
    pass(Limits::DEFAULT.call_idle_timeout / 2).await;
    drop(calling);
    pass(Duration::from_secs(3600)).await;
    notebook.lines().iter().filter(|line| *line == "doubted").count()
}

/// A lane that is closed properly after a while.
fn closed_after(life: Duration) -> Say {
    let (tell, live) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        pass(life).await;
        drop(tell);
    });
    Say::Live(live)
}

/// F12, S0-79: a push lane that breaks may be the first sign that its server is gone, and so may one that ends after it was
/// open in earnest, or cannot be had again. Each is one doubt; a server that answers as it pleases raises none.
#[tokio::test(start_paused = true)]
async fn f12_a_push_lane_that_ends_is_a_reason_to_look() {
    let lived = Duration::from_secs(10);
    assert_eq!(doubts(vec![Say::Cut(": hello\n\n".into())], 0).await, 1, "it broke");
    assert_eq!(doubts(vec![closed_after(lived)], 0).await, 1, "it ended");
    assert_eq!(doubts(vec![Say::Reset], 0).await, 1, "nobody answered");
    assert_eq!(doubts(vec![Say::Reset, closed_after(lived)], 0).await, 2, "it ended, and nobody answered");
    assert_eq!(doubts(vec![Say::Events(String::new())], 0).await, 0, "there is nothing to hear");
    assert_eq!(doubts(vec![Say::Status(503, "")], 0).await, 0, "someone answers");
    assert_eq!(doubts(vec![Say::Status(405, "")], 0).await, 0, "there is no lane");
}

/// F11, F12: while a call is under way the end of the lane is no reason: the call may be resumed after a gap. That nobody
/// answers a while later is one.
#[tokio::test(start_paused = true)]
async fn f11_a_call_under_way_is_given_its_gap() {
    let lived = Duration::from_secs(2);
    assert_eq!(doubts(vec![cut_after(lived)], 0).await, 1);
    assert_eq!(doubts(vec![cut_after(lived)], 1).await, 0);
    assert_eq!(doubts(vec![Say::Reset, cut_after(lived)], 1).await, 1);
}

/// A lane that breaks after a while.
fn cut_after(life: Duration) -> Say {
    Say::After(life, Box::new(Say::Cut(": hello\n\n".into())))
}
