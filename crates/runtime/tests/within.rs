//! A side that keeps things itself: it is told of its client, asks it while a call runs, and keeps its listens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, EraChoice, Interests, Role};
use cardan_proto::session::event::{Answer, Ask, CallOptions, Called, Change, Interest, Outcome};
use cardan_runtime::cx::{AskCx, CallCx};
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::peer::{Happening, Peer};
use cardan_runtime::service::{Handler, Service};
use tokio::sync::Notify;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Keeping {
    greeted: Mutex<Vec<Bytes>>,
    dropped: Arc<Notify>,
}

/// Tells when it is dropped.
struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Service for Keeping {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let told = Told(Arc::clone(&self.dropped));
        Box::pin(async move {
            if called.call.method == Method::SubscriptionsListen {
                cx.listening(Interest::asked_by(&called.call.params).unwrap_or_default());
                cx.change(Change::Tools);
                std::future::pending::<()>().await;
                drop(told);
            }
            match cx.ask(Ask { method: Method::RootsList, params: None }).await {
                Outcome::Done(roots) => Answer::Done(roots),
                other => Answer::Fault(Fault::internal(format!("{other:?}"))),
            }
        })
    }

    fn greeted(&self, _peer: Peer, capabilities: &Bytes, _identity: Option<&Bytes>) {
        self.greeted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(capabilities.clone());
    }
}

struct Rooted;

impl Service for Rooted {
    fn ask(&self, _cx: AskCx, _ask: Ask) -> Handler<Result<Bytes, Fault>> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"{\"roots\":[]}"))))
    }
}

fn pair(era: EraChoice) -> (Arc<Keeping>, Peer) {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let keeping = Arc::new(Keeping::default());
    let caps = Bytes::from_static(b"{\"tools\":{\"listChanged\":true}}");
    let mut server =
        Config::new(Role::Server, Bytes::from_static(b"{\"name\":\"s\",\"version\":\"1\"}"), caps);
    server.interests = Interests::Handed;
    let caps = Bytes::from_static(b"{\"roots\":{}}");
    let mut client =
        Config::new(Role::Client, Bytes::from_static(b"{\"name\":\"c\",\"version\":\"1\"}"), caps);
    client.era = era;
    let (serving, _) = Driver::new(theirs, Arc::clone(&keeping), Arc::new(server));
    let (calling, peer) = Driver::new(ours, Arc::new(Rooted), Arc::new(client));
    tokio::spawn(serving);
    tokio::spawn(calling);
    (keeping, peer)
}

/// Calls until the session is open.
async fn roots(peer: &Peer) -> Outcome {
    loop {
        match peer
            .call(Method::ToolsCall, Some(Bytes::from_static(b"{\"name\":\"t\"}")), CallOptions::default())
            .await
        {
            Outcome::Refused(_) => tokio::task::yield_now().await,
            other => return other,
        }
    }
}

/// A legacy client is told of once and can be asked while its call runs; a modern one is asked by the answer alone.
#[tokio::test]
async fn a_running_call_asks_its_client() {
    let (keeping, peer) = pair(EraChoice::Legacy);
    for _ in 0..2 {
        let outcome = tokio::time::timeout(LONG, roots(&peer)).await.expect("in time");
        assert_eq!(outcome, Outcome::Done(Bytes::from_static(b"{\"roots\":[]}")));
    }
    let greeted = keeping.greeted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    assert_eq!(greeted, [Bytes::from_static(b"{\"roots\":{}}")]);
    let (keeping, peer) = pair(EraChoice::Modern);
    let outcome = tokio::time::timeout(LONG, roots(&peer)).await.expect("in time");
    assert!(matches!(&outcome, Outcome::Fault(fault) if fault.message.contains("NotOpen")), "{outcome:?}");
    assert!(keeping.greeted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty());
}

/// A listen is the handler's to keep: it stands when the handler says so, and its end drops the handler.
#[tokio::test]
async fn a_listen_is_the_handlers() {
    let (keeping, peer) = pair(EraChoice::Modern);
    let _ = tokio::time::timeout(LONG, roots(&peer)).await.expect("in time");
    keeping.dropped.notified().await;
    let mut listen = peer.listen(Interest { tools: true, prompts: true, ..Interest::default() });
    let stands = Interest { tools: true, ..Interest::default() };
    let next = async { [listen.next().await, listen.next().await] };
    let heard = tokio::time::timeout(LONG, next).await.expect("in time");
    assert_eq!(heard, [Some(Happening::Listening(stands)), Some(Happening::Change(Change::Tools))]);
    drop(listen);
    tokio::time::timeout(LONG, keeping.dropped.notified()).await.expect("the handler is dropped");
}
