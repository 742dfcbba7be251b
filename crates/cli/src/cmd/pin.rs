//! `cardan pin list|diff|approve`: tools as they were approved, and what has become of them.

use std::path::PathBuf;

use cardan_config::{Config, Server};
use cardan_gateway::pin::store::{PinStore, Pinned};
use clap::{Args, Subcommand};

use super::config::{search, variable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::path;
use crate::look::Surface;
use crate::look::style::Style;
use crate::look::table::{self, Fit};
use crate::look::text::Line;
use crate::named::found;
use crate::output::{self, clean};
use crate::talk::console::Console;

#[derive(Debug, Args)]
#[command(after_help = "\
A gateway remembers every tool as it first saw it. One whose name, description, schema or annotations are another later is \
told of, or held back where cardan.toml says [gateway] pin = \"block\". A gateway that runs takes an approval over at once.

Examples:
  cardan pin list
  cardan pin diff files
  cardan pin approve files read_file
  cardan pin approve files read_file --digest 0123456789abcdef0123456789abcdef")]
pub(crate) struct PinArgs {
    #[command(subcommand)]
    what: What,
    /// Use this file and no other
    #[arg(long, value_name = "FILE", value_parser = path(), global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show which tools are remembered, and which have changed
    #[command(after_help = "\
Examples:
  cardan pin list
  cardan pin list files
  cardan pin list files read_file --config ./cardan.toml")]
    List(Which),
    /// Show how tools have changed
    #[command(after_help = "\
Examples:
  cardan pin diff
  cardan pin diff files read_file")]
    Diff(Which),
    /// Show how tools have changed, and approve them so
    #[command(after_help = "\
At a terminal it asks before it approves. With --digest it approves only what `cardan pin diff` has shown.

Examples:
  cardan pin approve files
  cardan pin approve files read_file --digest 0123456789abcdef0123456789abcdef")]
    Approve(ApproveArgs),
}

#[derive(Debug, Args)]
struct ApproveArgs {
    #[command(flatten)]
    which: Which,
    /// Approve the tool only as `cardan pin diff` showed it with this digest
    #[arg(long, value_name = "DIGEST", requires = "tool")]
    digest: Option<String>,
}

#[derive(Debug, Args)]
struct Which {
    /// Of this server; of all when left out
    server: Option<String>,
    /// This tool; all when left out
    tool: Option<String>,
}

pub(crate) async fn run(args: PinArgs) -> Result<(), Failure> {
    let config = Config::load(&search(args.config)?);
    let Some(store) = PinStore::of_user(variable) else {
        return Err(Failure::usage("there is no place where tools are remembered")
            .next("set HOME or XDG_CONFIG_HOME to a folder"));
    };
    match &args.what {
        What::List(which) => list(which, &config, &store),
        What::Diff(which) => diffs(which, &config, &store),
        What::Approve(args) => approve(args, &config, &store).await,
    }
}

/// Which tools are remembered, a row each.
fn list(which: &Which, config: &Config, store: &PinStore) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (server, _, pinned) in kept(which, config, store)? {
        for (name, known) in pinned.tools.iter().filter(|(name, _)| which.has(name)) {
            let mut row = |style, state, digest: &str| {
                let (server, name) = (Line::from(server.name.as_str()), Line::of(Style::Name, name));
                rows.push([Line::of(style, state), server, name, Line::from(digest)]);
            };
            if known.waiting().next().is_none() {
                row(Style::Good, "approved", "");
            }
            for form in known.waiting() {
                row(Style::Warning, "changed", &form.short());
            }
        }
    }
    print(&table::lines(&rows, Fit { columns: Surface::stdout().columns(), spare: &[] }))
}

/// How tools have changed.
fn diffs(which: &Which, config: &Config, store: &PinStore) -> Result<(), Failure> {
    show(&changes(which, config, store)?)
}

/// A tool that has changed, as it is shown.
struct Change<'a> {
    server: &'a Server,
    tool: String,
    digest: String,
    lines: Vec<String>,
}

fn changes<'a>(which: &Which, config: &'a Config, store: &PinStore) -> Result<Vec<Change<'a>>, Failure> {
    let mut changes = Vec::new();
    for (server, _, pinned) in kept(which, config, store)? {
        for (tool, known) in pinned.tools.iter().filter(|(tool, _)| which.has(tool)) {
            changes.extend(known.waiting().map(|form| Change {
                server,
                tool: tool.clone(),
                digest: form.short(),
                lines: known.approved.diff(form),
            }));
        }
    }
    Ok(changes)
}

fn show(changes: &[Change<'_>]) -> Result<(), Failure> {
    let mut out = Vec::new();
    for change in changes {
        out.push(format!("{} {}  {}", change.server.name, change.tool, change.digest));
        out.extend(change.lines.iter().map(|line| format!("  {line}")));
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

/// Approves what it shows, and nothing that has come since.
async fn approve(args: &ApproveArgs, config: &Config, store: &PinStore) -> Result<(), Failure> {
    let mut changes = changes(&args.which, config, store)?;
    // Of several forms of a tool that wait, the one that is meant; where it does not wait any more, those that do are shown.
    let is_meant = |change: &Change<'_>| {
        args.digest.as_ref().is_none_or(|digest| change.digest.eq_ignore_ascii_case(digest))
    };
    if changes.iter().any(is_meant) {
        changes.retain(is_meant);
    }
    if changes.is_empty() {
        output::tell("nothing has changed, so there is nothing to approve");
        return Ok(());
    }
    show(&changes)?;
    match &args.digest {
        Some(_) => {
            if let Some(other) = changes.iter().find(|change| !is_meant(change)) {
                return Err(another(other));
            }
        }
        None => {
            if let Some(console) = Console::find()
                && console.talk().await.choose("Approve? [y/N] ", &[("yes", "yes"), ("no", "")]).await
                    != Some("yes")
            {
                output::tell("nothing was approved");
                return Ok(());
            }
        }
    }
    let unkept = |error| Failure::usage(format!("cannot be written: {error}"));
    let _hold = store.hold().map_err(|error| unkept(error).next("try again when nobody else is at it"))?;
    let (mut lines, mut approved) = (Vec::new(), Vec::new());
    // Read again: while somebody was looking, a gateway may have seen something else.
    for (server, key, mut pinned) in kept(&args.which, config, store)? {
        for change in changes.iter().filter(|change| change.server.name == server.name) {
            if !pinned.approve(&change.tool, &change.digest) {
                return Err(another(change));
            }
            lines.push(clean(&format!("approved  {}  {}", server.name, change.tool)).into_owned());
        }
        approved.push((key, pinned));
    }
    for (key, pinned) in approved {
        store.save(&key, &pinned).map_err(|error| unkept(error).next(store.place(&key)))?;
    }
    output::print(&lines.join("\n"))
}

/// What waits to be approved is not what was shown.
fn another(change: &Change<'_>) -> Failure {
    let (server, tool) = (&change.server.name, &change.tool);
    let message = format!("tool `{tool}` of {server} is not as it was shown, so it was not approved");
    Failure::usage(message).next(format!("look at it again with `cardan pin diff {server} {tool}`"))
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
        Some(name) => vec![found(name, config)?],
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
