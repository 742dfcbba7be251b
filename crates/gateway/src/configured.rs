//! From a configuration to the servers of a fleet.

use std::time::Duration;

use cardan_client::Connector;
use cardan_config::digest::Digest;
use cardan_config::gateway;
use cardan_config::reconnect::Reconnect;
use cardan_config::resolve::{Commands, Reach, Resolved, Surroundings};
use cardan_config::rules;
use cardan_config::server::{EnvPolicy, Server, Sessions, Settings, Way};
use cardan_config::{Config, Problem, Search};
use cardan_proto::era::Revisions;
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::START_MAX;
use cardan_proto::secret::Redactor;
use cardan_proto::upkeep::policy::Policy as Upkeep;
use cardan_transport::stderr::OnLine;

use crate::fleet::{Credentials, Making, Spec};
use crate::merge::Naming;
use crate::pin;
use crate::policy::Policy;
use crate::reach::way_to;
use crate::relay::Isolation;
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

/// How names of several servers are kept apart, as a configuration says.
#[must_use]
pub fn naming(config: &Config) -> Naming {
    let separator = config.gateway.separator.as_deref().unwrap_or(Naming::SEPARATOR).into();
    match config.gateway.naming {
        Some(gateway::Naming::Never) => Naming::Never(separator),
        Some(gateway::Naming::Priority) => Naming::Priority(separator),
        Some(gateway::Naming::Prefix) | None => Naming::Prefix(separator),
    }
}

/// Who may see and use what, as a configuration says.
#[must_use]
pub fn policy(config: &Config) -> Policy {
    Policy::of(&config.policies)
}

/// What becomes of tools that have changed, as a configuration says.
#[must_use]
pub fn pinning(config: &Config) -> pin::Mode {
    match config.gateway.pin {
        Some(gateway::Pin::Off) => pin::Mode::Off,
        Some(gateway::Pin::Block) => pin::Mode::Block,
        Some(gateway::Pin::Warn) | None => pin::Mode::Warn,
    }
}

/// Does something with what this process expands text with: its variables, its user, the folder of its project.
/// Commands in values are not run.
pub fn here<T>(config: &Config, search: &Search, work: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let env = |name: &str| std::env::var(name).ok();
    let project = search.project();
    work(&Surroundings {
        env: &env,
        inputs: &|id| config.input(id, &env),
        home: search.folders.home.as_deref(),
        workspace: Some(&project),
        commands: Commands::Refuse,
    })
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
    let mut credentials = Credentials::Known;
    let (digest, identity, secrets, making) = match server.resolve(surroundings) {
        Ok(resolved) => {
            let making = making(server, &resolved, settings, connector.clone(), limits, None);
            let making = making.map_err(|problem| problem.to_string().into());
            if let Reach::Http(endpoint) | Reach::Sse(endpoint) | Reach::WebSocket(endpoint) = &resolved.reach
                && endpoint.helper.is_some()
            {
                credentials = Credentials::Helped;
            }
            // A catalog may be for one credential alone, so another one finds nothing under its name.
            let identity = identity(server, &resolved, settings);
            (resolved.fingerprint(server.digest()), identity, resolved.redactor, making)
        }
        Err(problem) => {
            let digest = server.digest();
            let identity = identified(digest, settings);
            (digest, identity, Redactor::default(), Err(problem.to_string().into()))
        }
    };
    Spec {
        name: server.name.clone(),
        kind: server.way.kind(),
        identity,
        digest: digest.to_string(),
        pinned: server.digest().to_string(),
        making,
        lazy: settings.lazy.unwrap_or(false),
        idle_stop: settings.idle_stop.filter(|after| !after.is_zero()),
        call_timeout: silence(settings),
        concurrency: settings.concurrency.filter(|max| *max > 0).map(|max| max as usize),
        isolation: isolation(settings),
        loan: None,
        rules: rule_set(server),
        secrets,
        credentials,
    }
}

/// What makes an expanded server another connection than one that is configured or expanded otherwise. No secret can be read
/// back from it.
#[must_use]
pub fn identity(server: &Server, resolved: &Resolved, settings: Settings) -> String {
    identified(resolved.fingerprint(server.digest()), settings)
}

fn identified(digest: Digest, settings: Settings) -> String {
    format!("{digest} {:?}", reached_by(settings))
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

/// How a connection to an expanded server is made and kept. `on_stderr` gets what a started one writes there.
pub fn making(
    server: &Server,
    resolved: &Resolved,
    settings: Settings,
    connector: Connector,
    limits: &Limits,
    on_stderr: Option<OnLine>,
) -> Result<Making, Problem> {
    let limits = bounded(limits, settings);
    let policy = settings.env_policy.unwrap_or(EnvPolicy::Inherit);
    let spoken = settings.dialect.unwrap_or_default();
    let way = way_to(resolved, (policy, spoken), &limits, on_stderr).map_err(|error| {
        server.problem(error.field(), resolved.redactor.redact(&error.to_string()).into_owned())
    })?;
    let mut connector = connector.secrets(resolved.redactor.clone()).limits(limits);
    if let Some(era) = settings.era {
        connector = connector.era(era);
    }
    if let Some(revision) = settings.revision {
        connector = connector.revisions(Revisions::only(revision));
    }
    if let Some(dialect) = settings.dialect {
        connector = connector.dialect(dialect);
    }
    let usual = match &server.way {
        Way::Command(_) => Upkeep::CHILD,
        _ => Upkeep::REMOTE,
    };
    Ok(Making { connector, way, policy: settings.reconnect.over(usual) })
}

/// The usual bounds, with what is said for this server.
#[must_use]
pub fn bounded(limits: &Limits, settings: Settings) -> Limits {
    let mut limits = limits.clone();
    if let Some(start) = settings.start_timeout {
        // Starting always ends: without a bound of its own it has the longest that is sensible.
        limits.open_timeout = if start.is_zero() { START_MAX } else { start };
        limits.probe_timeout = limits.probe_timeout.min(limits.open_timeout);
    }
    if let Some(call) = settings.call_timeout {
        // Zero is for ever, in all too.
        let total = if call.is_zero() { call } else { limits.call_total_timeout.max(call) };
        (limits.call_idle_timeout, limits.call_total_timeout) = (call, total);
    }
    limits
}

/// Who shares sessions with a server, as its settings say.
#[must_use]
pub fn isolation(settings: Settings) -> Isolation {
    match settings.sessions {
        Some(Sessions::Shared) => Isolation::Shared,
        Some(Sessions::Principal) => Isolation::Principal,
        Some(Sessions::Client) | None => Isolation::Client,
        Some(Sessions::Call) => Isolation::Call,
    }
}

/// How long a server may be silent about a call, as its settings say; none: as long as its client waits.
#[must_use]
pub fn silence(settings: Settings) -> Option<Duration> {
    settings.call_timeout.filter(|silent| !silent.is_zero())
}

/// The settings without those that are changed while a server runs.
fn reached_by(settings: Settings) -> Settings {
    Settings { lazy: None, idle_stop: None, concurrency: None, reconnect: Reconnect::default(), ..settings }
}

/// What is shown of a server, and under which names, as its configuration says.
#[must_use]
pub fn rule_set(server: &Server) -> RuleSet {
    let patterns = |names: &Vec<String>| names.iter().map(|name| Pattern::new(name)).collect();
    let rules = |said: &rules::Rules| Rules {
        allow: said.allow.as_ref().map(patterns),
        deny: patterns(&said.deny),
        rename: said.rename.clone(),
        describe: said.describe.clone(),
    };
    RuleSet {
        tools: rules(&server.tools),
        prompts: rules(&server.prompts),
        resources: rules(&server.resources),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Zero is for ever: in silence, and in all. Only starting always ends.
    #[test]
    fn zero_is_for_ever() {
        let of = |start, call| {
            let settings = Settings { start_timeout: start, call_timeout: call, ..Settings::default() };
            let limits = bounded(&Limits::DEFAULT, settings);
            (limits.open_timeout, limits.call_idle_timeout, limits.call_total_timeout)
        };
        let (usual, zero, hour) = (Limits::DEFAULT, Duration::ZERO, START_MAX);
        assert_eq!(of(None, None), (usual.open_timeout, usual.call_idle_timeout, usual.call_total_timeout));
        assert_eq!(of(Some(zero), Some(zero)), (hour, zero, zero));
        assert_eq!(of(Some(hour), Some(hour)), (hour, hour, hour));
    }
}
