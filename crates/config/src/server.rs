//! A configured server, whoever's file it comes from.

use std::path::PathBuf;
use std::time::Duration;

use cardan_proto::dialect::Dialect;
use cardan_proto::era::Revision;
use cardan_proto::session::config::EraChoice;

use crate::reconnect::Reconnect;
use crate::rules::Rules;
use crate::text::{Part, Text};
use crate::tool::Tool;
use crate::tree::{Entry, Node};
use crate::trust::Standing;

/// A configured server. Nothing in it is expanded, and printing it shows no literal value.
#[derive(Debug, Clone)]
pub struct Server {
    /// What it is called.
    pub name: String,
    /// How it is reached.
    pub way: Way,
    /// Is it to be used?
    pub enabled: bool,
    /// What is said about calls and upkeep.
    pub settings: Settings,
    /// Which of its tools are offered, and how.
    pub tools: Rules,
    /// The same for prompts.
    pub prompts: Rules,
    /// The same for resources and templates.
    pub resources: Rules,
    /// How the process is locked in, as it was written.
    pub isolation: Option<Node>,
    /// What tools say that has no meaning here, kept for writing it back.
    pub extra: Vec<(Tool, Vec<Entry>)>,
    /// Where it was read.
    pub origin: Provenance,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A process that we start.
    Command(Launch),
    /// Streamable HTTP, or older HTTP+SSE where the server has no other.
    Http(Remote),
    /// HTTP+SSE as the first revision had it, and nothing else.
    Sse(Remote),
    /// WebSocket.
    WebSocket(Remote),
    /// A Unix socket, by its path.
    Unix(Text),
    /// A named pipe of Windows, by its path.
    Pipe(Text),
    /// `host:port`.
    Tcp(Text),
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Launch {
    /// The program: a name to be found in `PATH`, or a path.
    pub program: Text,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Variables set for it; None removes one. They win over files.
    pub env: Vec<(String, Option<Text>)>,
    /// Variables of ours that it gets too, where they are set.
    pub pass: Vec<String>,
    /// Files with more variables; later ones win.
    pub env_files: Vec<Text>,
    /// Where it is started.
    pub cwd: Option<Text>,
}

/// A server on the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remote {
    /// Its address.
    pub url: Text,
    /// Sent with every request.
    pub headers: Vec<(String, Text)>,
    /// A command that prints more headers as a JSON object.
    pub headers_helper: Option<Text>,
    /// The variable with the bearer token.
    pub bearer_env: Option<String>,
    /// Certificates trusted beside the machine's own.
    pub ca: Option<Text>,
}

/// What can be said for one server, or for all under `[defaults]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Longest wait for the server to be ready; zero waits for an hour.
    pub start_timeout: Option<Duration>,
    /// Longest wait for an answer; zero waits for ever.
    pub call_timeout: Option<Duration>,
    /// How the session is opened.
    pub era: Option<EraChoice>,
    /// The revision to offer.
    pub revision: Option<Revision>,
    /// The foreign wire form it speaks.
    pub dialect: Option<Dialect>,
    /// Which of our variables a started server sees.
    pub env_policy: Option<EnvPolicy>,
    /// Started by its first use rather than at once?
    pub lazy: Option<bool>,
    /// Stopped after so long without use.
    pub idle_stop: Option<Duration>,
    /// Calls at a time.
    pub concurrency: Option<u32>,
    /// Who shares sessions with it, behind a gateway.
    pub sessions: Option<Sessions>,
    /// By which numbers its connection is kept.
    pub reconnect: Reconnect,
}

/// Who shares sessions with a server, behind a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// All clients.
    Shared,
    /// The clients of one principal.
    Principal,
    /// No legacy client with any other.
    Client,
    /// No call with any other.
    Call,
}

impl Sessions {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("shared", Self::Shared),
        ("principal", Self::Principal),
        ("client", Self::Client),
        ("call", Self::Call),
    ];
}

/// Which of our variables a started server sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvPolicy {
    /// All of them.
    Inherit,
    /// Those that programs need to run at all.
    Minimal,
    /// None.
    Clean,
}

impl EnvPolicy {
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("inherit", Self::Inherit), ("minimal", Self::Minimal), ("clean", Self::Clean)];
}

/// Where a server was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// The file.
    pub file: PathBuf,
    /// The line of its name, from 1; 0 where it was not read from a file.
    pub line: usize,
    /// Whose file it is.
    pub tool: Option<Tool>,
    /// The project that it is for, where a user's file says so.
    pub project: Option<PathBuf>,
    /// May what the file says be done?
    pub standing: Standing,
    /// Line and column of each key in its table, and of the keys in their tables.
    pub(crate) places: Vec<(String, usize, usize)>,
}

impl Provenance {
    /// Where a field is: a key of the server, or a variable or header of it; else where its name is.
    #[must_use]
    pub fn place_of(&self, field: &str) -> (usize, usize) {
        let words: &[&str] = match field {
            "url" => &["url", "serverUrl", "httpUrl", "baseUrl", "endpoint"],
            "env_file" => &["env_file", "envFile"],
            "bearer_env" => &["bearer_env", "bearer_token_env_var", "bearerTokenEnv"],
            "args" => &["args", "command"],
            other => &[other],
        };
        let place = words.iter().find_map(|word| self.places.iter().find(|(key, ..)| key == word));
        place.map_or((self.line, 1), |(_, line, column)| (*line, *column))
    }
}

impl Server {
    /// A server that comes from no file.
    pub fn new(name: impl Into<String>, way: Way) -> Self {
        Self {
            name: name.into(),
            way,
            enabled: true,
            settings: Settings::default(),
            tools: Rules::default(),
            prompts: Rules::default(),
            resources: Rules::default(),
            isolation: None,
            extra: Vec::new(),
            origin: Provenance::default(),
        }
    }

    /// Do they say the same, wherever they stand?
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.name == other.name && self.differences(other).is_empty()
    }

    /// The parts in which they differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("way", self.way.sorted() == other.way.sorted()),
            ("enabled", self.enabled == other.enabled),
            ("settings", self.settings == other.settings),
            ("tools", self.tools == other.tools),
            ("prompts", self.prompts == other.prompts),
            ("resources", self.resources == other.resources),
            ("isolation", self.isolation == other.isolation),
            ("extra", sorted(&self.extra) == sorted(&other.extra)),
        ];
        parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
    }

    /// The variables that its text names, in their order, and whether each has a default.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, bool)> {
        let mut out: Vec<(String, bool)> = Vec::new();
        let mut add = |name: &str, has_default: bool| {
            if !out.iter().any(|(known, _)| known == name) {
                out.push((name.to_owned(), has_default));
            }
        };
        for part in self.parts() {
            // A bare name of oh-my-pi may be a secret that looks like one.
            if let Part::Variable { name, default } = part
                && default.as_ref().is_none_or(|default| default.as_literal() != Some(name))
            {
                add(name, default.is_some());
            }
        }
        if let Some(name) = self.way.remote().and_then(|remote| remote.bearer_env.as_ref()) {
            add(name, false);
        }
        out
    }

    /// The inputs that its text names.
    #[must_use]
    pub fn inputs(&self) -> Vec<String> {
        let input = |part: &Part| match part {
            Part::Input(id) => Some(id.clone()),
            _ => None,
        };
        self.parts().filter_map(input).collect()
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        let texts: Vec<&Text> = match &self.way {
            Way::Command(launch) => {
                let env = launch.env.iter().filter_map(|(_, value)| value.as_ref());
                let rest = launch.args.iter().chain(env).chain(&launch.env_files).chain(&launch.cwd);
                std::iter::once(&launch.program).chain(rest).collect()
            }
            Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => {
                let headers = remote.headers.iter().map(|(_, value)| value);
                std::iter::once(&remote.url).chain(headers).chain(&remote.ca).collect()
            }
            Way::Unix(text) | Way::Pipe(text) | Way::Tcp(text) => vec![text],
        };
        texts.into_iter().flat_map(|text| &text.parts)
    }

    /// What a tool says beyond our model.
    #[must_use]
    pub fn extra_of(&self, tool: Tool) -> &[Entry] {
        self.extra
            .iter()
            .find(|(of, _)| *of == tool)
            .map(|(_, entries)| entries.as_slice())
            .unwrap_or_default()
    }
}

fn sorted(extra: &[(Tool, Vec<Entry>)]) -> Vec<(Tool, Vec<(&str, &Node)>)> {
    let mut all: Vec<_> = extra
        .iter()
        .filter(|(_, entries)| !entries.is_empty())
        .map(|(tool, entries)| {
            let mut members: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), &entry.node)).collect();
            members.sort_by_key(|(key, _)| *key);
            (*tool, members)
        })
        .collect();
    all.sort_by_key(|(tool, _)| *tool);
    all
}

impl Way {
    /// What it is called in files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
            Self::WebSocket(_) => "ws",
            Self::Unix(_) => "unix",
            Self::Pipe(_) => "pipe",
            Self::Tcp(_) => "tcp",
        }
    }

    /// With variables and headers in the order of their names, which means the same.
    #[must_use]
    pub(crate) fn sorted(&self) -> Self {
        let mut way = self.clone();
        match &mut way {
            Self::Command(launch) => {
                launch.env.sort_by(|(one, _), (two, _)| one.cmp(two));
                launch.pass.sort();
            }
            Self::Http(remote) | Self::Sse(remote) | Self::WebSocket(remote) => {
                remote.headers.sort_by(|(one, _), (two, _)| one.cmp(two));
            }
            Self::Unix(_) | Self::Pipe(_) | Self::Tcp(_) => {}
        }
        way
    }

    /// The address and headers, where it is on the network.
    #[must_use]
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Http(remote) | Self::Sse(remote) | Self::WebSocket(remote) => Some(remote),
            _ => None,
        }
    }
}

impl Settings {
    /// What is not said here is as it is said there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            start_timeout: self.start_timeout.or(other.start_timeout),
            call_timeout: self.call_timeout.or(other.call_timeout),
            era: self.era.or(other.era),
            revision: self.revision.or(other.revision),
            dialect: self.dialect.or(other.dialect),
            env_policy: self.env_policy.or(other.env_policy),
            lazy: self.lazy.or(other.lazy),
            idle_stop: self.idle_stop.or(other.idle_stop),
            concurrency: self.concurrency.or(other.concurrency),
            sessions: self.sessions.or(other.sessions),
            reconnect: self.reconnect.or(other.reconnect),
        }
    }
}
