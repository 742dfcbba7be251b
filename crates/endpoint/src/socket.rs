//! WebSocket: the guard, the handshake, then a task that drives the session for as long as the link lives.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cardan_proto::http::upgrade::{self, Refused};
use cardan_proto::session::event::Cause;
use cardan_runtime::driver::Driver;
use cardan_runtime::service::Host;
use cardan_ws::{WsLink, key};
use http::header::{
    ALLOW, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

use crate::body::Body;
use crate::endpoint::Shared;
use crate::events::guarded;
use crate::ingress::Shown;
use crate::options::Revoked;
use crate::reply::Answer;

/// The tasks that drive WebSockets. They end with the endpoint.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<()>,
    door: Door,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Door {
    #[default]
    Open,
    Shut,
}

/// Why a WebSocket is not taken.
#[derive(Debug)]
struct NoRoom;

impl Sockets {
    fn own(&self, task: impl Future<Output = ()> + Send + 'static, max: usize) -> Result<(), NoRoom> {
        let mut running = self.live();
        if running.door == Door::Shut || running.tasks.len() >= max {
            return Err(NoRoom);
        }
        running.tasks.spawn(task);
        Ok(())
    }

    /// How many run.
    pub(crate) fn len(&self) -> usize {
        self.live().tasks.len()
    }

    /// Those that run; what has ended is let go.
    fn live(&self) -> MutexGuard<'_, Running> {
        let mut running = self.lock();
        while running.tasks.try_join_next().is_some() {}
        running
    }

    /// Takes no more.
    pub(crate) fn shut(&self) {
        self.lock().door = Door::Shut;
    }

    /// Waits for those that run, and gives them up after `patience`.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut tasks = std::mem::take(&mut self.lock().tasks);
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(patience, all).await;
        tasks.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The life of one WebSocket. It does not keep its endpoint alive: that would keep the WebSocket alive.
async fn run<H: Host>(
    upgraded: OnUpgrade,
    endpoint: Weak<Shared<H>>,
    principal: Option<Arc<str>>,
    revoked: Option<Revoked>,
) {
    // A client that breaks off here concerns nobody else.
    let Ok(stream) = upgraded.await else { return };
    let Some(shared) = endpoint.upgrade() else { return };
    let config = shared.host.config(principal.as_ref());
    let link = WsLink::server(TokioIo::new(stream), &config.limits);
    let (mut driver, peer) = Driver::new(link, shared.host.service(principal.as_ref()), config);
    shared.host.joined(peer.clone(), principal.as_ref());
    // Whoever joins after the host was closed is not told by it.
    if shared.sockets.lock().door == Door::Shut {
        peer.close("the server is shutting down");
    }
    drop(shared);
    if let Some(revoked) = revoked {
        tokio::select! {
            _ = &mut driver => return,
            () = revoked => peer.end(Cause::ClosedByUs(REVOKED.into())),
        }
    }
    drop(peer);
    driver.await;
}

/// Why the WebSocket of someone is closed whose token is good no more.
const REVOKED: &str = "the token is good no more";

/// Opens a WebSocket, or says why not.
pub(crate) fn open<H: Host>(shared: &Arc<Shared<H>>, mut parts: Parts) -> Response<Body> {
    let principal = match guarded(shared, &parts) {
        Ok(principal) => principal,
        Err(refusal) => return Answer::on(parts.headers).refusal(*refusal),
    };
    let (accept, subprotocol) = match upgrade::offer(&parts.method, parts.version, &parts.headers) {
        Ok(offer) => (key::accept(offer.key), offer.subprotocol),
        Err(refused) => return refuse(parts.headers, refused),
    };
    // Whoever serves HTTP below us must be able to let the connection go.
    let (Some(upgraded), Ok(accept)) =
        (parts.extensions.remove::<OnUpgrade>(), HeaderValue::try_from(accept))
    else {
        return refuse(parts.headers, Refused::Http);
    };
    let max = shared.host.config(None).limits.connections;
    let revoked = Shown::of(&parts, shared).and_then(|shown| shown.revoked(shared));
    let Ok(()) = shared.sockets.own(run(upgraded, Arc::downgrade(shared), principal, revoked), max) else {
        let why = "too many WebSockets are open, or the server is shutting down, try again later";
        return Answer::on(parts.headers).busy(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    switch(parts.headers, accept, subprotocol)
}

fn switch(headers: HeaderMap, accept: HeaderValue, subprotocol: Option<&'static str>) -> Response<Body> {
    let mut response = Answer::on(headers).status(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(upgrade::WEBSOCKET));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(subprotocol) = subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
    }
    response
}

fn refuse(headers: HeaderMap, refused: Refused) -> Response<Body> {
    let mut response = Answer::on(headers).bad(refused.status(), refused.why());
    let headers = response.headers_mut();
    match refused {
        Refused::Method => {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        Refused::NoUpgrade | Refused::Version => {
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade::WEBSOCKET));
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(upgrade::VERSION));
        }
        _ => {}
    }
    response
}
