//! The server in its own process, seen from outside and by its own account.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::harness::field;

/// How long a server may take to let go of what its clients left: its idle timeout, and a busy machine.
const SETTLE: Duration = Duration::from_secs(60);

/// The server.
pub(crate) struct Process {
    child: Child,
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

/// What a server holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) rss_kib: u64,
    pub(crate) fds: u64,
    pub(crate) threads: u64,
    pub(crate) tasks: u64,
    pub(crate) sessions: u64,
    pub(crate) streams: u64,
    pub(crate) sockets: u64,
}

impl Rest {
    /// What is counted exactly: how many there are, and how many there should be.
    pub(crate) fn against(self, want: Self) -> [(&'static str, u64, u64); 6] {
        [
            ("file descriptors", self.fds, want.fds),
            ("threads", self.threads, want.threads),
            ("tasks", self.tasks, want.tasks),
            ("legacy sessions", self.sessions, want.sessions),
            ("streams", self.streams, want.streams),
            ("WebSockets", self.sockets, want.sockets),
        ]
    }
}

impl Process {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("soak-server")
            // With an arena per thread, what one freed is not what the other takes next: memory would seem to grow.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let ask = child.stdin.take().context("its stdin is piped")?;
        let mut told = BufReader::new(child.stdout.take().context("its stdout is piped")?);
        let mut line = String::new();
        told.read_line(&mut line)?;
        let address = line.trim().parse().with_context(|| format!("no address but `{line}`"))?;
        Ok(Self { child, ask, told, address })
    }

    /// What it holds now.
    pub(crate) fn rest(&mut self) -> anyhow::Result<Rest> {
        self.ask.write_all(b"\n")?;
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        let own: Value = serde_json::from_str(&line).with_context(|| format!("no census but `{line}`"))?;
        let own = |name| field(&own, name).map(|count| count as u64);
        let process = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{process}/status"))?;
        let status = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such status")?;
            Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
        };
        Ok(Rest {
            rss_kib: status("VmRSS:")?,
            fds: fs::read_dir(format!("{process}/fd"))?.count() as u64,
            threads: status("Threads:")?,
            tasks: own("tasks")?,
            sessions: own("sessions")?,
            streams: own("streams")?,
            sockets: own("sockets")?,
        })
    }

    /// Looks until it is as it should be, or too much time has passed: what it holds then.
    pub(crate) fn settle(&mut self, good: impl Fn(&Rest) -> bool) -> anyhow::Result<Rest> {
        let start = Instant::now();
        loop {
            let rest = self.rest()?;
            if good(&rest) || start.elapsed() >= SETTLE {
                return Ok(rest);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// It ends with us, whatever happened.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
