//! `cardan config add`: a server by its address or command.

use std::path::Path;

use cardan_config::edit::Change;
use cardan_config::tree::{Entry, Node, Value};
use cardan_config::{File, Search, Server, Text, Tool, show, text::Grammar, toml};
use cardan_proto::secret::is_secret_name;

use super::args::AddArgs;
use super::save::{Draft, refused};
use super::short;
use crate::failure::Failure;
use crate::output::{self, tell};

pub(super) fn run(args: AddArgs, search: &Search) -> Result<(), Failure> {
    for (name, value) in args.env.iter().chain(&args.headers) {
        warn(name, value);
    }
    let server = server(&args)?;
    let mut draft = Draft::own(args.write.scope, search)?;
    let change = if args.write.force { Change::Replace(&server) } else { Change::Add(&server) };
    draft.change(change).map_err(|error| refused(&error, draft.path(), search))?;
    let line = format!("{}  {}  {}", server.name, show::summary(&server), short(draft.path(), search));
    draft.save(args.write.dry_run, search)?;
    output::print(&output::clean(&line))
}

/// S1-C5: a secret in a file is read by everyone who reads the file.
fn warn(name: &str, value: &str) {
    let text = Text::parse(value, Grammar::Cardan);
    let secret = is_secret_name(name) || value.split_whitespace().any(show::looks_secret);
    if secret && !text.has_placeholders() && !value.is_empty() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable: String = name.chars().map(plain).collect();
        tell(&format!(
            "warning: the value of {name} looks like a secret and would be kept as plain text; \
             put it into a variable and write '${{{variable}}}' instead"
        ));
    }
}

/// The server as the command line says it, read like a file.
fn server(args: &AddArgs) -> Result<Server, Failure> {
    let mut entries = Vec::new();
    let mut put = |key: &str, node: Node| entries.push(Entry::new(key, node));
    let table = |pairs: &[(String, String)]| {
        let members = pairs.iter().map(|(name, value)| Entry::new(name, Node::text(value)));
        Node::new(Value::Table(members.collect()))
    };
    if let Some(kind) = &args.kind {
        put("type", Node::text(kind));
    }
    match (&args.url, &args.command[..]) {
        (None, []) => {
            return Err(Failure::usage("neither an address nor a command is given")
                .next("give the address behind the name, or a command after `--`"));
        }
        (Some(_), [_, ..]) => {
            return Err(Failure::usage("both an address and a command are given").next("keep one of them"));
        }
        (Some(url), []) => put("url", Node::text(url)),
        (None, [program, rest @ ..]) => {
            put("command", Node::text(program));
            if !rest.is_empty() {
                put("args", Node::texts(rest.to_vec()));
            }
        }
    }
    if !args.env.is_empty() {
        put("env", table(&args.env));
    }
    if let Some(cwd) = &args.cwd {
        put("cwd", Node::text(cwd));
    }
    if !args.headers.is_empty() {
        put("headers", table(&args.headers));
    }
    if let Some(name) = &args.bearer_env {
        put("bearer_env", Node::text(name));
    }
    let text = toml::section(&["servers", &args.name], &Node::new(Value::Table(entries)));
    let file = File::parse(Path::new("command line"), &text, Some(Tool::Cardan));
    let mut file = file.map_err(|problem| Failure::usage(problem.message))?;
    if let Some(problem) = file.problems.first() {
        let failure = Failure::usage(problem.message.clone());
        return Err(match &problem.next {
            Some(next) => failure.next(next.clone()),
            None => failure,
        });
    }
    file.servers.pop().ok_or_else(|| Failure::usage("this is no server"))
}
