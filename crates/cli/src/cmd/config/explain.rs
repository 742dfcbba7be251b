//! `cardan config explain`: why the configuration is what it is.

use std::fmt::Write as _;

use cardan_config::load::{Reason, Source};
use cardan_config::resolve::input_variable;
use cardan_config::tree::{Entry, Node, Value};
use cardan_config::{Config, Search, Server, json, show};

use super::args::ExplainArgs;
use super::{short, tell_problems, variable};
use crate::failure::Failure;
use crate::named::found;
use crate::output::{self, clean};

pub(super) fn run(args: &ExplainArgs, search: &Search) -> Result<(), Failure> {
    let config = Config::load(search);
    let node = match &args.name {
        Some(name) => of_server(found(name, &config)?, &config),
        None => of_all(&config, search),
    };
    if args.json {
        output::print_json(&json::line(&node))?;
    } else {
        let mut out = String::new();
        lines(&mut out, &node, 0);
        output::print(&clean(&out))?;
    }
    tell_problems(&config)
}

/// One server, and which of the variables it needs are set.
fn of_server(server: &Server, config: &Config) -> Node {
    let node = show::server(server, config);
    let mut entries = node.entries().to_vec();
    let variables = server.variables().into_iter().map(|(name, has_default)| {
        let state = match (variable(&name).is_some(), has_default) {
            (true, _) => "set",
            (false, true) => "not set, has a default",
            (false, false) => "not set",
        };
        Entry::new(name, Node::text(state))
    });
    let variables: Vec<Entry> = variables.collect();
    if !variables.is_empty() {
        entries.push(Entry::new("variables", Node::new(Value::Table(variables))));
    }
    let inputs = server.inputs().into_iter().map(|id| {
        let state = match config.input(&id, &variable) {
            Some(_) => "answered".to_owned(),
            None => format!("not answered; set {}", input_variable(&id)),
        };
        Entry::new(id, Node::text(state))
    });
    let inputs: Vec<Entry> = inputs.collect();
    if !inputs.is_empty() {
        entries.push(Entry::new("inputs", Node::new(Value::Table(inputs))));
    }
    if server.isolation.is_some() {
        // Whoever wrote it must not believe that the process is locked in.
        entries.push(Entry::new("not_enforced", Node::texts(["isolation".to_owned()])));
    }
    Node::new(Value::Table(entries))
}

fn of_all(config: &Config, search: &Search) -> Node {
    let file = |source: &Source| {
        let why = match &source.reason {
            Reason::Named => "named".to_owned(),
            Reason::Project => "of this project".to_owned(),
            Reason::User => "of the user".to_owned(),
            Reason::Imported { by } => format!("imported by {}", short(by, search)),
        };
        Entry::new(source.file.path.display().to_string(), Node::text(format!("{}, {why}", source.file.tool)))
    };
    let servers =
        config.servers.iter().map(|server| Entry::new(&server.name, Node::text(show::place(&server.origin))));
    let shadowed = config.shadowed.iter().map(|(server, by)| {
        let place = format!("{}, shadowed by {}", show::place(&server.origin), show::place(by));
        Entry::new(&server.name, Node::text(place))
    });
    let problems =
        config.problems.iter().chain(&config.ignored).map(|problem| Node::text(problem.to_string()));
    let mut entries = vec![
        Entry::new("files", Node::new(Value::Table(config.sources.iter().map(file).collect()))),
        Entry::new("servers", Node::new(Value::Table(servers.collect()))),
        Entry::new("shadowed", Node::new(Value::Table(shadowed.collect()))),
        Entry::new("problems", Node::new(Value::List(problems.collect()))),
    ];
    if config.sources.is_empty() {
        let user = search.user_file().map(|file| file.display().to_string());
        let places = [Some(search.project().join("cardan.toml").display().to_string()), user];
        entries.push(Entry::new("looked_for", Node::texts(places.into_iter().flatten())));
    }
    Node::new(Value::Table(entries))
}

/// A table as indented lines.
fn lines(out: &mut String, node: &Node, depth: usize) {
    let indent = "  ".repeat(depth);
    for entry in node.entries() {
        match &entry.node.value {
            Value::Table(inner) if !inner.is_empty() => {
                let _ = writeln!(out, "{indent}{}", entry.key);
                lines(out, &entry.node, depth + 1);
            }
            Value::List(items) if !items.is_empty() => {
                let words: Vec<String> = items.iter().map(word).collect();
                let _ = writeln!(out, "{indent}{}  {}", entry.key, words.join(" "));
            }
            Value::Table(_) | Value::List(_) => {}
            _ => {
                let _ = writeln!(out, "{indent}{}  {}", entry.key, word(&entry.node));
            }
        }
    }
}

fn word(node: &Node) -> String {
    match &node.value {
        Value::Null => "(removed)".to_owned(),
        Value::Text(text) => text.clone(),
        _ => json::line(node),
    }
}
