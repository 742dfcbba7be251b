//! Requests with a session id that is somebody else's: answered as if there were no such session, and felt by nobody.

use serde_json::json;

use crate::rig::{
    BOTH, JSON, LEGACY, Rig, STREAM, Session, Step, call, initialize, note, said, tool_call, within,
};
use crate::wire::{Answer, Events};

const BOB: (&str, &str) = ("Authorization", "Bearer bob");

/// A revision that nobody serves.
const ODD: &str = "1999-01-01";

/// A session of this principal, opened to the end.
async fn of<'a>(rig: &'a Rig, token: &str) -> Session<'a> {
    let session = rig.initialize(LEGACY, &[("Authorization", token)]).await;
    assert_eq!(session.tell(&note("notifications/initialized")).await.status(), 202);
    session
}

/// A request: how it is sent, what stands in its head, and what in its body.
type Attempt = (&'static str, Vec<(&'static str, String)>, String);

/// What Bob may try.
fn attempts(seen: &[String]) -> Vec<Attempt> {
    let posted = || [BOTH, JSON].map(|(name, value)| (name, value.to_owned())).to_vec();
    let read = || vec![(STREAM.0, STREAM.1.to_owned())];
    let mut all = vec![("GET", read(), String::new()), ("DELETE", Vec::new(), String::new())];
    for last in seen.iter().map(String::as_str).chain(["1-0", "nonsense"]) {
        all.push(("GET", [read(), vec![("Last-Event-ID", last.to_owned())]].concat(), String::new()));
    }
    for body in [
        call(1, "ping"),
        tool_call(2, "touch", json!({})),
        note("notifications/cancelled"),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!([call(1, "ping")]),
    ] {
        all.push(("POST", posted(), body.to_string()));
    }
    let with_revision: Vec<_> = all
        .iter()
        .flat_map(|(method, headers, body)| {
            [LEGACY, ODD].map(|date| {
                let told = vec![("MCP-Protocol-Version", date.to_owned())];
                (*method, [headers.clone(), told].concat(), body.clone())
            })
        })
        .collect();
    [all, with_revision].concat()
}

/// Bob's request for the session with this id.
async fn tried(rig: &Rig, id: &str, (method, headers, body): &Attempt) -> Answer {
    let mut all = vec![BOB, ("Mcp-Session-Id", id)];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    within(rig.ask(method, "/mcp", &all, body.as_bytes())).await
}

/// It goes on where it was, with its call's progress and reply.
async fn goes_on(rig: &Rig, ada: &Session<'_>, push: &mut Events, running: &mut Events) {
    ada.call(7, "touch", json!({})).await;
    assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
    rig.signals.go.notify_one();
    assert_eq!(running.message().await["params"]["progress"], 2.0);
    assert_eq!(said(&running.reply(1).await), "stepped");
    running.ends().await;
}

/// T10: whoever knows the id of another's session learns nothing by it and changes nothing with it. Whatever is posted, read,
/// resumed or ended gets the same bytes as with an id that nobody ever had; the streams of its owner go on.
#[tokio::test]
async fn t10_a_stolen_id_is_an_unknown_id() {
    let rig = Rig::guarded().await;
    let (ada, bob) = (of(&rig, "Bearer ada").await, of(&rig, "Bearer bob").await);
    let mut push = ada.listening().await;
    let mut running = ada.post(&tool_call(1, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    assert_eq!(running.message().await["params"]["progress"], 1.0);
    let seen = [push.last_id(), running.last_id()];
    assert!(seen.iter().all(|last| !last.is_empty()), "{seen:?}");
    // As like to hers as can be, and like none.
    let (first, rest) = ada.id.split_at(1);
    let near = format!("{}{rest}", if first == "A" { "B" } else { "A" });
    let unknown = [near.as_str(), "AAAAAAAAAAAAAAAAAAAAAA", "x"];
    for attempt in attempts(&seen) {
        let stolen = tried(&rig, &ada.id, &attempt).await;
        // What no session would take is refused before one is looked for.
        let odd = attempt.2.starts_with('[') || attempt.1.iter().any(|(_, value)| value == ODD);
        assert!(stolen.status() == 404 || odd, "{attempt:?}: {stolen:?}");
        for id in unknown {
            assert_eq!(stolen.undated(), tried(&rig, id, &attempt).await.undated(), "{attempt:?} {id}");
        }
    }
    assert_eq!(rig.signals.unseen(), None, "nothing of it came to a handler, and nothing ended");
    goes_on(&rig, &ada, &mut push, &mut running).await;
    assert_eq!((ada.status().await, bob.status().await), (200, 200));
    // It can be ended by its owner only, and then it is unknown to her too.
    assert_eq!(ada.delete().await.status(), 204);
    push.ends().await;
    assert_eq!(ada.status().await, 404);
}

/// T10: the same for somebody who has opened a session by another's id: what is opened is a new one.
#[tokio::test]
async fn t10_a_stolen_id_opens_nothing() {
    let rig = Rig::guarded().await;
    let ada = of(&rig, "Bearer ada").await;
    let mut push = ada.listening().await;
    let named = ("Mcp-Session-Id", ada.id.as_str());
    let opened = rig.post(&[BOB, named], &initialize(LEGACY)).await.answer().await;
    assert_ne!(opened.header("mcp-session-id"), ada.id, "{opened:?}");
    ada.call(1, "touch", json!({})).await;
    assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
}
