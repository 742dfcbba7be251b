//! `cardan serve --config FILE`, `cardan serve --all`: all configured servers as one.

mod health;
mod metrics;
mod pins;
mod replicas;
pub(super) mod told;

use std::sync::Arc;
use std::time::Duration;

use cardan_config::Config;
use cardan_config::replicas::Shared;
use cardan_endpoint::{Options, Sites};
use cardan_gateway::audit::{Audit, Written};
use cardan_gateway::cache::CatalogCache;
use cardan_gateway::configured::{naming, pinning, policy};
use cardan_gateway::fleet::{self, Fleet};
use cardan_gateway::front::{self, Front};
use cardan_gateway::meter::Allowances;
use cardan_gateway::relay::Lend;
use cardan_gateway::reload::{Follow, Following};
use cardan_gateway::trace::Tracer;
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::{GRACE, WINDOW};
use cardan_replicas::Place as StorePlace;
use cardan_runtime::service::Host as _;

use self::pins::{Approvals, pins};
use self::told::Told;
use super::config::{failure, search, variable};
use super::greeting::{Served, Shown, greeting};
use super::lock::Lock;
use super::pipes;
use super::place::Place;
use super::servers::Recipe;
use super::servers::row::Row;
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::hangup::Hangups;
use crate::interrupt::Interrupts;
use crate::log::Log;
use crate::output::clean;
use crate::telemetry::traces;

/// For someone who starts it by hand.
const HINT: &str = "serving MCP on stdin and stdout, a message per line; end with Ctrl-D
clients start this command themselves; to serve on a port, leave out --stdio";

/// After a second signal what is known of calls is still written down, if it takes no longer.
const HURRY: Duration = Duration::from_secs(1);

/// How a token lasts.
const KEEP: &str = "see `cardan key --help`";

/// Below this folder each server is served alone.
const FOLDER: &str = "/servers/";

pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    let (stop, hangups) = (Interrupts::watch()?, Hangups::watch()?);
    // What is wrong with the port is told before anything is started.
    let place = Place::open(args.stdio, args.unix.as_deref(), &args.listening).await?;
    let gateway = Gateway::start(&args, place.limits(&args.listening), (hangups, stop.clone()))?;
    let audit = gateway.audit.clone();
    let serving = async {
        let served = gateway.serve(place, &args, &stop).await;
        gateway.end().await;
        served
    };
    let served = stop.unless_twice(serving).await;
    if let (None, Some(audit)) = (&served, audit)
        && audit.close_within(HURRY) == Written::Some
    {
        args.log.warn("audit", "the last calls were not written down: the file takes too long");
    }
    served.unwrap_or(Ok(()))
}

/// All configured servers, followed and told of.
struct Gateway {
    front: Front,
    told: Told,
    limits: Limits,
    cache: Option<CatalogCache>,
    lock: Lock,
    audit: Option<Arc<Audit>>,
    tracer: Option<Arc<Tracer>>,
    /// What replicas share, where there are several.
    shared: Option<(Shared, StorePlace)>,
    /// Looks again when something was approved.
    _approvals: Option<Approvals>,
}

impl Gateway {
    /// Begins to run what is configured.
    fn start(args: &ServeArgs, limits: Limits, signals: (Hangups, Interrupts)) -> Result<Self, Failure> {
        let log = args.log;
        let recipe = Recipe::new(search(args.config.clone())?).declaring();
        let follow = Follow::read(recipe.search.clone());
        // Whom it lets in, and to what, is not known: so nobody comes in.
        if let Some(problem) = follow.config().unread.first() {
            let failure = failure(problem);
            let next = failure.next_step().unwrap_or("mend it");
            let next =
                format!("{next}; what it says of keys and policy must be known before anything is served");
            return Err(failure.next(next));
        }
        let shared = replicas::shared(follow.config())?;
        let drain_timeout = args.listening.grace.or(follow.config().gateway.grace).unwrap_or(GRACE);
        let limits = Limits { drain_timeout, ..limits };
        let cache = CatalogCache::of_user(variable);
        let options = fleet::Options { cache: cache.clone(), ..fleet::Options::default() };
        let pins = pins(pinning(follow.config()), log)?;
        let audit = audit(follow.config(), log)?;
        let tracer = args.telemetry.start(follow.config().telemetry.otlp.as_deref(), log)?;
        let fleet = Fleet::start(recipe.usable(follow.config(), log)?, options);
        let events = fleet.events();
        let options = front::Options {
            naming: naming(follow.config()),
            lend: Lend::Modern,
            policy: policy(follow.config()),
            allowances: Allowances::of(follow.config()),
            pins: pins.clone(),
            audit: audit.clone(),
            trace: tracer.clone(),
            limits: limits.clone(),
            window: follow.config().gateway.window.unwrap_or(WINDOW),
            ..front::Options::default()
        };
        let front = Front::start(fleet.clone(), options);
        let (every, named) = (Limits::DEFAULT.config_poll_interval, front.clone());
        let lock = Lock::of(follow.config(), log);
        let locked = lock.clone();
        let approvals = pins.clone().map(|pins| Approvals::follow(front.clone(), pins, every));
        let following = Following::start(fleet, follow, every, move |config| {
            named.adopt(naming(config), policy(config));
            named.allow(Allowances::of(config));
            locked.set(config, log);
            if let Some(pins) = &pins {
                pins.set(pinning(config));
                named.repin();
            }
            recipe.specs(config)
        });
        let told = Told::start(front.clone(), events, following, signals, log);
        Ok(Self { front, told, limits, cache, lock, audit, tracer, shared, _approvals: approvals })
    }

    async fn serve(&self, place: Place, args: &ServeArgs, stop: &Interrupts) -> Result<(), Failure> {
        let front = &self.front;
        let close = || front.close("asked to stop");
        // A client is told once what there is, so it is worth a moment to know.
        front.settled().await;
        match place {
            Place::Pipes => pipes::serve(&self.limits, HINT, stop, |link| front.serve(link), close).await,
            Place::Socket(socket) => {
                let serve = |link| {
                    let front = front.clone();
                    async move { front.serve(link).await }
                };
                socket.serve(&self.limits, (stop, args.log), serve, close).await
            }
            Place::Port(door) => {
                self.lock.closed(door.address, &args.listening.hosts, KEEP, args.log)?;
                let alone = front.clone();
                let replicas = match &self.shared {
                    Some(shared) => Some(replicas::join(shared, &self.limits, args.log).await?),
                    None => None,
                };
                let options = Options::new(door.allow.clone()).verify(self.lock.verify());
                let options = options.traces(traces(self.tracer.as_ref()));
                let options = health::pages(options, front.fleet().clone(), replicas.clone());
                let (options, counting) = metrics::page(options, front, replicas.clone());
                let options = replicas.iter().cloned().fold(options, Options::replicas);
                let sites = Sites::new(front.clone(), options, FOLDER, move |name| alone.alone(name));
                counting.of(&sites);
                let served = Served::All(self.shown(&sites));
                let greeting = greeting(&served, door.address, door.identity.as_ref(), &args.listening);
                args.log.start(&door.url(), &greeting);
                self.told.flaws();
                door.listener.serve(sites, args.log.asked(stop)).await;
                if let Some(replicas) = replicas {
                    replicas.release().await;
                }
                Ok(())
            }
        }
    }

    fn shown(&self, sites: &Sites<Front>) -> Vec<Shown> {
        let shown = |upstream: &Arc<fleet::Upstream>| Shown {
            path: sites.path(upstream.name()),
            state: clean(&Row::of(upstream).brief()).into_owned(),
        };
        self.front.fleet().upstreams().iter().map(shown).collect()
    }

    async fn end(self) {
        self.told.stop().await;
        self.front.end("asked to stop").await;
        if let Some(audit) = self.audit {
            // Elsewhere, so that a second signal is heard though the file takes nothing. It panics only with the writer.
            let _ = tokio::task::spawn_blocking(move || audit.close()).await;
        }
        if let Some(tracer) = self.tracer {
            tracer.close().await;
        }
        if let Some(cache) = self.cache {
            cache.prune();
        }
    }
}

/// Where calls are written down, as a configuration says.
fn audit(config: &Config, log: Log) -> Result<Option<Arc<Audit>>, Failure> {
    let Some(path) = &config.gateway.audit else { return Ok(None) };
    let audit = Audit::file(path, move |line| log.warn("audit", line));
    let wrong = |error| {
        let message = format!("calls cannot be written down in {}: {error}", path.display());
        Failure::usage(message).next("name a file that can be written after `audit` in [gateway]")
    };
    audit.map(|audit| Some(Arc::new(audit))).map_err(wrong)
}
