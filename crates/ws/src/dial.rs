//! Connects to `ws://` and `wss://` addresses.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use cardan_proto::finding::excerpt;
use cardan_proto::http::page;
use cardan_proto::http::upgrade::{self, Unagreed};
use cardan_proto::limits::Limits;
use cardan_proto::session::event::Hurdle;
use cardan_proto::socket::SUBPROTOCOL;
use cardan_proxy::{Proxies, Proxy};
use cardan_runtime::link::NoLink;
use cardan_tls::Trust;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::key;
use crate::link::WsLink;

/// The stream below a link that was dialled or accepted over HTTP.
pub type Stream = TokioIo<Upgraded>;

/// How to connect.
#[derive(Clone)]
#[must_use]
pub struct Dial {
    headers: HeaderMap,
    limits: Limits,
    trust: Trust,
    proxies: Proxies,
}

impl Dial {
    /// Within `limits`; TLS as the machine trusts it, through the proxies that the environment names.
    pub fn new(limits: &Limits) -> Self {
        let (headers, trust, proxies) = (HeaderMap::new(), Trust::default(), Proxies::default());
        Self { headers, limits: limits.clone(), trust, proxies }
    }

    /// With a header on the opening request. Those of the handshake itself are not to be changed.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// With a bearer token. It goes over the wire as it is: use `wss://` beyond this machine.
    pub fn bearer(self, token: &str) -> Result<Self, DialError> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| DialError::BadToken)?;
        value.set_sensitive(true);
        Ok(self.header(AUTHORIZATION, value))
    }

    /// With other trust, or a certificate of ours.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Through other proxies, or none.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Why there is no link.
#[derive(Debug)]
#[non_exhaustive]
pub enum DialError {
    /// Not an address that can be dialled.
    BadUrl {
        /// As it was given.
        url: Box<str>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The token cannot be in a header.
    BadToken,
    /// The name has no address.
    Unresolved {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody answers there.
    Unreachable {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        source: io::Error,
    },
    /// The proxy before it lets nobody through.
    Proxy {
        /// Host and port of the server.
        address: Box<str>,
        /// What is wrong with the proxy, or what it said.
        source: io::Error,
    },
    /// No answer in time.
    TimedOut(Box<str>),
    /// No trust, or no TLS at all.
    Tls {
        /// Host and port.
        address: Box<str>,
        /// What was wrong.
        source: io::Error,
    },
    /// The server answered, but not with a WebSocket.
    Refused {
        /// Host and port.
        address: Box<str>,
        /// Its status.
        status: StatusCode,
        /// The beginning of what it said.
        body: Box<str>,
    },
    /// The server switched, but not to what was asked for.
    Unagreed {
        /// Host and port.
        address: Box<str>,
        /// What is wrong with its answer.
        why: Unagreed,
    },
    /// The connection broke, or what came was no HTTP.
    BadHandshake {
        /// Host and port.
        address: Box<str>,
        /// What was wrong.
        source: hyper::Error,
    },
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadUrl { url, why } => write!(f, "`{url}` cannot be dialled: {why}"),
            Self::BadToken => f.write_str("the token has characters that no header can hold; check it"),
            Self::Unresolved { address, source } => {
                write!(f, "`{address}` leads nowhere: {source}; check the name")
            }
            Self::Unreachable { address, source } => {
                write!(f, "no connection to `{address}`: {source}; check the address and start the server")
            }
            Self::Proxy { address, source } => {
                write!(
                    f,
                    "no connection to `{address}` through the proxy: {source}; check the proxy, or name the server in NO_PROXY"
                )
            }
            Self::TimedOut(address) => write!(f, "no answer from `{address}` in time; check the address"),
            Self::Tls { address, source } => {
                write!(f, "no TLS with `{address}`: {source}; check its certificate and the name")
            }
            Self::Refused { address, status, body } => {
                write!(f, "`{address}` opens no WebSocket: it answered {status}")?;
                match (&*page::words(body), *status) {
                    ("", StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Ok(()),
                    ("", _) => f.write_str("; check the path"),
                    (words, _) => write!(f, ": {words}"),
                }
            }
            Self::Unagreed { address, why } => write!(f, "`{address}` opens no WebSocket: {why}"),
            Self::BadHandshake { address, source } => {
                write!(f, "the handshake with `{address}` broke off: {source}; is it a WebSocket server?")
            }
        }
    }
}

impl Error for DialError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unresolved { source, .. } | Self::Unreachable { source, .. } => Some(source),
            Self::Tls { source, .. } | Self::Proxy { source, .. } => Some(source),
            Self::BadHandshake { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl NoLink for DialError {
    fn hurdle(&self) -> Hurdle {
        match self {
            Self::BadUrl { .. } | Self::BadToken => Hurdle::Config,
            Self::Unresolved { .. } => Hurdle::Dns,
            Self::Unreachable { .. } | Self::Proxy { .. } => Hurdle::Connect,
            Self::TimedOut(_) => Hurdle::Late,
            Self::Tls { .. } => Hurdle::Tls,
            Self::Refused { status, .. } => Hurdle::Status(*status),
            Self::Unagreed { .. } | Self::BadHandshake { .. } => Hurdle::Handshake,
        }
    }
}

/// Connects, and brings the client's end of a link.
pub async fn dial(url: &str, options: &Dial) -> Result<WsLink<Stream>, DialError> {
    Ok(WsLink::client(open(url, options).await?, &options.limits))
}

/// Connects, and brings the stream after the handshake: for who speaks something else over it.
pub async fn open(url: &str, options: &Dial) -> Result<Stream, DialError> {
    let place = Place::parse(url)?;
    match tokio::time::timeout(options.limits.open_timeout, reach(&place, options)).await {
        Ok(opened) => opened,
        Err(_) => Err(DialError::TimedOut(place.address())),
    }
}

async fn reach(place: &Place, options: &Dial) -> Result<Stream, DialError> {
    let stream = match options.proxies.routes().proxy(&place.as_http()?) {
        None => connect(&place.host, place.port).await?,
        Some(proxy) => through(&proxy, place).await?,
    };
    match place.scheme {
        Scheme::Ws => shake(stream, place, options).await,
        Scheme::Wss => shake(encrypt(stream, place, options).await?, place, options).await,
    }
}

/// A tunnel through a proxy, in the clear too: it is HTTP for no longer than the handshake.
async fn through(proxy: &Proxy, place: &Place) -> Result<TcpStream, DialError> {
    let stopped = |source| DialError::Proxy { address: place.address(), source };
    let (host, port) = proxy.place().map_err(stopped)?;
    let stream = connect(host.trim_start_matches('[').trim_end_matches(']'), port).await;
    let mut stream = stream.map_err(|error| match error {
        DialError::Unresolved { address, source } | DialError::Unreachable { address, source } => {
            stopped(io::Error::new(source.kind(), format!("{address}: {source}")))
        }
        other => other,
    })?;
    proxy.tunnel(&mut stream, &place.address()).await.map_err(stopped)?;
    Ok(stream)
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let unreachable = |source| DialError::Unreachable { address: address(host, port), source };
    let unresolved = |source| DialError::Unresolved { address: address(host, port), source };
    let mut last = None;
    for address in tokio::net::lookup_host((host, port)).await.map_err(unresolved)? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A small message must not wait for the next one.
                stream.set_nodelay(true).map_err(unreachable)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| unresolved(io::Error::other("the name has no address")), unreachable))
}

async fn encrypt(
    stream: TcpStream,
    place: &Place,
    options: &Dial,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
    let untrusted = |source| DialError::Tls { address: place.address(), source };
    let config = options.trust.client(cardan_tls::UPGRADE);
    let config = Arc::new(config.map_err(|error| untrusted(io::Error::other(error)))?);
    let name = ServerName::try_from(place.host.to_string())
        .map_err(|error| untrusted(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(untrusted)
}

/// The handshake over HTTP/1.1.
async fn shake<S>(stream: S, place: &Place, options: &Dial) -> Result<Stream, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broke = |source| DialError::BadHandshake { address: place.address(), source };
    let io = TokioIo::new(stream);
    let built = http1::Builder::new().max_buf_size(options.limits.head_bytes.max(8 << 10)).handshake(io);
    let (mut sender, connection) = built.await.map_err(broke)?;
    let (request, accept) = request(place, options)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broke)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response, place, options.limits.excerpt_bytes).await);
        }
        upgrade::agreed(response.headers(), &accept)
            .map_err(|why| DialError::Unagreed { address: place.address(), why })?;
        hyper::upgrade::on(response).await.map(TokioIo::new).map_err(broke)
    };
    alongside(exchange, connection.with_upgrades()).await
}

/// Waits for `work` while `connection` carries it.
async fn alongside<T>(work: impl Future<Output = T>, connection: impl Future) -> T {
    let (mut work, mut connection) = (pin!(work), pin!(connection));
    let mut ended = false;
    poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() || ended {
            return polled;
        }
        // What the work has just asked for is carried, and what came of it is looked at once more.
        ended = connection.as_mut().poll(cx).is_ready();
        work.as_mut().poll(cx)
    })
    .await
}

type Body = Empty<Bytes>;

/// The request that opens a WebSocket, and what the answer must prove.
fn request(place: &Place, options: &Dial) -> Result<(Request<Body>, String), DialError> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| DialError::Unreachable {
        address: place.address(),
        source: io::Error::other(error),
    })?;
    let key = STANDARD.encode(secret);
    let accept = key::accept(&key);
    let mut request = Request::new(Body::new());
    *request.uri_mut() = Uri::from(place.path.clone());
    let headers = request.headers_mut();
    *headers = options.headers.clone();
    let text = |text: String| {
        let url = place.address();
        HeaderValue::try_from(text).map_err(|_| DialError::BadUrl { url, why: "its host cannot be named" })
    };
    headers.insert(HOST, text(place.authority.to_string())?);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(upgrade::WEBSOCKET));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(upgrade::VERSION));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    headers.insert(SEC_WEBSOCKET_KEY, text(key)?);
    Ok((request, accept))
}

/// What a server says instead, up to a few words.
async fn refused(response: Response<Incoming>, place: &Place, max_bytes: usize) -> DialError {
    let (parts, mut body) = response.into_parts();
    let mut said = BytesMut::new();
    while said.len() <= max_bytes
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            said.extend_from_slice(&data);
        }
    }
    let body = excerpt(said.trim_ascii(), max_bytes);
    DialError::Refused { address: place.address(), status: parts.status, body }
}

/// Where to connect.
#[derive(Debug)]
struct Place {
    scheme: Scheme,
    /// Without the brackets of an IPv6 address.
    host: Box<str>,
    port: u16,
    /// As the URL has it.
    authority: Box<str>,
    path: PathAndQuery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Ws,
    Wss,
}

impl Place {
    fn parse(url: &str) -> Result<Self, DialError> {
        let bad = |why| DialError::BadUrl { url: excerpt(url.as_bytes(), 256), why };
        let uri: Uri = url.parse().map_err(|_| bad("it is no URL"))?;
        let scheme = match uri.scheme_str() {
            Some("ws") => Scheme::Ws,
            Some("wss") => Scheme::Wss,
            _ => return Err(bad("it does not begin with ws:// or wss://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("credentials do not belong in an address, give a token as a header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        // Without its number, what stands there may be a password with characters that should have been escaped.
        if authority.port_u16().is_none() && !authority.as_str().ends_with(authority.host()) {
            return Err(bad("its port is no number below 65536"));
        }
        let port = authority.port_u16().unwrap_or(match scheme {
            Scheme::Ws => 80,
            Scheme::Wss => 443,
        });
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self { scheme, host: host.into(), port, authority: authority.as_str().into(), path })
    }

    /// Host and port.
    fn address(&self) -> Box<str> {
        address(&self.host, self.port)
    }

    /// The same place by the schemes that proxies are named for.
    fn as_http(&self) -> Result<Uri, DialError> {
        let scheme = match self.scheme {
            Scheme::Ws => "http",
            Scheme::Wss => "https",
        };
        let uri = format!("{scheme}://{}/", self.address());
        uri.parse().map_err(|_| DialError::BadUrl { url: self.address(), why: "its host cannot be named" })
    }
}

fn address(host: &str, port: u16) -> Box<str> {
    match host.contains(':') {
        true => format!("[{host}]:{port}").into(),
        false => format!("{host}:{port}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let table = [
            ("ws://localhost/ws", "localhost:80", "/ws"),
            ("wss://example.org", "example.org:443", "/"),
            ("ws://[::1]:9001/runCase?case=1", "[::1]:9001", "/runCase?case=1"),
        ];
        for (url, address, path) in table {
            let place = Place::parse(url).unwrap();
            assert_eq!((&*place.address(), place.path.as_str()), (address, path));
        }
        for wrong in [
            "http://localhost/ws",
            "localhost:80",
            "ws://me:secret@host/",
            "ws:///ws",
            "ws://a b/",
            "ws://me:se/cret@host/",
            "ws://host:70000/",
        ] {
            assert!(matches!(Place::parse(wrong), Err(DialError::BadUrl { .. })), "{wrong}");
        }
    }
}
