//! Changes to a file, gathered and then written at once.

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::edit::{Change, EditError, edit};
use cardan_config::file::{Saved, replace};
use cardan_config::trust::Trusted;
use cardan_config::{Config, File, Search, Tool};

use super::args::Scope;
use super::short;
use crate::failure::Failure;
use crate::output::tell;

/// A file while it is changed.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    tool: Tool,
    old: Option<String>,
    new: String,
    /// The servers that the user put there.
    put: Vec<String>,
}

impl Draft {
    /// A file of a tool, there or not.
    pub(super) fn open(path: PathBuf, tool: Tool) -> Result<Self, Failure> {
        let old = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::usage(format!("{} cannot be read: {error}", path.display()))),
        };
        Ok(Self { path, tool, new: old.clone().unwrap_or_default(), old, put: Vec::new() })
    }

    /// Our own file: the one that was named, or that of the scope.
    pub(super) fn own(scope: Option<Scope>, search: &Search) -> Result<Self, Failure> {
        let project = || search.project_file().unwrap_or_else(|| search.project().join("cardan.toml"));
        let user = || {
            let none = || Failure::usage("there is no home for a user's file").next("name one with --config");
            search.user_file().ok_or_else(none)
        };
        let path = match (&search.file, scope) {
            (Some(file), _) => search.cwd.join(file),
            (None, Some(Scope::Project)) => project(),
            (None, Some(Scope::User)) => user()?,
            (None, None) if search.project_file().is_some() => project(),
            (None, None) => user()?,
        };
        let named = path.extension().is_some_and(|ending| ending != "toml");
        if named {
            let message = format!("{} is not a cardan.toml", short(&path, search));
            return Err(Failure::usage(message).next("use `cardan config export` for other tools' files"));
        }
        Self::open(path, Tool::Cardan)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the text; what the tool cannot say comes back.
    pub(super) fn change(&mut self, change: Change<'_>) -> Result<Vec<String>, EditError> {
        let edited = edit(&self.path, &self.new, self.tool, change)?;
        self.new = edited.text;
        if let Change::Add(server) | Change::Replace(server) = change {
            self.put.push(server.name.clone());
        }
        Ok(edited.lost)
    }

    /// Does the file say what an input asks for?
    pub(super) fn declares(&self, id: &str) -> bool {
        let file = File::parse(&self.path, &self.new, Some(self.tool));
        file.is_ok_and(|file| file.inputs.iter().any(|input| input.id == id))
    }

    /// Writes the file, unless nothing changed.
    pub(super) fn save(self, dry_run: bool, search: &Search) -> Result<(), Failure> {
        let place = short(&self.path, search);
        if self.old.as_deref() == Some(&self.new) || (self.old.is_none() && self.new.is_empty()) {
            tell(&format!("{place} stays as it is"));
            return Ok(());
        }
        if dry_run {
            tell(&format!("{place} would be written; nothing was"));
            return Ok(());
        }
        match replace(&self.path, self.old.as_deref(), &self.new) {
            Ok(Saved::New) => tell(&format!("{place} is new")),
            Ok(Saved::Backup(backup)) => {
                tell(&format!("{place} is written, the old one is {}", short(&backup, search)));
            }
            Err(error) => return Err(Failure::usage(format!("{place} cannot be written: {error}"))),
        }
        self.trust(search);
        Ok(())
    }

    /// What the user put there is trusted, though the file may be a project's. The user's own files are, whatever is there, and so
    /// is one that is named.
    fn trust(&self, search: &Search) {
        let named = search.file.as_ref().is_some_and(|file| search.cwd.join(file) == self.path);
        if named || self.tool.user_files(&search.folders).contains(&self.path) {
            return;
        }
        let Ok(file) = File::read(&self.path, Some(self.tool)) else { return };
        let put = file.servers.iter().filter(|server| self.put.contains(&server.name));
        if let Err(error) = Trusted::add(put, &Config::load(search), search) {
            tell(&format!(
                "warning: it is to be trusted with `cardan config trust` before it is used: {error}"
            ));
        }
    }
}

/// A refused change, for people.
pub(super) fn refused(error: &EditError, path: &Path, search: &Search) -> Failure {
    match error {
        EditError::Exists { .. } => {
            Failure::usage(format!("{}: {error}", short(path, search))).next("replace it with --force")
        }
        EditError::Broken(_) => Failure::usage(error.to_string()),
        _ => Failure::usage(format!("{}: {error}", short(path, search))),
    }
}
