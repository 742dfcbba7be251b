//! `cardan search`: which configured server has what is looked for, from what they told when they last ran.

use std::path::PathBuf;
use std::time::Duration;

use cardan_config::Config;
use cardan_gateway::cache::Kept;
use cardan_gateway::catalog::{Entry, Kind};
use clap::Args;
use serde_json::{Value, json};

use super::config::{failure, search};
use super::servers::none_configured;
use super::servers::row::span;
use crate::catalogs::{about, kept};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::path;
use crate::look::Surface;
use crate::look::text::Line;
use crate::output::{Form, print_json, show, tell};
use crate::talk::form::one_line;

#[derive(Debug, Args)]
#[command(after_help = "\
Finds tools, prompts, resources and templates whose name or description has all the words, in capitals or not. Nothing is started: \
what servers offer is known from `cardan list NAME`, and from when they last ran with `cardan servers`, `cardan serve` or --daemon. How \
long ago that was is told.

Examples:
  cardan search forecast
  cardan search read file --json")]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Use this file and no other
    #[arg(long, value_name = "FILE", value_parser = path())]
    config: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl SearchArgs {
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Text }
    }
}

/// How far what follows is indented where a line takes several rows.
const HANG: usize = 4;

/// Something that has the words.
struct Found {
    server: String,
    kind: &'static str,
    key: String,
    about: String,
    age: Duration,
    /// The name itself has them.
    named: bool,
}

pub(crate) fn run(args: &SearchArgs) -> Result<(), Failure> {
    let search = search(args.config.clone())?;
    let config = Config::load(&search);
    if config.servers.is_empty() {
        return Err(match config.problems.first() {
            Some(problem) => failure(problem),
            None => none_configured(),
        });
    }
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for server in &config.servers {
        match kept(server, &config, &search) {
            Some(kept) => found.extend(matches(&server.name, &kept, &words)),
            None => unknown.push(server.name.as_str()),
        }
    }
    // Those whose name says it are the likely ones.
    found.sort_by_key(|found| !found.named);
    match args.form() {
        Form::Json => {
            let found: Vec<Value> = found.iter().map(Found::json).collect();
            print_json(&json!({ "found": found, "unknown": unknown }).to_string())?;
        }
        Form::Text => {
            let columns = Surface::stdout().columns();
            let lines = found.iter().map(|found| Line::from(found.line(columns).as_str()));
            let lines: Vec<Line> = match columns {
                Some(columns) => lines.flat_map(|line| line.wrapped(columns, HANG)).collect(),
                None => lines.collect(),
            };
            show(&lines)?;
        }
    }
    if !unknown.is_empty() && args.form() == Form::Text {
        let names = unknown.join(", ");
        tell(&format!("not known what these offer: {names}; `cardan servers` asks them"));
    }
    match found.is_empty() {
        false => Ok(()),
        true => Err(Failure::new(Exit::NotFound, format!("nothing has `{}`", args.words.join(" ")))
            .next("look for less, or ask all servers anew with `cardan servers`")),
    }
}

fn matches(server: &str, kept: &Kept, words: &[String]) -> Vec<Found> {
    let has = |text: &str| {
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let of = |kind: Kind, entry: &Entry| {
        let (key, about) = (entry.key(), about(entry));
        let named = has(key);
        (named || has(&format!("{key} {about}"))).then(|| Found {
            server: server.to_owned(),
            kind: word(kind),
            key: key.to_owned(),
            about,
            age: kept.told.age(kind).unwrap_or_default(),
            named,
        })
    };
    let lists = Kind::ALL.into_iter().map(|kind| (kind, &kept.catalog.list(kind).entries));
    lists.flat_map(|(kind, entries)| entries.iter().filter_map(move |entry| of(kind, entry))).collect()
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Tools => "tool",
        Kind::Prompts => "prompt",
        Kind::Resources => "resource",
        Kind::Templates => "template",
        Kind::Skills => "skill",
    }
}

impl Found {
    fn json(&self) -> Value {
        json!({
            "server": self.server,
            "kind": self.kind,
            "name": self.key,
            "description": self.about,
            "age_ms": u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// At a terminal no more than the first line of the description; elsewhere nothing is cut.
    fn line(&self, columns: Option<usize>) -> String {
        let about = match columns {
            Some(_) => self.about.trim().lines().next().unwrap_or_default(),
            None => &self.about,
        };
        let about = match one_line(about) {
            about if about.is_empty() => about,
            about => format!(": {about}"),
        };
        let (server, key, age) = (one_line(&self.server), one_line(&self.key), span(self.age));
        format!("{server} {} {key}{about} (told {age} ago)", self.kind)
    }
}
