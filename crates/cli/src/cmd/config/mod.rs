//! `cardan config`: which servers are configured, where, and why; and changes to that.
//!
//! Nothing here prints a value that may be secret. Other tools' files are changed only when they are named.

mod add;
pub(crate) mod args;
mod explain;
mod export;
mod import;
mod list;
mod remove;
mod save;
mod trust;

use std::path::{Path, PathBuf};
use std::{env, fs};

use cardan_config::closest::closest;
use cardan_config::{Config, File, Problem, Search, Tool};

use self::args::{ConfigArgs, Verb};
use crate::failure::Failure;
use crate::home::at_home;
use crate::output::tell;

pub(crate) fn run(args: ConfigArgs) -> Result<(), Failure> {
    let search = search(args.config)?;
    match args.verb {
        Verb::List(args) => list::run(&args, &search),
        Verb::Explain(args) => explain::run(&args, &search),
        Verb::Add(args) => add::run(args, &search),
        Verb::Remove(args) => remove::run(&args, &search),
        Verb::Import(args) => import::run(&args, &search),
        Verb::Export(args) => export::run(&args, &search),
        Verb::Trust(args) => trust::run(&args, &search),
    }
}

/// Where to look, from here.
pub(crate) fn search(file: Option<PathBuf>) -> Result<Search, Failure> {
    let cwd = env::current_dir().map_err(|error| Failure::usage(format!("no working folder: {error}")))?;
    Ok(Search::of(file, cwd, &variable))
}

/// A variable of ours.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Tells what is wrong in the files, and fails where one cannot be used at all.
fn tell_problems(config: &Config) -> Result<(), Failure> {
    let (broken, partial): (Vec<_>, Vec<_>) =
        config.problems.iter().partition(|problem| problem.server.is_none());
    for problem in partial.into_iter().chain(&config.ignored) {
        tell(&format!("warning: {problem}"));
    }
    match &broken[..] {
        [] => Ok(()),
        [most @ .., last] => {
            most.iter().for_each(|problem| tell(&format!("error: {problem}")));
            Err(failure(last))
        }
    }
}

pub(crate) fn failure(problem: &Problem) -> Failure {
    let what = Problem { next: None, ..problem.clone() };
    let failure = Failure::usage(what.to_string());
    match problem.next.as_deref().map(str::to_owned).or_else(|| advice(problem)) {
        Some(next) => failure.next(next),
        None => failure,
    }
}

/// What to do about a file that cannot be used as a whole.
fn advice(problem: &Problem) -> Option<String> {
    let Problem { file, line, server: None, .. } = problem else { return None };
    let is_there = || fs::exists(file).unwrap_or(true);
    Some(match line {
        0 if is_there() => {
            "see that it is a plain file of text that you may read, or name another one with --config"
                .to_owned()
        }
        0 => format!(
            "check the path, or make the file with `cardan config add NAME --config {} -- COMMAND`",
            file.display()
        ),
        _ => "mend it there; `cardan config explain` tells which files are read, and why".to_owned(),
    })
}

/// The files that `--from` means: a tool's here, or one that is named.
fn files_from(from: &str, search: &Search) -> Result<Vec<File>, Failure> {
    let (paths, tool) = match Tool::parse(from) {
        Some(tool) => (search.files_of(tool), Some(tool)),
        None => (vec![search.cwd.join(at_home(from))], None),
    };
    if tool.is_none() && !paths.iter().any(|path| path.exists()) {
        let message = format!("`{from}` is no tool, and there is no such file");
        let tools: Vec<&str> = Tool::ALL.iter().map(|tool| tool.id()).collect();
        let next = match closest(from, tools.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("tools are {}", tools.join(", ")),
        };
        return Err(Failure::usage(message).next(next));
    }
    if let (Some(tool), true) = (tool, paths.is_empty()) {
        let places =
            tool.project_files(&search.project()).into_iter().chain(tool.user_files(&search.folders));
        let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
        let message = format!("{} has no file here", tool.title());
        return Err(Failure::usage(message).next(format!("looked for {}", places.join(", "))));
    }
    paths.iter().map(|path| File::read(path, tool).map_err(|problem| failure(&problem))).collect()
}

/// A path for people: from here where it is below.
fn short<'a>(path: &'a Path, search: &Search) -> std::path::Display<'a> {
    path.strip_prefix(&search.cwd).unwrap_or(path).display()
}
