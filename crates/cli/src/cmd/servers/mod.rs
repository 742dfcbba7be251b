//! `cardan servers`: the configured servers, started, and how each stands.
//!
//! Nothing here prints a value that may be secret: causes come from the fleet, which hides them.

pub(crate) mod args;
pub(super) mod live;
mod remote;
pub(super) mod row;

use bytes::Bytes;
use cardan_client::{Answerers, Client, Connector};
use cardan_config::gateway::Gateway;
use cardan_config::{Config, Search};
use cardan_gateway::cache::CatalogCache;
use cardan_gateway::configured::{here, naming, specs};
use cardan_gateway::fleet::{Fleet, Options, Spec};
use cardan_gateway::merge::{Collision, Naming};
use cardan_gateway::reload::{Follow, Following};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::Ask;
use serde_json::{Value, json};

use self::args::{Patience, ServersArgs};
use self::row::{Row, table};
use super::config::{failure, search, variable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hangup::Hangups;
use crate::interrupt::Interrupts;
use crate::log::Log;
use crate::look::Surface;
use crate::output::{self, Form, clean, tell};
use crate::progress::{Bounds, during};

pub(crate) async fn run(args: ServersArgs) -> Result<(), Failure> {
    let interrupts = Interrupts::watch()?;
    if let Some(at) = &args.at {
        return remote::run(at, &args, &interrupts).await;
    }
    let recipe = Recipe::new(search(args.config.clone())?);
    let cache = CatalogCache::of_user(variable);
    let options = Options { cache: cache.clone(), ..Options::default() };
    let outcome = if args.watch {
        let hangups = Hangups::watch()?;
        let follow = Follow::read(recipe.search.clone());
        let fleet = Fleet::start(recipe.usable(follow.config(), Log::USUAL)?, options);
        wait(&fleet, args.patience(), &interrupts).await;
        let every = Limits::DEFAULT.config_poll_interval;
        let following = Following::start(fleet.clone(), follow, every, move |config| recipe.specs(config));
        let outcome = live::watch(&fleet, following, args.form(), &interrupts, hangups).await;
        farewell(&fleet, &interrupts).await;
        outcome
    } else {
        let config = Config::load(&recipe.search);
        let fleet = Fleet::start(recipe.usable(&config, Log::USUAL)?, options);
        let outcome = match wait(&fleet, args.patience(), &interrupts).await {
            Waited::Enough => {
                // Who says nothing of a gateway does not want to know what one would show.
                if config.gateway != Gateway::default() {
                    collisions(&fleet, &naming(&config));
                }
                show(&fleet, args.form())
            }
            Waited::Interrupted => Err(Failure::new(Exit::Interrupted, "interrupted by the user")),
        };
        farewell(&fleet, &interrupts).await;
        outcome
    };
    if let Some(cache) = cache {
        cache.prune();
    }
    outcome
}

/// How a configuration becomes servers to run.
pub(crate) struct Recipe {
    connector: Connector,
    pub(crate) search: Search,
}

impl Recipe {
    pub(crate) fn new(search: Search) -> Self {
        Self { connector: Client::builder("cardan", env!("CARGO_PKG_VERSION")), search }
    }

    /// The same for whoever lists servers on behalf of others: all that clients may be able to do is declared, because
    /// some servers list only what their client can use.
    pub(crate) fn declaring(mut self) -> Self {
        let capabilities = json!({
            "elicitation": { "form": {}, "url": {} },
            "sampling": {},
            "roots": { "listChanged": true },
        });
        let answerers = Answerers::relayed(capabilities, |_, ask: Ask| {
            let answer = match ask.method {
                Method::RootsList => Ok(Bytes::from_static(b"{\"roots\":[]}")),
                _ => Err(Fault::internal("nobody is here who could be asked; ask within a call")),
            };
            Box::pin(std::future::ready(answer))
        });
        self.connector = self.connector.answer(answerers);
        self
    }

    pub(crate) fn specs(&self, config: &Config) -> Vec<Spec> {
        here(config, &self.search, |surroundings| {
            specs(config, surroundings, &self.connector, &Limits::DEFAULT)
        })
    }

    /// The servers, of which there is at least one. What is wrong with a file is told; what is wrong with a server is
    /// shown where it stands.
    pub(crate) fn usable(&self, config: &Config, log: Log) -> Result<Vec<Spec>, Failure> {
        let specs = self.specs(config);
        let mut broken = config.problems.iter().filter(|problem| problem.server.is_none());
        if specs.is_empty() {
            return Err(match broken.next_back() {
                Some(problem) => failure(problem),
                None if config.servers.is_empty() => none_configured(),
                None => Failure::usage("no configured server is enabled")
                    .next("see them with `cardan config list`, and enable one in its file"),
            });
        }
        broken.chain(&config.ignored).for_each(|problem| log.warn("configuration", &problem.to_string()));
        Ok(specs)
    }
}

/// There is nothing to look at.
pub(crate) fn none_configured() -> Failure {
    Failure::usage("no server is configured").next(
        "add one with `cardan config add NAME URL` or `cardan config add NAME -- COMMAND`, or see what \
         other tools have with `cardan config import`",
    )
}

enum Waited {
    Enough,
    Interrupted,
}

async fn wait(fleet: &Fleet, patience: Patience, interrupts: &Interrupts) -> Waited {
    let waiting = async {
        match patience {
            // Not even a turn of the runtime: what is known is known.
            Patience::Window(window) if window.is_zero() => {}
            Patience::Window(window) => fleet.settle(window).await,
            Patience::Started(within) => {
                during("starting the servers", Bounds::within(within), fleet.started(within)).await;
            }
        }
    };
    tokio::select! {
        biased;
        () = waiting => Waited::Enough,
        () = interrupts.first() => Waited::Interrupted,
    }
}

/// Ends all servers. One Ctrl-C more than it took to get here ends the wait for them.
async fn farewell(fleet: &Fleet, interrupts: &Interrupts) {
    tokio::select! {
        () = fleet.close("done") => {}
        () = interrupts.another() => {}
    }
}

fn show(fleet: &Fleet, form: Form) -> Result<(), Failure> {
    let rows = Row::all(fleet);
    match form {
        Form::Json => output::print_json(&servers(&rows).to_string())?,
        Form::Text => output::show(&table(&rows, Surface::stdout().columns())).map(drop)?,
    }
    let down: Vec<&str> = rows.iter().filter(|row| !row.is_fine()).map(Row::name).collect();
    let next = "see how one is configured with `cardan config explain NAME`, or wait longer with --wait";
    all_up(&down, rows.len()).map_err(|failure| failure.next(next))
}

fn all_up(down: &[&str], all: usize) -> Result<(), Failure> {
    if down.is_empty() {
        return Ok(());
    }
    let message = format!("{} of {all} servers are not up: {}", down.len(), down.join(", "));
    Err(Failure::new(Exit::NotAllUp, message))
}

/// Tells names that two servers want, as a gateway before them would see it.
fn collisions(fleet: &Fleet, naming: &Naming) {
    for collision in Collision::told(&fleet.merged(naming).0.collisions) {
        tell(&clean(&format!("warning: {collision}")));
    }
}

fn servers(rows: &[Row]) -> Value {
    json!({ "servers": rows.iter().map(Row::json).collect::<Vec<_>>() })
}
