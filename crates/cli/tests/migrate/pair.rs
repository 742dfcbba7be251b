//! Both lines of a pair with the same client: what the old one can, ours can, with the same answers.
//!
//! The client is one on the TypeScript SDK 1, and asks what stands in `peers/script.mjs`. The old bridges and the client are
//! installed by `cargo xtask test`; without them each test says that it was skipped, and fails where `CARDAN_PEERS=required`.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::common::{CARDAN, CHECKS, Scratch, Serving, peer};
use crate::page::{self, Pair, Place, pairs};
use crate::recorder::Recorder;

const TOKEN: &str = "secret-token-of-24-bytes";

/// On a machine that is busy with other tests some take long to start.
const PATIENCE_MS: &str = "60000";

/// How often another port is taken where one was taken by somebody else meanwhile.
const TRIES: usize = 5;

/// Runs the pairs of this program; so many there are.
pub(crate) fn same(program: &str, count: usize) {
    let name = if program == "mcp-proxy" { "python-bridges" } else { "node-bridges" };
    let (Some(_), Some(_)) = (peer(name, ""), peer("node-v1", "client.mjs")) else { return };
    let scratch = Scratch::new(&format!("migrate-{program}"));
    let config = page::config(&scratch);
    let pairs = pairs().into_iter().filter(|pair| pair.old.iter().any(|word| word == program));
    let trials: Vec<_> =
        pairs.map(|pair| Trial { program, pair, config: &config, scratch: &scratch }).collect();
    assert_eq!(trials.len(), count, "the page has changed");
    for trial in trials {
        trial.run();
    }
}

/// A pair, and what is there for it.
struct Trial<'a> {
    program: &'a str,
    pair: Pair,
    config: &'a str,
    scratch: &'a Scratch,
}

impl Trial<'_> {
    fn run(&self) {
        let (old, ours) = (self.old(), self.ours());
        let line = self.pair.old.join(" ");
        assert_eq!(old.len(), ours.len(), "{line}");
        for ((way, old), (_, ours)) in old.iter().zip(&ours) {
            assert!(passed(old, "connect") && passed(old, "call"), "{line} by {way}: {old:#?}");
            for check in CHECKS.iter().chain(&["ping"]) {
                assert!(passed(ours, check), "ours for {line} by {way}: {check}: {ours:#?}");
                if passed(old, check) && !self.differs(check) {
                    assert_eq!(facts(ours, check), facts(old, check), "{line} by {way}: {check}");
                }
            }
        }
    }

    /// Is this where the old one says something else than the server behind it?
    fn differs(&self, check: &str) -> bool {
        // A fault of the server's comes out as a result that says it failed.
        (self.program, check) == ("mcp-proxy", "unknown_tool")
    }

    /// The server that is reached by address; it asks for a token where the line has one. Each run has one of its own,
    /// since clients change what it offers.
    fn remote(&self) -> Serving {
        if !self.pair.old.iter().any(|word| word.contains("TOKEN") || word.contains("secret-token")) {
            return Serving::start(&[]);
        }
        let mut command = Command::new(CARDAN);
        command.env("KEY", TOKEN);
        let words = ["bridge", "--listen", "127.0.0.1:0", "--key-env", "KEY", "--", CARDAN, "demo"];
        Serving::of(command, &words)
    }

    /// What the client reports, by each way in that the old one has.
    fn old(&self) -> Vec<(String, Vec<Value>)> {
        let serves = self.pair.old.iter().any(|word| word == "--port");
        // Where the old one loses what a check waits for, the client would wait in vain for ten seconds.
        let without = match self.pair.old.iter().any(|word| word == "mcp-remote" || word == "--stdio") {
            true => "",
            false => "cancel,log,changed,updated",
        };
        if !serves {
            let words = |remote: &str| self.place(remote, 0).words(&self.pair.old);
            return vec![self.by_command(words, without)];
        }
        let started = (0..TRIES).find_map(|_| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let words = self.place("", port).words(&self.pair.old);
            Old::start(&words).map(|old| (old, port))
        });
        let (_old, port) = started.expect("it listens");
        self.by_ports(&format!("127.0.0.1:{port}"), without)
    }

    fn ours(&self) -> Vec<(String, Vec<Value>)> {
        if self.pair.ours.iter().any(|word| word == "--stdio") {
            let words = |remote: &str| self.place(remote, 0).words(&self.pair.ours);
            return vec![self.by_command(words, "")];
        }
        let words = self.place("", 0).words(&self.pair.ours);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let serving = Serving::run(&words);
        self.by_ports(&serving.address, "")
    }

    fn place<'a>(&'a self, remote: &'a str, port: u16) -> Place<'a> {
        Place { remote, config: self.config, token: TOKEN, port }
    }

    /// The client starts the bridge, which reaches the server and shows it what the line says.
    fn by_command(&self, words: impl Fn(&str) -> Vec<String>, without: &str) -> (String, Vec<Value>) {
        let remote = self.remote();
        let recorder = Recorder::before(&remote.address);
        let report = self.client(&words(&recorder.address), without);
        if self.pair.old.iter().any(|word| word == "x-team: blue") {
            assert!(recorder.was_sent("x-team: blue"), "{}", self.pair.old.join(" "));
        }
        ("stdio".to_owned(), report)
    }

    /// The client goes to each address that the old one has.
    fn by_ports(&self, address: &str, without: &str) -> Vec<(String, Vec<Value>)> {
        let has = |word: &str| self.pair.old.iter().any(|other| other == word);
        let prefix = if has("--named-server-config") { "/servers/demo" } else { "" };
        let paths = match (has("supergateway"), has("streamableHttp")) {
            (true, false) => &["sse"][..],
            (true, true) => &["mcp"],
            (false, _) => &["mcp", "sse"],
        };
        let reports = paths.iter().map(|path| {
            let url = format!("http://{address}{prefix}/{path}");
            ((*path).to_owned(), self.client(&[url], without))
        });
        reports.collect()
    }

    fn client(&self, words: &[String], without: &str) -> Vec<Value> {
        let mut client = peer("node-v1", "client.mjs").expect("it was here before");
        client.args(["--without", without, "--patience", PATIENCE_MS, "--"]).args(words);
        // One of them keeps files there.
        client.env("HOME", self.scratch.file("home")).env("TOKEN", TOKEN);
        let output = client.output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let report: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(report.iter().any(|line| line["check"] == "end"), "{words:?}: no end\n{lines}\n{stderr}");
        report
    }
}

/// A program of others that serves on a port, until it is dropped.
struct Old(Child);

impl Old {
    /// Nothing: it ended before it listened.
    fn start(words: &[String]) -> Option<Self> {
        let (told, tell) = std::io::pipe().unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let child = command.stdout(tell.try_clone().unwrap()).stderr(tell).spawn().unwrap();
        // The pipe's ends here go with the command, so that its end is seen.
        drop(command);
        let old = Self(child);
        let mut told = BufReader::new(told);
        let mut line = String::new();
        // One says so on stdout, the other on stderr.
        while !line.contains("Listening on port") && !line.contains("Uvicorn running on") {
            line.clear();
            if told.read_line(&mut line).unwrap() == 0 {
                return None;
            }
        }
        thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Some(old)
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn found<'a>(report: &'a [Value], check: &str) -> Option<&'a Value> {
    report.iter().find(|line| line["check"] == check)
}

fn passed(report: &[Value], check: &str) -> bool {
    found(report, check).is_some_and(|line| line["ok"] == true)
}

/// What the client was told, but for how much of it the SDK lost on the way to its user, and on how many pages a list came.
fn facts(report: &[Value], check: &str) -> Option<Value> {
    let mut line = found(report, check)?.clone();
    let members = line.as_object_mut()?;
    members.remove("delivered");
    members.remove("pages");
    Some(line)
}
