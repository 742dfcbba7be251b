//! Accepts connections and serves an endpoint on them, until it is told to stop.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use cardan_proto::limits::Limits;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::accept::{Accept, Turning};
use crate::site::Site;
use crate::stall::Stall;
#[cfg(feature = "tls")]
use crate::tls::{Prompt, Tls};
use crate::watch::Watch;

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl Listener {
    /// Binds an address. Port 0 picks a free one.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Speaks TLS and nothing else: HTTPS with HTTP/2 and HTTP/1.1, and WebSocket inside the latter.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, identity: &cardan_tls::Identity) -> Result<Self, cardan_tls::TlsError> {
        self.tls = Some(Tls::new(identity)?);
        Ok(self)
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` is done, then drains: what runs is finished, within the limit's time. Whoever comes meanwhile is
    /// told so by the site.
    pub async fn serve<S: Site>(self, site: S, stop: impl Future<Output = ()>) {
        let limits = site.limits();
        let server = Server::new(&limits);
        #[cfg(feature = "tls")]
        let turning = if self.tls.is_some() { Turning::Untold } else { Turning::Told };
        #[cfg(not(feature = "tls"))]
        let turning = Turning::Told;
        let mut accept = Accept::new(turning);
        #[cfg(feature = "tls")]
        let server = Server { tls: self.tls, ..server };
        let server = Arc::new(server);
        let (stopping, told) = watch::channel(());
        let room = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let permit = tokio::select! {
                () = &mut stop => break,
                permit = Arc::clone(&room).acquire_owned() => permit,
            };
            let stream = tokio::select! {
                () = &mut stop => break,
                stream = accept.next(&self.socket) => stream,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let _ = stream.set_nodelay(true);
            let (server, site, told) = (Arc::clone(&server), site.clone(), told.clone());
            connections.spawn(async move {
                server.serve(stream, site, told).await;
                drop(permit);
            });
        }
        drop((stopping, told));
        let drained = async { while connections.join_next().await.is_some() {} };
        // Calls that are given up at the end of their time are still answered.
        let drained = tokio::time::timeout(limits.drain_timeout + limits.farewell_timeout, drained);
        let ending = async { tokio::join!(drained, site.close("the server is shutting down")) };
        let mut late = Late::default();
        tokio::select! {
            // First, so that the site knows before anyone comes.
            biased;
            _ = ending => {}
            () = late.serve(&mut accept, &self.socket, &room, &server, &site) => {}
        }
        late.sweep(&mut accept, &self.socket, &room, &server, &site).await;
        drop(self.socket);
        late.end(limits.farewell_timeout).await;
        connections.shutdown().await;
    }
}

/// How long the first bytes of a connection may take that was made before the end was told.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// Those who come while others finish. A site says to them that it is closing, unless they come back for what it still has.
#[derive(Default)]
struct Late {
    staying: watch::Sender<()>,
    connections: JoinSet<()>,
}

impl Late {
    async fn serve<S: Site>(
        &mut self,
        accept: &mut Accept,
        socket: &TcpListener,
        room: &Arc<Semaphore>,
        server: &Arc<Server>,
        site: &S,
    ) {
        while let Ok(permit) = Arc::clone(room).acquire_owned().await {
            let stream = accept.next(socket).await;
            while self.connections.try_join_next().is_some() {}
            self.take(stream, permit, server, site);
        }
    }

    /// Takes in who is at the door already: the system has let them connect, and would reset them with the socket.
    async fn sweep<S: Site>(
        &mut self,
        accept: &mut Accept,
        socket: &TcpListener,
        room: &Arc<Semaphore>,
        server: &Arc<Server>,
        site: &S,
    ) {
        while let Ok(permit) = Arc::clone(room).try_acquire_owned()
            && let Ok(stream) = tokio::time::timeout(Duration::ZERO, accept.next(socket)).await
        {
            self.take(stream, permit, server, site);
        }
    }

    fn take<S: Site>(
        &mut self,
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        server: &Arc<Server>,
        site: &S,
    ) {
        let (server, site, told) = (Arc::clone(server), site.clone(), self.staying.subscribe());
        self.connections.spawn(async move {
            server.serve(stream, site, told).await;
            drop(permit);
        });
    }

    /// What was answered is written to its end. Those who are slow hold nobody up.
    async fn end(self, patience: Duration) {
        let Self { staying, mut connections } = self;
        drop(staying);
        let written = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(patience, written).await;
        connections.shutdown().await;
    }
}

/// How connections are served.
struct Server {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    head_timeout: Duration,
    stall_timeout: Duration,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    #[cfg(feature = "tls")]
    handshake_timeout: Duration,
}

impl Server {
    fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size(2 * limits.head_bytes.max(8 << 10));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(u32::try_from(limits.lanes).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.keep_alive_interval)
            .keep_alive_timeout(limits.stall_timeout);
        Self {
            http1,
            http2,
            head_timeout: limits.head_timeout,
            stall_timeout: limits.stall_timeout,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            handshake_timeout: limits.handshake_timeout,
        }
    }

    /// Serves one connection to its end. Clients break off as they like; that concerns nobody else.
    async fn serve<S: Site>(&self, stream: TcpStream, site: S, told: watch::Receiver<()>) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            // Boxed: those in the clear do not pay for the size of it.
            return Box::pin(self.serve_secure(tls, stream, site, told)).await;
        }
        let Some(version) = self.begun(&stream, told.clone()).await else { return };
        self.speak(stream, version, site, told).await;
    }

    /// The version that the client begins with; nothing: it does not begin in time.
    async fn begun(&self, stream: &TcpStream, mut told: watch::Receiver<()>) -> Option<Version> {
        let mut version = std::pin::pin!(version_of(stream));
        let in_time = tokio::select! {
            version = tokio::time::timeout(self.head_timeout, &mut version) => version,
            // What is on its way is still answered, and nobody is waited for who asks nothing.
            _ = told.changed() => tokio::time::timeout(ON_ITS_WAY, version).await,
        };
        in_time.ok()?.ok()
    }

    /// The same behind a handshake. One that fails, or takes too long, ends this connection and nothing else.
    #[cfg(feature = "tls")]
    async fn serve_secure<S: Site>(
        &self,
        tls: &Tls,
        stream: TcpStream,
        site: S,
        mut told: watch::Receiver<()>,
    ) {
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.handshake_timeout, tls.accept(stream)) => shaken,
            // Nothing was asked yet, so nothing is lost.
            _ = told.changed() => return,
        };
        let Ok(Ok((stream, version))) = shaken else { return };
        match version {
            Version::One => self.speak(stream, version, site, told).await,
            Version::Two => {
                let stream = Prompt::new(stream, PREFACE.len(), self.head_timeout);
                self.speak(stream, version, site, told).await;
            }
        }
    }

    async fn speak<S: Site, T>(&self, stream: T, version: Version, site: S, told: watch::Receiver<()>)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(Stall::new(stream, self.stall_timeout));
        match version {
            Version::One => {
                let connection = self.http1.serve_connection(io, site).with_upgrades();
                gracefully(connection, told, |connection| connection.graceful_shutdown()).await;
            }
            // Boxed: its size would be a slot in every connection, and few are of this kind.
            Version::Two => {
                let watch = Watch::new(self.stall_timeout);
                let connection = self.http2.serve_connection(io, watch.over(site));
                Box::pin(async move {
                    tokio::select! {
                        () = gracefully(connection, told, |connection| connection.graceful_shutdown()) => {}
                        () = watch.stalled() => {}
                    }
                })
                .await;
            }
        }
    }
}

/// Polls a connection to its end. When the other end of `told` is gone, it is asked to finish what it does.
async fn gracefully<C: Future>(connection: C, mut told: watch::Receiver<()>, ask: impl FnOnce(Pin<&mut C>)) {
    let mut connection = pin!(connection);
    tokio::select! {
        // First, so that a request that has come already is answered and not cut off.
        biased;
        _ = &mut connection => return,
        _ = told.changed() => {}
    }
    ask(connection.as_mut());
    connection.await;
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// How every connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long the rest of a preface is left to arrive before looking again: the socket counts as readable
/// meanwhile, so there is nothing to wait for.
const PREFACE_PAUSE: Duration = Duration::from_millis(10);

/// Looks at the first bytes without taking them: no request of HTTP/1 begins as the preface of HTTP/2 does.
/// The whole of it is awaited here, because hyper would wait for it without end.
async fn version_of(stream: &TcpStream) -> io::Result<Version> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut seen).await?;
        if length == 0 || seen[..length] != PREFACE[..length] {
            return Ok(Version::One);
        }
        if length == PREFACE.len() {
            return Ok(Version::Two);
        }
        tokio::time::sleep(PREFACE_PAUSE).await;
    }
}
