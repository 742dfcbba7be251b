//! What to start and how: command, environment, directory, guard.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use cardan_proto::limits::Limits;
use cardan_proto::secret::{Redactor, Secret, argument, is_secret_variable};
use tokio::process::Command;

use crate::child::ChildLink;
use crate::error::SpawnError;
use crate::group::Group;
use crate::guard::{Guard, Post};
use crate::program;
use crate::stderr::{Drain, OnLine};

/// A server to be started. Each [`Spawn::spawn`] starts a new one: a link is used once, and who wants
/// to connect again keeps this.
///
/// The child gets three pipes and nothing else that we opened. What was left open to us without being
/// marked close-on-exec when we started goes on to it, as it does from every program.
///
/// ```no_run
/// use cardan_proto::limits::Limits;
/// use cardan_transport::spawn::Spawn;
///
/// # async fn example() -> Result<(), cardan_transport::error::SpawnError> {
/// let link = Spawn::new("weather-server").arg("--units=metric").env("API_KEY", "...").spawn(&Limits::DEFAULT)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Spawn {
    program: OsString,
    args: Vec<OsString>,
    policy: EnvPolicy,
    /// Applied last. None removes.
    changes: BTreeMap<OsString, Option<OsString>>,
    cwd: Option<PathBuf>,
    guard: Guard,
    on_stderr: Option<OnLine>,
    secrets: Vec<Secret>,
}

/// Which of our variables a child sees before additions and removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnvPolicy {
    /// All of them, secrets included.
    Inherit,
    /// Those that programs need to run at all ([`EnvPolicy::passes`]).
    #[default]
    Minimal,
    /// None, not even `PATH`: the program is then given by its path.
    Clean,
}

impl EnvPolicy {
    /// Does our variable of this name go to the child?
    #[must_use]
    pub fn passes(self, name: &OsStr) -> bool {
        match self {
            Self::Inherit => true,
            Self::Minimal => {
                name.to_str().is_some_and(|name| MINIMAL.contains(&name) || name.starts_with("LC_"))
            }
            Self::Clean => false,
        }
    }
}

/// Who the user is, where programs and temporary files are, which language and terminal. No secrets.
const MINIMAL: [&str; 14] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
];

impl Spawn {
    /// A server by its command: a name to be found in `PATH`, or a path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            policy: EnvPolicy::default(),
            changes: BTreeMap::new(),
            cwd: None,
            guard: Guard::default(),
            on_stderr: None,
            secrets: Vec::new(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Which of our variables the child sees. Minimal, unless told otherwise.
    #[must_use]
    pub fn env_policy(mut self, policy: EnvPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets a variable to a secret, which is then shown nowhere: not in the child's stderr either.
    #[must_use]
    pub fn secret(mut self, name: impl Into<OsString>, secret: Secret) -> Self {
        self.secrets.push(secret.clone());
        self.change_env(name, Some(secret.expose().into()))
    }

    /// Sets a variable, whatever the policy. Its value is hidden if the name tells that it is secret; others
    /// are set with [`Spawn::secret`].
    #[must_use]
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.change_env(name, Some(value.into()))
    }

    /// Sets a variable, or removes it: as configuration files say it, where null removes.
    #[must_use]
    pub fn change_env(mut self, name: impl Into<OsString>, value: Option<OsString>) -> Self {
        self.changes.insert(name.into(), value);
        self
    }

    /// Where the child starts. Ours, unless told otherwise; relative commands start there too.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Whether the child gets a guard. It does, unless told otherwise.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// Called with every line the child writes to stderr. Must not block: the link waits for it.
    #[must_use]
    pub fn on_stderr(mut self, on_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(on_line));
        self
    }

    /// The environment the child will see, for who wants to show it.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut vars: BTreeMap<OsString, OsString> =
            std::env::vars_os().filter(|(name, _)| self.policy.passes(name)).collect();
        for (name, value) in &self.changes {
            match value {
                Some(value) => vars.insert(name.clone(), value.clone()),
                None => vars.remove(name),
            };
        }
        vars
    }

    /// What is known to be secret about this server: values set as such, values of variables and arguments
    /// whose names tell it. For whoever shows what the server says.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        let variables = self.environment().into_iter().filter_map(|(name, value)| {
            let value = value.into_string().ok()?;
            is_secret_variable(name.to_str()?).then(|| Secret::new(value))
        });
        let args = || self.args.iter().map(|arg| arg.to_str());
        let named = args().flatten().flat_map(Secret::found_in);
        let pairs = std::iter::once(None).chain(args()).zip(args());
        let alone = pairs.filter_map(|(before, arg)| {
            let arg = arg?;
            argument::secret(before, arg).map(|range| Secret::new(&arg[range]))
        });
        Redactor::new(self.secrets.iter().cloned().chain(variables).chain(named).chain(alone))
    }

    /// Starts the server, in a process group of its own. Needs a tokio runtime with I/O and time.
    pub fn spawn(&self, limits: &Limits) -> Result<ChildLink, SpawnError> {
        let environment = self.environment();
        let path = environment.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let file = program::find(&self.program, self.cwd.as_deref(), path)?;
        // Posted first: between the start of the child and the word to its guard lies one write.
        let post = match self.guard {
            Guard::On => Some(Post::take().map_err(SpawnError::Guard)?),
            Guard::Off => None,
        };
        let mut command = std::process::Command::new(&file);
        command.arg0(&self.program).args(&self.args).env_clear().envs(environment).process_group(0);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let mut child = Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| program::explain(error, &self.program, file))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("all three were asked to be piped")
        };
        let group = Group::of(child);
        let guard = match (post, group.id()) {
            (Some(post), Some(id)) => Some(post.watch(id).map_err(SpawnError::Guard)?),
            _ => None,
        };
        let drain = Drain::new(stderr, limits, self.on_stderr.clone()).hiding(self.redactor());
        Ok(ChildLink::new(stdin, stdout, drain, group, guard, limits))
    }

    /// The same on a thread of its own, for who serves others meanwhile. Whoever starts a program stands still until it runs, which
    /// takes milliseconds where the machine is busy. Dropped, what was started is ended.
    pub async fn spawn_aside(&self, limits: &Limits) -> Result<ChildLink, SpawnError> {
        let (spawn, limits) = (self.clone(), limits.clone());
        let started = tokio::task::spawn_blocking(move || spawn.spawn(&limits)).await;
        started.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(ended) => Err(SpawnError::Other {
                program: self.program.to_string_lossy().into(),
                source: std::io::Error::other(ended),
            }),
        })
    }
}

impl fmt::Debug for Spawn {
    /// Values of variables are left out, and what arguments hold of secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hiding = self.redactor();
        let args: Vec<_> =
            self.args.iter().map(|arg| hiding.redact(&arg.to_string_lossy()).into_owned()).collect();
        f.debug_struct("Spawn")
            .field("program", &self.program)
            .field("args", &args)
            .field("policy", &self.policy)
            .field("changes", &self.changes.keys())
            .field("cwd", &self.cwd)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
