//! Unix sockets and TCP with the framing of stdio: one message per line.
//!
//! A Unix socket is for its owner only. TCP has no such door: it stays on this machine unless told
//! otherwise, and even there every user can connect.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use cardan_proto::limits::Limits;
use cardan_proto::secret::REDACTED;
use cardan_proto::session::event::{Cause, Departed, Hurdle, LaneId, Outgoing};
use cardan_runtime::lines::Lines;
use cardan_runtime::link::{Link, NoLink, Received};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, tcp, unix};

mod place;

use place::Place;

/// A link over a socket.
#[derive(Debug)]
pub struct SocketLink {
    stream: Stream,
}

#[derive(Debug)]
enum Stream {
    Unix(Lines<unix::OwnedReadHalf, unix::OwnedWriteHalf>),
    Tcp(Lines<tcp::OwnedReadHalf, tcp::OwnedWriteHalf>),
}

/// Connects to a Unix socket.
pub async fn connect_unix(path: impl AsRef<Path>, limits: &Limits) -> Result<SocketLink, SocketError> {
    let path = path.as_ref();
    let address = || path.display().to_string().into();
    let stream =
        within(limits, UnixStream::connect(path)).await.map_err(|e| SocketError::of(e, address()))?;
    Ok(SocketLink::unix(stream, limits))
}

/// Connects by TCP.
pub async fn connect_tcp(address: SocketAddr, limits: &Limits) -> Result<SocketLink, SocketError> {
    let failed = |error| SocketError::of(error, address.to_string().into());
    let stream = within(limits, TcpStream::connect(address)).await.map_err(failed)?;
    SocketLink::tcp(stream, limits).map_err(failed)
}

/// Connects by TCP to `host:port`: to the addresses behind a name, one after the other.
pub async fn connect_host(host: &str, limits: &Limits) -> Result<SocketLink, SocketError> {
    // No host has one in its name: what stands before it is a user and a password.
    let shown =
        || host.rsplit_once('@').map_or_else(|| host.into(), |(_, host)| format!("{REDACTED}@{host}"));
    let unresolved = |source| SocketError::Unresolved { address: shown().into(), source };
    let mut last = unresolved(io::Error::other("the name has no address"));
    for address in tokio::net::lookup_host(host).await.map_err(unresolved)? {
        match connect_tcp(address, limits).await {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn within<T>(limits: &Limits, connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limits.open_timeout, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl SocketLink {
    /// A link over a Unix socket that is connected already.
    #[must_use]
    pub fn unix(stream: UnixStream, limits: &Limits) -> Self {
        let (reader, writer) = stream.into_split();
        Self { stream: Stream::Unix(Lines::new(reader, writer, limits)) }
    }

    fn tcp(stream: TcpStream, limits: &Limits) -> io::Result<Self> {
        // A small message must not wait for the next one.
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self { stream: Stream::Tcp(Lines::new(reader, writer, limits)) })
    }
}

/// From where a TCP listener can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Only from this machine; binding elsewhere is refused.
    #[default]
    Loopback,
    /// From wherever the address leads. There is no authentication on such a link.
    Anywhere,
}

/// Waits for clients. Dropped, it removes its Unix socket.
#[derive(Debug)]
pub struct Listener {
    door: Door,
}

#[derive(Debug)]
enum Door {
    Unix { listener: UnixListener, place: Place },
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a Unix socket that only its owner can connect to. A socket that nobody listens on any
    /// more is replaced; anything else at `path` is left alone and refused.
    pub async fn bind_unix(path: impl Into<PathBuf>) -> Result<Self, SocketError> {
        let path = path.into();
        let address: Box<str> = path.display().to_string().into();
        let (listener, place) = Place::bind(path).await.map_err(|error| SocketError::of(error, address))?;
        Ok(Self { door: Door::Unix { listener, place } })
    }

    /// Listens on TCP. Port 0 takes any free one, told by [`Listener::tcp_address`].
    pub async fn bind_tcp(address: SocketAddr, reach: Reach) -> Result<Self, SocketError> {
        if reach == Reach::Loopback && !address.ip().is_loopback() {
            return Err(SocketError::NotLoopback(address));
        }
        let failed = |error| SocketError::of(error, address.to_string().into());
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self { door: Door::Tcp(listener) })
    }

    /// Where TCP clients connect.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.door {
            Door::Unix { .. } => None,
            Door::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// The next client of a Unix socket, before anything was said. Cancel safe.
    pub async fn accept_unix(&self) -> Result<UnixStream, SocketError> {
        let Door::Unix { listener, .. } = &self.door else {
            let source = io::Error::other("it is no Unix socket");
            return Err(SocketError::Other { address: self.address(), source });
        };
        loop {
            match listener.accept().await {
                // It left before we opened; the next one is waited for.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(SocketError::of(error, self.address())),
                Ok((stream, _)) => return Ok(stream),
            }
        }
    }

    /// The next client. Cancel safe.
    pub async fn accept(&self, limits: &Limits) -> Result<SocketLink, SocketError> {
        loop {
            let accepted = match &self.door {
                Door::Unix { listener, .. } => {
                    listener.accept().await.map(|(s, _)| SocketLink::unix(s, limits))
                }
                Door::Tcp(listener) => {
                    listener.accept().await.and_then(|(stream, _)| SocketLink::tcp(stream, limits))
                }
            };
            match accepted {
                // It left before we opened; the next one is waited for.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(SocketError::of(error, self.address())),
                Ok(link) => return Ok(link),
            }
        }
    }

    fn address(&self) -> Box<str> {
        match &self.door {
            Door::Unix { place, .. } => place.path().display().to_string().into(),
            Door::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "tcp".into(), |a| a.to_string().into())
            }
        }
    }
}

/// Why there is no link over a socket.
#[derive(Debug)]
#[non_exhaustive]
pub enum SocketError {
    /// There is no socket at this path.
    NotFound(Box<str>),
    /// Nobody listens there.
    Refused(Box<str>),
    /// We may not connect or listen there.
    Denied(Box<str>),
    /// Someone listens there already, or something else is in the place of the socket.
    InUse(Box<str>),
    /// The address can be reached from other machines, which was not allowed.
    NotLoopback(SocketAddr),
    /// The name has no address.
    Unresolved {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        source: io::Error,
    },
    /// No answer in time.
    TimedOut(Box<str>),
    /// Anything else.
    Other {
        /// Where.
        address: Box<str>,
        /// What the system said.
        source: io::Error,
    },
}

impl SocketError {
    fn of(source: io::Error, address: Box<str>) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(address),
            io::ErrorKind::ConnectionRefused => Self::Refused(address),
            io::ErrorKind::PermissionDenied => Self::Denied(address),
            io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists => Self::InUse(address),
            io::ErrorKind::TimedOut => Self::TimedOut(address),
            _ => Self::Other { address, source },
        }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(address) => {
                write!(f, "nothing is at `{address}`; check the path and start the server")
            }
            Self::Refused(address) => write!(f, "nobody listens on `{address}`; start the server first"),
            Self::Denied(address) => write!(f, "no permission for `{address}`; check its owner and mode"),
            Self::InUse(address) => write!(f, "`{address}` is taken; stop who uses it or choose another"),
            Self::NotLoopback(address) => write!(
                f,
                "`{address}` can be reached from other machines; bind to loopback or allow it explicitly"
            ),
            Self::Unresolved { address, source } => {
                write!(f, "`{address}` leads nowhere: {source}; check the name")
            }
            Self::TimedOut(address) => write!(f, "no answer from `{address}` in time; check the address"),
            Self::Other { address, source } => write!(f, "no link to `{address}`: {source}"),
        }
    }
}

impl Error for SocketError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unresolved { source, .. } | Self::Other { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl NoLink for SocketError {
    fn hurdle(&self) -> Hurdle {
        match self {
            Self::Unresolved { source, .. } if source.kind() == io::ErrorKind::InvalidInput => Hurdle::Config,
            Self::Unresolved { .. } => Hurdle::Dns,
            Self::NotLoopback(_) => Hurdle::Config,
            Self::TimedOut(_) => Hurdle::Late,
            Self::NotFound(_) | Self::Refused(_) | Self::Denied(_) | Self::InUse(_) => Hurdle::Connect,
            Self::Other { .. } => Hurdle::Connect,
        }
    }
}

impl SocketLink {
    fn lines(&self) -> &dyn Link {
        match &self.stream {
            Stream::Unix(lines) => lines,
            Stream::Tcp(lines) => lines,
        }
    }

    fn lines_mut(&mut self) -> &mut dyn Link {
        match &mut self.stream {
            Stream::Unix(lines) => lines,
            Stream::Tcp(lines) => lines,
        }
    }
}

impl Link for SocketLink {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        self.lines_mut().poll_recv(cx)
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.lines_mut().put(frame, lane, message);
    }

    fn put_ahead(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.lines_mut().put_ahead(frame, lane, message);
    }

    fn retract(&mut self, frame: u64) {
        self.lines_mut().retract(frame);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lines_mut().poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.lines().queued()
    }

    fn departed(&self) -> Departed {
        self.lines().departed()
    }

    fn received_bytes(&self) -> u64 {
        self.lines().received_bytes()
    }

    fn begun(&self) -> &[u8] {
        self.lines().begun()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        self.lines_mut().poll_close(cx, cause)
    }
}
