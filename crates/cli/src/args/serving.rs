//! The words of those commands that serve: `serve`, `bridge` and `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cardan_config::time;
use cardan_gateway::relay::Isolation;
use cardan_proto::dialect::Dialect;
use clap::{ArgGroup, Args, ValueEnum};

use super::{EVER, EraName, Server, seconds};
use crate::home::path;
use crate::log::Log;
use crate::telemetry::Telemetry;

#[derive(Debug, Args)]
#[command(after_help = "\
It ends when stdin ends, and on SIGTERM or SIGINT.

Examples:
  cardan demo
  cardan demo --unix demo.sock
  cardan demo --tcp 127.0.0.1:7000")]
pub(crate) struct DemoArgs {
    /// Serve on a Unix socket instead of stdin and stdout
    #[arg(long, value_name = "PATH", value_parser = path(), conflicts_with = "tcp")]
    pub(crate) unix: Option<PathBuf>,
    /// Serve on a loopback TCP address; port 0 takes a free one and tells it on stderr
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) tcp: Option<SocketAddr>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --config and --all it serves the built-in demo server. With either it is a gateway: all servers as one at /mcp, /sse \
and /ws, and each alone at /servers/NAME/mcp, /servers/NAME/sse and /servers/NAME/ws. A tool is called SERVER__TOOL there; \
[gateway] in cardan.toml says otherwise. Servers may be of any transport and any revision, as may clients. The \
configuration's files are followed: a change touches the servers that changed and no others. SIGHUP has them read at once, and servers \
tried that are not up; where it comes because the terminal is gone, it ends as on SIGTERM.

It ends on SIGTERM or SIGINT, when what runs is done or --grace is over; with --stdio also when stdin ends. A second signal ends \
it at once.

Examples:
  cardan serve
  cardan serve --all
  cardan serve --config ./cardan.toml
  cardan serve --config ~/.cursor/mcp.json --stdio
  cardan serve --all --unix ~/.cardan.sock
  cardan serve --listen 127.0.0.1:0
  cardan serve --listen 0.0.0.0:2273 --allow-host mcp.example.org
  cardan serve --listen 0.0.0.0:443 --allow-host mcp.example.org \\
    --tls-cert chain.pem --tls-key key.pem
  cardan serve --allow-origin https://app.example.org")]
pub(crate) struct ServeArgs {
    /// Serve the servers that are configured in this file and no other
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) config: Option<PathBuf>,
    /// Serve all servers that `cardan config list` shows
    #[arg(long, conflicts_with = "config")]
    pub(crate) all: bool,
    /// Serve on stdin and stdout instead of a port
    #[arg(long, conflicts_with_all = ["unix", "listen", "hosts", "origins", "tls_cert", "tls_key", "keep_alive"])]
    pub(crate) stdio: bool,
    /// Serve on a Unix socket instead of a port
    #[arg(long, value_name = "PATH", value_parser = path(), conflicts_with_all = ["listen", "hosts", "origins", "tls_cert", "tls_key", "keep_alive"])]
    pub(crate) unix: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) telemetry: Telemetry,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan bridge [OPTIONS] -- <COMMAND>...\n       cardan bridge [OPTIONS] <SERVER>",
    after_help = "\
Clients of every revision can use the server, whichever revision it speaks. It ends on SIGTERM or SIGINT, when what runs \
is done or --grace is over; with --stdio also when stdin ends. A second signal ends it at once.

/healthz says that it runs, /readyz whether calls may come. Bound beyond loopback it asks for a token: that of --key-env, or one that it makes and tells at its start.

Examples:
  cardan bridge -- npx -y @modelcontextprotocol/server-everything
  cardan bridge --listen 127.0.0.1:0 -- cardan demo
  cardan bridge --listen 0.0.0.0:2273 --allow-host mcp.example.org \\
    --key-env KEY -- cardan demo
  cardan bridge --stdio https://example.com/mcp --bearer-env TOKEN
  cardan bridge --stdio ws://127.0.0.1:2273/ws
  cardan bridge --unix ~/.server.sock https://example.com/mcp
  cardan bridge --dialect cortex -- python3 old_server.py
  cardan bridge --call-timeout 2m -- npx -y some-server",
    // A port has several transports, and a dialect is one form.
    group = ArgGroup::new("pipe").args(["stdio", "unix"])
)]
pub(crate) struct BridgeArgs {
    /// The server, unless a command follows `--`
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    /// Serve on stdin and stdout instead of a port
    #[arg(long, conflicts_with_all = ["unix", "listen", "hosts", "origins", "tls_cert", "tls_key", "keep_alive"])]
    pub(crate) stdio: bool,
    /// Serve on a Unix socket instead of a port
    #[arg(long, value_name = "PATH", value_parser = path(), conflicts_with_all = ["listen", "hosts", "origins", "tls_cert", "tls_key", "keep_alive"])]
    pub(crate) unix: Option<PathBuf>,
    /// Show the stderr of the started server as it comes
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// How sessions with the server are opened
    #[arg(long, value_enum, default_value_t)]
    pub(crate) era: EraName,
    /// The foreign wire form that the server speaks: tutorial, cortex, cortex-frame or batch
    #[arg(long, value_name = "NAME", value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The foreign wire form that the client speaks which starts this command, or that dials the socket
    #[arg(long, value_name = "NAME", value_parser = dialect, requires = "pipe")]
    pub(crate) client_dialect: Option<Dialect>,
    /// Who shares sessions with the server [default: client]
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) sessions: Option<SessionsName>,
    /// How long the server may be silent about a call, then it is cancelled: 90s, 2m; its progress puts that off, as often as it comes
    /// [default: as long as the client waits]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) call_timeout: Option<Duration>,
    /// Ask clients for the bearer token in this environment variable
    #[arg(long, value_name = "VARIABLE", conflicts_with_all = ["stdio", "unix"])]
    pub(crate) key_env: Option<String>,
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) telemetry: Telemetry,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// Its heading in `--help`.
const LISTENING: &str = "Listening";

/// Where and to whom we listen.
#[derive(Debug, Args)]
pub(crate) struct Listening {
    /// Where to listen; port 0 takes a free one and tells it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2273", help_heading = LISTENING)]
    pub(crate) listen: String,
    /// A name by which clients may call us; beyond loopback at least one is needed
    #[arg(long = "allow-host", value_name = "HOST[:PORT]", help_heading = LISTENING)]
    pub(crate) hosts: Vec<String>,
    /// A web page that may call us
    #[arg(long = "allow-origin", value_name = "ORIGIN", help_heading = LISTENING)]
    pub(crate) origins: Vec<String>,
    /// Serve https and wss only, with the certificates in this PEM file, our own first
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "tls_key", help_heading = LISTENING)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "tls_cert", help_heading = LISTENING)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Longest silence on a stream before a sign of life; less than a proxy in front of us bears [default: 15]
    #[arg(long, value_name = "SECONDS", value_parser = interval, help_heading = LISTENING)]
    pub(crate) keep_alive: Option<Duration>,
    /// How long what runs may go on when we are asked to stop [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = LISTENING)]
    pub(crate) grace: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionsName {
    /// All clients
    Shared,
    /// No legacy client with any other
    Client,
    /// No call with any other
    Call,
}

impl From<SessionsName> for Isolation {
    fn from(name: SessionsName) -> Self {
        match name {
            SessionsName::Shared => Self::Shared,
            SessionsName::Client => Self::Client,
            SessionsName::Call => Self::Call,
        }
    }
}

fn dialect(text: &str) -> Result<Dialect, String> {
    Dialect::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        format!("there are: {}", names.join(", "))
    })
}

fn time(text: &str) -> Result<Duration, String> {
    time::parse(text).map(|time| time.min(EVER)).ok_or_else(|| format!("accepted: {}", time::ACCEPTED))
}

fn interval(text: &str) -> Result<Duration, String> {
    seconds(text)
        .and_then(|wait| if wait.is_zero() { Err("more than 0 is needed".to_owned()) } else { Ok(wait) })
}
