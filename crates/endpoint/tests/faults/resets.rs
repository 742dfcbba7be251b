//! Connections that break at a byte.

use std::time::Duration;

use cardan_proto::limits::Limits;

use crate::proxy::{Cut, Fault, Proxy, Way, places};
use crate::rig::{MODES, Mode, Rig, Shape, connect, count, hasty, within};
use crate::sweep::{IDLE, padded, recorded, step, sweep, warm};

/// F11: a modern call whose connection breaks at any byte, in either direction, has one outcome that says truly
/// whether it may have run; it is never run twice, and the next call works.
#[tokio::test]
async fn f11_modern_replies_break_anywhere() {
    sweep(Mode::Modern, Shape::Reply, 3, Rig::start(Limits::DEFAULT).await).await;
}

/// F11: the same where the answer is a stream.
#[tokio::test]
async fn f11_modern_streams_break_anywhere() {
    sweep(Mode::Modern, Shape::Events, 13, Rig::start(Limits::DEFAULT).await).await;
}

/// F11: the same in a legacy session, which survives it.
#[tokio::test]
async fn f11_legacy_replies_break_anywhere() {
    sweep(Mode::Legacy, Shape::Reply, 13, Rig::start(Limits::DEFAULT).await).await;
}

/// F11, HTL-17: the same where the answer is a stream, which is resumed.
#[tokio::test]
async fn f11_legacy_streams_break_anywhere() {
    sweep(Mode::Legacy, Shape::Events, 13, Rig::start(Limits::DEFAULT).await).await;
}

/// F11: the same over the oldest transport, whose one stream may be what breaks.
#[tokio::test]
async fn f11_the_oldest_transport_breaks_anywhere() {
    sweep(Mode::Oldest, Shape::Events, 13, Rig::start(Limits::DEFAULT).await).await;
}

/// F11: the same over WebSocket.
#[tokio::test]
async fn f11_websockets_break_anywhere() {
    sweep(Mode::Socket, Shape::Events, 5, Rig::start(Limits::DEFAULT).await).await;
}

/// F11: a call that lost its stream after the first event with an id has its reply all the same, once.
#[tokio::test]
async fn f11_what_can_be_resumed_is() {
    let rig = Rig::start(Limits::DEFAULT).await;
    let seen = recorded(Mode::Legacy, Shape::Events, &rig).await;
    let text = String::from_utf8_lossy(&seen.down).into_owned();
    let ids: Vec<_> = text.match_indices("id: ").map(|(at, _)| at).collect();
    assert!(ids.len() >= 3, "the stream names its events: {text}");
    for (n, at) in ids.iter().enumerate().skip(1) {
        let proxy = Proxy::before(rig.address).await;
        let client = warm(Mode::Legacy, &proxy).await;
        proxy.arm(Some(Cut { way: Way::Down, after: *at, fault: Fault::Reset }));
        let name = padded(&format!("resumed {n}"));
        within(&name, count(&client, &name, Shape::Events, IDLE)).await.expect("it is resumed");
        proxy.until(|seen| seen.fired).await;
        assert_eq!(proxy.seen().times_up("last-event-id"), 1, "{name}");
        client.close("done").await;
    }
    rig.empty().await;
    for (name, ran) in rig.stop().await.lock().unwrap().iter() {
        assert!(*ran == 1 || (*ran >= 1 && !name.starts_with("resumed")), "{name:?} ran {ran} times");
    }
}

/// F11, F13: an opening that breaks at any place brings a client or a reason, and leaves nothing behind for long.
#[tokio::test]
async fn f11_openings_break_anywhere() {
    // What a client cannot end, because its goodbye was what broke, ends by its time.
    let short = Duration::from_millis(400);
    let limits = Limits { open_timeout: short, session_idle_timeout: short, ..Limits::DEFAULT };
    let rig = Rig::start(limits).await;
    for mode in MODES {
        let proxy = Proxy::before(rig.address).await;
        let client = warm(mode, &proxy).await;
        let seen = proxy.seen();
        client.close("done").await;
        for (way, usually) in [(Way::Up, 97), (Way::Down, 61)] {
            for after in places(seen.of(way), step(usually)) {
                let what = format!("opening {mode:?} {way:?} {after}");
                let proxy = Proxy::before(rig.address).await;
                proxy.arm(Some(Cut { way, after, fault: Fault::Reset }));
                match within(&what, connect(mode, proxy.address, &hasty())).await {
                    Ok(client) => drop(client.close("done").await),
                    Err(reason) => assert!(!reason.is_empty(), "{what}"),
                }
                proxy.arm(None);
                let client = connect(mode, proxy.address, &hasty()).await;
                client.unwrap_or_else(|error| panic!("{what}, next: {error}")).close("done").await;
            }
        }
    }
    rig.empty().await;
    rig.stop().await;
}
