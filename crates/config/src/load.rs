//! Several files make one configuration: the nearest wins, and what it shadows is remembered.
//!
//! In this order: the file that was named (`--config`, else `CARDAN_CONFIG`), alone; else `cardan.toml` in the
//! working folder or above it, up to the root of the project, then the user's. Behind each stand the files of the
//! tools that it imports, those in the project first.

use std::path::{Path, PathBuf};

use cardan_proto::secret::Secret;

use crate::client::Answering;
use crate::gateway::Gateway;
use crate::policy::Policy;
use crate::problem::{Problem, Scene};
use crate::read::{File, Input};
use crate::replicas::Replicas;
use crate::resolve::input_variable;
use crate::server::{Server, Settings};
use crate::telemetry::Telemetry;
use crate::tool::{Folders, Tool};
use crate::trust::{Standing, Trusted, acts};

/// Where to look.
#[derive(Debug, Clone)]
pub struct Search {
    /// The file that was named, if any.
    pub file: Option<PathBuf>,
    /// The working folder.
    pub cwd: PathBuf,
    /// Where this machine keeps things.
    pub folders: Folders,
}

/// The variable that names the file.
pub const VARIABLE: &str = "CARDAN_CONFIG";

/// What ends the way up: the root of a project.
const ROOTS: [&str; 3] = [".git", ".hg", ".jj"];

/// What holds for more than the servers of its file, so that only the user says it. Policy may stay: it takes away and gives nothing.
const OF_USERS: [&str; 7] = ["telemetry", "replicas", "gateway", "defaults", "imports", "daemon", "client"];

/// Everything that is configured. What cannot be read is in `problems`; the rest is usable.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The servers, by the first file that has their name.
    pub servers: Vec<Server>,
    /// Those whose name a nearer file has too, each with where that is.
    pub shadowed: Vec<(Server, crate::server::Provenance)>,
    /// Those that came with the project and would take the place of one of the user's, were they trusted.
    pub waiting: Vec<Server>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What files that came with the project say and may not, and what waits there to be trusted: told, and no hindrance.
    pub ignored: Vec<Problem>,
    /// What is wrong with files of our own that could not be read at all: whom they let in, and to what, is not known.
    pub unread: Vec<Problem>,
    /// The files that were read, nearest first, and why.
    pub sources: Vec<Source>,
    /// What holds for all servers that do not say otherwise.
    pub defaults: Settings,
    /// What `${input:..}` ask for.
    pub inputs: Vec<Input>,
    /// How many servers are shown as one.
    pub gateway: Gateway,
    /// Who may see and use what: what every file says holds, so that none loosens another.
    pub policies: Vec<Policy>,
    /// Where traces of calls go.
    pub telemetry: Telemetry,
    /// Are configured servers reached through the daemon, which keeps them running?
    pub daemon: Option<bool>,
    /// How servers are answered.
    pub client: Answering,
    /// How sessions are shared between gateways.
    pub replicas: Replicas,
}

/// A file that was read.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file.
    pub file: File,
    /// Why it was read.
    pub reason: Reason,
}

/// Why a file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It was named.
    Named,
    /// It belongs to the project.
    Project,
    /// It belongs to the user.
    User,
    /// Our file imports its tool.
    Imported {
        /// Our file.
        by: PathBuf,
    },
}

/// Whose word a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The user's, or named by the user.
    Users,
    /// It came with the project, and nobody has looked at it yet.
    CameAlong,
}

impl Search {
    /// As the environment says.
    pub fn of(file: Option<PathBuf>, cwd: PathBuf, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let named = || env(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
        Self { file: file.or_else(named), cwd, folders: Folders::of(env) }
    }

    /// The folder of the project: the nearest above that has version control, else the working folder.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        let root = self.cwd.ancestors().find(|folder| ROOTS.iter().any(|mark| folder.join(mark).exists()));
        root.unwrap_or(&self.cwd).to_owned()
    }

    /// The project's `cardan.toml`, if there is one. Nothing above the project is looked at: it may be
    /// anybody's.
    #[must_use]
    pub fn project_file(&self) -> Option<PathBuf> {
        let root = self.project();
        let folders = self.cwd.ancestors().take_while(|folder| folder.starts_with(&root));
        folders.flat_map(|folder| Tool::Cardan.project_files(folder)).find(|file| file.is_file())
    }

    /// The user's `cardan.toml`, there or not.
    #[must_use]
    pub fn user_file(&self) -> Option<PathBuf> {
        Tool::Cardan.user_files(&self.folders).into_iter().next()
    }

    fn whose(&self, path: &Path, tool: Tool, reason: &Reason) -> Whose {
        let of_user = || tool.user_files(&self.folders).iter().any(|file| file == path);
        let came_along = match reason {
            Reason::Named | Reason::User => false,
            Reason::Project => !of_user(),
            Reason::Imported { .. } => path.starts_with(self.project()) && !of_user(),
        };
        if came_along { Whose::CameAlong } else { Whose::Users }
    }

    /// Our files, nearest first.
    fn own(&self) -> Vec<(PathBuf, Reason)> {
        if let Some(file) = &self.file {
            return vec![(self.cwd.join(file), Reason::Named)];
        }
        let project = self.project_file().map(|file| (file, Reason::Project));
        let user = self.user_file().filter(|file| file.is_file()).map(|file| (file, Reason::User));
        project.into_iter().chain(user).collect()
    }

    /// Every file that would be read if it were there, given what the files that are there import: where a change is
    /// one of the configuration.
    #[must_use]
    pub fn candidates(&self, config: &Config) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = match &self.file {
            Some(file) => vec![self.cwd.join(file)],
            None => {
                let root = self.project();
                let folders = self.cwd.ancestors().take_while(|folder| folder.starts_with(&root));
                let project = folders.flat_map(|folder| Tool::Cardan.project_files(folder));
                project.chain(self.user_file()).collect()
            }
        };
        for tool in config.sources.iter().flat_map(|source| &source.file.imports) {
            files.extend(tool.project_files(&self.project()));
            files.extend(tool.user_files(&self.folders));
        }
        // What is trusted meanwhile is a change, too.
        files.extend(Trusted::file(&self.folders));
        files.sort();
        files.dedup();
        files
    }

    /// A tool's files that exist, those of the project first. At home they may be the user's.
    #[must_use]
    pub fn files_of(&self, tool: Tool) -> Vec<PathBuf> {
        let mut files = tool.project_files(&self.project());
        for file in tool.user_files(&self.folders) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files.retain(|file| file.is_file());
        files
    }
}

impl Config {
    /// Reads everything. Nothing is expanded and nothing is run.
    #[must_use]
    pub fn load(search: &Search) -> Self {
        let (mut config, mut found) = (Self::default(), Vec::new());
        for (path, reason) in search.own() {
            // A named file may be any tool's.
            let tool = if reason == Reason::Named { None } else { Some(Tool::Cardan) };
            let Some(imports) = config.read(&path, tool, reason, search, &mut found) else { continue };
            for tool in imports {
                for file in search.files_of(tool) {
                    let reason = Reason::Imported { by: path.clone() };
                    config.read(&file, Some(tool), reason, search, &mut found);
                }
            }
        }
        config.arrange(found, search);
        config
    }

    fn read(
        &mut self,
        path: &Path,
        tool: Option<Tool>,
        reason: Reason,
        search: &Search,
        found: &mut Vec<(Server, Whose)>,
    ) -> Option<Vec<Tool>> {
        if self.sources.iter().any(|source| source.file.path == path) {
            return None;
        }
        let mut file = match File::read(path, tool) {
            Ok(file) => file,
            Err(problem) => {
                if !matches!(reason, Reason::Imported { .. }) {
                    self.unread.push(problem.clone());
                }
                self.problems.push(problem);
                return None;
            }
        };
        let whose = search.whose(path, file.tool, &reason);
        if whose == Whose::CameAlong {
            self.ignored.extend(withhold(&mut file));
        }
        self.problems.extend(file.problems.iter().cloned());
        self.ignored.extend(file.ignored.iter().cloned());
        self.defaults = self.defaults.or(file.defaults);
        self.gateway = std::mem::take(&mut self.gateway).or(&file.gateway);
        self.telemetry = std::mem::take(&mut self.telemetry).or(&file.telemetry);
        self.daemon = self.daemon.or(file.daemon);
        self.client = std::mem::take(&mut self.client).or(&file.client);
        self.replicas = std::mem::take(&mut self.replicas).or(&file.replicas);
        if file.policy != Policy::default() {
            self.policies.push(file.policy.clone());
        }
        for input in &file.inputs {
            if !self.inputs.iter().any(|known| known.id == input.id) {
                self.inputs.push(input.clone());
            }
        }
        let here = |server: &&Server| {
            server.origin.project.as_ref().is_none_or(|project| search.cwd.starts_with(project))
        };
        // What is for this project goes before what is for all.
        let mut servers: Vec<&Server> = file.servers.iter().filter(here).collect();
        servers.sort_by_key(|server| server.origin.project.is_none());
        found.extend(servers.into_iter().map(|server| (server.clone(), whose)));
        let imports = file.imports.clone();
        self.sources.push(Source { file, reason });
        Some(imports)
    }

    /// Of each name the nearest counts. What came along takes the place of one of the user's only once it is trusted.
    fn arrange(&mut self, mut found: Vec<(Server, Whose)>, search: &Search) {
        let of = |whose| move |one: &&(Server, Whose)| one.1 == whose;
        let users: Vec<String> =
            found.iter().filter(of(Whose::Users)).map(|one| one.0.name.clone()).collect();
        if users.len() < found.len() {
            let trusted = self.trusted(search);
            for (server, _) in found.iter_mut().filter(|one| one.1 == Whose::CameAlong) {
                if acts(server) || users.contains(&server.name) {
                    server.origin.standing = trusted.standing(server, self, search);
                }
            }
        }
        let waits = |server: &Server| {
            users.contains(&server.name)
                && matches!(server.origin.standing, Standing::Unseen | Standing::Exposed)
        };
        let (held, free): (Vec<_>, Vec<_>) = found.into_iter().map(|one| one.0).partition(waits);
        for server in &held {
            if !self.waiting.iter().any(|nearer| nearer.name == server.name) {
                self.ignored.push(held_back(server));
                self.waiting.push(server.clone());
            }
        }
        for server in free.into_iter().chain(held) {
            match self.servers.iter().find(|known| known.name == server.name) {
                Some(nearer) => self.shadowed.push((server, nearer.origin.clone())),
                None => self.servers.push(server),
            }
        }
    }

    /// What is trusted. Where that cannot be read, nothing is, and it is told.
    fn trusted(&mut self, search: &Search) -> Trusted {
        Trusted::of(&search.folders).unwrap_or_else(|error| {
            let file = Trusted::file(&search.folders).unwrap_or_default();
            let scene = Scene { file: &file, text: "", server: None };
            self.problems.push(
                scene.unread(error).next("mend it; until then nothing that came with a project is trusted"),
            );
            Trusted::default()
        })
    }

    /// The server of this name; an error says what there is instead, or what is wrong with it.
    pub fn server(&self, name: &str) -> Result<&Server, Problem> {
        if let Some(server) = self.servers.iter().find(|server| server.name == name) {
            return Ok(server);
        }
        let wrong = self.problems.iter().find(|problem| problem.server.as_deref() == Some(name));
        let wrong = wrong.or_else(|| self.problems.iter().find(|problem| problem.server.is_none()));
        if let Some(problem) = wrong {
            return Err(problem.clone());
        }
        let file = self.sources.first().map_or_else(|| Path::new("cardan.toml"), |source| &source.file.path);
        let scene = Scene { file, text: "", server: Some(name) };
        let problem = scene.problem(&(0..0), None, "no server of this name is configured");
        let names: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        Err(match (crate::closest::closest(name, names.iter().copied()), &names[..]) {
            (Some(near), _) => problem.next(format!("did you mean `{near}`?")),
            (None, []) => problem.next("add one with `cardan config add`"),
            (None, names) => problem.next(format!("there are: {}", names.join(", "))),
        })
    }

    /// What is said about a server, with the defaults.
    #[must_use]
    pub fn settings(&self, server: &Server) -> Settings {
        server.settings.or(self.defaults)
    }

    /// The answer to an input from the environment, or its default.
    pub fn input(&self, id: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<Secret> {
        let default = || self.inputs.iter().find(|input| input.id == id)?.default.clone();
        env(&input_variable(id)).or_else(default).map(Secret::new)
    }
}

/// Takes out of a file that came along what only the user says, and tells of it.
fn withhold(file: &mut File) -> Vec<Problem> {
    if file.tool != Tool::Cardan {
        return Vec::new();
    }
    (file.telemetry, file.gateway) = (Telemetry::default(), Gateway::default());
    (file.client, file.replicas) = (Answering::default(), Replicas::default());
    (file.defaults, file.imports, file.daemon) = (Settings::default(), Vec::new(), None);
    let said = file.root().entries().iter().filter(|entry| OF_USERS.contains(&entry.key.as_str()));
    let told = said.map(|entry| {
        let message = "it is ignored, because this file came with the project and was not named";
        let problem = file.problem(&entry.key_span, &entry.key, message);
        problem.next("name the file with `--config FILE`, or say it in the user's `cardan.toml`")
    });
    told.collect()
}

/// A server that would take the place of one of the user's.
fn held_back(server: &Server) -> Problem {
    let Server { name, origin, .. } = server;
    let scene = Scene { file: &origin.file, text: "", server: Some(name) };
    let message =
        "it came with the project and has the name of one of yours, which is used until this one is trusted";
    let problem = Problem { line: origin.line, ..scene.problem(&(0..0), None, message) };
    problem.next(format!(
        "look at it with `cardan config trust`, then say `cardan config trust {name}`, or rename it"
    ))
}
