//! From a configuration to the servers of a fleet.

use std::time::Duration;

use cardan_client::Connector;
use cardan_config::resolve::Surroundings;
use cardan_config::server::{EnvPolicy, Server, Settings, Tools, Way};
use cardan_config::{Config, Problem};
use cardan_proto::era::Revisions;
use cardan_proto::limits::Limits;
use cardan_proto::upkeep::policy::Policy;

use crate::fleet::{Making, Spec};
use crate::reach::way_to;
use crate::rules::{Pattern, RuleSet, Rules};

/// The enabled servers of a configuration. One that cannot be reached as it is written is among them, with its
/// problem, so that whoever looks sees it; the others are not held up.
#[must_use]
pub fn specs(
    config: &Config,
    surroundings: &Surroundings<'_>,
    connector: &Connector,
    limits: &Limits,
) -> Vec<Spec> {
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let mut specs: Vec<_> = enabled
        .map(|server| spec(server, config.settings(server), surroundings, connector, limits))
        .collect();
    specs.extend(broken(config));
    specs
}

/// One server.
#[must_use]
pub fn spec(
    server: &Server,
    settings: Settings,
    surroundings: &Surroundings<'_>,
    connector: &Connector,
    limits: &Limits,
) -> Spec {
    let digest = server.digest().to_string();
    let making = making(server, settings, surroundings, connector, limits);
    Spec {
        name: server.name.clone(),
        kind: server.way.kind(),
        identity: format!("{digest} {settings:?}"),
        digest,
        making: making.map_err(|problem| problem.to_string().into()),
        lazy: settings.lazy.unwrap_or(false),
        idle_stop: settings.idle_stop.filter(|after| !after.is_zero()),
        concurrency: settings.concurrency.filter(|max| *max > 0).map(|max| max as usize),
        rules: rules(&server.tools),
    }
}

/// Servers that could not even be read.
fn broken(config: &Config) -> Vec<Spec> {
    let named = config.problems.iter().filter_map(|problem| Some((problem.server.clone()?, problem)));
    let absent = named.filter(|(name, _)| !config.servers.iter().any(|server| server.name == *name));
    let mut specs: Vec<Spec> = Vec::new();
    for (name, problem) in absent {
        if specs.iter().all(|spec| spec.name != name) {
            specs.push(Spec::broken(name, problem.to_string()));
        }
    }
    specs
}

fn making(
    server: &Server,
    settings: Settings,
    surroundings: &Surroundings<'_>,
    connector: &Connector,
    limits: &Limits,
) -> Result<Making, Box<dyn std::fmt::Display>> {
    let resolved = server.resolve(surroundings).map_err(|problem: Problem| Box::new(problem) as Box<_>)?;
    let limits = bounded(limits, settings);
    let policy = settings.env_policy.unwrap_or(EnvPolicy::Inherit);
    let way = way_to(&resolved, policy, &limits).map_err(|error| Box::new(error) as Box<_>)?;
    let mut connector = connector.clone().secrets(resolved.redactor.clone()).limits(limits);
    if let Some(era) = settings.era {
        connector = connector.era(era);
    }
    if let Some(revision) = settings.revision {
        connector = connector.revisions(Revisions::only(revision));
    }
    if let Some(dialect) = settings.dialect {
        connector = connector.dialect(dialect);
    }
    let policy = match &server.way {
        Way::Command(_) => Policy::CHILD,
        _ => Policy::REMOTE,
    };
    Ok(Making { connector, way, policy })
}

/// The usual bounds, with what is said for this server.
fn bounded(limits: &Limits, settings: Settings) -> Limits {
    let mut limits = limits.clone();
    if let Some(start) = settings.start_timeout {
        // Starting always ends: without a bound of its own it has the longest that is sensible.
        limits.open_timeout = if start.is_zero() { Duration::from_secs(3600) } else { start };
        limits.probe_timeout = limits.probe_timeout.min(limits.open_timeout);
    }
    if let Some(call) = settings.call_timeout {
        (limits.call_idle_timeout, limits.call_total_timeout) = (call, limits.call_total_timeout.max(call));
    }
    limits
}

fn rules(tools: &Tools) -> RuleSet {
    let patterns = |names: &Vec<String>| names.iter().map(|name| Pattern::new(name)).collect();
    let tools =
        Rules { allow: tools.allow.as_ref().map(patterns), deny: patterns(&tools.deny), ..Rules::default() };
    RuleSet { tools, ..RuleSet::default() }
}
