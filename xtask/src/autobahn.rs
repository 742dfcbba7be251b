//! `autobahn`: the Autobahn test suite against both ends of our WebSocket.
//!
//! The suite is Python 2 code. `CARDAN_PYTHON2` names an interpreter with pip; otherwise `python2.7` is looked for in
//! the path and among pyenv's. The suite itself goes to `target/autobahn`. Both runs together take about two
//! minutes.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    args::Args,
    run::{build, say, succeed, works},
    walk,
};

const SUITE: &str = "autobahntestsuite==0.8.2";

/// Compression is not spoken.
const EXCLUDED: [&str; 2] = ["12.*", "13.*"];

/// How long the suite's server may take to listen.
const STARTING: Duration = Duration::from_secs(30);

/// Fewer cases than this, and the suite did not run as a whole.
const CASES: usize = 300;

/// Installs the suite where it is missing, runs it against server and client, and judges.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let python = python().context("there is no Python 2.7; set CARDAN_PYTHON2 to one with pip")?;
    build(&walk::root(), &["-p", "cardan-ws", "--features", "dial", "--example", "echo_ws"])?;
    both(python)
}

/// A Python for the suite.
pub(crate) fn python() -> Option<String> {
    if let Ok(named) = env::var("CARDAN_PYTHON2") {
        return Some(named);
    }
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv"));
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(home);
    let versions = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let inside = versions.into_iter().flatten().flatten().map(|version| version.path().join("bin/python2.7"));
    let candidates = std::iter::once(PathBuf::from("python2.7")).chain(inside);
    candidates
        .map(|python| python.display().to_string())
        .find(|python| works(Command::new(python).args(["-m", "pip", "--version"])))
}

/// Server and client, which were built before.
pub(crate) fn both(python: String) -> Result<()> {
    let root = walk::root();
    let place = root.join("target/autobahn");
    let suite = Suite::install(python, &place)?;
    let echo = root.join("target/debug/examples/echo_ws");
    let server = against_server(&suite, &echo, &place)?;
    let client = against_client(&suite, &echo, &place)?;
    say(&format!("autobahn: server {server}, client {client}"));
    Ok(())
}

/// The installed suite.
struct Suite {
    python: String,
    folder: PathBuf,
}

impl Suite {
    fn install(python: String, place: &Path) -> Result<Self> {
        let folder = place.join("suite");
        let wstest = folder.join("bin/wstest");
        if !wstest.is_file() {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
            succeed(pip.arg(&folder).arg(SUITE))?;
            // Packages below `zope` are found only through a package of that name.
            fs::write(folder.join("zope/__init__.py"), "")?;
        }
        Ok(Self { python, folder })
    }

    fn command(&self, mode: &str, spec: &Path) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", &self.folder).arg(self.folder.join("bin/wstest"));
        command.args(["-m", mode, "-s"]).arg(spec).stdout(Stdio::null());
        command
    }
}

/// A program that runs as long as it is needed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn against_server(suite: &Suite, echo: &Path, place: &Path) -> Result<String> {
    let mut child = Command::new(echo).args(["server", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    let _running = Running(child);
    let mut told = String::new();
    BufReader::new(stderr).read_line(&mut told)?;
    let url = told.split_whitespace().last().context("the echo server tells where it is")?.to_owned();
    let reports = place.join("of-server");
    let spec = place.join("of-server.json");
    let servers = json!([{ "agent": "cardan", "url": url }]);
    write_spec(&spec, json!({ "outdir": reports, "servers": servers }))?;
    succeed(&mut suite.command("fuzzingclient", &spec))?;
    judge(&reports)
}

fn against_client(suite: &Suite, echo: &Path, place: &Path) -> Result<String> {
    // A free port: the suite cannot tell which one it took.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("ws://{address}");
    let reports = place.join("of-client");
    let spec = place.join("of-client.json");
    write_spec(&spec, json!({ "outdir": reports, "url": url }))?;
    let _running = Running(suite.command("fuzzingserver", &spec).spawn()?);
    wait_for(address)?;
    succeed(Command::new(echo).args(["client", &url, "cardan"]))?;
    judge(&reports)
}

fn write_spec(path: &Path, mut spec: Value) -> Result<()> {
    spec["cases"] = json!(["*"]);
    spec["exclude-cases"] = json!(EXCLUDED);
    spec["exclude-agent-cases"] = json!({});
    fs::write(path, spec.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

fn wait_for(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(start.elapsed() < STARTING, "the suite's server does not listen on {address}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Reads the reports and names the cases that failed.
fn judge(reports: &Path) -> Result<String> {
    let index = reports.join("index.json");
    let text = fs::read_to_string(&index).with_context(|| format!("no report at {}", index.display()))?;
    verdict(&serde_json::from_str(&text)?)
}

fn verdict(index: &Value) -> Result<String> {
    let cases = index["cardan"].as_object().context("the report names us")?;
    let failed: Vec<&str> = cases
        .iter()
        .filter(|(_, case)| ["behavior", "behaviorClose"].iter().any(|part| !passes(&case[*part])))
        .map(|(name, _)| name.as_str())
        .collect();
    if !failed.is_empty() {
        bail!("{} of {} cases failed: {}", failed.len(), cases.len(), failed.join(", "));
    }
    ensure!(cases.len() >= CASES, "only {} cases ran", cases.len());
    Ok(format!("passed {} cases", cases.len()))
}

fn passes(behavior: &Value) -> bool {
    matches!(behavior.as_str(), Some("OK" | "INFORMATIONAL" | "NON-STRICT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(last: &str) -> Value {
        let mut cases = serde_json::Map::new();
        for n in 1..CASES {
            cases.insert(format!("1.{n}"), json!({ "behavior": "OK", "behaviorClose": "OK" }));
        }
        cases.insert("7.1".to_owned(), json!({ "behavior": "INFORMATIONAL", "behaviorClose": last }));
        json!({ "cardan": cases })
    }

    #[test]
    fn failed_cases_are_named() {
        assert_eq!(verdict(&index("OK")).unwrap(), "passed 300 cases");
        for wrong in ["FAILED", "UNCLEAN", "WRONG CODE"] {
            assert_eq!(verdict(&index(wrong)).unwrap_err().to_string(), "1 of 300 cases failed: 7.1");
        }
        assert!(verdict(&json!({ "cardan": {} })).is_err(), "nothing ran");
    }
}
