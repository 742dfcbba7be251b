//! `cardan config list`: the servers, and where they come from.

use cardan_config::tree::{Entry, Node, Value};
use cardan_config::trust::Standing;
use cardan_config::{Config, File, Search, json, show};

use super::args::ListArgs;
use super::{files_from, short, tell_problems};
use crate::failure::Failure;
use crate::output::{self, clean};

pub(super) fn run(args: &ListArgs, search: &Search) -> Result<(), Failure> {
    let config = match &args.from {
        Some(from) => all_of(files_from(from, search)?),
        None => Config::load(search),
    };
    if args.json {
        output::print_json(&json::line(&table(&config)))?;
    } else {
        output::print(&text(&config, search, args.from.as_deref()))?;
    }
    tell_problems(&config)
}

/// Everything in some files, whatever project it is for and whatever shadows it.
fn all_of(files: Vec<File>) -> Config {
    let mut config = Config::default();
    for file in files {
        config.servers.extend(file.servers);
        config.problems.extend(file.problems);
    }
    config
}

fn table(config: &Config) -> Node {
    let servers = config.servers.iter().map(|server| show::server(server, config)).collect();
    let problems = config
        .problems
        .iter()
        .chain(&config.ignored)
        .map(|problem| Node::text(problem.to_string()))
        .collect();
    Node::new(Value::Table(vec![
        Entry::new("servers", Node::new(Value::List(servers))),
        Entry::new("problems", Node::new(Value::List(problems))),
    ]))
}

fn text(config: &Config, search: &Search, from: Option<&str>) -> String {
    let rows: Vec<[String; 4]> = config
        .servers
        .iter()
        .map(|server| {
            let kind = match server.origin.standing {
                _ if !server.enabled => "off",
                Standing::Ours | Standing::Trusted => server.way.kind(),
                Standing::Unseen | Standing::Exposed => "untrusted",
            };
            let project = server.origin.project.as_ref();
            let project = project.map_or_else(String::new, |project| format!(" (for {})", project.display()));
            let place = format!("{}:{}{project}", short(&server.origin.file, search), server.origin.line);
            [server.name.clone(), kind.to_owned(), show::summary(server), place]
        })
        .collect();
    if let (Some(from), true) = (from, rows.is_empty()) {
        return format!("{from} has no server here");
    }
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
