//! `cardan config remove`: from our own file, or from the one that is named.

use cardan_config::edit::Change;
use cardan_config::{Config, Search, Tool};

use super::args::RemoveArgs;
use super::save::{Draft, refused};
use super::{failure, files_from, short};
use crate::failure::Failure;
use crate::output;

pub(super) fn run(args: &RemoveArgs, search: &Search) -> Result<(), Failure> {
    let (path, tool) = match &args.from {
        Some(from) => {
            let files = files_from(from, search)?;
            let has =
                |file: &&cardan_config::File| file.servers.iter().any(|server| server.name == args.name);
            let file = files.iter().find(has).or_else(|| files.first());
            let none = || Failure::usage(format!("{from} has no file here"));
            file.map(|file| (file.path.clone(), file.tool)).ok_or_else(none)?
        }
        None => {
            let config = Config::load(search);
            let server = config.server(&args.name).map_err(|problem| failure(&problem))?;
            let tool = server.origin.tool.unwrap_or(Tool::Cardan);
            if tool != Tool::Cardan && search.file.is_none() {
                let place = short(&server.origin.file, search);
                let message = format!("`{}` is in {place}, which belongs to {}", args.name, tool.title());
                return Err(Failure::usage(message).next(format!("remove it there with --from {tool}")));
            }
            (server.origin.file.clone(), tool)
        }
    };
    let mut draft = Draft::open(path, tool)?;
    draft.change(Change::Remove(&args.name)).map_err(|error| refused(&error, draft.path(), search))?;
    let line = format!("{}  {}", args.name, short(draft.path(), search));
    draft.save(args.dry_run, search)?;
    output::print(&output::clean(&line))
}
