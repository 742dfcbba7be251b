//! `cardan config list`: the servers, and where they come from.

use cardan_config::tree::{Entry, Node, Value};
use cardan_config::{Config, Search, json, show};

use super::args::ListArgs;
use super::{short, tell_problems};
use crate::failure::Failure;
use crate::output::{self, clean};

pub(super) fn run(args: &ListArgs, search: &Search) -> Result<(), Failure> {
    let config = Config::load(search);
    if args.json {
        output::print_json(&json::line(&table(&config)))?;
    } else {
        output::print(&text(&config, search))?;
    }
    tell_problems(&config)
}

fn table(config: &Config) -> Node {
    let servers = config.servers.iter().map(|server| show::server(server, config)).collect();
    let problems = config.problems.iter().map(|problem| Node::text(problem.to_string())).collect();
    Node::new(Value::Table(vec![
        Entry::new("servers", Node::new(Value::List(servers))),
        Entry::new("problems", Node::new(Value::List(problems))),
    ]))
}

fn text(config: &Config, search: &Search) -> String {
    let rows: Vec<[String; 4]> = config
        .servers
        .iter()
        .map(|server| {
            let kind = if server.enabled { server.way.kind().to_owned() } else { "off".to_owned() };
            let place = format!("{}:{}", short(&server.origin.file, search), server.origin.line);
            [server.name.clone(), kind, show::summary(server), place]
        })
        .collect();
    if rows.is_empty() {
        return "no server is configured; add one with `cardan config add`, or see `cardan config import`"
            .to_owned();
    }
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().min(MAX_WIDTH)
    };
    let (name, kind, what) = (width(0), width(1), width(2));
    let line =
        |row: &[String; 4]| format!("{:name$}  {:kind$}  {:what$}  {}", row[0], row[1], row[2], row[3]);
    clean(&rows.iter().map(line).collect::<Vec<_>>().join("\n")).into_owned()
}

/// Longer cells push theirs aside instead of everyone's.
const MAX_WIDTH: usize = 48;
