//! One call from the command line to a server that is started for it, beside other clients in the same run; and the same
//! call through the daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::Figure;
use crate::harness::{median, root};

/// Calls of each client, taken in turns.
const ROUNDS: usize = 11;

/// A person does not notice a shorter wait.
const COLD_MS: f64 = 15.0;
const WARM_MS: f64 = 5.0;
const PEAK_MB: f64 = 15.0;

/// Others may take this part of their time and memory at most to be called as fast and as lean.
const FASTER: f64 = 1.0 / 20.0;
const LEANER: f64 = 1.0 / 5.0;

/// The other clients, as the registry has them.
const OTHERS: [(&str, &str); 2] = [("@modelcontextprotocol/inspector", "2.12.0"), ("mcporter", "0.12.3")];

pub(crate) fn figures(cardan: &Path) -> anyhow::Result<Vec<Figure>> {
    let [inspector, mcporter] = others()?;
    let demo = cardan.display().to_string();
    let ours = Line::new(cardan, &["call", "add", "a=1", "b=2", "--", &demo, "demo"]);
    let call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "--tool-arg", "b=2"];
    let inspector = Line::new(&inspector, &[&["--cli", &demo, "demo"], &call[..]].concat());
    let mcporter = Line::new(&mcporter, &["call", "--stdio", &format!("{demo} demo"), "add", "a=1", "b=2"]);
    let home = Home::new(cardan)?;
    let warm = home.line(&["call", "--daemon", "demo", "add", "a=1", "b=2"]);
    warm.run()?;
    // The daemon is for calls that follow one another. Its call comes behind ours, and behind one that has filled the machine.
    let lines = [&inspector, &mcporter, &warm, &ours, &warm];
    let mut took = lines.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (line, took) in lines.iter().zip(&mut took) {
            took.push(line.run()?);
        }
    }
    let [inspector_ms, mcporter_ms, behind_ms, cold, warm_ms] = took.map(median);
    let [peak, inspector_mb, mcporter_mb] = [peak(&ours)?, peak(&inspector)?, peak(&mcporter)?];
    let than = |what: &str, other: &str| format!("{what}, to {other}");
    Ok(vec![
        Figure::new("a call to a server started for it: time", cold, "ms", Some(COLD_MS)),
        Figure::new(
            than("the same", "the Inspector's command line"),
            cold / inspector_ms,
            "times",
            Some(FASTER),
        ),
        Figure::new(than("the same", "mcporter"), cold / mcporter_ms, "times", Some(FASTER)),
        Figure::new("a call to a server started for it: peak of memory", peak, "MB", Some(PEAK_MB)),
        Figure::new(
            than("the same", "the Inspector's command line"),
            peak / inspector_mb,
            "times",
            Some(LEANER),
        ),
        Figure::new(than("the same", "mcporter"), peak / mcporter_mb, "times", Some(LEANER)),
        Figure::new("the same call through the daemon: time", warm_ms, "ms", Some(WARM_MS)),
        Figure::new("the same behind a call of mcporter: time", behind_ms, "ms", Some(WARM_MS)),
    ])
}

/// A command that makes one call.
#[derive(Clone)]
pub(crate) struct Line {
    program: PathBuf,
    words: Vec<String>,
    home: Option<PathBuf>,
    /// Where a build that watches itself puts what it saw.
    seen: Option<PathBuf>,
}

impl Line {
    pub(crate) fn new(program: &Path, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self { program: program.to_owned(), words, home: None, seen: None }
    }

    /// The same, and what is seen of it apart from all else.
    pub(crate) fn watched(self, seen: &Path) -> Self {
        Self { seen: Some(seen.to_owned()), ..self }
    }

    fn start(&self) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(home) = &self.home {
            command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env_remove("XDG_STATE_HOME");
        }
        command.envs(self.seen.iter().map(|seen| ("LLVM_PROFILE_FILE", seen)));
        command.spawn().with_context(|| format!("cannot run {}", self.program.display()))
    }

    /// Milliseconds from start to end.
    pub(crate) fn run(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let status = self.start()?.wait()?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        ensure!(status.success(), "{} {:?}: {status}", self.program.display(), self.words);
        Ok(took)
    }
}

/// The most memory that the client itself had at any time, in MB; what the kernel knows of it shortly before its
/// end. Each look may come too soon, so the highest of some counts.
fn peak(line: &Line) -> anyhow::Result<f64> {
    let mut all = Vec::new();
    for _ in 0..3 {
        let mut child = line.start()?;
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0.0_f64;
        while child.try_wait()?.is_none() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<f64>().ok());
            most = most.max(kib.unwrap_or_default() * 1024.0 / 1e6);
        }
        ensure!(most > 0.0, "{} was gone too soon to be looked at", line.program.display());
        all.push(most);
    }
    Ok(all.into_iter().fold(0.0, f64::max))
}

/// The other clients, installed.
fn others() -> anyhow::Result<[PathBuf; 2]> {
    let place = root().join("target/bench/clients");
    fs::create_dir_all(&place)?;
    // Other folders above may hold packages too.
    fs::write(place.join("package.json"), "{ \"private\": true }")?;
    let packages = OTHERS.map(|(name, version)| format!("{name}@{version}"));
    let status = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel", "error"])
        .args(packages)
        .current_dir(&place)
        .status()
        .context("cannot run npm, which installs the other clients")?;
    ensure!(status.success(), "npm could not install the other clients");
    let bin = place.canonicalize()?.join("node_modules/.bin");
    Ok([bin.join("mcp-inspector"), bin.join("mcporter")])
}

/// Someone with one configured server and a daemon of their own.
pub(crate) struct Home {
    cardan: PathBuf,
    path: PathBuf,
}

impl Home {
    pub(crate) fn new(cardan: &Path) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("cardan-bench-cli-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        let demo = format!("[servers.demo]\ncommand = '{}'\nargs = ['demo']\n", cardan.display());
        fs::write(path.join("cardan.toml"), demo)?;
        Ok(Self { cardan: cardan.to_owned(), path })
    }

    pub(crate) fn line(&self, words: &[&str]) -> Line {
        let config = self.path.join("cardan.toml").display().to_string();
        let words = [words, &["--config", &config]].concat();
        Line { home: Some(self.path.clone()), ..Line::new(&self.cardan, &words) }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left over ends itself when it is idle.
        let _ = self.line(&["daemon", "stop"]).run();
        let _ = fs::remove_dir_all(&self.path);
    }
}
