//! `cardan bridge`: one server behind another transport, for clients of every revision.

use std::sync::Arc;

use cardan_client::{Client, Way, way};
use cardan_config::Settings;
use cardan_endpoint::{Endpoint, Options};
use cardan_gateway::configured::{bounded, silence};
use cardan_gateway::fleet::Making;
use cardan_gateway::reach::kind_of;
use cardan_gateway::relay::{self, Behind, Relay};
use cardan_gateway::trace::Tracer;
use cardan_proto::limits::Limits;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::service::Host as _;
use cardan_transport::socket;

use super::{health, none_left, pipes};
use crate::args::{BridgeArgs, EraName, Listening};
use crate::cmd::greeting::{Served, greeting};
use crate::cmd::lock::Lock;
use crate::cmd::place::Place;
use crate::connect::Door;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::log::Log;
use crate::output::{clean, tell};
use crate::target::Target;
use crate::telemetry::traces;
use crate::watch::Loudness;

/// For someone who starts it by hand.
const HINT: &str = "serving MCP on stdin and stdout, a message per line; end with Ctrl-D
clients start this command themselves; to serve on a port, leave out --stdio";

/// How a token lasts.
const KEEP: &str = "put it into a variable and name that with --key-env";

pub(crate) async fn run(args: BridgeArgs) -> Result<(), Failure> {
    let BridgeArgs { words, stdio, unix, verbose, era, dialect, client_dialect, sessions, .. } = args;
    let BridgeArgs { call_timeout, key_env, listening, telemetry, log, server, .. } = args;
    let (target, words) = Target::split(words, server)?;
    none_left(&words)?;
    let stop = Interrupts::watch()?;
    let loudness = if verbose { Loudness::Verbose } else { Loudness::Normal };
    let settings = Settings { call_timeout, dialect, ..Settings::default() };
    let (mut making, options) = making(&target, loudness, settings)?;
    // What is configured for a name holds unless the command line says otherwise.
    if era != EraName::Auto {
        making.connector = making.connector.era(era.into());
    }
    if let Some(dialect) = dialect {
        making.connector = making.connector.dialect(dialect);
    }
    let behind = match target {
        Target::Command { .. } => Behind::Many,
        Target::Named { .. } => options.behind,
        _ => Behind::One,
    };
    let isolation = sessions.map_or(options.isolation, Into::into);
    let tracer = telemetry.start(None, log)?;
    let dialect = client_dialect.unwrap_or_default();
    // What is wrong with the place or the key is told before anything is started.
    let place = Place::open(stdio, unix.as_deref(), &listening).await?;
    let lock = Lock::with(key_env.as_deref())?;
    let limits = place.limits(&listening);
    let trace = tracer.clone();
    let options = relay::Options { behind, isolation, trace, dialect, limits: limits.clone(), ..options };
    let Some(relay) = meet(making, options, &stop).await? else { return Ok(()) };
    let bridge = Bridge { relay, limits, lock, tracer, listening, log };
    let serving = async {
        let served = bridge.serve(place, &stop).await;
        bridge.end().await;
        served
    };
    stop.unless_twice(serving).await.unwrap_or(Ok(()))
}

/// A server that was met, and who may come to it.
struct Bridge {
    relay: Relay,
    limits: Limits,
    lock: Lock,
    tracer: Option<Arc<Tracer>>,
    listening: Listening,
    log: Log,
}

impl Bridge {
    async fn serve(&self, place: Place, stop: &Interrupts) -> Result<(), Failure> {
        let Self { relay, limits, listening, log, .. } = self;
        let close = || relay.close("asked to stop");
        match place {
            Place::Pipes => pipes::serve(limits, HINT, stop, |link| relay.serve(link), close).await,
            Place::Socket(socket) => {
                let serve = |link| {
                    let relay = relay.clone();
                    async move { relay.serve(link).await }
                };
                socket.serve(limits, (stop, *log), serve, close).await
            }
            Place::Port(door) => {
                self.lock.closed(door.address, &listening.hosts, KEEP, *log)?;
                let options = Options::new(door.allow.clone()).verify(self.lock.verify());
                let options = options.traces(traces(self.tracer.as_ref()));
                let options = health::of_relay(options, relay.clone());
                let endpoint = Endpoint::new(relay.clone(), options);
                let greeting = greeting(&Served::Bridged, door.address, door.identity.as_ref(), listening);
                log.start(&door.url(), &greeting);
                door.listener.serve(endpoint, log.asked(stop)).await;
                Ok(())
            }
        }
    }

    /// Leaves the server, and exports what is left of traces.
    async fn end(self) {
        self.relay.end("nobody is served any more").await;
        if let Some(tracer) = self.tracer {
            tracer.close().await;
        }
    }
}

/// Meets the server; nothing: we were asked to stop before.
async fn meet(making: Making, options: relay::Options, stop: &Interrupts) -> Result<Option<Relay>, Failure> {
    tokio::select! {
        met = Relay::start(making, options) => Ok(Some(met?)),
        () = stop.first() => Ok(None),
    }
}

/// How the server is reached, and how calls to it are relayed. What is said here wins over what is configured.
fn making(
    target: &Target,
    loudness: Loudness,
    settings: Settings,
) -> Result<(Making, relay::Options), Failure> {
    let limits = bounded(&Limits::DEFAULT, settings);
    let door = Door::of(target, &limits)?;
    let secrets = door.secrets();
    let policy = match door {
        Door::Spawn(_) => Policy::CHILD,
        _ => Policy::REMOTE,
    };
    let connector = Client::builder("cardan", env!("CARGO_PKG_VERSION"));
    let connector = connector.secrets(secrets.clone()).limits(limits.clone());
    let way: Arc<dyn Way> = match door {
        Door::Named(named) => {
            let named = named.overruled(settings);
            return Ok((named.kept(connector, loudness)?, named.relayed()));
        }
        Door::Spawn(mut spawn) => {
            if loudness == Loudness::Verbose {
                *spawn = spawn.on_stderr(|line| tell(&format!("server: {}", clean(line))));
            }
            way(move || {
                let (spawn, limits) = (spawn.clone(), limits.clone());
                async move { spawn.spawn_aside(&limits).await }
            })
        }
        Door::Unix(path) => {
            let path = path.to_owned();
            way(move || {
                let (path, limits) = (path.clone(), limits.clone());
                async move { socket::connect_unix(path, &limits).await }
            })
        }
        Door::Tcp(address) => {
            let address = address.to_owned();
            way(move || {
                let (address, limits) = (address.clone(), limits.clone());
                async move { socket::connect_host(&address, &limits).await }
            })
        }
        Door::Http(http, _) => {
            let http = http.limits(&limits).kind(kind_of(settings.dialect.unwrap_or_default()));
            way(move || std::future::ready(http.clone().link()))
        }
        Door::Ws(url, dial, _) => {
            let url = url.to_owned();
            way(move || {
                let (url, dial) = (url.clone(), dial.clone());
                async move { cardan_ws::dial(&url, &dial).await }
            })
        }
    };
    let call_timeout = silence(settings);
    let options = relay::Options { secrets, call_timeout, ..relay::Options::default() };
    Ok((Making { connector, way, policy }, options))
}
