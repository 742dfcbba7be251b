//! `cardan config remove`: from our own file, or from the one that is named.

use std::path::PathBuf;

use cardan_config::edit::Change;
use cardan_config::read::Spot;
use cardan_config::{Config, File, Search, Tool};

use super::args::RemoveArgs;
use super::save::{Draft, refused};
use super::{files_from, short};
use crate::failure::Failure;
use crate::home::at_home;
use crate::named::found;
use crate::output;

pub(super) fn run(args: &RemoveArgs, search: &Search) -> Result<(), Failure> {
    let place = match &args.from {
        Some(from) => meant(args, &files_from(from, search)?, search)?,
        None => own(args, search)?,
    };
    let mut draft = Draft::open(place.file.clone(), place.tool)?;
    let name = args.name.as_str();
    let change = match &place.spot.project {
        Some(project) => Change::RemoveFor { name, project },
        None => Change::Remove(name),
    };
    draft.change(change).map_err(|error| refused(&error, draft.path(), search))?;
    let line = match &args.from {
        Some(_) => format!("{name}  {}", place.told(search)),
        None => format!("{name}  {}", short(draft.path(), search)),
    };
    draft.save(args.dry_run, search)?;
    output::print(&output::clean(&line))
}

/// Where a server stands.
struct Place {
    file: PathBuf,
    tool: Tool,
    spot: Spot,
}

impl Place {
    fn told(&self, search: &Search) -> String {
        let place = format!("{}:{}", short(&self.file, search), self.spot.line);
        match &self.spot.project {
            Some(project) => format!("{place} (for {})", project.display()),
            None => place,
        }
    }
}

/// The one in force, if it is in a file of ours or in the one that was named.
fn own(args: &RemoveArgs, search: &Search) -> Result<Place, Failure> {
    let config = Config::load(search);
    let server = found(&args.name, &config)?;
    let origin = &server.origin;
    let tool = origin.tool.unwrap_or(Tool::Cardan);
    if tool != Tool::Cardan && search.file.is_none() {
        let place = short(&origin.file, search);
        let message = format!("`{}` is in {place}, which belongs to {}", args.name, tool.title());
        return Err(Failure::usage(message).next(format!("remove it there with --from {tool}")));
    }
    let spot = Spot { line: origin.line, project: origin.project.clone() };
    Ok(Place { file: origin.file.clone(), tool, spot })
}

/// The only one that the words can mean.
fn meant(args: &RemoveArgs, files: &[File], search: &Search) -> Result<Place, Failure> {
    let places = files.iter().flat_map(|file| {
        let place = |spot| Place { file: file.path.clone(), tool: file.tool, spot };
        file.spots(&args.name).into_iter().map(place)
    });
    let project = args.project.as_ref().map(|project| search.cwd.join(at_home(project)));
    // What is typed may go by way of `.` or a symlink.
    let folder = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let wanted = |place: &Place| match (&project, &place.spot.project) {
        (Some(wanted), Some(project)) => wanted == project || folder(wanted) == folder(project),
        (Some(_), None) => false,
        (None, of) => !args.global || of.is_none(),
    };
    let mut places: Vec<Place> = places.filter(wanted).collect();
    match places.len() {
        1 => Ok(places.remove(0)),
        0 => Err(none(args, files, project.as_ref())),
        _ => Err(several(&args.name, &places, search)),
    }
}

fn none(args: &RemoveArgs, files: &[File], project: Option<&PathBuf>) -> Failure {
    let whose = match project {
        Some(project) => format!(" for {}", project.display()),
        None if args.global => " for all projects".to_owned(),
        None => String::new(),
    };
    let failure = Failure::usage(format!("there is no server `{}`{whose}", args.name));
    let names = files.iter().flat_map(|file| &file.servers).map(|server| server.name.as_str());
    let next = match cardan_config::closest::closest(&args.name, names) {
        Some(near) if near != args.name => format!("did you mean `{near}`?"),
        _ => "see what there is with `cardan config list` and the same --from".to_owned(),
    };
    failure.next(next)
}

fn several(name: &str, places: &[Place], search: &Search) -> Failure {
    let projects = places.iter().any(|place| place.spot.project.is_some());
    let told = |place: &Place| match (&place.spot.project, projects) {
        (None, true) => format!("{} (for all projects)", place.told(search)),
        _ => place.told(search),
    };
    let told: Vec<String> = places.iter().map(told).collect();
    let next = match projects {
        true => "say which with --from FILE, --project DIR or --global",
        false => "say which with --from FILE",
    };
    Failure::usage(format!("`{name}` is there several times: {}", told.join(", "))).next(next)
}
