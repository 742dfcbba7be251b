//! `cardan pin list|diff|approve`: tools as they were approved, and what has become of them.

use std::path::PathBuf;

use cardan_config::{Config, Server};
use cardan_gateway::pin::store::{PinStore, Pinned};
use clap::{Args, Subcommand};

use super::config::{failure, search, variable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::Surface;
use crate::look::style::Style;
use crate::look::table::{self, Fit};
use crate::look::text::Line;
use crate::output::{self, clean};

#[derive(Debug, Args)]
#[command(after_help = "\
A gateway remembers every tool as it first saw it. One whose name, description, schema or annotations are another later is
told of, or held back where cardan.toml says [gateway] pin = \"block\". A gateway that runs takes an approval over at once.

Examples:
  cardan pin list
  cardan pin diff files
  cardan pin approve files read_file")]
pub(crate) struct PinArgs {
    #[command(subcommand)]
    what: What,
    /// Use this file and no other
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show which tools are remembered, and which have changed
    List(Which),
    /// Show how tools have changed
    Diff(Which),
    /// Approve tools as they are now
    Approve(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// Of this server; of all when left out
    server: Option<String>,
    /// This tool; all when left out
    tool: Option<String>,
}

pub(crate) fn run(args: PinArgs) -> Result<(), Failure> {
    let config = Config::load(&search(args.config)?);
    let Some(store) = PinStore::of_user(variable) else {
        return Err(Failure::usage("there is no place where tools are remembered")
            .next("set HOME or XDG_CACHE_HOME to a folder"));
    };
    match &args.what {
        What::List(which) => list(which, &config, &store),
        What::Diff(which) => diffs(which, &config, &store),
        What::Approve(which) => approve(which, &config, &store),
    }
}

/// Which tools are remembered, a row each.
fn list(which: &Which, config: &Config, store: &PinStore) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (server, _, pinned) in kept(which, config, store)? {
        for (name, known) in pinned.tools.iter().filter(|(name, _)| which.has(name)) {
            let state = match known.changed {
                Some(_) => Line::of(Style::Warning, "changed"),
                None => Line::of(Style::Good, "approved"),
            };
            rows.push([state, Line::from(server.name.as_str()), Line::of(Style::Name, name)]);
        }
    }
    print(&table::lines(&rows, Fit { columns: Surface::stdout().columns(), spare: &[] }))
}

/// How tools have changed.
fn diffs(which: &Which, config: &Config, store: &PinStore) -> Result<(), Failure> {
    let mut out = Vec::new();
    for (server, _, pinned) in kept(which, config, store)? {
        out.extend(diff(&server.name, &pinned, which));
    }
    let style = |line: &str| match line.trim_start().chars().next() {
        Some('+') => Style::Good,
        Some('-') => Style::Bad,
        _ => Style::Plain,
    };
    print(&out.iter().map(|line| Line::of(style(line), &line.replace('\n', "\\n"))).collect::<Vec<_>>())
}

fn print(lines: &[Line]) -> Result<(), Failure> {
    if lines.is_empty() {
        output::tell("nothing to show");
        return Ok(());
    }
    output::show(lines).map(drop)
}

fn diff(server: &str, pinned: &Pinned, which: &Which) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, known) in pinned.tools.iter().filter(|(name, _)| which.has(name)) {
        let Some(changed) = &known.changed else { continue };
        lines.push(format!("{server} {name}"));
        lines.extend(known.approved.diff(changed).iter().map(|line| format!("  {line}")));
    }
    lines
}

fn approve(which: &Which, config: &Config, store: &PinStore) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let _hold = store.hold().map_err(|error| {
        Failure::usage(format!("cannot be written: {error}")).next("try again when nobody else is at it")
    })?;
    for (server, key, mut pinned) in kept(which, config, store)? {
        let approved = pinned.approve(which.tool.as_deref());
        if !approved.is_empty() {
            let unkept =
                |error| Failure::usage(format!("cannot be written: {error}")).next(store.place(&key));
            store.save(&key, &pinned).map_err(unkept)?;
        }
        lines.extend(
            approved.iter().map(|tool| clean(&format!("approved  {}  {tool}", server.name)).into_owned()),
        );
    }
    if lines.is_empty() {
        output::tell("nothing has changed, so there is nothing to approve");
        return Ok(());
    }
    output::print(&lines.join("\n"))
}

impl Which {
    fn has(&self, tool: &str) -> bool {
        self.tool.as_deref().is_none_or(|wanted| wanted == tool)
    }
}

/// The servers that are meant and of which something is remembered.
fn kept<'a>(
    which: &Which,
    config: &'a Config,
    store: &PinStore,
) -> Result<Vec<(&'a Server, String, Pinned)>, Failure> {
    let servers: Vec<&Server> = match &which.server {
        Some(name) => vec![config.server(name).map_err(|problem| failure(&problem))?],
        None => config.servers.iter().collect(),
    };
    let mut kept = Vec::new();
    for server in servers {
        let key = server.digest().to_string();
        let unread = |error| {
            let message = format!("the approved tools of {} cannot be read: {error}", server.name);
            Failure::usage(message).next(format!("mend or remove {}", store.place(&key)))
        };
        let pinned = store.load(&key).map_err(unread)?;
        kept.extend(pinned.map(|pinned| (server, key.clone(), pinned)));
    }
    match (&which.tool, kept.iter().any(|(_, _, pinned)| pinned.tools.keys().any(|tool| which.has(tool)))) {
        (Some(tool), false) => Err(Failure::new(Exit::NotFound, format!("tool `{tool}` is not remembered"))
            .next("see what is with `cardan pin list`; tools are remembered when a gateway has seen them")),
        _ => Ok(kept),
    }
}
