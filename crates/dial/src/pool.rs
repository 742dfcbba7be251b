//! The connections of one link, and one request over them, redirects included.

use std::error::Error;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::redirect::{self, CrossOrigin, Unfollowed};
use cardan_proto::http::url::Url;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Delivery, Hurdle};
use futures_util::future::{Either, select};
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::body::{Backlog, Begun, Sending, words};
use crate::net::{Connector, Pulse, hurdle_of};

/// A request that brought no answer, and whether it reached the server.
pub(crate) type Failed = (HttpFailure, Delivery);

/// The way to one server.
#[derive(Clone)]
pub(crate) struct Pool {
    connections: Arc<Connections>,
    connector: Connector,
    backlog: Backlog,
    hops: usize,
    cross_origin: CrossOrigin,
}

impl Pool {
    pub(crate) fn new(
        connector: Connector,
        limits: &Limits,
        cross_origin: CrossOrigin,
        tasks: &Tasks,
    ) -> Self {
        let mut builder = Client::builder(tasks.executor());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.pool_idle_timeout)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(limits.keep_alive_interval)
            .http2_keep_alive_timeout(limits.keep_alive_interval)
            .http2_max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
        let connections = Arc::new(Connections::new(builder, connector.clone()));
        Self { connections, connector, backlog: Backlog::default(), hops: limits.redirect_hops, cross_origin }
    }

    /// Bytes of ours that no connection has taken yet.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.backlog.bytes()
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        mut url: Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failed> {
        let mut hops_left = self.hops;
        loop {
            let (request, begun) = self.request(&method, &url, &headers, body.clone())?;
            let place = || self.connector.dial.place(&url.host().to_string(), url.port());
            let response = self.answered(request, &begun).await.map_err(|why| why.told(&place))?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let head = (response.status(), response.headers());
            let hop = redirect::follow(&url, &method, head, hops_left, self.cross_origin)
                .map_err(|why| (HttpFailure::Redirect(Unfollowed::new(why, head.1)), turned_away(head.0)))?;
            hop.carry.apply(&mut headers);
            url = hop.url;
            hops_left -= 1;
        }
    }

    /// Waits for the head of an answer, as long as there is a connection that it may come by.
    async fn answered(
        &self,
        mut request: Request<Sending>,
        begun: &Begun,
    ) -> Result<Response<Incoming>, Unanswered> {
        let client = self.connections.current();
        let connection = capture_connection(&mut request);
        let why = match select(client.request(request), pin!(self.forsaken(connection))).await {
            Either::Left((Ok(response), _)) => return Ok(response),
            Either::Left((Err(error), _)) => Unanswered::Failed(error),
            Either::Right(_) if begun.is() => Unanswered::Forsaken(Delivery::Unknown),
            Either::Right(_) => Unanswered::Forsaken(Delivery::NotSent),
        };
        if why.is_break() {
            self.connections.leave(&client);
        }
        Err(why)
    }

    /// Ends when the connection that a request was given to is gone, and nobody says so.
    ///
    /// A request that is handed to a connection in the very moment in which that ends may be left between the two for ever
    /// (hyper's issue 4122): no answer comes, and no error.
    async fn forsaken(&self, mut captured: CaptureConnection) {
        let given = captured.wait_for_connection_metadata().await.as_ref().and_then(Pulse::of);
        let Some(mut pulse) = given else { return pending().await };
        let mut silent = 0;
        while silent < SILENT_TIMES {
            pulse.ended().await;
            // What the connection brought is on its way to who asked; so is the news of its end, as a rule.
            sleep(LAST_NEWS).await;
            match captured.connection_metadata().as_ref().and_then(Pulse::of) {
                // It was given to another.
                Some(now) if !now.is(&pulse) => (pulse, silent) = (now, 0),
                // It may be about to be.
                _ if self.connector.is_dialling() => silent = 0,
                _ => silent += 1,
            }
        }
    }

    fn request(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(Request<Sending>, Begun), Failed> {
        let unsendable = |error: http::Error| {
            let why = error.to_string().into();
            (HttpFailure::Connect { hurdle: Hurdle::Config, why }, Delivery::NotSent)
        };
        let uri = Uri::try_from(url.to_string()).map_err(|error| unsendable(error.into()))?;
        let proxy = if url.is_secure() { None } else { self.connector.proxy(&uri) };
        let (body, begun) = self.backlog.body(body);
        let mut request = Request::builder().method(method).uri(uri).body(body).map_err(unsendable)?;
        *request.headers_mut() = headers.clone();
        // In the clear the proxy reads each request; a tunnel has shown its ticket already.
        if let Some(auth) = proxy.as_ref().and_then(|proxy| proxy.basic_auth()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
        }
        Ok((request, begun))
    }
}

type Sender = Client<Connector, Sending>;

/// The connections in use. Where one broke, those that idle beside it are suspect: a server that was restarted left them all, and
/// each would cost another request. So they are left together, and what follows dials anew.
struct Connections {
    builder: Builder,
    connector: Connector,
    current: Mutex<Arc<Sender>>,
}

impl Connections {
    fn new(builder: Builder, connector: Connector) -> Self {
        let current = Mutex::new(Arc::new(builder.build(connector.clone())));
        Self { builder, connector, current }
    }

    fn current(&self) -> Arc<Sender> {
        Arc::clone(&self.lock())
    }

    /// What runs on them goes on; of several that broke together the first is enough.
    fn leave(&self, broken: &Arc<Sender>) {
        let mut current = self.lock();
        if Arc::ptr_eq(&current, broken) {
            *current = Arc::new(self.builder.build(self.connector.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Sender>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a redirect that is not followed says of the request. 307 and 308 ask for the same request elsewhere, so
/// nothing was done here; the others may follow upon what was done, and 303 always does.
fn turned_away(status: StatusCode) -> Delivery {
    match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => Delivery::NotSent,
        _ => Delivery::Unknown,
    }
}

/// Far longer than it takes to pass an answer on from one task to another.
const LAST_NEWS: Duration = Duration::from_millis(100);

/// One look may fall between the end of a dial and the moment in which the request is given to what it brought.
const SILENT_TIMES: usize = 3;

/// Why no answer came.
enum Unanswered {
    Failed(hyper_util::client::legacy::Error),
    /// The connection ended, and nothing more was heard.
    Forsaken(Delivery),
}

impl Unanswered {
    /// Whether a connection was there, and broke.
    fn is_break(&self) -> bool {
        match self {
            Self::Failed(error) => !error.is_connect(),
            Self::Forsaken(_) => true,
        }
    }

    /// What is not a connection that failed may have been written.
    fn told(self, place: &dyn Fn() -> String) -> Failed {
        let error = match self {
            Self::Forsaken(delivery) => {
                return (HttpFailure::Broken("the connection was closed".into()), delivery);
            }
            Self::Failed(error) => error,
        };
        if error.is_connect() {
            // That it is about a connection is said already; where to and why not is behind it.
            let why = Error::source(&error).map_or_else(|| words(&error), words);
            let why = format!("{}: {why}", place()).into();
            return (HttpFailure::Connect { hurdle: hurdle_of(&error), why }, Delivery::NotSent);
        }
        let text = words(&error);
        let cancelled = Error::source(&error)
            .and_then(|source| source.downcast_ref::<hyper::Error>())
            .is_some_and(hyper::Error::is_canceled);
        let delivery = if cancelled { Delivery::NotSent } else { Delivery::Unknown };
        (HttpFailure::Broken(text), delivery)
    }
}

/// The tasks of the connections. They end with their owner.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn executor(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }

    /// Ends them all, and waits until they have.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.abort_all();
        while let Poll::Ready(ended) = tasks.poll_join_next(cx) {
            if ended.is_none() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

/// Starts tasks as long as their owner lives. Tasks hold one themselves, so it does not keep them alive.
#[derive(Debug, Clone)]
struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl<F: Future + Send + 'static> Executor<F> for Spawner
where
    F::Output: Send,
{
    fn execute(&self, task: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            task.await;
        });
    }
}
