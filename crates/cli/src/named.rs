//! A configured server, reached in the one way that leads from a configuration to a link.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use cardan_client::{Client, ConnectError, Connector};
use cardan_config::closest::closest;
use cardan_config::resolve::{Resolved, Surroundings};
use cardan_config::server::Way;
use cardan_config::{Config, Problem, Search, Server, Settings};
use cardan_gateway::configured::{bounded, here, identity, isolation, making, silence};
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{self, Behind};
use cardan_proto::limits::Limits;
use cardan_proto::secret::{Redactor, Secret};
use cardan_proto::session::config::EraChoice;
use cardan_transport::stderr::OnLine;

use crate::args::Options;
use crate::catalogs::Shelf;
use crate::cmd::config::{failure, search};
use crate::daemon::talk::Known;
use crate::failure::Failure;
use crate::misread::meant_or;
use crate::output::tell;
use crate::talk::console::Console;
use crate::talk::inputs::{self, Said};
use crate::target::{FORMS, has_port};
use crate::watch::Loudness;

/// A configured server, expanded.
pub(crate) struct Named {
    server: Server,
    settings: Settings,
    resolved: Resolved,
    search: Search,
    /// What is configured about the daemon.
    daemon: Option<bool>,
    /// The command that answers for the model.
    sampling: Option<String>,
}

impl Named {
    /// Looks a name up, also one that is not enabled: whoever names it wants it.
    pub(crate) fn find(name: &str, file: Option<PathBuf>) -> Result<Self, Failure> {
        let search = search(file)?;
        Self::answered(name, &Config::load(&search), search, &Said::new())
    }

    /// The same where somebody can be asked for what the server wants of its user and nothing answers.
    pub(crate) async fn find_asking(
        name: &str,
        file: Option<PathBuf>,
        console: &Console,
    ) -> Result<Self, Failure> {
        let search = search(file)?;
        let (config, mut said) = (Config::load(&search), Said::new());
        loop {
            // What is asked first may hide what is asked next.
            let open = unanswered(name, &config, &search, &said);
            let more = match open.is_empty() {
                true => Said::new(),
                false => inputs::of_server(console, name, &config, &open).await,
            };
            let is_left = more.len() < open.len();
            said.extend(more);
            if open.is_empty() || is_left {
                return Self::answered(name, &config, search, &said);
            }
        }
    }

    fn answered(name: &str, config: &Config, search: Search, said: &Said) -> Result<Self, Failure> {
        let server = config.server(name).map_err(|problem| unknown(name, config, &problem))?;
        let resolved = here(config, &search, |surroundings| {
            let inputs = |id: &str| (surroundings.inputs)(id).or_else(|| said.get(id).cloned());
            server.resolve(&Surroundings { inputs: &inputs, ..*surroundings })
        });
        let resolved = resolved.map_err(|problem| failure(&problem))?;
        let (settings, daemon) = (config.settings(server), config.daemon);
        let (server, sampling) = (server.clone(), config.client.sampling_command.clone());
        Ok(Self { server, settings, resolved, search, daemon, sampling })
    }

    /// Where its configuration was looked for.
    pub(crate) fn search(&self) -> &Search {
        &self.search
    }

    /// Where its catalog is kept.
    pub(crate) fn shelf(&self) -> Option<Shelf> {
        Shelf::of(&self.server, &self.resolved)
    }

    /// What is configured about the daemon.
    pub(crate) fn daemon(&self) -> Option<bool> {
        self.daemon
    }

    /// What the daemon must have by this name.
    pub(crate) fn known(&self) -> Known {
        let identity = identity(&self.server, &self.resolved, self.settings);
        Known { server: self.server.name.clone(), identity }
    }

    /// The usual bounds with what is configured. What the command line says wins.
    pub(crate) fn bounded(&self, limits: &Limits, options: &Options) -> Limits {
        match options.timeout {
            Some(_) => limits.clone(),
            None => bounded(limits, self.settings),
        }
    }

    /// The command that answers for the model, as it is configured.
    pub(crate) fn sampling(&self) -> Option<String> {
        self.sampling.clone()
    }

    /// The same server with these settings, and its own where these say nothing.
    pub(crate) fn overruled(mut self, settings: Settings) -> Self {
        self.settings = settings.or(self.settings);
        self
    }

    /// How calls to it are relayed, as it is configured.
    pub(crate) fn relayed(&self) -> relay::Options {
        relay::Options {
            secrets: self.secrets(),
            call_timeout: silence(self.settings),
            isolation: isolation(self.settings),
            behind: match self.server.way {
                Way::Command(_) => Behind::Many,
                _ => Behind::One,
            },
            ..relay::Options::default()
        }
    }

    /// What nobody should read.
    pub(crate) fn secrets(&self) -> Redactor {
        self.resolved.redactor.clone()
    }

    /// Opens a session. What the command line says wins over the configuration.
    pub(crate) async fn reach(
        &self,
        connector: Connector,
        loudness: Loudness,
        limits: &Limits,
        options: &Options,
    ) -> Result<Client, Failure> {
        let mut settings = self.settings;
        if options.timeout.is_some() {
            (settings.start_timeout, settings.call_timeout) = (None, None);
        }
        if options.era() != EraChoice::Auto {
            (settings.era, settings.revision) = (Some(options.era()), None);
        }
        let made = self.making(settings, connector, loudness, limits)?;
        let reached = made.way.reach(made.connector).await;
        reached.map_err(|error| match error {
            ConnectError::Link(_) => Failure::of_connecting(error)
                .next(format!("see how it is configured with `cardan config explain {}`", self.server.name)),
            error => Failure::of_connecting(error),
        })
    }

    /// How a connection to it is made and kept, as it is configured.
    pub(crate) fn kept(&self, connector: Connector, loudness: Loudness) -> Result<Making, Failure> {
        self.making(self.settings, connector, loudness, &Limits::DEFAULT)
    }

    fn making(
        &self,
        settings: Settings,
        connector: Connector,
        loudness: Loudness,
        limits: &Limits,
    ) -> Result<Making, Failure> {
        let secrets = self.secrets();
        let on_stderr: Option<OnLine> = match loudness {
            Loudness::Verbose => {
                Some(Arc::new(move |line: &str| tell(&format!("server: {}", secrets.redact(line)))))
            }
            Loudness::Normal => None,
        };
        let made = making(&self.server, &self.resolved, settings, connector, limits, on_stderr);
        made.map_err(|problem| failure(&problem))
    }
}

/// What a server wants of its user and nothing answers yet, as far as it is reached without an answer. What else is wrong with it is
/// told by whoever uses it; one that is not trusted asks for nothing.
fn unanswered(name: &str, config: &Config, search: &Search, said: &Said) -> Vec<String> {
    let Ok(server) = config.server(name) else { return Vec::new() };
    let open = RefCell::new(Vec::new());
    here(config, search, |surroundings| {
        let inputs = |id: &str| {
            let known = (surroundings.inputs)(id).or_else(|| said.get(id).cloned());
            known.or_else(|| {
                let mut open = open.borrow_mut();
                if !open.iter().any(|other| other == id) {
                    open.push(id.to_owned());
                }
                Some(Secret::new(""))
            })
        };
        let _ = server.resolve(&Surroundings { inputs: &inputs, ..*surroundings });
    });
    open.into_inner()
}

/// A name that stands for nothing: it, or its whole file, is wrong, or it is not there.
fn unknown(name: &str, config: &Config, problem: &Problem) -> Failure {
    let failure = absent(name, config, problem);
    if is_wrong(name, config) {
        return failure;
    }
    let names = config.servers.iter().map(|server| server.name.as_str());
    let host = name.split('/').next().unwrap_or_default();
    match &problem.next {
        Some(next) if closest(name, names).is_some() => failure.next(next.to_string()),
        // An address that lacks its beginning.
        _ if has_port(host) => {
            failure.next(format!("an address begins with how it is spoken to: http://{name}"))
        }
        _ if host.contains('.') && host.len() < name.len() => {
            failure.next(format!("an address begins with how it is spoken to: https://{name}"))
        }
        Some(next) if !config.servers.is_empty() => failure.next(meant_or(next.to_string())),
        _ => failure.next(meant_or(FORMS)),
    }
}

/// The server of this name, for those who look at what is configured and do not call it.
pub(crate) fn found<'a>(name: &str, config: &'a Config) -> Result<&'a Server, Failure> {
    config.server(name).map_err(|problem| absent(name, config, &problem))
}

/// What is wrong with it; a name that no file has is wrong at no place of a file.
fn absent(name: &str, config: &Config, problem: &Problem) -> Failure {
    if is_wrong(name, config) {
        return failure(problem);
    }
    let absent = Failure::usage(format!("no server named `{name}` is configured"));
    match &problem.next {
        Some(next) => absent.next(next.to_string()),
        None => absent,
    }
}

/// Is something wrong with it, or with a whole file in which it may be?
fn is_wrong(name: &str, config: &Config) -> bool {
    let mut about = config.problems.iter().map(|problem| problem.server.as_deref());
    about.any(|server| server.is_none_or(|server| server == name))
}
