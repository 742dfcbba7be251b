//! A server, written as a tool's own file has it; and what that tool has no way to say.

use std::path::Path;
use std::time::Duration;

use crate::keys::{self, Field, Unit};
use crate::problem::Scene;
use crate::read::{DIALECTS, ERAS, read_entry};
use crate::reconnect::{CALLS, Reconnect, Slot};
use crate::rules::Rules;
use crate::server::{EnvPolicy, Launch, Remote, Server, Sessions, Way};
use crate::text::{Grammar, Part, Text};
use crate::tool::Tool;
use crate::tree::{Entry, Node, Value};

/// A server in the words of a tool.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its name and table.
    pub entry: Entry,
    /// What could not be said, for people.
    pub lost: Vec<String>,
}

/// Writes a server for a tool. An error where the tool has no way to reach it at all.
pub fn write(server: &Server, tool: Tool) -> Result<Written, String> {
    write_for(server, tool, Layout::Current)
}

/// Which version of a tool's file it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As the tool has it today.
    Current,
    /// OpenCode's first version, with servers right under `mcp`.
    OpenCodeOne,
}

pub(crate) fn write_for(server: &Server, tool: Tool, layout: Layout) -> Result<Written, String> {
    let mut pen = Pen { tool, layout, entries: Vec::new(), lost: Vec::new() };
    match &server.way {
        Way::Command(launch) => pen.launch(launch),
        Way::Http(remote) => pen.remote(remote, "http")?,
        Way::Sse(remote) => pen.remote(remote, "sse")?,
        Way::WebSocket(remote) => pen.remote(remote, "ws")?,
        Way::Unix(address) => pen.socket(address, "unix")?,
        Way::Pipe(address) => pen.socket(address, "pipe")?,
        Way::Tcp(address) => pen.socket(address, "tcp")?,
    }
    pen.switch(server.enabled);
    pen.settings(server);
    pen.rules(server);
    pen.kept(server);
    let entry = Entry::new(&server.name, Node::new(Value::Table(pen.entries)));
    let mut lost = pen.lost;
    // Whatever was said must be read back the same; this finds what nobody thought of.
    if lost.is_empty() {
        let scene = Scene { file: Path::new(""), text: "", server: Some(&server.name) };
        match read_entry(scene, tool, &entry) {
            Ok(back) => lost.extend(differences(server, &back)),
            Err(_) => lost.push("the way it is reached".to_owned()),
        }
    }
    Ok(Written { entry, lost })
}

/// Where the two differ, but for what means the same.
fn differences(server: &Server, back: &Server) -> Vec<String> {
    let plain = |server: &Server| {
        let mut server = server.clone();
        match &mut server.way {
            Way::Command(launch) => passed(launch),
            Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => bearer(remote),
            Way::Unix(_) | Way::Pipe(_) | Way::Tcp(_) => {}
        }
        server
    };
    plain(server).differences(&plain(back)).into_iter().map(str::to_owned).collect()
}

/// `A = "${A}"` passes A on.
fn passed(launch: &mut Launch) {
    let passed = |(name, value): &(String, Option<Text>)| {
        value.as_ref().and_then(Text::as_variable) == Some(name.as_str())
    };
    launch.pass.extend(launch.env.iter().filter(|pair| passed(pair)).map(|(name, _)| name.clone()));
    launch.env.retain(|pair| !passed(pair));
}

/// `Authorization = "Bearer ${A}"` is a bearer token in A.
fn bearer(remote: &mut Remote) {
    let at = remote.headers.iter().position(|(name, value)| bearer_variable(name, value).is_some());
    if let Some(at) = at
        && remote.bearer_env.is_none()
    {
        let (name, value) = remote.headers.remove(at);
        remote.bearer_env = bearer_variable(&name, &value).map(str::to_owned);
    }
}

fn bearer_variable<'a>(name: &str, value: &'a Text) -> Option<&'a str> {
    match &value.parts[..] {
        [Part::Literal(scheme), Part::Variable { name: variable, default: None }]
            if scheme == "Bearer " && name.eq_ignore_ascii_case("authorization") =>
        {
            Some(variable)
        }
        _ => None,
    }
}

struct Pen {
    tool: Tool,
    layout: Layout,
    entries: Vec<Entry>,
    lost: Vec<String>,
}

impl Pen {
    /// Puts a value under the tool's name for it; false where it has none.
    fn put(&mut self, field: Field, node: Node) -> bool {
        let Some(name) = keys::name(self.tool, field) else { return false };
        self.entries.push(Entry::new(name, node));
        true
    }

    /// Puts a value, or notes that it is lost.
    fn say(&mut self, field: Field, what: &str, node: Node) {
        if !self.put(field, node) {
            self.lost.push(what.to_owned());
        }
    }

    fn spell(&mut self, text: &Text, what: &str) -> Node {
        let grammar = self.tool.grammar();
        if self.tool == Tool::ClaudeDesktop && text.has_placeholders() {
            self.lost.push(format!("{what}: {} expands no placeholders", self.tool.title()));
        }
        let spelled = text.spell(grammar).unwrap_or_else(|| {
            self.lost.push(format!("{what}: {} cannot spell its placeholders", self.tool.title()));
            text.spell(Grammar::Cardan).unwrap_or_default()
        });
        Node::text(spelled)
    }

    fn texts(&mut self, texts: &[Text], what: &str) -> Node {
        Node::new(Value::List(texts.iter().map(|text| self.spell(text, what)).collect()))
    }

    fn launch(&mut self, launch: &Launch) {
        match self.tool {
            Tool::VsCode | Tool::Inspector => self.say(Field::Type, "type", Node::text("stdio")),
            Tool::OpenCode => self.say(Field::Type, "type", Node::text("local")),
            _ => {}
        }
        let args = self.texts(&launch.args, "args");
        let program = self.spell(&launch.program, "command");
        if self.tool == Tool::OpenCode {
            let words = [program].into_iter().chain(args.items().iter().cloned());
            self.say(Field::Command, "command", Node::new(Value::List(words.collect())));
        } else {
            self.say(Field::Command, "command", program);
            if !launch.args.is_empty() {
                self.say(Field::Args, "args", args);
            }
        }
        self.env(launch);
        if !launch.env_files.is_empty() {
            let files = self.texts(&launch.env_files, "env file");
            let node = match files.items() {
                [only] => only.clone(),
                _ => files,
            };
            self.say(Field::EnvFile, "env file", node);
        }
        if let Some(cwd) = &launch.cwd {
            let node = self.spell(cwd, "cwd");
            self.say(Field::Cwd, "cwd", node);
        }
    }

    fn env(&mut self, launch: &Launch) {
        let can_pass = keys::name(self.tool, Field::EnvPass).is_some();
        let can_unset = keys::name(self.tool, Field::EnvUnset).is_some();
        let (mut set, mut unset, mut pass) = (Vec::new(), Vec::new(), launch.pass.clone());
        for (name, value) in &launch.env {
            match value {
                None if can_unset => unset.push(name.clone()),
                None if self.tool == Tool::Codex => self.lost.push(format!("removing {name}")),
                None => set.push(Entry::new(name, Node::new(Value::Null))),
                // Codex expands nothing, but passes on what it is told to.
                Some(text) if self.tool == Tool::Codex && text.as_variable() == Some(name) => {
                    pass.push(name.clone());
                }
                Some(text) => {
                    let node = self.spell(text, &format!("env {name}"));
                    set.push(Entry::new(name, node));
                }
            }
        }
        if !can_pass {
            for name in pass.drain(..) {
                let node = self.spell(&Text::variable(&name), &format!("env {name}"));
                set.push(Entry::new(name, node));
            }
        }
        if !set.is_empty() {
            self.say(Field::Env, "env", Node::new(Value::Table(set)));
        }
        if !unset.is_empty() {
            self.say(Field::EnvUnset, "env_unset", Node::texts(unset));
        }
        if !pass.is_empty() {
            self.say(Field::EnvPass, "env_pass", Node::texts(pass));
        }
    }

    fn remote(&mut self, remote: &Remote, kind: &str) -> Result<(), String> {
        let cannot = || Err(format!("{} has no way to say `{kind}`", self.tool.title()));
        match (self.tool, kind) {
            (Tool::Codex, "sse" | "ws") | (Tool::ClaudeDesktop, _) => return cannot(),
            (Tool::Cardan | Tool::ClaudeCode, _) => {}
            (_, "ws") => return cannot(),
            _ => {}
        }
        let url = self.spell(&remote.url, "url");
        let plain = url.as_text().is_some_and(|url| !url.starts_with("http"));
        match (self.tool, kind) {
            (Tool::OpenCode, _) => {
                if kind == "sse" {
                    self.lost.push("that only HTTP+SSE is spoken".to_owned());
                }
                self.say(Field::Type, "type", Node::text("remote"));
            }
            (Tool::Gemini, "http") => {
                self.put(Field::HttpUrl, url);
                self.headers(remote);
                return Ok(());
            }
            (Tool::Gemini | Tool::Codex, _) => {}
            // What the address says by itself needs no word.
            (Tool::Cardan, "http") if !plain => {}
            (Tool::Cardan, "ws") if url.as_text().is_some_and(|url| url.starts_with("ws")) => {}
            (Tool::Cursor | Tool::Windsurf | Tool::Mcporter, "http") => {}
            _ => self.say(Field::Type, "type", Node::text(kind)),
        }
        self.say(Field::Url, "url", url);
        self.headers(remote);
        Ok(())
    }

    fn headers(&mut self, remote: &Remote) {
        let mut bearer = remote.bearer_env.clone();
        let (mut fixed, mut named) = (Vec::new(), Vec::new());
        for (name, value) in &remote.headers {
            if self.tool == Tool::Codex && value.has_placeholders() {
                if let (None, Some(variable)) = (&bearer, bearer_variable(name, value)) {
                    bearer = Some(variable.to_owned());
                    continue;
                }
                if let Some(variable) = value.as_variable() {
                    named.push(Entry::new(name, Node::text(variable)));
                    continue;
                }
            }
            let node = self.spell(value, &format!("header {name}"));
            fixed.push(Entry::new(name, node));
        }
        if let Some(variable) = bearer
            && !self.put(Field::BearerEnv, Node::text(&variable))
        {
            let token = Part::Variable { name: variable, default: None };
            let value = Text { parts: vec![Part::Literal("Bearer ".to_owned()), token] };
            let node = self.spell(&value, "header Authorization");
            fixed.push(Entry::new("Authorization", node));
        }
        if !fixed.is_empty() {
            self.say(Field::Headers, "headers", Node::new(Value::Table(fixed)));
        }
        if !named.is_empty() {
            self.say(Field::HeaderEnv, "headers from variables", Node::new(Value::Table(named)));
        }
        if let Some(helper) = &remote.headers_helper {
            let node = Node::text(helper.as_literal().unwrap_or_default());
            self.say(Field::HeadersHelper, "headers helper", node);
        }
        if let Some(ca) = &remote.ca {
            let node = self.spell(ca, "ca");
            self.say(Field::Ca, "ca", node);
        }
    }

    fn socket(&mut self, address: &Text, kind: &str) -> Result<(), String> {
        if self.tool != Tool::Cardan {
            return Err(format!("{} has no way to say `{kind}`", self.tool.title()));
        }
        let mut text = Text::literal(format!("{kind}://"));
        text.parts.extend(address.parts.iter().cloned());
        if let [Part::Literal(one), Part::Literal(two), ..] = &text.parts[..] {
            let joined = Part::Literal(format!("{one}{two}"));
            text.parts.splice(..2, [joined]);
        }
        let url = self.spell(&text, "url");
        self.say(Field::Url, "url", url);
        Ok(())
    }

    fn switch(&mut self, enabled: bool) {
        if enabled {
            return;
        }
        let field = match (self.tool, self.layout) {
            (Tool::Windsurf, _) | (Tool::OpenCode, Layout::Current) => Field::Disabled,
            _ => Field::Enabled,
        };
        self.say(field, "that it is switched off", Node::new(Value::Bool(field == Field::Disabled)));
    }

    fn settings(&mut self, server: &Server) {
        let settings = &server.settings;
        if let Some(time) = settings.start_timeout {
            self.time(Field::Start, "start timeout", time);
        }
        if let Some(time) = settings.call_timeout {
            self.time(Field::Call, "call timeout", time);
        }
        let named = |name: Option<&str>| Node::text(name.unwrap_or_default());
        if let Some(era) = settings.era {
            self.say(Field::Era, "era", named(name_of(&ERAS, era)));
        }
        if let Some(revision) = settings.revision {
            self.say(Field::Revision, "revision", Node::text(revision.date()));
        }
        if let Some(dialect) = settings.dialect {
            self.say(Field::Dialect, "dialect", named(name_of(&DIALECTS, dialect)));
        }
        if let Some(policy) = settings.env_policy {
            self.say(Field::EnvPolicy, "environment policy", named(name_of(&EnvPolicy::NAMES, policy)));
        }
        if let Some(lazy) = settings.lazy {
            self.say(Field::Lazy, "lazy start", Node::new(Value::Bool(lazy)));
        }
        if let Some(time) = settings.idle_stop {
            self.say(Field::IdleStop, "idle stop", any_time(time));
        }
        if let Some(calls) = settings.concurrency {
            self.say(Field::Concurrency, "concurrency", Node::new(Value::Number(calls.to_string())));
        }
        if let Some(sessions) = settings.sessions {
            self.say(Field::Sessions, "sessions", named(name_of(&Sessions::NAMES, sessions)));
        }
        let numbers = reconnect(settings.reconnect);
        if !numbers.is_empty() {
            self.say(Field::Reconnect, "the numbers of reconnection", Node::new(Value::Table(numbers)));
        }
    }

    fn time(&mut self, field: fn(Unit) -> Field, what: &str, time: Duration) {
        let millis = time.as_millis();
        if self.put(field(Unit::Any), any_time(time)) {
            return;
        }
        let seconds = || {
            let whole = millis.is_multiple_of(1000);
            if whole { (millis / 1000).to_string() } else { format!("{:.3}", time.as_secs_f64()) }
        };
        if keys::name(self.tool, field(Unit::Seconds)).is_some() {
            self.put(field(Unit::Seconds), Node::new(Value::Number(seconds())));
        } else {
            self.say(field(Unit::Milliseconds), what, Node::new(Value::Number(millis.to_string())));
        }
    }

    fn rules(&mut self, server: &Server) {
        let Server { tools, prompts, resources, .. } = server;
        let kinds = [
            (Field::Tools, "tools", tools),
            (Field::Prompts, "prompts", prompts),
            (Field::Resources, "resources", resources),
        ];
        if self.tool == Tool::Cardan {
            for (field, _, rules) in kinds {
                let said = rules.entries();
                if !said.is_empty() {
                    self.put(field, Node::new(Value::Table(said)));
                }
            }
            return;
        }
        if let Some(names) = &tools.allow {
            self.say(Field::Allow, "the list of allowed tools", Node::texts(names.clone()));
        }
        if !tools.deny.is_empty() {
            self.say(Field::Deny, "the list of denied tools", Node::texts(tools.deny.clone()));
        }
        // No tool has words for the rest.
        let hidden = |rules: &Rules| rules.allow.is_some() || !rules.deny.is_empty();
        for (_, what, _) in kinds.iter().filter(|(field, _, rules)| *field != Field::Tools && hidden(rules)) {
            self.lost.push(format!("which {what} are offered"));
        }
        for (_, what, _) in kinds.iter().filter(|(_, _, rules)| !rules.rename.is_empty()) {
            self.lost.push(format!("the new names of {what}"));
        }
        for (_, what, _) in kinds.iter().filter(|(_, _, rules)| !rules.describe.is_empty()) {
            self.lost.push(format!("the descriptions of {what}"));
        }
    }

    /// What tools said beyond the model goes back to them, or into our own file.
    fn kept(&mut self, server: &Server) {
        if let Some(isolation) = &server.isolation {
            self.say(Field::Isolation, "isolation", isolation.clone());
        }
        if self.tool == Tool::Cardan {
            let tables = server.extra.iter().filter(|(_, entries)| !entries.is_empty());
            let tables =
                tables.map(|(tool, entries)| Entry::new(tool.id(), Node::new(Value::Table(entries.clone()))));
            let tables: Vec<Entry> = tables.collect();
            if !tables.is_empty() {
                self.put(Field::Extra, Node::new(Value::Table(tables)));
            }
            return;
        }
        for (tool, entries) in &server.extra {
            if *tool == self.tool {
                self.entries.extend(entries.iter().cloned());
            } else {
                self.lost.extend(entries.iter().map(|entry| format!("{} of {}", entry.key, tool.title())));
            }
        }
    }
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> Option<&'static str> {
    names.iter().find(|(_, known)| *known == value).map(|(name, _)| *name)
}

/// What is said of how a connection is kept.
fn reconnect(mut said: Reconnect) -> Vec<Entry> {
    let entry = |(name, slot): (&'static str, Slot<'_>)| {
        let node = match slot {
            Slot::Count(count, _) => count.map(|count| Node::new(Value::Number(count.to_string()))),
            Slot::Time(time, _) => time.map(any_time),
            Slot::Calls(calls) => calls.and_then(|calls| name_of(&CALLS, calls)).map(Node::text),
        };
        node.map(|node| Entry::new(name, node))
    };
    said.slots().into_iter().filter_map(entry).collect()
}

fn any_time(time: Duration) -> Node {
    let millis = time.as_millis();
    Node::text(match millis % 1000 {
        0 => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    })
}
