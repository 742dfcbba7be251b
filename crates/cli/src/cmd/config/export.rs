//! `cardan config export`: our servers, copied into another tool's file; only on explicit request.

use std::fmt::Write as _;
use std::path::PathBuf;

use cardan_config::edit::{Change, EditError};
use cardan_config::{Config, Search, Server};

use super::args::{ExportArgs, Scope};
use super::save::{Draft, refused};
use super::{short, tell_problems};
use crate::failure::Failure;
use crate::named::found;
use crate::output::{self, clean, tell};

pub(super) fn run(args: &ExportArgs, search: &Search) -> Result<(), Failure> {
    let config = Config::load(search);
    tell_problems(&config)?;
    let servers: Vec<&Server> = if args.names.is_empty() {
        config.servers.iter().collect()
    } else {
        let find = |name: &String| found(name, &config);
        args.names.iter().map(find).collect::<Result<_, _>>()?
    };
    let mut draft = Draft::open(target(args, search)?, args.to)?;
    let mut told = String::new();
    for server in servers {
        let change = if args.force { Change::Replace(server) } else { Change::Add(server) };
        match draft.change(change) {
            Ok(lost) => {
                for part in lost {
                    tell(&format!("warning: `{}` loses {part}", server.name));
                }
                for id in server.inputs().iter().filter(|id| !draft.declares(id)) {
                    let place = short(draft.path(), search);
                    tell(&format!("warning: `{}` asks for `{id}`, which {place} must declare", server.name));
                }
                let _ = writeln!(told, "{}  {}", server.name, short(draft.path(), search));
            }
            Err(error @ EditError::Exists { .. }) => {
                tell(&format!("`{}` is left out: {error}; replace it with --force", server.name));
            }
            Err(error @ EditError::Unsupported(_)) => {
                tell(&format!("`{}` is left out: {error}", server.name));
            }
            Err(error) => return Err(refused(&error, draft.path(), search)),
        }
    }
    if !args.write {
        tell("write it with --write");
    }
    draft.save(!args.write, search)?;
    output::print(&clean(&told))
}

/// The file that was named, or the tool's own: of the project where it has one there.
fn target(args: &ExportArgs, search: &Search) -> Result<PathBuf, Failure> {
    if let Some(file) = &args.file {
        return Ok(search.cwd.join(file));
    }
    let project = args.to.project_files(&search.project());
    let user = args.to.user_files(&search.folders);
    let in_project = |files: &[PathBuf]| files.iter().any(|file| file.is_file());
    let files = match args.scope {
        Some(Scope::Project) => project,
        Some(Scope::User) => user,
        None if in_project(&project) => project,
        None => user,
    };
    // The file that is there goes before the one that could be.
    let there = files.iter().find(|file| file.is_file()).or_else(|| files.first()).cloned();
    let none = || Failure::usage(format!("{} has no file of that scope", args.to.title()));
    there.ok_or_else(|| none().next("name one with --file"))
}
