//! Connections that stay open and carry nothing.

use std::time::{Duration, Instant};

use cardan_client::{CallError, Client};
use cardan_proto::limits::Limits;
use serde_json::json;

use crate::proxy::{Cut, Fault, Proxy, Way};
use crate::rig::{Book, MODES, Mode, Rig, Shape, connect, count, hasty, within};

const IDLE: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(10);

/// Both ends show that they live, and miss it soon.
fn watchful() -> Limits {
    Limits {
        keep_alive_interval: Duration::from_millis(100),
        read_idle_timeout: Duration::from_secs(1),
        ..hasty()
    }
}

/// The places where an exchange begins, ends, and is in between.
fn few(length: usize) -> [usize; 5] {
    [0, 1, length / 2, length.saturating_sub(1), length]
}

async fn silent_call(mode: Mode, cut: Cut, rig: &Rig, book: &Book) {
    let name = format!("{mode:?} {:?} {} {:?}", cut.way, cut.after, cut.fault);
    let proxy = Proxy::before(rig.address).await;
    let client = connect(mode, proxy.address, &watchful()).await.unwrap();
    within(&name, count(&client, &format!("{name}, before"), Shape::Reply, LONG)).await.unwrap();
    if matches!(mode, Mode::Oldest) {
        // Silence counts only from a server that was seen to break it.
        proxy.until(|seen| seen.down.windows(2).any(|two| two == b"\n:")).await;
    }
    proxy.arm(Some(cut));
    let started = Instant::now();
    let outcome = within(&name, count(&client, &name, Shape::Events, IDLE)).await;
    // Twice the idle time is the total one; the rest is for a busy machine.
    assert!(started.elapsed() < 2 * IDLE + Duration::from_secs(10), "{name}: {:?}", started.elapsed());
    book.note(&name, outcome);
    next_call(mode, &name, &client, book).await;
    client.close("done").await;
}

/// The next call works: at once where each call has a connection, and else at the latest when the silence was
/// noticed, or the link has ended and says why.
async fn next_call(mode: Mode, name: &str, client: &Client, book: &Book) {
    let (idle, most) = match mode {
        Mode::Modern | Mode::Legacy => (LONG, 1),
        Mode::Oldest | Mode::Socket => (IDLE, 20),
    };
    for n in 0..most {
        let next = format!("{name}, next {n}");
        let outcome = within(&next, count(client, &next, Shape::Reply, idle)).await;
        let works = outcome.is_ok();
        book.note(&next, outcome);
        if works || most > 1 && client.ended().is_some() {
            return;
        }
    }
    panic!("{name}: the next call neither works nor ends the link: {:?}", client.ended());
}

/// F12: a connection that carries nothing any more, whether it takes our bytes or not, costs its call and nothing
/// else: the deadline holds, what is said of the call is true, and the next one works or the link ends.
#[tokio::test]
async fn f12_stalled_and_half_open_connections() {
    let rig = Rig::start(watchful()).await;
    let book = Book::default();
    for mode in MODES {
        let proxy = Proxy::before(rig.address).await;
        let client = connect(mode, proxy.address, &hasty()).await.unwrap();
        count(&client, "warm", Shape::Reply, LONG).await.unwrap();
        proxy.arm(None);
        count(&client, "recorded", Shape::Events, LONG).await.unwrap();
        let seen = proxy.seen();
        client.close("done").await;
        let mut calls = Vec::new();
        for fault in [Fault::Stall, Fault::Swallow] {
            for way in [Way::Up, Way::Down] {
                let cuts = few(seen.of(way).len()).map(|after| Cut { way, after, fault });
                calls.extend(cuts.map(|cut| silent_call(mode, cut, &rig, &book)));
            }
        }
        futures_util::future::join_all(calls).await;
    }
    rig.empty().await;
    book.check(&rig.stop().await);
}

/// F10: one client whose way is stalled in mid-stream holds up nobody: the others are served meanwhile, and it is
/// gone from the server once its connection is.
#[tokio::test]
async fn f10_one_stalled_client_holds_up_nobody() {
    // What a client cannot end, because its way is cut, ends by its time.
    let short = Duration::from_millis(300);
    let limits = Limits { stall_timeout: short, session_idle_timeout: short, open_timeout: short, ..hasty() };
    let rig = Rig::start(limits).await;
    for mode in MODES {
        let proxy = Proxy::before(rig.address).await;
        let stalled = connect(mode, proxy.address, &hasty()).await.unwrap();
        count(&stalled, &format!("{mode:?} warm"), Shape::Reply, LONG).await.unwrap();
        proxy.arm(Some(Cut { way: Way::Down, after: 40, fault: Fault::Stall }));
        let name = format!("{mode:?} stalled");
        let waiting = stalled.call_tool("much", &json!({})).unwrap();
        let others = async {
            proxy.until(|seen| seen.fired).await;
            let other = connect(mode, rig.address, &hasty()).await.unwrap();
            for n in 0..50 {
                count(&other, &format!("{mode:?} other {n}"), Shape::Events, LONG).await.unwrap();
            }
            other.close("done").await;
        };
        tokio::pin!(waiting, others);
        let early = tokio::select! {
            biased;
            outcome = &mut waiting => Some(outcome),
            () = &mut others => None,
        };
        let outcome = match early {
            None => {
                proxy.end();
                within(&name, waiting).await
            }
            // There the answer to the POST may be what stalls, and the reply comes on the stream.
            Some(outcome) => {
                assert_eq!(mode, Mode::Oldest);
                within("the others", others).await;
                outcome
            }
        };
        assert!(matches!(outcome, Ok(_) | Err(CallError::Lost { .. })), "{name}");
        stalled.close("done").await;
    }
    rig.empty().await;
    rig.stop().await;
}
