//! `cardan bridge`: one server behind another transport, for clients of every revision.

use std::sync::Arc;

use cardan_client::{Client, Way, way};
use cardan_endpoint::{Endpoint, Options};
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{self, Behind, Relay};
use cardan_gateway::trace::Tracer;
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::GRACE;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::service::Host as _;
use cardan_transport::socket;

use super::{none_left, pipes};
use crate::args::{BridgeArgs, EraName};
use crate::cmd::greeting::{Served, greeting};
use crate::cmd::lock::Lock;
use crate::cmd::serve;
use crate::connect::Door;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
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
    let BridgeArgs { words, stdio, verbose, era, dialect, client_dialect, sessions, listening, .. } = args;
    let BridgeArgs { telemetry, log, server, key_env, .. } = args;
    let (target, words) = Target::split(words, server)?;
    none_left(&words)?;
    let stop = Interrupts::watch()?;
    let (mut making, options) = making(&target, if verbose { Loudness::Verbose } else { Loudness::Normal })?;
    // What is configured for a name holds unless the command line says otherwise.
    if era != EraName::Auto {
        making.connector = making.connector.era(era.into());
    }
    if let Some(dialect) = dialect {
        making.connector = making.connector.dialect(dialect);
    }
    let behind = match target {
        Target::Command { .. } => Behind::Many,
        _ => Behind::One,
    };
    let isolation = sessions.map_or(options.isolation, Into::into);
    let tracer = telemetry.start(None, log)?;
    let dialect = client_dialect.unwrap_or_default();
    let options = relay::Options { behind, isolation, trace: tracer.clone(), dialect, ..options };
    if stdio {
        let limits = Limits { drain_timeout: listening.grace.unwrap_or(GRACE), ..Limits::DEFAULT };
        let options = relay::Options { limits: limits.clone(), ..options };
        let Some(relay) = meet(making, options, &stop).await? else { return Ok(()) };
        let close = || relay.close("asked to stop");
        let serving = async {
            let served = pipes::serve(&limits, HINT, &stop, |link| relay.serve(link), close).await;
            relay.end("the client has left").await;
            flush(tracer).await;
            served
        };
        return stop.unless_twice(serving).await.unwrap_or(Ok(()));
    }
    // What is wrong with the port or the key is told before anything is started.
    let lock = Lock::with(key_env.as_deref())?;
    let door = serve::Door::open(&listening).await?;
    let options = relay::Options { limits: door.limits.clone(), ..options };
    let Some(relay) = meet(making, options, &stop).await? else { return Ok(()) };
    lock.closed(door.address, &listening.hosts, KEEP, log)?;
    let options = Options::new(door.allow.clone()).verify(lock.verify()).traces(traces(tracer.as_ref()));
    let endpoint = Endpoint::new(relay.clone(), options);
    let greeting = greeting(&Served::Bridged, door.address, door.identity.as_ref(), &listening);
    log.start(&door.url(), &greeting);
    let serving = async {
        door.listener.serve(endpoint, log.asked(&stop)).await;
        relay.end("asked to stop").await;
        flush(tracer).await;
    };
    stop.unless_twice(serving).await;
    Ok(())
}

/// Exports what is left of traces.
async fn flush(tracer: Option<Arc<Tracer>>) {
    if let Some(tracer) = tracer {
        tracer.close().await;
    }
}

/// Meets the server; nothing: we were asked to stop before.
async fn meet(making: Making, options: relay::Options, stop: &Interrupts) -> Result<Option<Relay>, Failure> {
    tokio::select! {
        met = Relay::start(making, options) => Ok(Some(met?)),
        () = stop.first() => Ok(None),
    }
}

/// How the server is reached, and how calls to it are relayed.
fn making(target: &Target, loudness: Loudness) -> Result<(Making, relay::Options), Failure> {
    let door = Door::of(target, &Limits::DEFAULT)?;
    let secrets = door.secrets();
    let policy = match door {
        Door::Spawn(_) => Policy::CHILD,
        _ => Policy::REMOTE,
    };
    let connector = Client::builder("cardan", env!("CARGO_PKG_VERSION")).secrets(secrets.clone());
    let way: Arc<dyn Way> = match door {
        Door::Named(named) => return Ok((named.kept(connector, loudness)?, named.relayed())),
        Door::Spawn(mut spawn) => {
            if loudness == Loudness::Verbose {
                *spawn = spawn.on_stderr(|line| tell(&format!("server: {}", clean(line))));
            }
            way(move || std::future::ready(spawn.spawn(&Limits::DEFAULT)))
        }
        Door::Unix(path) => {
            let path = path.to_owned();
            way(move || {
                let path = path.clone();
                async move { socket::connect_unix(path, &Limits::DEFAULT).await }
            })
        }
        Door::Tcp(address) => {
            let address = address.to_owned();
            way(move || {
                let address = address.clone();
                async move { socket::connect_host(&address, &Limits::DEFAULT).await }
            })
        }
        Door::Http(http, _) => {
            let http = http.limits(&Limits::DEFAULT);
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
    Ok((Making { connector, way, policy }, relay::Options { secrets, ..relay::Options::default() }))
}
