//! `cardan config import`: servers of other tools, copied into our own file.

use std::fmt::Write as _;

use cardan_config::edit::{Change, EditError};
use cardan_config::{File, Search, Server, Tool, show};

use super::args::ImportArgs;
use super::save::{Draft, refused};
use super::{files_from, short};
use crate::failure::Failure;
use crate::output::{self, clean, tell};

pub(super) fn run(args: &ImportArgs, search: &Search) -> Result<(), Failure> {
    let files = match &args.from {
        Some(from) => files_from(from, search)?,
        None => found(search),
    };
    for problem in files.iter().flat_map(|file| file.problems.iter().chain(&file.ignored)) {
        tell(&format!("warning: {problem}"));
    }
    if args.from.is_none() && !args.all {
        return output::print(&clean(&offer(&files, search)));
    }
    let mut draft = Draft::own(args.write.scope, search)?;
    let mut told = String::new();
    for name in &args.names {
        if !files.iter().flat_map(|file| &file.servers).any(|server| server.name == *name) {
            let message = format!("there is no server `{name}` to import");
            return Err(Failure::usage(message).next("see what there is with `cardan config import`"));
        }
    }
    let mut seen: Vec<&Server> = Vec::new();
    for file in &files {
        for server in file.servers.iter().filter(|server| here(server, search)) {
            let wanted = args.names.is_empty() || args.names.contains(&server.name);
            if !wanted {
                continue;
            }
            if let Some(nearer) = seen.iter().find(|nearer| nearer.name == server.name) {
                let (place, before) = (show::place(&server.origin), show::place(&nearer.origin));
                tell(&format!("`{}` in {place} is left out: the one in {before} counts", server.name));
                continue;
            }
            seen.push(server);
            one(&mut draft, file, server, args, search, &mut told)?;
        }
    }
    draft.save(args.write.dry_run, search)?;
    output::print(&clean(&told))
}

/// Every file of every tool that is here; one that cannot be read is told of.
fn found(search: &Search) -> Vec<File> {
    let mut files = Vec::new();
    for tool in Tool::ALL.into_iter().skip(1) {
        for path in search.files_of(tool) {
            match File::read(&path, Some(tool)) {
                Ok(file) => files.push(file),
                Err(problem) => tell(&format!("warning: {problem}")),
            }
        }
    }
    files
}

fn here(server: &Server, search: &Search) -> bool {
    server.origin.project.as_ref().is_none_or(|project| search.cwd.starts_with(project))
}

/// What could be imported.
fn offer(files: &[File], search: &Search) -> String {
    let mut out = String::new();
    for file in files.iter().filter(|file| !file.servers.is_empty()) {
        let _ = writeln!(out, "{}  {}", file.tool, short(&file.path, search));
        for server in file.servers.iter().filter(|server| here(server, search)) {
            let _ = writeln!(out, "  {}  {}", server.name, show::summary(server));
        }
    }
    if out.is_empty() {
        return "no other tool has servers here".to_owned();
    }
    out + "import them with --from TOOL, or all of them with --all"
}

fn one(
    draft: &mut Draft,
    file: &File,
    server: &Server,
    args: &ImportArgs,
    search: &Search,
    told: &mut String,
) -> Result<(), Failure> {
    let change = if args.write.force { Change::Replace(server) } else { Change::Add(server) };
    let lost = match draft.change(change) {
        Ok(lost) => lost,
        Err(error @ EditError::Exists { .. }) => {
            tell(&format!("`{}` stays: {error}; replace it with --force", server.name));
            return Ok(());
        }
        Err(error) => return Err(refused(&error, draft.path(), search)),
    };
    for part in lost {
        tell(&format!("warning: `{}` loses {part}", server.name));
    }
    for input in file.inputs.iter().filter(|input| server.inputs().contains(&input.id)) {
        draft.change(Change::Declare(input)).map_err(|error| refused(&error, draft.path(), search))?;
    }
    let _ = writeln!(told, "{}  {}:{}", server.name, short(&file.path, search), server.origin.line);
    Ok(())
}
