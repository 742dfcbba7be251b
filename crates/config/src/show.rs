//! A server for people to look at: where everything comes from, and nothing that may be secret.

use std::cell::Cell;

use cardan_proto::secret::{REDACTED, Redactor, argument};

use crate::load::Config;
use crate::read;
use crate::rules::Rules;
use crate::server::{Launch, Provenance, Remote, Server, Way};
use crate::text::{Part, Text};
use crate::tool::Tool;
use crate::tree::{Entry, Node, Value};
use crate::trust::Standing;
use crate::write::write;

/// All that is known about a server, as a table without secrets. Literal values of variables and headers are not
/// shown whatever their names, and neither is what looks like a secret elsewhere.
#[must_use]
pub fn server(server: &Server, config: &Config) -> Node {
    let mut out = vec![
        Entry::new("name", Node::text(&server.name)),
        Entry::new("type", Node::text(server.way.kind())),
        Entry::new("enabled", Node::new(Value::Bool(server.enabled))),
        Entry::new("file", Node::text(server.origin.file.display().to_string())),
        Entry::new("line", number(server.origin.line)),
    ];
    if let Some(tool) = server.origin.tool {
        out.push(Entry::new("tool", Node::text(tool.id())));
    }
    if let Some(project) = &server.origin.project {
        out.push(Entry::new("project", Node::text(project.display().to_string())));
    }
    match server.origin.standing {
        Standing::Ours => {}
        standing => {
            let trusted = standing == Standing::Trusted;
            out.push(Entry::new("trusted", Node::new(Value::Bool(trusted))));
        }
    }
    match &server.way {
        Way::Command(launch) => launched(launch, &mut out),
        Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => reached(remote, &mut out),
        Way::Unix(text) | Way::Pipe(text) => out.push(Entry::new("address", careful(text))),
        Way::Tcp(text) => out.push(Entry::new("address", Node::text(host(text)))),
    }
    settings(server, config, &mut out);
    offered("tools", &server.tools, &mut out);
    offered("prompts", &server.prompts, &mut out);
    offered("resources", &server.resources, &mut out);
    for (tool, entries) in &server.extra {
        let keys = entries.iter().map(|entry| entry.key.clone());
        out.push(Entry::new(format!("kept_for_{}", tool.id()), Node::texts(keys)));
    }
    let shadows = config.shadowed.iter().filter(|(other, _)| other.name == server.name);
    let shadows: Vec<Node> = shadows.map(|(other, _)| Node::text(place(&other.origin))).collect();
    if !shadows.is_empty() {
        out.push(Entry::new("shadows", Node::new(Value::List(shadows))));
    }
    out.push(Entry::new("digest", Node::text(server.digest().to_string())));
    Node::new(Value::Table(out))
}

/// `file:line (tool)`, or `file:line (tool, for project)`.
#[must_use]
pub fn place(origin: &Provenance) -> String {
    let tool = origin.tool.map(|tool| tool.to_string());
    let project = origin.project.as_ref().map(|project| format!("for {}", project.display()));
    let about: Vec<String> = tool.into_iter().chain(project).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    format!("{}:{}{about}", origin.file.display(), origin.line)
}

/// Where a server is, in a few words: its command line or its address.
#[must_use]
pub fn summary(server: &Server) -> String {
    match &server.way {
        Way::Command(launch) => {
            let words = std::iter::once(careful(&launch.program)).chain(arguments(&launch.args));
            words.map(|word| word.as_text().unwrap_or_default().to_owned()).collect::<Vec<_>>().join(" ")
        }
        Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => address(&remote.url),
        Way::Unix(text) | Way::Pipe(text) => {
            format!("{}://{}", server.way.kind(), careful(text).as_text().unwrap_or_default())
        }
        Way::Tcp(text) => format!("{}://{}", server.way.kind(), host(text)),
    }
}

/// Does a literal look like a secret? For warnings: it errs on the side of yes.
#[must_use]
pub fn looks_secret(text: &str) -> bool {
    let text = text.trim();
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix) && text.len() > prefix.len() + 5) {
        return true;
    }
    let solid = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=".contains(&byte));
    let has = |test: fn(&u8) -> bool| text.bytes().any(|byte| test(&byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    solid && text.len() >= SECRET_CHARS && mixed && entropy(text) > SECRET_BITS
}

/// What the keys of well-known services begin with.
const PREFIXES: [&str; 14] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "AIza",
    "eyJ",
    "hf_",
];

const SECRET_CHARS: usize = 20;
const SECRET_BITS: f64 = 3.3;

/// Bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

fn number(number: usize) -> Node {
    Node::new(Value::Number(number.to_string()))
}

fn launched(launch: &Launch, out: &mut Vec<Entry>) {
    out.push(Entry::new("command", careful(&launch.program)));
    if !launch.args.is_empty() {
        out.push(Entry::new("args", Node::new(Value::List(arguments(&launch.args)))));
    }
    if !launch.env.is_empty() {
        let pair = |(name, value): &(String, Option<Text>)| {
            let value =
                value.as_ref().map_or_else(|| Node::new(Value::Null), |text| Node::text(hidden(text)));
            Entry::new(name, value)
        };
        out.push(Entry::new("env", Node::new(Value::Table(launch.env.iter().map(pair).collect()))));
    }
    if !launch.pass.is_empty() {
        out.push(Entry::new("env_pass", Node::texts(launch.pass.clone())));
    }
    if !launch.env_files.is_empty() {
        let files = launch.env_files.iter().map(careful).collect();
        out.push(Entry::new("env_file", Node::new(Value::List(files))));
    }
    if let Some(cwd) = &launch.cwd {
        out.push(Entry::new("cwd", careful(cwd)));
    }
}

fn reached(remote: &Remote, out: &mut Vec<Entry>) {
    out.push(Entry::new("url", Node::text(address(&remote.url))));
    if !remote.headers.is_empty() {
        let pair = |(name, value): &(String, Text)| Entry::new(name, Node::text(hidden(value)));
        out.push(Entry::new("headers", Node::new(Value::Table(remote.headers.iter().map(pair).collect()))));
    }
    if remote.headers_helper.is_some() {
        // Its line may hold a password.
        out.push(Entry::new("headers_helper", Node::text(REDACTED)));
    }
    if let Some(name) = &remote.bearer_env {
        out.push(Entry::new("bearer_env", Node::text(name)));
    }
    if let Some(ca) = &remote.ca {
        out.push(Entry::new("ca", careful(ca)));
    }
}

/// What is offered, under which names and with which words.
fn offered(what: &str, rules: &Rules, out: &mut Vec<Entry>) {
    for entry in rules.entries() {
        let said = match entry.key.as_str() {
            "allow" => "allowed",
            "deny" => "denied",
            "rename" => "renamed",
            _ => "described",
        };
        out.push(Entry::new(format!("{said}_{what}"), harmless(entry.node)));
    }
}

/// Texts are shown unless they look like secrets.
fn harmless(mut node: Node) -> Node {
    match &mut node.value {
        Value::Text(text) => *text = plain(text),
        Value::List(items) => *items = items.drain(..).map(harmless).collect(),
        Value::Table(entries) => {
            for entry in entries {
                entry.node = harmless(std::mem::replace(&mut entry.node, Node::new(Value::Null)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    node
}

/// Settings as our own file would say them, and which of them are not the server's own.
fn settings(server: &Server, config: &Config, out: &mut Vec<Entry>) {
    let own = of_settings(server);
    let mut all = server.clone();
    all.settings = config.settings(server);
    let all = of_settings(&all);
    let said = names(&own);
    let inherited: Vec<String> = names(&all).into_iter().filter(|name| !said.contains(name)).collect();
    out.extend(all);
    if !inherited.is_empty() {
        out.push(Entry::new("from_defaults", Node::texts(inherited)));
    }
}

/// The keys, and those of tables behind a dot: each of their numbers can come from elsewhere.
fn names(entries: &[Entry]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries {
        match &entry.node.value {
            Value::Table(inner) => names.extend(inner.iter().map(|one| format!("{}.{}", entry.key, one.key))),
            _ => names.push(entry.key.clone()),
        }
    }
    names
}

fn of_settings(server: &Server) -> Vec<Entry> {
    let mut plain = Server::new("", Way::Command(Launch::default()));
    plain.settings = server.settings;
    let written = write(&plain, Tool::Cardan).map(|written| written.entry.node.entries().to_vec());
    let mut entries = written.unwrap_or_default();
    entries.retain(|entry| read::is_setting(&entry.key));
    entries
}

/// Placeholders as they are, literals hidden but for the scheme of a credential.
fn hidden(text: &Text) -> String {
    text.show(&|literal| match literal {
        "Bearer " | "Basic " | "Token " | "token " | "" => literal.to_owned(),
        _ => REDACTED.to_owned(),
    })
}

/// Literals are shown unless they look like secrets.
fn careful(text: &Text) -> Node {
    Node::text(text.show(&plain))
}

fn plain(literal: &str) -> String {
    let words = literal.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && !"_-+=".contains(c));
    if words.into_iter().any(|word| looks_secret(word.trim_end_matches(['/', ':', '.', ',', ' ']))) {
        return REDACTED.to_owned();
    }
    Redactor::default().redact(literal).into_owned()
}

/// What has a secret's name before it is one.
fn arguments(args: &[Text]) -> Vec<Node> {
    let shown = |(at, arg): (usize, &Text)| {
        let before = at.checked_sub(1).and_then(|before| args[before].as_literal());
        let first = arg.parts.first().and_then(|part| match part {
            Part::Literal(text) => Some(text.as_str()),
            _ => None,
        });
        match argument::secret(before, first.unwrap_or("?")) {
            Some(range) if range.start == 0 => Node::text(hidden(arg)),
            // The name stays, and placeholders do.
            Some(range) => {
                let name = first.map(|first| &first[..range.start]).unwrap_or_default();
                let named = Cell::new(false);
                Node::text(arg.show(&|_| match named.replace(true) {
                    false => format!("{name}{REDACTED}"),
                    true => REDACTED.to_owned(),
                }))
            }
            None => careful(arg),
        }
    };
    args.iter().enumerate().map(shown).collect()
}

/// A host and its port, without who is to log in: nobody is where there is nothing but a socket.
fn host(text: &Text) -> String {
    text.show(&|literal| match literal.rsplit_once('@') {
        Some((_, host)) => format!("{REDACTED}@{}", plain(host)),
        None => plain(literal),
    })
}

/// An address without who is logged in and without what is asked for.
fn address(url: &Text) -> String {
    let asked = Cell::new(false);
    url.show(&|literal| {
        if asked.get() {
            return REDACTED.to_owned();
        }
        // A password may have what begins a query elsewhere.
        let literal = &*Redactor::default().redact(literal);
        let (path, query) = literal.split_once(['?', '#']).map_or((literal, false), |(path, _)| (path, true));
        asked.set(query);
        let shown = plain(path);
        if query { format!("{shown}?{REDACTED}") } else { shown }
    })
}
