//! From a configured server to the way that leads there.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cardan_client::{Way, way};
use cardan_config::resolve::{Endpoint, Helper, Reach, Resolved};
use cardan_config::server::EnvPolicy;
use cardan_dial::{Http, HttpError, HttpLink, Kind};
use cardan_proto::dialect::Dialect;
use cardan_proto::limits::Limits;
use cardan_proto::secret::{Redactor, Secret};
use cardan_proto::session::event::Hurdle;
use cardan_runtime::link::NoLink;
use cardan_tls::{TlsError, Trust};
use cardan_transport::socket;
use cardan_transport::spawn::{self, Spawn};
use cardan_transport::stderr::OnLine;
use cardan_ws::{Dial, DialError};
use http::{HeaderName, HeaderValue};

/// The way to a server. What can be wrong with it without trying is told now. `on_stderr` gets every line that a
/// started one writes there.
pub fn way_to(
    resolved: &Resolved,
    (env_policy, dialect): (EnvPolicy, Dialect),
    limits: &Limits,
    on_stderr: Option<OnLine>,
) -> Result<Arc<dyn Way>, ReachError> {
    let limits = limits.clone();
    Ok(match &resolved.reach {
        Reach::Command { program, args, env, cwd } => {
            let mut spawn = launch(program, args, env, cwd.as_deref(), env_policy);
            if let Some(on_line) = on_stderr {
                spawn = spawn.on_stderr(move |line| on_line(line));
            }
            way(move || {
                let (spawn, limits) = (spawn.clone(), limits.clone());
                async move { spawn.spawn_aside(&limits).await }
            })
        }
        Reach::Http(endpoint) => over_http(endpoint, kind_of(dialect), limits, &resolved.redactor)?,
        Reach::Sse(endpoint) => over_http(endpoint, Kind::Events, limits, &resolved.redactor)?,
        Reach::WebSocket(endpoint) => over_socket(endpoint, limits, &resolved.redactor)?,
        Reach::Unix(path) => {
            let path = path.clone();
            way(move || {
                let (path, limits) = (path.clone(), limits.clone());
                async move { socket::connect_unix(path, &limits).await }
            })
        }
        Reach::Tcp(address) => {
            let address = address.clone();
            way(move || {
                let (address, limits) = (address.clone(), limits.clone());
                async move { socket::connect_host(&address, &limits).await }
            })
        }
        Reach::Pipe(path) => return Err(ReachError::Pipe(path.display().to_string())),
    })
}

/// Over HTTP the cortex dialect has a form of its own: a POST for each call, whose reply may come in parts.
#[must_use]
pub fn kind_of(dialect: Dialect) -> Kind {
    match dialect {
        Dialect::Cortex(_) => Kind::Cortex,
        Dialect::Standard | Dialect::Tutorial | Dialect::JsonRpcBatch => Kind::Auto,
    }
}

fn launch(
    program: &Secret,
    args: &[Secret],
    env: &[(String, Option<Secret>)],
    cwd: Option<&Path>,
    policy: EnvPolicy,
) -> Spawn {
    let mut spawn = Spawn::new(program.expose()).env_policy(match policy {
        EnvPolicy::Inherit => spawn::EnvPolicy::Inherit,
        EnvPolicy::Minimal => spawn::EnvPolicy::Minimal,
        EnvPolicy::Clean => spawn::EnvPolicy::Clean,
    });
    spawn = spawn.args(args.iter().map(|arg| arg.expose().to_owned()));
    for (name, value) in env {
        spawn = match value {
            Some(value) => spawn.env(name, value.expose()),
            None => spawn.change_env(name, None),
        };
    }
    match cwd {
        Some(cwd) => spawn.cwd(cwd),
        None => spawn,
    }
}

fn over_http(
    endpoint: &Endpoint,
    kind: Kind,
    limits: Limits,
    secrets: &Redactor,
) -> Result<Arc<dyn Way>, ReachError> {
    let scheme = endpoint.url.expose().split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if scheme.as_deref() == Some("pipe") {
        return Err(ReachError::HttpPipe);
    }
    let http = Http::new(endpoint.url.expose())?.kind(kind).limits(&limits).trust(trust(endpoint)?);
    let http = endpoint.headers.iter().try_fold(http, with_header)?;
    let (helper, secrets) = (endpoint.helper.clone(), secrets.clone());
    Ok(way(move || {
        let (http, helper, secrets) = (http.clone(), helper.clone(), secrets.clone());
        async move {
            let link = |http: Http| -> Result<HttpLink, ReachError> { Ok(http.link()?) };
            let Some(helper) = helper else { return link(http) };
            let headers = helped(helper, &secrets).await?;
            link(headers.iter().try_fold(http, with_header)?)
        }
    }))
}

fn with_header(http: Http, header: &(String, Secret)) -> Result<Http, HttpError> {
    http.header(&header.0, header.1.expose())
}

fn over_socket(endpoint: &Endpoint, limits: Limits, secrets: &Redactor) -> Result<Arc<dyn Way>, ReachError> {
    let dial = Dial::new(&limits).trust(trust(endpoint)?);
    let dial = endpoint.headers.iter().try_fold(dial, with_opening_header)?;
    let (url, helper, secrets) = (endpoint.url.clone(), endpoint.helper.clone(), secrets.clone());
    Ok(way(move || {
        let (url, mut dial, helper) = (url.clone(), dial.clone(), helper.clone());
        let secrets = secrets.clone();
        async move {
            if let Some(helper) = helper {
                let headers = helped(helper, &secrets).await?;
                dial = headers.iter().try_fold(dial, with_opening_header)?;
            }
            cardan_ws::dial(url.expose(), &dial).await.map_err(ReachError::Socket)
        }
    }))
}

fn with_opening_header(dial: Dial, header: &(String, Secret)) -> Result<Dial, ReachError> {
    let wrong = || ReachError::Header(header.0.clone());
    let name = HeaderName::try_from(&header.0).map_err(|_| wrong())?;
    let mut value = HeaderValue::try_from(header.1.expose()).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok(dial.header(name, value))
}

fn trust(endpoint: &Endpoint) -> Result<Trust, TlsError> {
    match &endpoint.ca {
        Some(ca) => Trust::default().roots(ca),
        None => Ok(Trust::default()),
    }
}

/// Runs a helper, which waits for a process, where waiting hinders nobody. What it brought is not shown from then on.
async fn helped(helper: Helper, secrets: &Redactor) -> Result<Vec<(String, Secret)>, ReachError> {
    let headers = match tokio::task::spawn_blocking(move || helper.run()).await {
        Ok(printed) => printed.map_err(ReachError::Helper)?,
        Err(_) => return Err(ReachError::Helper("the runtime is shutting down".into())),
    };
    for (name, value) in &headers {
        secrets.learn(Secret::of_header(name, value));
    }
    Ok(headers)
}

/// Why a server cannot be reached as it is configured.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReachError {
    /// The address or a header is of no use.
    Http(HttpError),
    /// The WebSocket cannot be opened.
    Socket(DialError),
    /// Certificates are of no use.
    Tls(TlsError),
    /// A header that cannot be sent.
    Header(String),
    /// The command that prints headers failed.
    Helper(String),
    /// A named pipe, which this machine does not have.
    Pipe(String),
    /// HTTP over a named pipe, which this machine does not have.
    HttpPipe,
}

impl ReachError {
    /// The key of a server's table that it is about.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Http(HttpError::Header { .. }) | Self::Header(_) => "headers",
            Self::Http(HttpError::Tls(_)) | Self::Tls(_) => "ca",
            Self::Http(_) | Self::Socket(_) | Self::Pipe(_) | Self::HttpPipe => "url",
            Self::Helper(_) => "headers_helper",
        }
    }
}

impl fmt::Display for ReachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => error.fmt(f),
            Self::Socket(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Header(name) => write!(f, "header {name:?} cannot be sent: it or its value is no header"),
            Self::Helper(why) => write!(f, "the headers helper brought nothing: {why}"),
            Self::HttpPipe => f.write_str(
                "HTTP over a named pipe of Windows is not spoken here; have the server listen on a Unix socket \
                 (unix:///path/to.sock#/mcp) or on a port",
            ),
            Self::Pipe(path) => {
                write!(f, "{path} is a named pipe of Windows, which is not spoken here; use a Unix socket")
            }
        }
    }
}

impl std::error::Error for ReachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Http(error) => error.source(),
            Self::Socket(error) => error.source(),
            Self::Tls(error) => error.source(),
            _ => None,
        }
    }
}

impl NoLink for ReachError {
    fn hurdle(&self) -> Hurdle {
        match self {
            Self::Socket(error) => error.hurdle(),
            Self::Http(_)
            | Self::Tls(_)
            | Self::Header(_)
            | Self::Helper(_)
            | Self::Pipe(_)
            | Self::HttpPipe => Hurdle::Config,
        }
    }
}

impl From<HttpError> for ReachError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<TlsError> for ReachError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
