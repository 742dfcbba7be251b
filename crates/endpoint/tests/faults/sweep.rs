//! One call after another whose exchange breaks at a byte, whatever answers it.

use std::time::Duration;

use cardan_client::Client;
use cardan_runtime::service::Host;

use crate::proxy::{Cut, Fault, Proxy, Seen, Way, places};
use crate::rig::{Book, Mode, Rig, Shape, connect, count, hasty, within};

pub(crate) const IDLE: Duration = Duration::from_secs(5);

/// A client that has made its first call, so that all its lanes are open.
pub(crate) async fn warm(mode: Mode, proxy: &Proxy) -> Client {
    let client = connect(mode, proxy.address, &hasty()).await.expect("nothing is broken yet");
    count(&client, "warm", Shape::Reply, IDLE).await.expect("nothing is broken yet");
    client
}

/// What passes for one call when nothing breaks.
pub(crate) async fn recorded<H: Host>(mode: Mode, shape: Shape, rig: &Rig<H>) -> Seen {
    let proxy = Proxy::before(rig.address).await;
    let client = warm(mode, &proxy).await;
    proxy.arm(None);
    count(&client, &padded("recorded"), shape, IDLE).await.expect("nothing breaks");
    let seen = proxy.seen();
    client.close("done").await;
    seen
}

/// Names of one length, so that every exchange has the same places.
pub(crate) fn padded(name: &str) -> String {
    format!("{name:<48}")
}

/// One call whose exchange breaks, and one after it.
async fn broken_call<H: Host>(mode: Mode, shape: Shape, cut: Cut, rig: &Rig<H>, book: &Book) {
    let name = padded(&format!("{mode:?} {shape:?} {:?} {} {:?}", cut.way, cut.after, cut.fault));
    let proxy = Proxy::before(rig.address).await;
    let client = warm(mode, &proxy).await;
    proxy.arm(Some(cut));
    let outcome = within(&name, count(&client, &name, shape, IDLE)).await;
    book.note(&name, outcome);
    proxy.arm(None);
    let next = format!("{name}, next");
    let outcome = within(&next, count(&client, &next, Shape::Reply, IDLE)).await;
    let works = outcome.is_ok();
    match mode {
        Mode::Modern | Mode::Legacy => assert!(works, "{next}: {outcome:?}"),
        // One stream is the link: it is there, or it has ended for a reason.
        Mode::Oldest | Mode::Socket => assert!(works || client.ended().is_some(), "{next}: {outcome:?}"),
    }
    book.note(&next, outcome);
    client.close("done").await;
    if !works {
        let again = warm(mode, &proxy).await;
        again.close("done").await;
    }
}

/// Every so manyth byte is enough with every change. `CARDAN_EVERY_BYTE=1`, as `cargo xtask soak --cuts` says, means all of them.
pub(crate) fn step(usually: usize) -> usize {
    std::env::var("CARDAN_EVERY_BYTE").map_or(usually, |every| every.parse().unwrap())
}

/// Breaks every chosen place of an exchange in both directions.
pub(crate) async fn sweep<H: Host>(mode: Mode, shape: Shape, usually: usize, rig: Rig<H>) {
    let step = step(usually);
    let seen = recorded(mode, shape, &rig).await;
    let book = Book::default();
    let mut cuts = Vec::new();
    for way in [Way::Up, Way::Down] {
        let fault = |after| if after % 5 == 0 { Fault::Close } else { Fault::Reset };
        cuts.extend(places(seen.of(way), step).into_iter().map(|after| Cut {
            way,
            after,
            fault: fault(after),
        }));
    }
    assert!(cuts.len() > 20, "{mode:?}: there is something to break");
    for some in cuts.chunks(16) {
        futures_util::future::join_all(some.iter().map(|cut| broken_call(mode, shape, *cut, &rig, &book)))
            .await;
    }
    rig.empty().await;
    let checked = book.check(&rig.stop().await);
    assert_eq!(checked, 2 * cuts.len());
    eprintln!("{mode:?} {shape:?}: broken at {} places", cuts.len());
}
