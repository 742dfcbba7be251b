//! `cardan serve`: the built-in server, or all configured ones, on one port, by every HTTP transport at once.

use std::io;
use std::net::SocketAddr;

use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::GRACE;
use cardan_tls::Identity;

use crate::access::unusable;
use crate::args::{Listening, ServeArgs};
use crate::cmd::gateway;
use crate::cmd::greeting::{Served, greeting};
use crate::cmd::lock::Lock;
use crate::demo;
use crate::failure::Failure;
use crate::interrupt::Interrupts;

/// How a token lasts.
const KEEP: &str = "put it into a variable and run `cardan bridge --key-env VARIABLE -- cardan demo`";

pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    if args.all || args.config.is_some() {
        return gateway::run(args).await;
    }
    if args.stdio || args.unix.is_some() {
        return Err(Failure::usage("--stdio and --unix are for configured servers")
            .next("add --all or --config FILE; for the demo server there is `cardan demo`"));
    }
    if args.telemetry.otlp.is_some() {
        return Err(Failure::usage("--otlp is for configured servers: the demo server records no traces")
            .next("add --all or --config FILE, or put a server behind `cardan bridge --otlp`"));
    }
    let stop = Interrupts::watch()?;
    let door = Door::open(&args.listening).await?;
    let lock = Lock::default();
    lock.closed(door.address, &args.listening.hosts, KEEP, args.log)?;
    let options = Options::new(door.allow.clone()).verify(lock.verify());
    let endpoint = Endpoint::new(demo::server(door.limits.clone()), options);
    let greeting = greeting(&Served::Demo, door.address, door.identity.as_ref(), &args.listening);
    args.log.start(&door.url(), &greeting);
    stop.unless_twice(door.listener.serve(endpoint, args.log.asked(&stop))).await;
    Ok(())
}

/// Where clients come in.
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) address: SocketAddr,
    pub(crate) identity: Option<Identity>,
    pub(crate) allow: Allow,
    pub(crate) limits: Limits,
}

impl Door {
    pub(crate) async fn open(args: &Listening) -> Result<Self, Failure> {
        let wanted = address(&args.listen)?;
        let identity = identity(args)?;
        let mut listener = Listener::bind(wanted).await.map_err(|error| unbound(wanted, &error))?;
        let address = listener.address().map_err(|error| unbound(wanted, &error))?;
        if let Some(identity) = &identity {
            listener = listener.tls(identity).map_err(|error| unusable("--tls-cert", &error))?;
        }
        let allow = Allow::bound(address.ip(), Ports::Any, &args.hosts, &args.origins)
            .map_err(|error| Failure::usage(error.to_string()).next("name the host with --allow-host"))?;
        let keep_alive_interval = args.keep_alive.unwrap_or(Limits::DEFAULT.keep_alive_interval);
        let drain_timeout = args.grace.unwrap_or(GRACE);
        let limits = Limits { keep_alive_interval, drain_timeout, ..Limits::DEFAULT };
        Ok(Self { listener, address, identity, allow, limits })
    }

    /// Where we serve, for programs.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }
}

fn identity(args: &Listening) -> Result<Option<Identity>, Failure> {
    // The command line has both or neither.
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Identity::read(certificate, key).map(Some).map_err(|error| unusable("--tls-cert, --tls-key", &error))
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!("--listen {text}: not an address"))
            .next("write an IP address and a port, such as 127.0.0.1:2273 or [::1]:0")
    })
}

fn unbound(address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::usage(format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.next("stop what listens there, or take a free port with --listen 127.0.0.1:0")
        }
        io::ErrorKind::PermissionDenied => failure.next("take a port above 1023"),
        _ => failure.next("take an address of this machine"),
    }
}
