//! Proxies that dribble, rewrite, slam the door, and servers that are started anew.

use std::time::Duration;

use cardan_client::CallError;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{CallOptions, Delivery, Pushes, Wanted};
use serde_json::json;

use crate::proxy::{Door, Pace, Proxy, Way};
use crate::rig::{Book, MODES, Mode, Rig, Shape, connect, count, hasty, within};

const IDLE: Duration = Duration::from_secs(10);

/// F35, S1-C14: through a proxy that passes on one byte at a time everything works, and what a handler tells
/// arrives while it still runs.
#[tokio::test]
async fn f35_one_byte_at_a_time() {
    let rig = Rig::start(Limits::DEFAULT).await;
    for mode in MODES {
        let proxy = Proxy::before(rig.address).await;
        proxy.pace(Pace::OneByOne);
        let client = connect(mode, proxy.address, &hasty()).await.unwrap();
        for shape in [Shape::Reply, Shape::Events] {
            count(&client, &format!("{mode:?} {shape:?}"), shape, IDLE).await.unwrap();
        }
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut held = client.call_tool_with("held", &json!({}), options).unwrap();
        assert!(within("the first event", held.progress()).await.is_some(), "{mode:?}");
        rig.go.notify_one();
        within("the reply", held).await.unwrap();
        client.close("done").await;
    }
    rig.empty().await;
    rig.stop().await;
}

/// Same length, so that nothing else changes.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    for at in 0..bytes.len().saturating_sub(from.len() - 1) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// F35: through a proxy that speaks HTTP/1.0 to the server, calls of both eras work, streams included.
#[tokio::test]
async fn f35_http_1_0_on_the_way() {
    let rig = Rig::start(Limits::DEFAULT).await;
    for mode in [Mode::Modern, Mode::Legacy, Mode::Oldest] {
        let proxy = Proxy::before(rig.address).await;
        proxy.rewrite(|way, bytes| {
            if way == Way::Up {
                replace(bytes, b" HTTP/1.1\r\n", b" HTTP/1.0\r\n");
            }
        });
        let client = connect(mode, proxy.address, &hasty()).await.unwrap();
        for shape in [Shape::Reply, Shape::Events] {
            count(&client, &format!("{mode:?} {shape:?}"), shape, IDLE).await.unwrap();
        }
        client.close("done").await;
    }
    rig.empty().await;
    rig.stop().await;
}

/// F35: a proxy that drops the protocol's headers is told from a server that lacks a session: modern calls name
/// the header that is missing, legacy ones without their session id cannot go on and say so.
#[tokio::test]
async fn f35_headers_lost_on_the_way_are_named() {
    let rig = Rig::start(Limits::DEFAULT).await;
    let proxy = Proxy::before(rig.address).await;
    proxy.rewrite(|_, bytes| replace(bytes, b"mcp-method:", b"x-p-method:"));
    let error = connect(Mode::Modern, proxy.address, &hasty()).await.unwrap_err();
    assert!(error.contains("mcp-method"), "{error}");
    let proxy = Proxy::before(rig.address).await;
    proxy.rewrite(|_, bytes| replace(bytes, b"mcp-session-id:", b"x-p-session-id:"));
    let client = connect(Mode::Legacy, proxy.address, &hasty()).await.unwrap();
    let error = count(&client, "lost", Shape::Reply, IDLE).await.unwrap_err();
    assert!(error.to_string().contains("mcp-session-id"), "{error}");
    client.close("done").await;
    rig.stop().await;
}

/// F14: a server that takes connections and closes them is not asked without end: each call fails once, not
/// sent or not known, and the push lane is asked for only slowly after its tries.
#[tokio::test]
async fn f14_a_slammed_door_is_not_knocked_at_for_ever() {
    let rig = Rig::start(Limits::DEFAULT).await;
    let proxy = Proxy::before(rig.address).await;
    let limits = Limits { reconnect_wait_max: Duration::from_secs(600), ..hasty() };
    let client = connect(Mode::Legacy, proxy.address, &limits).await.unwrap();
    count(&client, "warm", Shape::Reply, IDLE).await.unwrap();
    assert_eq!(client.pushes(), Pushes::Carried);
    proxy.door(Door::Slammed);
    proxy.arm(None);
    // The old connections end with their server; nothing is there any more.
    let runs = rig.stop().await;
    within("the end of the push lane", async {
        while client.pushes() != Pushes::Lost {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let lanes = proxy.seen().accepted;
    assert!(lanes <= limits.reconnects, "{lanes} connections for one lane");
    for n in 0..5 {
        let error = count(&client, &format!("slammed {n}"), Shape::Reply, IDLE).await.unwrap_err();
        assert!(matches!(error, CallError::Lost { .. }), "{error}");
    }
    let all = proxy.seen().accepted - lanes;
    assert!(all <= 2 * 5, "{all} connections for five calls");
    client.close("done").await;
    assert_eq!(runs.lock().unwrap().len(), 1, "nothing ran but the first call");
}

/// F13: a server that is started anew knows no session; the client opens one new one for everyone who waits, and
/// what was called is run once at most.
#[tokio::test]
async fn f13_restarts_cost_one_handshake_each() {
    let mut rig = Rig::start(hasty()).await;
    let proxy = Proxy::before(rig.address).await;
    let client = connect(Mode::Legacy, proxy.address, &hasty()).await.unwrap();
    let book = Book::default();
    count(&client, "warm", Shape::Reply, IDLE).await.unwrap();
    for restart in 0..10 {
        proxy.arm(None);
        proxy.door(Door::Slammed);
        let runs = rig.stop().await;
        rig = Rig::counting(hasty(), runs).await;
        proxy.retarget(rig.address);
        proxy.door(Door::Open);
        let names: Vec<_> = (0..8).map(|n| format!("restart {restart} call {n}")).collect();
        let calls = names.iter().map(|name| count(&client, name, Shape::Events, IDLE));
        let outcomes = within("calls over a restart", futures_util::future::join_all(calls)).await;
        for (name, outcome) in names.iter().zip(outcomes) {
            book.note(name, outcome);
        }
        let last = format!("restart {restart}, after");
        let outcome = within(&last, count(&client, &last, Shape::Reply, IDLE)).await;
        assert!(outcome.is_ok(), "{last}: {outcome:?}");
        book.note(&last, outcome);
        assert_eq!(proxy.seen().times_up(r#""method":"initialize""#), 1, "restart {restart}");
    }
    client.close("done").await;
    rig.empty().await;
    book.check(&rig.stop().await);
}

/// F11: what never reached a server is said not to have been sent.
#[tokio::test]
async fn f11_nobody_there_is_not_sent() {
    let rig = Rig::start(hasty()).await;
    for mode in [Mode::Modern, Mode::Legacy] {
        let proxy = Proxy::before(rig.address).await;
        let client = connect(mode, proxy.address, &hasty()).await.unwrap();
        count(&client, &format!("{mode:?}"), Shape::Reply, IDLE).await.unwrap();
        let address = proxy.address;
        drop(proxy);
        // The port is free again once the proxy's task is gone.
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let error = count(&client, "unsent", Shape::Reply, IDLE).await;
        let again = count(&client, "unsent", Shape::Reply, IDLE).await.unwrap_err();
        assert!(error.is_err());
        assert!(matches!(again, CallError::Lost { delivery: Delivery::NotSent, .. }), "{again}");
        client.close("done").await;
    }
    assert_eq!(rig.stop().await.lock().unwrap().get("unsent"), None);
}
