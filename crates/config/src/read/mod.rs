//! A file of any tool, read into servers. One wrong server leaves the others usable.

mod fields;
mod reconnect;
mod rules;
mod server;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cardan_proto::limits::config::FILE_BYTES;

use crate::client::Answering;
use crate::closest::closest;
use crate::file::read_plain;
use crate::gateway::Gateway;
use crate::policy::Policy;
use crate::problem::{Problem, Scene, choice};
use crate::replicas::Replicas;
use crate::server::{Provenance, Server, Settings};
use crate::telemetry::Telemetry;
use crate::tool::{Format, OF_PROJECTS, Tool};
use crate::tree::{Entry, Malformed, Node, Value};
use crate::trust::Standing;
use crate::{json, keys, toml, tree};

pub(crate) use fields::{DIALECTS, time};
pub(crate) use server::{ERAS, read_entry};

/// A file that was read. Printing it shows no value.
#[derive(Clone)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub tool: Tool,
    /// The servers in it, in their order.
    pub servers: Vec<Server>,
    /// What is wrong in it.
    pub problems: Vec<Problem>,
    /// What it says and is not done: told, and no hindrance.
    pub ignored: Vec<Problem>,
    /// What its `${input:..}` ask for.
    pub inputs: Vec<Input>,
    /// Ours: the tools whose files are read too.
    pub imports: Vec<Tool>,
    /// Ours: what holds for all servers.
    pub defaults: Settings,
    /// Ours: how many servers are shown as one.
    pub gateway: Gateway,
    /// Ours: who may see and use what.
    pub policy: Policy,
    /// Ours: where traces of calls go.
    pub telemetry: Telemetry,
    /// Are configured servers reached through the daemon?
    pub daemon: Option<bool>,
    /// Ours: how servers are answered.
    pub client: Answering,
    /// Ours: how sessions are shared between gateways.
    pub replicas: Replicas,
    root: Node,
    text: String,
}

/// Where in a file the name of a server is, whatever else is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// From 1.
    pub line: usize,
    /// The project that it is for, where the file says so.
    pub project: Option<PathBuf>,
}

/// What the user is asked for.
#[derive(Clone, PartialEq)]
pub struct Input {
    /// As placeholders name it.
    pub id: String,
    /// What to ask.
    pub description: Option<String>,
    /// Is it a secret?
    pub password: bool,
    /// Instead of an answer.
    pub default: Option<String>,
    /// All that was said about it, kept for writing it back.
    pub node: Node,
}

/// What stands in for an answer may be a secret.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("id", &self.id)
            .field("description", &self.description)
            .field("password", &self.password)
            .field("default", &self.default.as_ref().map(|_| "hidden"))
            .field("node", &self.node)
            .finish()
    }
}

/// The top-level keys of `cardan.toml`.
const TOP: [&str; 10] = [
    "servers",
    "defaults",
    "imports",
    "inputs",
    "gateway",
    "policy",
    "telemetry",
    "daemon",
    "client",
    "replicas",
];

impl File {
    /// Reads a file from disk; whose it is, is told by name and contents unless it is known.
    pub fn read(path: &Path, tool: Option<Tool>) -> Result<Self, Problem> {
        let scene = Scene { file: path, text: "", server: None };
        let bytes = read_plain(path, FILE_BYTES).map_err(|why| scene.unread(why))?;
        let text = String::from_utf8(bytes).map_err(|_| scene.unread("it is not UTF-8"))?;
        Self::parse(path, &text, tool)
    }

    /// Reads the text of a file. Only a text that is not of its format is an error; what is wrong inside is
    /// in [`File::problems`].
    pub fn parse(path: &Path, text: &str, tool: Option<Tool>) -> Result<Self, Problem> {
        let scene = Scene { file: path, text, server: None };
        let root = parse_tree(path, text, tool)
            .map_err(|Malformed { at, message }| scene.problem(&(at..at), None, message))?;
        let tool = tool.unwrap_or_else(|| Tool::detect(path, &root));
        let mut file = Self {
            path: path.to_owned(),
            tool,
            servers: Vec::new(),
            problems: Vec::new(),
            ignored: Vec::new(),
            inputs: Vec::new(),
            imports: Vec::new(),
            defaults: Settings::default(),
            gateway: Gateway::default(),
            policy: Policy::default(),
            telemetry: Telemetry::default(),
            daemon: None,
            client: Answering::default(),
            replicas: Replicas::default(),
            root,
            text: text.to_owned(),
        };
        file.fill();
        Ok(file)
    }

    /// A table by its name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Node> {
        self.root.member(name)
    }

    /// Everything in it.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The text that was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line and column of a place in it.
    #[must_use]
    pub fn position(&self, span: &Range<usize>) -> (usize, usize) {
        tree::position(&self.text, span.start)
    }

    /// A problem at a place in it, for parts of the program that read tables of their own.
    #[must_use]
    pub fn problem(&self, at: &Range<usize>, field: &str, message: &str) -> Problem {
        Scene { file: &self.path, text: &self.text, server: None }.problem(at, Some(field), message)
    }

    /// Everywhere that it has a server of this name, usable or not.
    #[must_use]
    pub fn spots(&self, name: &str) -> Vec<Spot> {
        let tables = self.tables(&self.root);
        let named = tables.into_iter().flat_map(|(servers, project)| {
            servers.entries().iter().filter(|entry| entry.key == name).map(move |entry| (entry, project))
        });
        named
            .map(|(entry, project)| Spot {
                line: self.position(&entry.key_span).0,
                project: project.map(Path::to_owned),
            })
            .collect()
    }

    /// The tables of servers, and the projects that they are for.
    fn tables<'a>(&self, root: &'a Node) -> Vec<(&'a Node, Option<&'a Path>)> {
        let mut tables: Vec<_> =
            root.at(self.tool.container(root)).map(|servers| (servers, None)).into_iter().collect();
        if self.tool == Tool::ClaudeCode {
            let [projects, servers] = OF_PROJECTS;
            for entry in root.member(projects).map(Node::entries).unwrap_or_default() {
                tables
                    .extend(entry.node.member(servers).map(|servers| (servers, Some(Path::new(&entry.key)))));
            }
        }
        tables
    }

    fn fill(&mut self) {
        let (root, text, path) = (self.root.clone(), self.text.clone(), self.path.clone());
        let scene = Scene { file: &path, text: &text, server: None };
        if !root.is_table() {
            let message = format!("the file holds {}, not a table of servers", root.value.kind());
            self.problems.push(scene.problem(&root.span, None, message));
            return;
        }
        if self.tool == Tool::Cardan {
            self.fill_own(scene, &root);
        }
        // Whose files are read is said in our own alone: theirs would pull in whatever lies around.
        if self.tool == Tool::Mcporter
            && let Some(imports) = root.member("imports").filter(|imports| !imports.items().is_empty())
        {
            let problem = scene.problem(&imports.span, Some("imports"), "what it imports is not read along");
            self.ignored.push(problem.next("name the tools in `imports` of cardan.toml"));
        }
        self.inputs.extend(inputs(&root));
        for (servers, project) in self.tables(&root) {
            self.fill_servers(scene, servers, project);
        }
        self.switch_by_lists(&root);
    }

    fn fill_servers(&mut self, scene: Scene<'_>, servers: &Node, project: Option<&Path>) {
        if !servers.is_table() {
            let message = format!("the servers are {}, not a table", servers.value.kind());
            self.problems.push(scene.problem(&servers.span, None, message));
            return;
        }
        let lines = tree::Lines::of(scene.text);
        for (at, entry) in servers.entries().iter().enumerate() {
            let scene = Scene { server: Some(&entry.key), ..scene };
            if entry.key.trim().is_empty() {
                let problem =
                    scene.problem(&entry.key_span, None, "a server without a name cannot be called");
                self.problems.push(problem.next("give it one"));
                continue;
            }
            if servers.entries()[at + 1..].iter().any(|later| later.key == entry.key) {
                let message = "this name is given again below, and the last one counts";
                self.problems.push(scene.problem(&entry.key_span, None, message));
                continue;
            }
            match read_entry(scene, self.tool, entry) {
                Ok(mut server) => {
                    server.origin = Provenance {
                        file: self.path.clone(),
                        line: lines.position(entry.key_span.start).0,
                        tool: Some(self.tool),
                        project: project.map(Path::to_owned),
                        standing: Standing::Ours,
                        places: places(&lines, &entry.node),
                    };
                    self.servers.push(server);
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
    }

    /// What only our own file has.
    fn fill_own(&mut self, scene: Scene<'_>, root: &Node) {
        for entry in root.entries() {
            if !TOP.contains(&entry.key.as_str()) {
                self.problems.push(unknown_key(scene, entry, TOP));
            }
        }
        for item in root.member("imports").map(Node::items).unwrap_or_default() {
            match item.as_text().map(|id| (id, Tool::parse(id))) {
                Some((_, Some(tool))) if tool != Tool::Cardan => self.imports.push(tool),
                _ => {
                    let tools = Tool::ALL.iter().skip(1).map(|tool| tool.id());
                    let message = "this is no tool whose files we read";
                    let problem = scene.problem(&item.span, Some("imports"), message);
                    self.problems.push(problem.next(format!("accepted: {}", choice(tools))));
                }
            }
        }
        if let Some(table) = root.member("gateway") {
            let (gateway, problems) = Gateway::read(scene, table);
            self.gateway = gateway;
            self.problems.extend(problems);
        }
        if let Some(table) = root.member("policy") {
            let (policy, problems) = Policy::read(scene, table);
            self.policy = policy;
            self.problems.extend(problems);
        }
        if let Some(table) = root.member("telemetry") {
            let (telemetry, problems) = Telemetry::read(scene, table);
            self.telemetry = telemetry;
            self.problems.extend(problems);
        }
        if let Some(said) = root.member("daemon") {
            self.daemon = match said.value {
                Value::Bool(wanted) => Some(wanted),
                _ => None,
            };
            if self.daemon.is_none() {
                self.problems.push(scene.problem(&said.span, Some("daemon"), "this is not true or false"));
            }
        }
        if let Some(table) = root.member("client") {
            let (client, problems) = Answering::read(scene, table);
            self.client = client;
            self.problems.extend(problems);
        }
        if let Some(table) = root.member("replicas") {
            let (replicas, problems) = Replicas::read(scene, table);
            self.replicas = replicas;
            self.problems.extend(problems);
        }
        if let Some(defaults) = root.member("defaults") {
            for entry in defaults.entries() {
                if keys::DEFAULTS.contains(&entry.key.as_str()) {
                    let outcome = fields::setting(scene, Tool::Cardan, entry, &mut self.defaults);
                    self.problems.extend(outcome.err());
                } else {
                    self.problems.push(unknown_key(scene, entry, keys::DEFAULTS));
                }
            }
        }
    }

    /// Some tools switch servers on and off in lists of their own.
    fn switch_by_lists(&mut self, root: &Node) {
        let names = |path: &[&str]| {
            root.at(path).map(|list| list.items().iter().filter_map(Node::as_text).collect::<Vec<_>>())
        };
        let (allowed, excluded) = match self.tool {
            Tool::Gemini => (names(&["mcp", "allowed"]), names(&["mcp", "excluded"])),
            Tool::OhMyPi => (None, names(&["disabledServers"])),
            _ => return,
        };
        for server in &mut self.servers {
            let name = server.name.as_str();
            let kept = allowed.as_ref().is_none_or(|names| names.contains(&name));
            let dropped = excluded.as_ref().is_some_and(|names| names.contains(&name));
            server.enabled = server.enabled && kept && !dropped;
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("tool", &self.tool)
            .field("servers", &self.servers)
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

/// Is it a key of `[defaults]`?
pub(crate) fn is_setting(key: &str) -> bool {
    keys::DEFAULTS.contains(&key)
}

/// Where the keys of a server are, and the keys of its tables.
fn places(lines: &tree::Lines<'_>, node: &Node) -> Vec<(String, usize, usize)> {
    let below = node.entries().iter().flat_map(|entry| entry.node.entries());
    let place = |entry: &Entry| {
        let (line, column) = lines.position(entry.key_span.start);
        (entry.key.clone(), line, column)
    };
    node.entries().iter().chain(below).map(place).collect()
}

/// Reads the tree of a file in the format of its tool, or of its name.
fn parse_tree(path: &Path, text: &str, tool: Option<Tool>) -> Result<Node, Malformed> {
    let format = tool.map_or_else(
        || if path.extension().is_some_and(|ending| ending == "toml") { Format::Toml } else { Format::Json },
        Tool::format,
    );
    match format {
        Format::Toml => toml::parse(text),
        // Several tools leave an empty file behind.
        Format::Json if text.trim().is_empty() => Ok(Node::new(Value::Table(Vec::new()))),
        Format::Json => json::parse(text),
    }
}

/// A key that does not exist, with what was probably meant and what there is.
pub(crate) fn unknown_key(
    scene: Scene<'_>,
    entry: &Entry,
    known: impl IntoIterator<Item = &'static str>,
) -> Problem {
    let known: Vec<&str> = known.into_iter().collect();
    let problem = scene.problem(&entry.key_span, Some(&entry.key), "there is no such key");
    let accepted = format!("accepted: {}", choice(known.iter().copied()));
    match closest(&entry.key, known) {
        Some(near) => problem.next(format!("did you mean `{near}`? {accepted}")),
        None => problem.next(accepted),
    }
}

/// What is asked for: a list of objects as VS Code has it, or a table of tables as we have it.
fn inputs(root: &Node) -> Vec<Input> {
    let Some(node) = root.member("inputs") else { return Vec::new() };
    let listed = node.items().iter().filter_map(|item| Some((item.member("id")?.as_text()?, item)));
    let named = node.entries().iter().map(|entry| (entry.key.as_str(), &entry.node));
    let text = |node: &Node, key: &str| node.member(key).and_then(Node::as_text).map(str::to_owned);
    let input = |(id, node): (&str, &Node)| Input {
        id: id.to_owned(),
        description: text(node, "description"),
        password: node.member("password").is_some_and(|value| value.value == Value::Bool(true)),
        default: text(node, "default"),
        node: node.clone(),
    };
    listed.chain(named).map(input).collect()
}
