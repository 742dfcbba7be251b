//! `cardan config list`: the servers, and where they come from.

use cardan_config::tree::{Entry, Node, Value};
use cardan_config::trust::Standing;
use cardan_config::{Config, File, Search, json, show};

use super::args::ListArgs;
use super::{files_from, short, tell_problems};
use crate::failure::Failure;
use crate::look::Surface;
use crate::look::style::Style;
use crate::look::table::{self, Fit};
use crate::look::text::Line;
use crate::output;

pub(super) fn run(args: &ListArgs, search: &Search) -> Result<(), Failure> {
    let config = match &args.from {
        Some(from) => all_of(files_from(from, search)?),
        None => Config::load(search),
    };
    if args.json {
        output::print_json(&json::line(&table(&config)))?;
    } else {
        output::show(&lines(&config, search, args.from.as_deref()))?;
    }
    tell_problems(&config)
}

/// Everything in some files, whatever project it is for and whatever shadows it.
fn all_of(files: Vec<File>) -> Config {
    let mut config = Config::default();
    for file in files {
        config.servers.extend(file.servers);
        config.problems.extend(file.problems);
        config.ignored.extend(file.ignored);
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

fn lines(config: &Config, search: &Search, from: Option<&str>) -> Vec<Line> {
    let rows: Vec<[Line; 4]> = config
        .servers
        .iter()
        .map(|server| {
            let kind = match server.origin.standing {
                _ if !server.enabled => Line::of(Style::Faint, "off"),
                Standing::Ours | Standing::Trusted => Line::from(server.way.kind()),
                Standing::Unseen | Standing::Exposed => Line::of(Style::Warning, "untrusted"),
            };
            let project = server.origin.project.as_ref();
            let project = project.map_or_else(String::new, |project| format!(" (for {})", project.display()));
            let place = format!("{}:{}{project}", short(&server.origin.file, search), server.origin.line);
            let (name, what) =
                (Line::of(Style::Name, &server.name), Line::from(show::summary(server).as_str()));
            [name, kind, what, Line::of(Style::Faint, &place)]
        })
        .collect();
    if let (Some(from), true) = (from, rows.is_empty()) {
        return vec![Line::from(format!("{from} has no server here").as_str())];
    }
    if rows.is_empty() {
        let none = "no server is configured; add one with `cardan config add`, or see `cardan config import`";
        return vec![Line::from(none)];
    }
    table::lines(&rows, Fit { columns: Surface::stdout().columns(), spare: &[] })
}
