//! Servers and bridges that run for a while, and clients that run once.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Longest time until a server says where it listens.
const START: Duration = Duration::from_secs(60);

/// Longest time for all checks of one client; each has a deadline of its own.
const RUN: Duration = Duration::from_secs(240);

/// Longest time for something to end by itself.
const END: Duration = Duration::from_secs(5);

/// How often somebody said that a call was cancelled.
pub(super) type Cancels = Arc<AtomicUsize>;

/// Variables that are set for a program.
pub(super) type Env = Vec<(&'static str, String)>;

/// A server or a bridge, until it is dropped.
pub(crate) struct Serving {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
    pub(super) cancels: Cancels,
}

impl Serving {
    /// Starts it, and waits until it says where it listens.
    pub(crate) fn start(words: &[String]) -> Result<Self> {
        Self::start_with(words, &Env::new())
    }

    /// The same with these variables.
    pub(super) fn start_with(words: &[String], env: &Env) -> Result<Self> {
        let mut command = command(words, env);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", words.join(" ")))?;
        let (told, lines) = mpsc::channel();
        let cancels = Cancels::default();
        for pipe in pipes(&mut child) {
            follow(pipe, told.clone(), Arc::clone(&cancels));
        }
        drop(told);
        let mut serving = Self { child, address: String::new(), cancels };
        let (deadline, mut said) = (Instant::now() + START, String::new());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                bail!("`{}` did not say where it listens: {said}", words.join(" "));
            };
            if let Some(address) = address(&line) {
                serving.address = address;
                return Ok(serving);
            }
            said.push_str(&line);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Where it listens, if a line says so. A server for WebSocket alone says nothing but that; other lines with such an
/// address are a bridge's, about the server behind it.
fn address(line: &str) -> Option<String> {
    let rest = line.strip_prefix("ws://").or_else(|| Some(line.split_once("http://")?.1))?;
    rest.split('/').next().map(str::to_owned)
}

/// Asks it to end, and sees to it.
fn end(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
    let deadline = Instant::now() + END;
    while Instant::now() < deadline {
        if let Ok(Some(_)) = child.try_wait() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn command(words: &[String], env: &Env) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.get(1..).unwrap_or_default()).envs(env.iter().cloned()).stdin(Stdio::null());
    command
}

/// Counts cancels in what somebody else's children write to a new named pipe.
pub(super) fn overhear(path: &Path) -> Result<Cancels> {
    ensure!(Command::new("mkfifo").arg(path).status()?.success(), "cannot make {}", path.display());
    // Open for both, so that it has no end while writers come and go.
    let pipe = File::options().read(true).write(true).open(path)?;
    let cancels = Cancels::default();
    follow(Box::new(pipe), mpsc::channel().0, Arc::clone(&cancels));
    Ok(cancels)
}

fn pipes(child: &mut Child) -> Vec<Box<dyn Read + Send>> {
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    stdout.into_iter().chain(stderr).collect()
}

/// Reads to the end, whoever listens, and counts cancels.
fn follow(pipe: Box<dyn Read + Send>, told: mpsc::Sender<String>, cancels: Cancels) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.trim_end().ends_with("cancelled") {
                cancels.fetch_add(1, Ordering::Relaxed);
            }
            let _ = told.send(line);
        }
    });
}

/// What one check came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed(String),
    /// Not in this era, or not at this server.
    Absent,
}

/// What a client reported, by check.
pub(super) type Reports = BTreeMap<String, Outcome>;

/// Runs a client, and adds whether the cancel was noticed by somebody whose words are counted.
pub(super) fn run_client(words: &[String], env: &Env, noticed: &[&Cancels]) -> Result<Reports> {
    let mut command = command(words, env);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", words.join(" ")))?;
    let (own, (told, lines), (noise, last)) = (Cancels::default(), mpsc::channel(), mpsc::channel());
    let mut both = pipes(&mut child).into_iter();
    if let (Some(stdout), Some(stderr)) = (both.next(), both.next()) {
        follow(stdout, told, Cancels::default());
        follow(stderr, noise, Arc::clone(&own));
    }
    let count = || noticed.iter().map(|cancels| cancels.load(Ordering::Relaxed)).sum::<usize>();
    let before = count();
    let seen = || own.load(Ordering::Relaxed) > 0 || count() > before;
    let mut reports = Reports::new();
    let ended = read(&lines, &mut reports);
    // Counted before the session ends: what ends with it was not cancelled.
    if reports.get("cancel") == Some(&Outcome::Passed) && !seen() {
        reports.insert("cancel".into(), Outcome::Failed("the server did not notice the cancel".into()));
    }
    if let Err(why) = ended {
        let words: Vec<String> = last.try_iter().collect();
        let words = words[words.len().saturating_sub(3)..].join(" / ");
        reports.insert("end".into(), Outcome::Failed(format!("{why}: {words}")));
    }
    let deadline = Instant::now() + END;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
    end(&mut child);
    Ok(reports)
}

/// Reads reports until the last.
fn read(lines: &mpsc::Receiver<String>, reports: &mut Reports) -> Result<(), String> {
    let deadline = Instant::now() + RUN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(format!("the client still ran after {RUN:?}")),
            Err(RecvTimeoutError::Disconnected) => return Err("the client broke off".into()),
        };
        let Ok(report) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(check) = report["check"].as_str() else { continue };
        if check == "end" {
            return Ok(());
        }
        let outcome = match report["ok"].as_bool() {
            Some(true) => Outcome::Passed,
            Some(false) => Outcome::Failed(first_line(report["why"].as_str().unwrap_or_default())),
            None => Outcome::Absent,
        };
        reports.insert(check.to_owned(), outcome);
    }
}

/// Enough of a reason for one line of a table.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(160).collect()
}

/// What is reported of a run that never came about.
pub(super) fn broken(why: &anyhow::Error) -> Reports {
    Reports::from([("connect".into(), Outcome::Failed(first_line(&format!("{why:#}"))))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_where_a_server_listens() {
        let rows = [
            ("http://127.0.0.1:81/mcp", Some("127.0.0.1:81")),
            ("listening on http://127.0.0.1:82", Some("127.0.0.1:82")),
            ("ws://127.0.0.1:83/ws", Some("127.0.0.1:83")),
            ("no answer from ws://127.0.0.1:84/ws", None),
            ("ready", None),
        ];
        for (line, said) in rows {
            assert_eq!(address(line).as_deref(), said, "{line}");
        }
    }
}
