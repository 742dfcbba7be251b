//! The built binary, driven as a user would.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests call it")]

pub(crate) mod pty;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The binary under test.
pub(crate) const CARDAN: &str = env!("CARGO_BIN_EXE_cardan");

/// Far longer than anything here takes; a hang fails instead of lasting.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The exit code is this one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Stdout is exactly this.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert_eq!(self.stdout, text, "{self:#?}");
        self
    }

    /// Stderr has all of these.
    #[track_caller]
    pub(crate) fn tells(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not told: {self:#?}");
        }
        self
    }

    /// Stdout is one line of JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "{self:#?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Runs `cardan` with these words.
pub(crate) fn cardan(words: &[&str]) -> Ran {
    cardan_reading(words, "")
}

/// The same against the demo server.
pub(crate) fn demo(words: &[&str]) -> Ran {
    cardan(&[words, &["--", CARDAN, "demo"]].concat())
}

/// The same with something on stdin.
pub(crate) fn cardan_reading(words: &[&str], input: &str) -> Ran {
    let mut child = start(words);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    finish(child)
}

/// Starts `cardan` with pipes.
pub(crate) fn start(words: &[&str]) -> Child {
    Command::new(CARDAN)
        .args(words)
        .env_remove("RUST_BACKTRACE")
        // Nothing is known from earlier tests.
        .env("XDG_CACHE_HOME", format!("{}/cache-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end, not for ever.
pub(crate) fn finish(mut child: Child) -> Ran {
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let pid = child.id();
    let (told, ended) = mpsc::channel();
    let waiting = thread::spawn(move || told.send(child.wait()));
    let Ok(status) = ended.recv_timeout(DEADLINE) else {
        signal_pid(pid, "KILL");
        panic!("still running after {DEADLINE:?}");
    };
    waiting.join().unwrap().unwrap();
    let text =
        |drain: Option<thread::JoinHandle<String>>| drain.map(|d| d.join().unwrap()).unwrap_or_default();
    Ran { code: status.unwrap().code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A named pipe: what is written to it arrives here line by line.
pub(crate) struct Fifo {
    pub(crate) path: String,
    lines: mpsc::Receiver<String>,
}

impl Fifo {
    pub(crate) fn new(scratch: &Scratch, name: &str) -> Self {
        let path = scratch.file(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Open for both, so that it has no end of file while writers come and go.
        let pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let (told, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { return };
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Self { path, lines }
    }

    /// The next line, not for ever.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    /// The next message of this method; others are passed over.
    #[track_caller]
    pub(crate) fn message(&self, method: &str) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.line()).unwrap();
            if message["method"] == method {
                return message;
            }
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

/// Sends a signal by name.
pub(crate) fn signal(child: &Child, name: &str) {
    signal_pid(child.id(), name);
}

pub(crate) fn signal_pid(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A demo server on stdio, spoken to line by line.
pub(crate) struct Raw {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Raw {
    pub(crate) fn start() -> Self {
        let mut child = start(&["demo"]);
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a call and brings its reply, with the notes that came before it.
    pub(crate) fn call(&mut self, message: &Value) -> (Value, Vec<Value>) {
        self.send(message);
        let mut notes = Vec::new();
        loop {
            let next = self.next();
            if next.get("method").is_none() && next["id"] == message["id"] {
                return (next, notes);
            }
            notes.push(next);
        }
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    /// Closes stdin and waits for the end.
    pub(crate) fn end(self) -> Ran {
        let Self { mut child, stdin, stdout } = self;
        drop(stdin);
        child.stdout = Some(stdout.into_inner());
        finish(child)
    }

    /// Waits for the end with stdin still open.
    pub(crate) fn wait(self) -> Ran {
        let Self { mut child, stdin, stdout } = self;
        child.stdout = Some(stdout.into_inner());
        let ran = finish(child);
        drop(stdin);
        ran
    }
}

/// Checks that every client must pass in every era it speaks; `ping` exists in the legacy era only.
pub(crate) const CHECKS: [&str; 19] = [
    "connect",
    "list",
    "call",
    "structured",
    "tool_error",
    "unknown_tool",
    "progress",
    "cancel",
    "elicit",
    "sample",
    "roots",
    "read",
    "prompt",
    "complete",
    "log",
    "changed",
    "updated",
    "fault",
    "large",
];

/// A directory of one test's own.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cardan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that misbehaves as told.
pub(crate) const ODD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");

/// A legacy server in another language that logs what it reads and misbehaves as told.
pub(crate) fn odd_server<'a>(manner: &'a str, log: &'a str) -> Vec<&'a str> {
    vec!["--", "python3", ODD, manner, log]
}

/// A legacy server for `sh` that hears no signal but KILL: it shakes hands, and then does this, in which `hear` reads a message into `$line`.
pub(crate) fn shell_server(then: &str) -> String {
    format!(
        r#"trap "" TERM INT; hear() {{ read -r line; id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}; }}
        say() {{ echo '{{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}}'; }}
        hear; say '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}'
        hear; {then}"#
    )
}

/// One that does not leave, and says when it was called and when it was told to cancel.
pub(crate) fn stubborn_server(mark: &str) -> String {
    shell_server(&format!(
        "hear; echo called > {mark}; hear; echo cancelled > {mark}; while :; do sleep 1; done"
    ))
}

/// One that says when it was called, and once its input has ended writes to a file what it heard last, if whoever started it is still there.
pub(crate) fn watching_server(mark: &str, last: &str) -> String {
    shell_server(&format!(
        r#"hear; echo called > {mark}; while read -r line; do said=$line; done
        [ "$(cut -d ' ' -f 4 "/proc/$$/stat")" = "$PPID" ] && echo "$said" > {last}"#
    ))
}

/// Calls a server for `sh`, which has to list nothing first.
pub(crate) fn calling(script: &str) -> [&str; 9] {
    ["call", "x", "--no-check", "--era", "legacy", "--", "sh", "-c", script]
}

/// What that server read, in order.
pub(crate) fn logged(log: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Can it run here? Says what is left out when not; where peers are required nothing is.
pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{test} needs python3, which is not installed");
        eprintln!(
            "skipped: {test}, or a part of it: python3 is not installed, so there is no odd server to talk to"
        );
    }
    found
}

/// A client of a foreign SDK, where it is installed. Says so when not.
pub(crate) fn peer(name: &str, script: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("peers").join(name);
    let (program, installed) = if name.starts_with("python") {
        let python = root.join("target/peers").join(name).join("bin/python");
        (python.clone(), python.exists())
    } else {
        (PathBuf::from("node"), folder.join("node_modules").is_dir())
    };
    if !installed {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed; `cargo xtask test` installs it");
        return None;
    }
    let mut command = Command::new(program);
    command.arg(folder.join(script));
    Some(command)
}

/// How the reference server is started, where it is installed.
pub(crate) fn everything() -> Option<Command> {
    let mut command =
        peer("node-everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js")?;
    command.arg("stdio");
    Some(command)
}

/// `cardan serve` or `cardan bridge` on a free port, until it is dropped.
pub(crate) struct Serving {
    pub(crate) address: String,
    child: Child,
}

impl Serving {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::run(&[&["serve", "--listen", "127.0.0.1:0"], words].concat())
    }

    /// `cardan bridge` on a free port, with these words.
    pub(crate) fn bridge(words: &[&str]) -> Self {
        Self::run(&[&["bridge", "--listen", "127.0.0.1:0"], words].concat())
    }

    /// `cardan serve` on a free port, for someone whose home this is.
    pub(crate) fn start_at(home: &str, words: &[&str]) -> Self {
        let mut command = Command::new(CARDAN);
        command.env("HOME", home).env_remove("XDG_CACHE_HOME");
        Self::of(command, &[&["serve", "--listen", "127.0.0.1:0"], words].concat())
    }

    /// Any command that serves on a free port.
    pub(crate) fn run(words: &[&str]) -> Self {
        Self::of(Command::new(CARDAN), words)
    }

    /// The same, by a command that was prepared.
    pub(crate) fn of(mut command: Command, words: &[&str]) -> Self {
        let mut child = command.args(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // The first line with an address is that of Streamable HTTP.
        let address = loop {
            line.clear();
            assert_ne!(told.read_line(&mut line).unwrap(), 0, "cardan {words:?} ended");
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Self { address, child }
    }
}

impl Serving {
    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(&self.child, "TERM");
        let (told, ended) = mpsc::channel();
        let pid = self.child.id();
        thread::scope(|scope| {
            scope.spawn(|| told.send(self.child.wait()));
            match ended.recv_timeout(DEADLINE) {
                Ok(status) => status.unwrap().code(),
                Err(_) => {
                    signal_pid(pid, "KILL");
                    panic!("still running after {DEADLINE:?}");
                }
            }
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes everything on to `server`, and keeps what clients send.
pub(crate) fn recorder(server: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&kept);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(mut client), Ok(mut up)) = (client, TcpStream::connect(&server)) else { return };
            let (mut back, mut down) = (client.try_clone().unwrap(), up.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut down, &mut back));
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = client.read(&mut piece) {
                    kept.lock().unwrap().extend_from_slice(&piece[..read]);
                    if up.write_all(&piece[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, recorded)
}
