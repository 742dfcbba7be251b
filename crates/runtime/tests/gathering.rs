//! A driver that writes together what several callers want.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use cardan_proto::era::Revisions;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::CallOptions;
use cardan_proto::session::state::State;
use cardan_runtime::driver::Driver;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::memory::{MemoryLink, pair};
use cardan_runtime::service::Silent;

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The messages that have arrived at the other end.
fn arrived(link: &mut MemoryLink) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut count = 0;
    while let Poll::Ready(Received::Frame { .. }) = link.poll_recv(&mut cx) {
        count += 1;
    }
    count
}

/// With others waiting for their replies, what is wanted is written after whoever else is ready to run has had a turn, and
/// then all of it; a lone caller waits for nobody.
#[tokio::test]
async fn several_callers_are_written_together() {
    let (object, tools) = (|| Bytes::from_static(b"{}"), || Bytes::from_static(br#"{"tools":{}}"#));
    let config =
        |role| Arc::new(Config { revisions: Revisions::MODERN, ..Config::new(role, object(), tools()) });
    let (ours, theirs) = pair(&config(Role::Client).limits);
    let (driver, peer) = Driver::new(ours, Arc::new(Silent), config(Role::Client));
    let mut driver = driver.gathering();
    let (mut server, _) = Driver::new(theirs, Arc::new(Silent), config(Role::Server));
    let mut idle = Context::from_waker(Waker::noop());
    while driver.session().state() != State::Ready {
        assert!(Pin::new(&mut driver).poll(&mut idle).is_pending());
        assert!(Pin::new(&mut server).poll(&mut idle).is_pending());
    }
    let theirs = server.link_mut();
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut turn = || {
        woken.0.store(0, Ordering::SeqCst);
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        woken.0.load(Ordering::SeqCst)
    };
    turn();
    let call = || peer.call(Method::ToolsList, None, CallOptions::default());
    let _first = call();
    turn();
    assert_eq!(arrived(theirs), 1, "a lone caller is written at once");
    let _second = call();
    turn();
    assert_eq!(arrived(theirs), 1, "so is one beside a single other");
    let _third = call();
    assert_eq!(turn(), 1, "it steps back, to come again");
    assert_eq!(arrived(theirs), 0);
    let _fourth = call();
    turn();
    assert_eq!(arrived(theirs), 2, "all that was wanted meanwhile");
}
