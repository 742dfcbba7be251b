//! What can stand at the cursor.

use cardan_config::Tool;
use cardan_gateway::catalog::Kind;
use cardan_proto::session::event::LogLevel;
use clap::Arg;

use super::files::{Which, files};
use super::known::{catalog, entries, servers, stems};
use super::walk::{Walk, takes_value};
use super::{Offer, pairs};

pub(super) fn offers(walk: &Walk<'_>, current: &str) -> Vec<Offer> {
    if walk.foreign.is_some() {
        return files("", current, Which::All);
    }
    if let Some(option) = walk.waiting {
        return values(option, "", current);
    }
    if current.starts_with('-') {
        return match (walk.option(current), current.split_once('=')) {
            (Some((option, Some(_))), Some((name, value))) => values(option, &format!("{name}="), value),
            _ => options(walk),
        };
    }
    if walk.words.is_empty() && walk.command.has_subcommands() {
        return commands(walk);
    }
    words(walk, current)
}

fn commands(walk: &Walk<'_>) -> Vec<Offer> {
    let shown = walk.command.get_subcommands().filter(|command| !command.is_hide_set());
    let offer = |command: &clap::Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        Offer::word(command.get_name(), &about)
    };
    shown.map(offer).collect()
}

fn options(walk: &Walk<'_>) -> Vec<Offer> {
    let shown = walk.command.get_arguments().filter(|option| !option.is_hide_set() && walk.takes(option));
    let offer = |option: &Arg| {
        let about = option.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Offer::word(format!("--{}", option.get_long()?), &about))
    };
    shown.filter_map(offer).collect()
}

/// Values of an option, each behind `before`.
fn values(option: &Arg, before: &str, typed: &str) -> Vec<Offer> {
    if !takes_value(option) {
        return Vec::new();
    }
    let said = listed(option);
    if !said.is_empty() {
        return said
            .into_iter()
            .map(|offer| Offer { value: format!("{before}{}", offer.value), ..offer })
            .collect();
    }
    let name = option.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let each = |values: Vec<String>| {
        values.into_iter().map(|value| Offer::word(format!("{before}{value}"), "")).collect()
    };
    match name {
        "FILE" | "PATH" => files(before, typed, Which::All),
        "DIR" => files(before, typed, Which::Folders),
        "LEVEL" => each(LogLevel::ALL.iter().map(|level| level.name().to_owned()).collect()),
        "VARIABLE" => each(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()),
        "TOOL" | "TOOL|FILE" => each(Tool::ALL.iter().map(|tool| tool.id().to_owned()).collect()),
        _ => Vec::new(),
    }
}

/// The values that the command line itself lists.
fn listed(option: &Arg) -> Vec<Offer> {
    let values = option.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    let about =
        |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    shown.map(|value| Offer::word(value.get_name(), &about(value))).collect()
}

/// Words that belong to no option: what each command takes, in its order.
fn words(walk: &Walk<'_>, current: &str) -> Vec<Offer> {
    let of = |kinds: &[Kind]| match walk.words.first().and_then(|server| catalog(walk, server)) {
        Some(catalog) => kinds.iter().flat_map(|kind| entries(&catalog, *kind)).collect(),
        None => Vec::new(),
    };
    match (&walk.path[..], &walk.words[..]) {
        (
            [
                "call" | "list" | "read" | "prompt" | "complete" | "info" | "listen" | "ping" | "raw"
                | "bridge",
            ],
            [],
        ) => servers(walk),
        (["call"], [_]) | (["pin", _], [_]) => of(&[Kind::Tools]),
        (["list"], [_]) => {
            ["tools", "resources", "templates", "prompts"].map(|kind| Offer::word(kind, "")).into()
        }
        (["prompt"], [_]) => of(&[Kind::Prompts]),
        (["complete"], [_]) => of(&[Kind::Prompts, Kind::Templates]),
        (["read"], [server]) => {
            let stems = catalog(walk, server).map(|catalog| stems(&catalog)).unwrap_or_default();
            of(&[Kind::Resources]).into_iter().chain(stems).collect()
        }
        (["listen"], [_, ..]) => {
            let lists = ["tools", "resources", "prompts"].map(|list| Offer::word(list, ""));
            lists.into_iter().chain(of(&[Kind::Resources])).collect()
        }
        (["call"], [server, tool, given @ ..]) => match catalog(walk, server) {
            Some(catalog) => pairs::of_tool(&catalog, tool, given, current),
            None => Vec::new(),
        },
        (["prompt"], [server, prompt, given @ ..]) => match catalog(walk, server) {
            Some(catalog) => pairs::of_prompt(&catalog, walk, prompt, given, current),
            None => Vec::new(),
        },
        (["complete"], [server, of, given @ ..]) => match catalog(walk, server) {
            Some(_) if of.contains("://") => pairs::of_template(walk, of, given, current),
            Some(catalog) => pairs::of_prompt(&catalog, walk, of, given, current),
            None => Vec::new(),
        },
        (["config", "explain" | "remove" | "trust" | "export"], _) | (["pin", _], []) => servers(walk),
        (_, words) => walk.command.get_positionals().nth(words.len()).map(listed).unwrap_or_default(),
    }
}
