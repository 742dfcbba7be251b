//! A server's text expanded for this machine, when it is needed and not before. What comes out is secret until
//! it is asked for, and what cannot be expanded names file, line, server, field and variable.

use std::fmt;
use std::path::{Path, PathBuf};

use cardan_proto::limits::config::VALUE_FILE_BYTES;
use cardan_proto::secret::{Redactor, Secret, argument, is_secret_variable};

use crate::dotenv;
use crate::file::read_plain;
use crate::problem::{Problem, Scene};
use crate::run;
use crate::server::{Launch, Remote, Server, Way};
use crate::show::{self, looks_secret};
use crate::text::{Part, Place, Text};
use crate::trust::Standing;

/// May commands in values be run?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commands {
    /// No: an error says so.
    #[default]
    Refuse,
    /// The user trusts the file.
    Run,
}

/// What text is expanded with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Answers to what is asked for.
    pub inputs: &'a dyn Fn(&str) -> Option<Secret>,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The folder of the project.
    pub workspace: Option<&'a Path>,
    /// May commands be run?
    pub commands: Commands,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("commands", &self.commands).finish_non_exhaustive()
    }
}

/// A server, ready to be reached.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// How.
    pub reach: Reach,
    /// What must not be shown.
    pub redactor: Redactor,
}

/// How a server is reached, expanded.
#[derive(Debug, Clone)]
pub enum Reach {
    /// A process to start.
    Command {
        /// The program.
        program: Secret,
        /// Its arguments.
        args: Vec<Secret>,
        /// Variables to set, in this order; None removes one.
        env: Vec<(String, Option<Secret>)>,
        /// Where it starts.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP, or HTTP+SSE where the server has no other.
    Http(Endpoint),
    /// HTTP+SSE only.
    Sse(Endpoint),
    /// WebSocket.
    WebSocket(Endpoint),
    /// A Unix socket.
    Unix(PathBuf),
    /// A named pipe.
    Pipe(PathBuf),
    /// `host:port`.
    Tcp(String),
}

/// A server on the network, expanded.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its address.
    pub url: Secret,
    /// Sent with every request, the bearer token among them.
    pub headers: Vec<(String, Secret)>,
    /// To be run for every new connection; what it prints wins over `headers`.
    pub helper: Option<Helper>,
    /// Certificates to trust.
    pub ca: Option<PathBuf>,
}

/// A command that prints headers.
#[derive(Debug, Clone)]
pub struct Helper {
    line: Secret,
    server: String,
    url: Secret,
}

impl Helper {
    /// Runs the command and waits for it, at most ten seconds. It sees the server's name and address in
    /// `CARDAN_SERVER_NAME` and `CARDAN_SERVER_URL`, and under the names that Claude Code gives them.
    pub fn run(&self) -> Result<Vec<(String, Secret)>, String> {
        let seen = [
            ("CARDAN_SERVER_NAME", self.server.as_str()),
            ("CARDAN_SERVER_URL", self.url.expose()),
            ("CLAUDE_CODE_MCP_SERVER_NAME", self.server.as_str()),
            ("CLAUDE_CODE_MCP_SERVER_URL", self.url.expose()),
        ];
        let printed = run::shell(self.line.expose(), &seen)?;
        let wrong = || "the headers helper must print a JSON object whose values are texts".to_owned();
        let node = crate::json::parse(printed.expose()).map_err(|_| wrong())?;
        if !node.is_table() {
            return Err(wrong());
        }
        let header =
            |entry: &crate::tree::Entry| Some((entry.key.clone(), Secret::new(entry.node.as_text()?)));
        node.entries().iter().map(header).collect::<Option<_>>().ok_or_else(wrong)
    }
}

impl Server {
    /// Expands everything that is needed to reach it.
    pub fn resolve(&self, surroundings: &Surroundings<'_>) -> Result<Resolved, Problem> {
        self.resolve_traced(surroundings).0
    }

    /// The same, with the files that values were taken from: those of variables, and those that placeholders name. The
    /// one that could not be used is the last.
    pub fn resolve_traced(
        &self,
        surroundings: &Surroundings<'_>,
    ) -> (Result<Resolved, Problem>, Vec<PathBuf>) {
        let mut work = Work { server: self, surroundings, secrets: Vec::new(), sources: Vec::new() };
        let reach = work.allowed().and_then(|()| work.reach());
        let Work { secrets, sources, .. } = work;
        (reach.map(|reach| Resolved { reach, redactor: Redactor::new(secrets) }), sources)
    }

    /// Something that is wrong with one of its fields, with its place.
    #[must_use]
    pub fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let scene = Scene { file: &self.origin.file, text: "", server: Some(&self.name) };
        let mut problem = scene.problem(&(0..0), Some(field), message);
        (problem.line, problem.column) = self.origin.place_of(field);
        problem
    }

    /// What its files of variables hold; None for one that cannot be read.
    pub(crate) fn env_file_texts(&self, surroundings: &Surroundings<'_>) -> Vec<Option<String>> {
        let Way::Command(launch) = &self.way else { return Vec::new() };
        let mut work = Work { server: self, surroundings, secrets: Vec::new(), sources: Vec::new() };
        let text = |file| {
            let cwd = launch.cwd.as_ref().map(|cwd| work.path(cwd, "cwd")).transpose().ok()?;
            read_source(&work.env_file(file, cwd.as_deref()).ok()?).ok()
        };
        launch.env_files.iter().map(text).collect()
    }
}

struct Work<'a> {
    server: &'a Server,
    surroundings: &'a Surroundings<'a>,
    secrets: Vec<Secret>,
    /// The files that were read.
    sources: Vec<PathBuf>,
}

impl Work<'_> {
    fn reach(&mut self) -> Result<Reach, Problem> {
        Ok(match &self.server.way {
            Way::Command(launch) => self.launch(launch)?,
            Way::Http(remote) => Reach::Http(self.remote(remote)?),
            Way::Sse(remote) => Reach::Sse(self.remote(remote)?),
            Way::WebSocket(remote) => Reach::WebSocket(self.remote(remote)?),
            Way::Unix(path) => Reach::Unix(self.path(path, "url")?),
            Way::Pipe(path) => Reach::Pipe(self.path(path, "url")?),
            Way::Tcp(address) => Reach::Tcp(self.expand(address, "url")?),
        })
    }

    /// Nothing is done on the word of a file that nobody has looked at.
    fn allowed(&self) -> Result<(), Problem> {
        let Server { name, origin, .. } = self.server;
        let field = if matches!(self.server.way, Way::Command(_)) { "command" } else { "url" };
        let what = show::summary(self.server);
        match origin.standing {
            Standing::Ours | Standing::Trusted => Ok(()),
            Standing::Unseen => {
                let message = format!("it came with the project and is not trusted yet: {what}");
                let next = format!("look at it, then say `cardan config trust {name}`");
                Err(self.problem(field, message).next(next))
            }
            Standing::Exposed => {
                let message =
                    format!("everyone on this machine can change this file, so it is not trusted: {what}");
                Err(self
                    .problem(field, message)
                    .next("take the right to write it away from others, or name it with `--config FILE`"))
            }
        }
    }

    /// What a file of values holds.
    fn source(&mut self, path: &Path, field: &str) -> Result<String, Problem> {
        self.sources.push(path.to_owned());
        read_source(path)
            .map_err(|why| self.problem(field, format!("{} cannot be read: {why}", path.display())))
    }

    fn problem(&self, field: &str, message: String) -> Problem {
        self.server.problem(field, message)
    }

    fn launch(&mut self, launch: &Launch) -> Result<Reach, Problem> {
        let program = self.expand(&launch.program, "command")?;
        let program = Secret::new(self.home(program));
        let args = launch.args.iter().map(|arg| self.expand(arg, "args").map(Secret::new));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let mut before = None;
        for arg in &args {
            let arg = arg.expose();
            self.secrets.extend(Secret::found_in(arg));
            self.secrets.extend(argument::secret(before, arg).map(|range| Secret::new(&arg[range])));
            before = Some(arg);
        }
        let mut env = Vec::new();
        for name in &launch.pass {
            if let Some(value) = (self.surroundings.env)(name) {
                env.push((name.clone(), Some(self.guarded(name, value))));
            }
        }
        let cwd = launch.cwd.as_ref().map(|cwd| self.path(cwd, "cwd")).transpose()?;
        for file in &launch.env_files {
            let path = self.env_file(file, cwd.as_deref())?;
            let text = self.source(&path, "env_file")?;
            let pairs = dotenv::parse(&text).map_err(|line| {
                self.problem("env_file", format!("{}:{line}: NAME=VALUE is expected", path.display()))
            })?;
            for (name, value) in pairs {
                let value = self.guarded(&name, value);
                env.push((name, Some(value)));
            }
        }
        for (name, value) in &launch.env {
            let value = match value {
                Some(text) => {
                    let value = self.expand(text, name)?;
                    Some(self.guarded(name, value))
                }
                None => None,
            };
            env.push((name.clone(), value));
        }
        Ok(Reach::Command { program, args, env, cwd })
    }

    fn remote(&mut self, remote: &Remote) -> Result<Endpoint, Problem> {
        let url = Secret::new(self.expand(&remote.url, "url")?);
        self.secrets.extend(Secret::found_in(url.expose()));
        let mut headers = Vec::new();
        for (name, text) in &remote.headers {
            let value = Secret::new(self.expand(text, name)?);
            self.secrets.extend(Secret::of_header(name, &value));
            headers.push((name.clone(), value));
        }
        if let Some(name) = &remote.bearer_env {
            let Some(token) = (self.surroundings.env)(name).filter(|token| !token.is_empty()) else {
                // It is a name and no placeholder, so there is no default to give.
                let problem = self.problem("bearer_env", format!("the variable {name} is not set"));
                return Err(problem.next("set it to the token"));
            };
            self.secrets.push(Secret::new(token.as_str()));
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            headers.push(("Authorization".to_owned(), Secret::new(format!("Bearer {token}"))));
        }
        let helper = remote.headers_helper.as_ref().and_then(Text::as_literal).map(|line| Helper {
            line: Secret::new(line),
            server: self.server.name.clone(),
            url: url.clone(),
        });
        let ca = remote.ca.as_ref().map(|ca| self.path(ca, "ca")).transpose()?;
        Ok(Endpoint { url, headers, helper, ca })
    }

    /// The value of a variable, remembered as secret where its name says so, or it looks like one.
    fn guarded(&mut self, name: &str, value: String) -> Secret {
        let value = Secret::new(value);
        // A variable that is called a key holds one, unlike much else that is called so.
        let key = name.to_ascii_lowercase().ends_with("key");
        if key || is_secret_variable(name) || looks_secret(value.expose()) {
            self.secrets.push(value.clone());
        }
        value
    }

    /// A file of variables lies where the process starts.
    fn env_file(&mut self, file: &Text, cwd: Option<&Path>) -> Result<PathBuf, Problem> {
        let path = self.path(file, "env_file")?;
        Ok(match cwd.or(self.surroundings.workspace) {
            Some(folder) => folder.join(path),
            None => path,
        })
    }

    fn path(&mut self, text: &Text, field: &str) -> Result<PathBuf, Problem> {
        let path = self.expand(text, field)?;
        Ok(PathBuf::from(self.home(path)))
    }

    /// `~` is home.
    fn home(&self, path: String) -> String {
        let rest = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(['/', '\\']));
        match (rest, self.surroundings.home) {
            (Some(rest), Some(home)) => format!("{}{rest}", home.display()),
            _ => path,
        }
    }

    fn unset(&self, field: &str, name: &str) -> Problem {
        self.problem(field, format!("the variable {name} is not set"))
            .next(format!("set it, or give it a default: ${{{name}:-default}}"))
    }

    fn expand(&mut self, text: &Text, field: &str) -> Result<String, Problem> {
        let mut out = String::new();
        for part in &text.parts {
            out.push_str(&self.part(part, field)?);
        }
        Ok(out)
    }

    fn part(&mut self, part: &Part, field: &str) -> Result<String, Problem> {
        let value = match part {
            Part::Literal(text) => return Ok(text.clone()),
            Part::Variable { name, default } => return self.variable(name, default.as_deref(), field),
            Part::Place(place) => return self.place(*place, field),
            Part::Input(id) => (self.surroundings.inputs)(id).ok_or_else(|| {
                self.problem(field, format!("the input `{id}` has no answer"))
                    .next(format!("set {}", input_variable(id)))
            })?,
            Part::File(path) => {
                let path = PathBuf::from(self.home(path.clone()));
                Secret::new(self.source(&path, field)?.trim())
            }
            Part::Command(line) => match self.surroundings.commands {
                Commands::Refuse => {
                    return Err(self
                        .problem(field, "a command would have to be run for this value".to_owned())
                        .next("commands are not run yet, so put the value into a variable or a file"));
                }
                Commands::Run => run::shell(line, &[]).map_err(|why| self.problem(field, why))?,
            },
            Part::Unknown(_) => {
                let accepted = "accepted: ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:id}, ${file:path}, \
                                ${workspaceFolder} and ${userHome}";
                return Err(self
                    .problem(field, "there is a placeholder that we do not know".to_owned())
                    .next(accepted));
            }
        };
        self.secrets.push(value.clone());
        Ok(value.expose().to_owned())
    }

    fn variable(&mut self, name: &str, default: Option<&Text>, field: &str) -> Result<String, Problem> {
        let set = (self.surroundings.env)(name);
        match (set, default) {
            (Some(value), Some(_)) if !value.is_empty() => Ok(self.guarded(name, value).expose().to_owned()),
            (Some(value), None) => Ok(self.guarded(name, value).expose().to_owned()),
            (_, Some(default)) => self.expand(default, field),
            (None, None) => Err(self.unset(field, name)),
        }
    }

    fn place(&self, place: Place, field: &str) -> Result<String, Problem> {
        let missing = |what: &str| self.problem(field, format!("{what} is not known"));
        let workspace = || self.surroundings.workspace.ok_or_else(|| missing("the folder of the project"));
        Ok(match place {
            Place::Workspace => workspace()?.display().to_string(),
            Place::WorkspaceName => {
                workspace()?.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Place::Home => {
                self.surroundings.home.ok_or_else(|| missing("the user's home"))?.display().to_string()
            }
            Place::Separator => std::path::MAIN_SEPARATOR.to_string(),
        })
    }
}

/// Reads a file of values.
fn read_source(path: &Path) -> Result<String, String> {
    String::from_utf8(read_plain(path, VALUE_FILE_BYTES)?).map_err(|_| "it is not UTF-8".to_owned())
}

/// The variable that answers an input where nobody can be asked.
#[must_use]
pub fn input_variable(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("CARDAN_INPUT_{}", id.chars().map(plain).collect::<String>())
}
