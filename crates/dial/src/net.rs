//! From a host and a port to a stream of bytes: directly or through a proxy, in the clear or in TLS.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cardan_proto::session::event::Hurdle;
use cardan_proxy::{Proxy, Routes};
use http::{Extensions, Uri};
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// A stream of bytes to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream in the making.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// How streams to hosts are made: TCP, unless told otherwise. TLS is done on top.
pub trait Dial: Send + Sync + 'static {
    /// Makes a stream to `host`, a name or an address.
    fn dial(&self, host: &str, port: u16) -> Dialing;

    /// Where that leads, in words.
    fn place(&self, host: &str, port: u16) -> String {
        format!("{host}:{port}")
    }
}

/// TCP, to whichever address of the host answers first.
pub(crate) struct Tcp(HttpConnector<Names>);

impl Tcp {
    pub(crate) fn new(keep_alive: Duration) -> Self {
        let mut connector = HttpConnector::new_with_resolver(Names(GaiResolver::new()));
        connector.set_nodelay(true);
        // A peer that vanished is noticed even by a stream that only listens.
        connector.set_keepalive(Some(keep_alive));
        Self(connector)
    }
}

impl Dial for Tcp {
    fn dial(&self, host: &str, port: u16) -> Dialing {
        let mut connector = self.0.clone();
        let uri = Uri::try_from(format!("http://{host}:{port}"));
        Box::pin(async move {
            let uri = uri.map_err(io::Error::other)?;
            let stream = connector.call(uri).await.map_err(io::Error::other)?;
            Ok(Box::new(stream.into_inner()) as Box<dyn Stream>)
        })
    }
}

/// A Unix socket, whatever host is meant.
pub(crate) struct Socket(pub(crate) PathBuf);

impl Dial for Socket {
    fn dial(&self, _host: &str, _port: u16) -> Dialing {
        let path = self.0.clone();
        Box::pin(async move { Ok(Box::new(UnixStream::connect(&path).await?) as Box<dyn Stream>) })
    }

    fn place(&self, _host: &str, _port: u16) -> String {
        self.0.display().to_string()
    }
}

/// The system's resolver, whose failures can be told from others.
#[derive(Clone)]
struct Names(GaiResolver);

impl Service<Name> for Names {
    type Response = GaiAddrs;
    type Error = Stopped;
    type Future = Pin<Box<dyn Future<Output = Result<GaiAddrs, Stopped>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        self.0.poll_ready(cx).map_err(|source| Stopped { hurdle: Hurdle::Dns, source })
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let looking = self.0.call(name);
        Box::pin(async move { looking.await.map_err(|source| Stopped { hurdle: Hurdle::Dns, source }) })
    }
}

/// An error that knows what stood in the way. It reads as what is behind it.
#[derive(Debug)]
struct Stopped {
    hurdle: Hurdle,
    source: io::Error,
}

impl Stopped {
    /// The same error, as whoever makes connections passes it on.
    fn at(hurdle: Hurdle) -> impl Fn(io::Error) -> io::Error {
        move |source| io::Error::new(source.kind(), Self { hurdle, source })
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for Stopped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// What stood in the way of a connection, as far as anyone on the way of the error knows.
pub(crate) fn hurdle_of(error: &(dyn Error + 'static)) -> Hurdle {
    let mut next = Some(error);
    while let Some(error) = next {
        let wrapped = error.downcast_ref::<io::Error>();
        let inner = wrapped.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref::<Stopped>());
        if let Some(stopped) = inner.or_else(|| error.downcast_ref::<Stopped>()) {
            return stopped.hurdle;
        }
        if wrapped.is_some_and(|wrapped| wrapped.kind() == io::ErrorKind::TimedOut) {
            return Hurdle::Late;
        }
        next = error.source();
    }
    Hurdle::Connect
}

/// Makes the connections of a pool.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) dial: Arc<dyn Dial>,
    /// None for servers that are reached in the clear.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) timeout: Duration,
    /// Each connection in the making has a weak one.
    pub(crate) dialling: Arc<()>,
}

impl Connector {
    /// Whether connections are in the making. Nobody but those holds what is lent for it.
    pub(crate) fn is_dialling(&self) -> bool {
        Arc::weak_count(&self.dialling) > 0
    }

    /// The proxy on the way to `uri`.
    pub(crate) fn proxy(&self, uri: &Uri) -> Option<Proxy> {
        self.routes.proxy(uri)
    }

    async fn connect(self, uri: Uri) -> io::Result<Conn> {
        let (host, port, secure) = place(&uri)?;
        let proxy = self.proxy(&uri);
        let stream = match &proxy {
            None => self.dial.dial(&host, port).await?,
            Some(proxy) => self.through(proxy, secure.then_some((host.as_str(), port))).await?,
        };
        if !secure {
            let shape = if proxy.is_some() { Shape::Proxied } else { Shape::Plain };
            return Ok(Conn::new(stream, shape));
        }
        let tls = self.tls.ok_or_else(|| io::Error::other("no TLS was set up for this link"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(Stopped::at(Hurdle::Tls))?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(cardan_tls::HTTP_2);
        let shape = if is_h2 { Shape::Multiplexed } else { Shape::Plain };
        Ok(Conn::new(Box::new(stream), shape))
    }

    /// A stream to the proxy, and for `target` a tunnel through it.
    async fn through(&self, proxy: &Proxy, target: Option<(&str, u16)>) -> io::Result<Box<dyn Stream>> {
        let (host, port) = proxy.place()?;
        let mut stream = self.dial.dial(&host, port).await?;
        if let Some((host, port)) = target {
            proxy.tunnel(&mut stream, &format!("{host}:{port}")).await?;
        }
        Ok(stream)
    }
}

/// Host, port, and whether it is https.
fn place(uri: &Uri) -> io::Result<(String, u16, bool)> {
    let host = uri.host().ok_or_else(|| io::Error::other("the address has no host"))?;
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Ok((host.to_owned(), port, secure))
}

impl Service<Uri> for Connector {
    type Response = Conn;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Conn>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        let dialling = Arc::downgrade(&self.dialling);
        Box::pin(async move {
            let _dialling = dialling;
            let within = this.timeout;
            match timeout(within, this.connect(uri)).await {
                Ok(connected) => connected,
                Err(_) => {
                    let message = format!("no connection within {} s", within.as_secs());
                    Err(io::Error::new(io::ErrorKind::TimedOut, message))
                }
            }
        })
    }
}

/// A connection of the pool.
pub(crate) struct Conn {
    stream: TokioIo<Box<dyn Stream>>,
    shape: Shape,
    /// Goes with it, which whoever waits for an answer sees.
    living: watch::Sender<()>,
}

/// Whether a connection is there, for whoever waits for an answer from it.
#[derive(Debug, Clone)]
pub(crate) struct Pulse(watch::Receiver<()>);

impl Pulse {
    /// That of the connection which a request was given to.
    pub(crate) fn of(connected: &Connected) -> Option<Self> {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        extras.remove()
    }

    /// Waits until the connection is there no more.
    pub(crate) async fn ended(&mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// Are these of one connection?
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Conn {
    fn new(stream: Box<dyn Stream>, shape: Shape) -> Self {
        Self { stream: TokioIo::new(stream), shape, living: watch::Sender::new(()) }
    }

    /// What is below, for who speaks something else.
    pub(crate) fn into_stream(self) -> Box<dyn Stream> {
        self.stream.into_inner()
    }
}

/// How requests are written to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// HTTP/1.1.
    Plain,
    /// HTTP/1.1 to a proxy, which wants whole URLs.
    Proxied,
    /// HTTP/2.
    Multiplexed,
}

impl Connection for Conn {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(Pulse(self.living.subscribe()));
        match self.shape {
            Shape::Plain => connected,
            Shape::Proxied => connected.proxy(true),
            Shape::Multiplexed => connected.negotiated_h2(),
        }
    }
}

impl hyper::rt::Read for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl fmt::Debug for dyn Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}
