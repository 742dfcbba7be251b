//! Where a server is, and how it is reached.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cardan_proto::http::redirect::{BadEndpoint, CrossOrigin};
use cardan_proto::http::url::{BadUrl, Url};
use cardan_proto::limits::Limits;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::Hurdle;
use cardan_proxy::Proxies;
use cardan_runtime::link::NoLink;
use cardan_tls::{TlsError, Trust};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::link::{HttpLink, Setup};
use crate::net::{Connector, Dial, Socket, Tcp};

/// Which of the HTTP transports a server has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Kind {
    /// Streamable HTTP, or else the older HTTP+SSE.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Streamable,
    /// The older HTTP+SSE only: the URL is that of its stream.
    Events,
    /// The tutorial dialect's HTTP+SSE: the stream announces nothing.
    Tutorial {
        /// Where messages are posted, relative to the stream's URL.
        post: String,
        /// Names the stream in its header, where the server was told of it.
        client_id: Option<String>,
    },
    /// The cortex dialect's HTTP: one POST per tool call, replies whole or in parts.
    Cortex,
}

/// A server that is reached over HTTP.
#[derive(Clone)]
#[must_use = "call link to get a link"]
pub struct Http {
    url: Url,
    kind: Kind,
    pub(crate) headers: HeaderMap,
    trust: Trust,
    proxies: Proxies,
    cross_origin: CrossOrigin,
    pub(crate) limits: Limits,
    dial: Option<Arc<dyn Dial>>,
}

impl Http {
    /// The server at `url`, http or https, or on a Unix socket: `unix:///path/to.sock#/mcp`, where what follows the `#` is the
    /// path of its URL.
    pub fn new(url: &str) -> Result<Self, HttpError> {
        let parsed = |text: &str| Url::parse(text).map_err(|why| HttpError::Url { url: url.into(), why });
        let (url, dial) = match on_socket(url) {
            Some((socket, path)) => {
                let socket: Arc<dyn Dial> = Arc::new(Socket(socket.into()));
                (parsed(&format!("http://localhost{path}"))?, Some(socket))
            }
            None => (parsed(url)?, None),
        };
        Ok(Self {
            url,
            kind: Kind::Auto,
            headers: HeaderMap::new(),
            trust: Trust::default(),
            proxies: Proxies::Environment,
            cross_origin: CrossOrigin::Refuse,
            limits: Limits::DEFAULT,
            dial,
        })
    }

    /// Which transport the server has; found out, unless told.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// A header for every request. Those of the protocol win, and none goes to another origin.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, HttpError> {
        let bad = || HttpError::Header { name: name.into() };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let connection = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, TE, TRAILER, UPGRADE];
        if connection.contains(&name) {
            return Err(bad());
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        // Whatever the user adds may be a secret: it is never shown.
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// A bearer token for every request.
    pub fn bearer(self, token: &str) -> Result<Self, HttpError> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Certificates in a PEM file that are trusted beside those trusted so far, the machine's own unless told.
    pub fn roots(mut self, path: &Path) -> Result<Self, HttpError> {
        self.trust = self.trust.roots(path).map_err(HttpError::Tls)?;
        Ok(self)
    }

    /// Whom we trust, and what we show to servers that ask for a certificate; the machine's roots, unless told. It adds to
    /// what was said before, [`roots`](Self::roots) included; of two certificates the later is shown.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = self.trust.and(trust);
        self
    }

    /// Which proxies are used; those of the environment, unless told.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Whether a GET may follow a redirect to another origin, without anything that is ours. A POST never does, and
    /// nothing does where there is a certificate of ours to show: the other origin could ask for it.
    pub fn cross_origin(mut self, cross_origin: CrossOrigin) -> Self {
        self.cross_origin = cross_origin;
        self
    }

    /// Every bound.
    pub fn limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.clone();
        self
    }

    /// How streams to hosts are made, instead of TCP.
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = Some(dial);
        self
    }

    /// The URL, for memory and messages.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// A link to the server. Nothing is sent before it is driven, within a tokio runtime.
    pub fn link(&self) -> Result<HttpLink, HttpError> {
        let (connector, cross_origin) = self.connector()?;
        HttpLink::new(Setup {
            url: self.url.clone(),
            kind: self.kind.clone(),
            headers: self.headers.clone(),
            limits: self.limits.clone(),
            cross_origin,
            connector,
        })
    }

    /// How connections are made, and how far a GET may be sent on.
    pub(crate) fn connector(&self) -> Result<(Connector, CrossOrigin), HttpError> {
        let tls = match self.url.is_secure() {
            true => Some(Arc::new(self.trust.client(cardan_tls::HTTP).map_err(HttpError::Tls)?)),
            false => None,
        };
        let cross_origin = match self.trust.has_identity() {
            true => CrossOrigin::Refuse,
            false => self.cross_origin,
        };
        let dial = self.dial.clone();
        let connector = Connector {
            dial: dial.unwrap_or_else(|| Arc::new(Tcp::new(self.limits.keep_alive_interval))),
            tls,
            routes: Arc::new(self.proxies.routes()),
            timeout: self.limits.connect_timeout,
            dialling: Arc::default(),
        };
        Ok((connector, cross_origin))
    }
}

/// The socket and the path of an address that names both, as VS Code spells it.
fn on_socket(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_path = |text: &str| text.starts_with('/');
    if !scheme.eq_ignore_ascii_case("unix") || !is_path(rest) {
        return None;
    }
    match rest.rsplit_once('#') {
        Some((socket, path)) if is_path(path) => Some((socket, path)),
        _ => Some((rest, "/")),
    }
}

/// An address without what may be secret: who is to log in there, and the query, where some servers want their keys.
fn harmless(url: &str) -> String {
    // A password may have what begins a query elsewhere.
    let url = Redactor::default().redact(url);
    let shown = url.split('?').next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://[redacted]@{host}{path}"),
        None => shown.to_owned(),
    }
}

/// Without the query, where some servers want their keys.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.to_string();
        let url = url.split('?').next().unwrap_or_default();
        f.debug_struct("Http").field("url", &url).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Why a server cannot be reached as described.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is of no use.
    Url {
        /// As given.
        url: Box<str>,
        /// What is wrong with it.
        why: BadUrl,
    },
    /// Where to post is of no use.
    Endpoint {
        /// As given.
        url: Box<str>,
        /// What is wrong with it.
        why: BadEndpoint,
    },
    /// A header that cannot be sent, or is not the user's to set.
    Header {
        /// Its name.
        name: Box<str>,
    },
    /// TLS cannot be set up.
    Tls(TlsError),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, why } => {
                write!(f, "{}: {why}", harmless(url))
            }
            Self::Endpoint { url, why } => write!(f, "{url}: {why}"),
            Self::Header { name } => {
                write!(
                    f,
                    "header {name:?} cannot be set: it or its value is no header, or the connection's own"
                )
            }
            Self::Tls(why) => why.fmt(f),
        }
    }
}

impl Error for HttpError {}

/// All of it is known before anything is tried.
impl NoLink for HttpError {
    fn hurdle(&self) -> Hurdle {
        Hurdle::Config
    }
}
