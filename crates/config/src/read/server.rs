//! One server's table, read by the table of keys.

use cardan_proto::session::config::EraChoice;

use super::{fields, rules, unknown_key};
use crate::keys::{self, Field};
use crate::problem::{Problem, Scene, choice};
use crate::server::{Launch, Remote, Server, Way};
use crate::text::{Grammar, Part, Text, is_name};
use crate::toml;
use crate::tool::Tool;
use crate::tree::{Entry, Value};

/// Reads a server. All that is wrong with it is told at once.
pub(crate) fn read_entry(scene: Scene<'_>, tool: Tool, entry: &Entry) -> Result<Server, Vec<Problem>> {
    if !entry.node.is_table() {
        let message = format!("a server is a table, not {}", entry.node.value.kind());
        return Err(vec![scene.problem(&entry.node.span, None, message)]);
    }
    let mut draft = Draft {
        scene,
        tool,
        server: Server::new(&entry.key, Way::Command(Launch::default())),
        kind: None,
        command: None,
        args: Vec::new(),
        url: None,
        launch: Launch::default(),
        remote: Remote::default(),
        kept: Vec::new(),
    };
    let mut problems = Vec::new();
    for member in entry.node.entries() {
        let outcome = match keys::field(tool, &member.key) {
            Some(field) => draft.take(field, member),
            None if tool == Tool::Cardan => Err(unknown_key(scene, member, keys::of_cardan())),
            None => {
                draft.keep(member);
                Ok(())
            }
        };
        problems.extend(outcome.err());
    }
    match draft.finish(entry) {
        Ok(server) if problems.is_empty() => Ok(server),
        Ok(_) => Err(problems),
        Err(problem) => {
            // What is missing may only be misspelled, which has been told.
            if problems.is_empty() {
                problems.push(problem);
            }
            Err(problems)
        }
    }
}

/// The ways by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Command,
    Http,
    Sse,
    WebSocket,
    Unix,
    Pipe,
    Tcp,
    /// OpenCode: whatever its address says.
    Remote,
}

/// S0-10: every spelling that is in use.
const KINDS: [(&str, Kind); 12] = [
    ("stdio", Kind::Command),
    ("http", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("sse", Kind::Sse),
    ("ws", Kind::WebSocket),
    ("websocket", Kind::WebSocket),
    ("unix", Kind::Unix),
    ("pipe", Kind::Pipe),
    ("tcp", Kind::Tcp),
    ("local", Kind::Command),
    ("remote", Kind::Remote),
];

/// A server while it is read.
struct Draft<'a> {
    scene: Scene<'a>,
    tool: Tool,
    server: Server,
    kind: Option<(Kind, &'a Entry)>,
    command: Option<Vec<Text>>,
    args: Vec<Text>,
    url: Option<(Text, Option<Kind>)>,
    launch: Launch,
    remote: Remote,
    kept: Vec<Entry>,
}

impl<'a> Draft<'a> {
    fn keep(&mut self, member: &Entry) {
        self.kept.push(member.clone());
    }

    fn text(&self, member: &Entry) -> Result<Text, Problem> {
        fields::text(self.scene, &member.key, &member.node, self.tool.grammar())
    }

    fn take(&mut self, field: Field, member: &'a Entry) -> Result<(), Problem> {
        let (scene, key, node) = (self.scene, member.key.as_str(), &member.node);
        let grammar = self.tool.grammar();
        match field {
            Field::Type => self.kind = Some((kind(scene, member)?, member)),
            Field::Command => self.command = Some(fields::command(scene, key, node, grammar)?),
            Field::Args => self.args = fields::arguments(scene, key, node, grammar)?,
            Field::Env => self.env(member)?,
            Field::EnvUnset => {
                let names = fields::words(scene, key, node)?;
                self.launch.env.extend(names.into_iter().map(|name| (name, None)));
            }
            Field::EnvPass => match fields::words(scene, key, node) {
                Ok(names) => self.launch.pass = names,
                // Codex may say more about a variable than its name.
                Err(_) if self.tool == Tool::Codex => self.keep(member),
                Err(problem) => return Err(problem),
            },
            Field::EnvFile => self.launch.env_files = fields::texts(scene, key, node, grammar)?,
            Field::Cwd => self.launch.cwd = Some(self.text(member)?),
            Field::Url => self.url = Some((self.text(member)?, None)),
            Field::HttpUrl => self.url = Some((self.text(member)?, Some(Kind::Http))),
            Field::Headers => {
                for (name, value) in fields::map(scene, key, node)? {
                    let value = self.value(fields::text(scene, key, value, grammar)?);
                    self.remote.headers.push((name.to_owned(), value));
                }
            }
            Field::HeaderEnv => {
                for (name, value) in fields::map(scene, key, node)? {
                    let variable = fields::variable(scene, key, value)?;
                    self.remote.headers.push((name.to_owned(), Text::variable(variable)));
                }
            }
            // It is a line for the shell, which has placeholders of its own.
            Field::HeadersHelper => {
                self.remote.headers_helper = Some(fields::text(scene, key, node, Grammar::Plain)?);
            }
            Field::BearerEnv => self.remote.bearer_env = Some(fields::variable(scene, key, node)?.to_owned()),
            Field::Ca => self.remote.ca = Some(self.text(member)?),
            Field::Enabled => self.server.enabled = fields::bool(scene, key, node)?,
            Field::Disabled => self.server.enabled = !fields::bool(scene, key, node)?,
            Field::Allow => self.server.tools.allow = Some(fields::words(scene, key, node)?),
            Field::Deny => self.server.tools.deny = fields::words(scene, key, node)?,
            Field::Tools => self.server.tools = rules::read(scene, field, member)?,
            Field::Prompts => self.server.prompts = rules::read(scene, field, member)?,
            Field::Resources => self.server.resources = rules::read(scene, field, member)?,
            Field::Isolation => self.server.isolation = Some(node.clone()),
            Field::Extra => self.extra(member)?,
            // OpenCode's second version has several times here.
            Field::Start(_) if self.tool == Tool::OpenCode && node.is_table() => self.keep(member),
            _ => fields::setting(scene, self.tool, member, &mut self.server.settings)?,
        }
        Ok(())
    }

    fn env(&mut self, member: &Entry) -> Result<(), Problem> {
        for (name, value) in fields::map(self.scene, &member.key, &member.node)? {
            // S1-8: null removes.
            let value = match value.value {
                Value::Null => None,
                _ => Some(self.value(fields::text(self.scene, &member.key, value, self.tool.grammar())?)),
            };
            self.launch.env.push((name.to_owned(), value));
        }
        Ok(())
    }

    /// oh-my-pi: a value that is the name of a variable means its value, where it has one.
    fn value(&self, text: Text) -> Text {
        match text.as_literal() {
            Some(name) if self.tool == Tool::OhMyPi && is_name(name) => {
                let default = Some(Box::new(Text::literal(name)));
                Text { parts: vec![Part::Variable { name: name.to_owned(), default }] }
            }
            _ => text,
        }
    }

    fn extra(&mut self, member: &Entry) -> Result<(), Problem> {
        fields::map(self.scene, &member.key, &member.node)?;
        for of in member.node.entries() {
            let Some(tool) = Tool::parse(&of.key) else {
                return Err(unknown_key(self.scene, of, Tool::ALL.map(Tool::id)));
            };
            self.server.extra.push((tool, toml::with_nulls(&of.node).entries().to_vec()));
        }
        Ok(())
    }

    fn finish(mut self, entry: &Entry) -> Result<Server, Problem> {
        if !self.kept.is_empty() {
            self.server.extra.push((self.tool, self.kept));
        }
        let scene = self.scene;
        let missing = |what: &str, next: &str| {
            Err(scene.problem(&entry.key_span, None, what.to_owned()).next(next.to_owned()))
        };
        let said = self.kind.map(|(kind, _)| kind);
        if said == Some(Kind::Command) || (said.is_none() && self.url.is_none()) {
            let Some(words) = self.command.filter(|words| !words.is_empty()) else {
                return missing("it has no way to be reached", "give it a `command` or a `url`");
            };
            let mut words = words.into_iter();
            self.launch.program = words.next().unwrap_or_default();
            self.launch.args = words.chain(self.args).collect();
            self.server.way = Way::Command(self.launch);
            return Ok(self.server);
        }
        let Some((url, hint)) = self.url else {
            return missing("it has no address", "give it a `url`");
        };
        if said.is_none() && self.command.is_some() {
            return missing(
                "it has both a `command` and a `url`",
                "keep one of them, or say which with `type`",
            );
        }
        self.server.way = way(said.or(hint), self.tool, url, self.remote).map_err(|scheme| {
            let at = entry.node.entries().iter().find(|member| {
                matches!(keys::field(self.tool, &member.key), Some(Field::Url | Field::HttpUrl))
            });
            let at = at.map_or(&entry.key_span, |member| &member.node.span);
            let accepted = "accepted: http, https, ws, wss, unix, pipe and tcp";
            scene.problem(at, Some("url"), format!("`{scheme}` is no scheme we know")).next(accepted)
        })?;
        Ok(self.server)
    }
}

/// The way to an address. What the address begins with decides where nothing else does.
fn way(said: Option<Kind>, tool: Tool, url: Text, remote: Remote) -> Result<Way, String> {
    let scheme = match url.parts.first() {
        Some(Part::Literal(text)) => text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()),
        _ => None,
    };
    let inferred = match scheme.as_deref() {
        Some("ws" | "wss") => Kind::WebSocket,
        // VS Code speaks HTTP over sockets, others speak lines, unless the address has a path of HTTP, too.
        Some("unix" | "pipe") if tool == Tool::VsCode => Kind::Http,
        Some("unix") if has_path(&url) => Kind::Http,
        Some("unix") => Kind::Unix,
        Some("pipe") => Kind::Pipe,
        Some("tcp") => Kind::Tcp,
        // Gemini: its `url` is the older transport.
        Some("http" | "https") | None if tool == Tool::Gemini => Kind::Sse,
        Some("http" | "https") | None => Kind::Http,
        Some(other) => return Err(safe(other)),
    };
    let kind = said.filter(|kind| *kind != Kind::Remote).unwrap_or(inferred);
    let remote = |url| Remote { url, ..remote };
    Ok(match kind {
        Kind::Http | Kind::Remote | Kind::Command => Way::Http(remote(url)),
        Kind::Sse => Way::Sse(remote(url)),
        Kind::WebSocket => Way::WebSocket(remote(url)),
        Kind::Unix => Way::Unix(without(url, "unix://")),
        Kind::Pipe => Way::Pipe(without(url, "pipe://")),
        Kind::Tcp => Way::Tcp(without(url, "tcp://")),
    })
}

/// Does the address of a socket say under which path HTTP is spoken there?
fn has_path(url: &Text) -> bool {
    url.parts.iter().any(|part| matches!(part, Part::Literal(text) if text.contains("#/")))
}

fn without(mut url: Text, prefix: &str) -> Text {
    if let Some(Part::Literal(text)) = url.parts.first_mut() {
        let has = text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        if has {
            text.drain(..prefix.len());
        }
        if text.is_empty() {
            url.parts.remove(0);
        }
    }
    url
}

/// S0-12: what there is instead.
fn kind(scene: Scene<'_>, member: &Entry) -> Result<Kind, Problem> {
    let word = fields::word(scene, &member.key, &member.node)?;
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    if let Some((_, kind)) = KINDS.iter().find(|(name, _)| plain(name) == plain(word)) {
        return Ok(*kind);
    }
    let message = format!("`{}` is no transport", safe(word));
    let accepted = choice(KINDS.iter().map(|(name, _)| *name));
    Err(scene.problem(&member.node.span, Some(&member.key), message).next(format!("accepted: {accepted}")))
}

/// A word that may be repeated in an error: short, and of letters.
pub(super) fn safe(word: &str) -> String {
    let harmless =
        word.len() <= 24 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b));
    if harmless { word.to_owned() } else { "this".to_owned() }
}

/// How the session is opened, by name.
pub(crate) const ERAS: [(&str, EraChoice); 3] =
    [("auto", EraChoice::Auto), ("legacy", EraChoice::Legacy), ("modern", EraChoice::Modern)];
