//! The transcripts of the core, unchanged, against the real server over every transport we have.
//!
//! Those run that need nothing but frames: no configuration of their own, no scripted handler, no
//! virtual time. Findings are the core's to show; here the frames count, and the silences.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::future::poll_fn;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use cardan_proto::limits::Limits;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Cause, LaneId, Outgoing};
use cardan_runtime::link::{Link, Received};
use cardan_sim::transcript::{Closer, Transcript, What, matches, parse};
use cardan_ws::{Dial, dial};
use common::{CARDAN, Scratch, start};
use serde_json::Value;

/// Far longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is sent last: its answer shows that nothing else was on the way.
const SENTINEL: &str = r#"{"jsonrpc":"2.0","id":"sentinel","method":"no/such","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Sends a frame.
type Say = Box<dyn FnMut(&str)>;

/// One end of a conversation with the demo server.
struct Line {
    /// Sends a frame.
    say: Option<Say>,
    lines: mpsc::Receiver<String>,
    /// Ends our direction.
    close: Box<dyn FnOnce()>,
}

impl Line {
    fn new(
        reader: impl Read + Send + 'static,
        mut writer: impl Write + 'static,
        close: impl FnOnce() + 'static,
    ) -> Self {
        let (told, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                let Ok(line) = line else { return };
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        let say = move |frame: &str| {
            writer.write_all(frame.as_bytes()).unwrap();
            writer.write_all(b"\n").unwrap();
            writer.flush().unwrap();
        };
        Self { say: Some(Box::new(say)), lines, close: Box::new(close) }
    }

    /// A text frame for every line. Dropping what says ends the link.
    fn over_websocket(url: String) -> Self {
        let (told, lines) = mpsc::channel();
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(pump(url, receiver, told));
        });
        let say = move |frame: &str| sender.send(frame.to_owned()).unwrap();
        Self { say: Some(Box::new(say)), lines, close: Box::new(|| {}) }
    }

    fn say(&mut self, frame: &str) {
        let say = self.say.as_mut().unwrap();
        say(frame);
    }

    fn hear(&self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|error| format!("nothing came: {error}"))?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }
}

/// Carries frames from one channel to the other over a WebSocket, without a session of our own.
async fn pump(
    url: String,
    mut frames: tokio::sync::mpsc::UnboundedReceiver<String>,
    told: mpsc::Sender<String>,
) {
    let mut link = dial(&url, &Dial::new(&Limits::DEFAULT)).await.unwrap();
    poll_fn(|cx| {
        while let Poll::Ready(frame) = frames.poll_recv(cx) {
            let Some(frame) = frame else { return Poll::Ready(()) };
            link.put(0, LaneId::MAIN, &Outgoing::Raw(frame.into()));
        }
        while let Poll::Ready(received) = link.poll_recv(cx) {
            match received {
                Received::Frame { bytes, .. } => {
                    let _ = told.send(String::from_utf8(bytes.into()).unwrap());
                }
                _ => return Poll::Ready(()),
            }
        }
        assert!(!matches!(link.poll_flush(cx), Poll::Ready(Err(_))));
        Poll::Pending
    })
    .await;
    poll_fn(|cx| link.poll_close(cx, &Cause::ClosedByUs("done".into()))).await;
}

/// Can it be played to a server that is what it is?
fn is_playable(transcript: &Transcript) -> bool {
    transcript.role == Role::Server
        && transcript.config.is_empty()
        && !transcript.steps.iter().any(|step| {
            matches!(step.what, What::Local(_) | What::Wait(_) | What::Outcome(_) | What::Close(Closer::Ours))
        })
}

fn play(transcript: &Transcript, mut line: Line) -> Result<(), String> {
    for step in &transcript.steps {
        match &step.what {
            What::Client(frame) => line.say(frame),
            What::Server(wanted) => {
                let wanted: Value = serde_json::from_str(wanted).unwrap();
                let got = line.hear().map_err(|why| format!("line {}: {why}", step.line))?;
                if !matches(&wanted, &got) {
                    return Err(format!("line {}: wanted {wanted}, got {got}", step.line));
                }
            }
            What::Close(_) => {
                line.say = None;
                (line.close)();
                let rest: Vec<String> = line.lines.iter().collect();
                return if rest.is_empty() { Ok(()) } else { Err(format!("after the end: {rest:?}")) };
            }
            _ => {}
        }
    }
    line.say(SENTINEL);
    let last = line.hear()?;
    if last["id"] == "sentinel" { Ok(()) } else { Err(format!("unexpected: {last}")) }
}

fn playable() -> Vec<(PathBuf, Transcript)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let mut found = Vec::new();
    for folder in ["legacy", "modern", "mixed", "bad"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let transcript = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            if is_playable(&transcript) {
                found.push((path, transcript));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 12, "only {} transcripts can be played", found.len());
    found
}

/// Plays each over a line of its own and tells all that failed.
fn all_hold(mut connect: impl FnMut() -> Line) {
    let failures: Vec<String> = playable()
        .iter()
        .filter_map(|(path, transcript)| {
            let why = play(transcript, connect()).err()?;
            Some(format!("{}: {why}", path.display()))
        })
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// STD-1, STD-19, S2-1: JSON-RPC with negotiated capabilities, the same conversations over stdio as over the
/// transports below.
#[test]
fn transcripts_hold_over_stdio() {
    all_hold(|| {
        let mut child = start(&["demo"]);
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // The end of our direction is the end of the pipe, which dropping the writer brings about.
        Line::new(stdout, stdin, move || drop(child.wait()))
    });
}

/// STD-15: the same framing, and so the same conversations, over a Unix socket.
#[test]
fn transcripts_hold_over_a_unix_socket() {
    let scratch = Scratch::new("transcripts");
    let path = scratch.file("socket");
    let demo = listening(&["demo", "--unix", &path]);
    all_hold(|| {
        let stream = UnixStream::connect(&path).unwrap();
        let (reader, end) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        Line::new(reader, stream, move || end.shutdown(Shutdown::Write).unwrap())
    });
    drop(demo);
}

/// STD-15: and over TCP.
#[test]
fn transcripts_hold_over_tcp() {
    let demo = listening(&["demo", "--tcp", "127.0.0.1:0"]);
    let address = demo.told.rsplit("tcp://").next().unwrap().trim().to_owned();
    all_hold(|| {
        let stream = TcpStream::connect(&address).unwrap();
        let (reader, end) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        Line::new(reader, stream, move || end.shutdown(Shutdown::Write).unwrap())
    });
}

/// S2-11: and over WebSocket, one text frame for every line.
#[test]
fn transcripts_hold_over_websocket() {
    let serving = listening(&["serve", "--listen", "127.0.0.1:0"]);
    let url = serving.next_with("ws://");
    all_hold(|| Line::over_websocket(url.clone()));
}

/// A demo server that listens, until it is dropped.
struct Listening {
    child: std::process::Child,
    /// What it tells first.
    told: String,
    /// And then.
    rest: mpsc::Receiver<String>,
}

impl Listening {
    /// The first word that begins so in what it tells.
    fn next_with(&self, start: &str) -> String {
        loop {
            let line = self.rest.recv_timeout(PATIENCE).unwrap();
            if let Some(word) = line.split_whitespace().find(|word| word.starts_with(start)) {
                return word.to_owned();
            }
        }
    }
}

fn listening(words: &[&str]) -> Listening {
    let mut child =
        std::process::Command::new(CARDAN).args(words).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    let (tell, rest) = mpsc::channel();
    // Read to the end: a server must not wait for someone who listens.
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    Listening { child, told, rest }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
