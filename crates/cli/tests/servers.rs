//! `cardan servers` and servers by name, as a user drives them: real processes in a project and a home of their own.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::pty::{CTRL_C, Pty};
use common::{CARDAN, Fifo, Ran, Scratch, Serving, finish, has_python, peer, signal};
use serde_json::{Value, json};

/// A project inside a home.
struct World {
    scratch: Scratch,
    home: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("servers-{name}"));
        let home = PathBuf::from(scratch.file("home"));
        fs::create_dir_all(home.join("project/.git")).unwrap();
        Self { scratch, home }
    }

    /// Writes the project's file, at once as `cardan config` does.
    fn put(&self, text: &str) {
        let (draft, file) = (self.home.join("draft"), self.home.join("project/cardan.toml"));
        fs::write(&draft, text).unwrap();
        fs::rename(draft, file).unwrap();
    }

    fn start(&self, words: &[&str]) -> Child {
        self.command(CARDAN).args(words).spawn().unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.home.join("project"))
            .env("HOME", &self.home)
            .env("WEATHER_KEY", "key-canary")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("CARDAN_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let file = self.home.join("project/cardan.toml");
        if file.exists() {
            // Named, and so trusted: whether a project's file may run anything is asked elsewhere.
            command.env("CARDAN_CONFIG", file);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        let ran = finish(self.start(words));
        assert!(!format!("{ran:?}").contains("canary"), "a secret is shown: {ran:#?}");
        ran
    }

    /// The servers by name, as `cardan servers --json` tells them.
    fn servers(&self, words: &[&str], exit: i32) -> Vec<Value> {
        let ran = self.run(&[&["servers", "--json"], words].concat()).exits(exit);
        ran.json()["servers"].as_array().unwrap().clone()
    }
}

/// A server that is a line for the shell.
fn shell(name: &str, line: &str) -> String {
    format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", '{line}']\n")
}

/// The demo server.
fn demo(name: &str) -> String {
    format!("[servers.{name}]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n")
}

fn names(servers: &[Value], which: impl Fn(&Value) -> bool) -> Vec<&str> {
    servers.iter().filter(|server| which(server)).map(|server| server["name"].as_str().unwrap()).collect()
}

fn by_name<'a>(servers: &'a [Value], name: &str) -> &'a Value {
    servers.iter().find(|server| server["name"] == name).unwrap()
}

/// Far longer than anything here takes.
const PATIENT: [&str; 2] = ["--wait", "60"];

/// S0-78, S0-80: ten processes, two of which fall ill: one never answers, one ends at once. The others are usable, and
/// the tools of all ten are listed from what they told before, without starting any.
#[test]
fn s0_78_s0_80_sick_processes_hide_no_others() {
    let world = World::new("ten");
    let serving = Serving::start(&[]);
    let sick = world.scratch.file("sick");
    let mut text: String = (1..=6).map(|n| demo(&format!("demo-{n}"))).collect();
    text += &format!("[servers.http]\nurl = \"http://{}/mcp\"\n", serving.address);
    text += &format!("[servers.ws]\nurl = \"ws://{}/ws\"\n", serving.address);
    text += &shell(
        "mute",
        &format!("if [ -e {sick} ]; then while read -r line; do :; done; exit; fi; exec {CARDAN} demo"),
    );
    text += "start_timeout = \"2s\"\n";
    text +=
        &shell("dead", &format!("if [ -e {sick} ]; then echo no luck >&2; exit 3; fi; exec {CARDAN} demo"));
    world.put(&text);
    let cold = world.servers(&["--window", "0"], 4);
    assert_eq!((cold.len(), names(&cold, |server| server["tools"].is_null()).len()), (10, 10));
    assert!(!world.home.join(".cache").exists(), "nothing was started");

    let well = world.servers(&PATIENT, 0);
    assert_eq!(names(&well, |server| server["up"] == true && server["catalog"] == "told").len(), 10);
    assert_eq!(by_name(&well, "http")["transport"], "http");
    assert_eq!(
        (&by_name(&well, "demo-1")["era"], &by_name(&well, "demo-1")["restarts"]),
        (&"modern".into(), &0.into())
    );

    fs::write(sick, "").unwrap();
    let warm = world.servers(&["--window", "0"], 4);
    let listed = names(&warm, |server| {
        let tools = server["tools"].as_array().unwrap();
        server["catalog"] == "cached" && tools.iter().any(|tool| tool == "echo")
    });
    assert_eq!(listed.len(), 10, "{warm:#?}");
    assert!(warm.iter().all(|server| server["catalog_age_ms"].is_u64()));

    let ill = world.servers(&PATIENT, 4);
    assert_eq!(names(&ill, |server| server["up"] == false), ["mute", "dead"]);
    assert_eq!(
        names(&ill, |server| server["tools"].is_array()).len(),
        10,
        "what they offered is still known"
    );
    let cause = |name| by_name(&ill, name)["cause"].as_str().unwrap();
    assert!(cause("mute").contains("did not answer"), "{}", cause("mute"));
    assert!(
        cause("dead").contains("exit status: 3") && cause("dead").contains("no luck"),
        "{}",
        cause("dead")
    );
}

/// S0-80: the tools of ten servers are listed to a client on stdio from what was kept, though none of their processes ever says
/// a word: whoever asks does not wait for what is started. How long it takes in milliseconds is measured by
/// `cargo xtask bench fleet`; here it is a hundred times that, since machines are busy.
#[test]
fn s0_80_a_client_on_stdio_waits_for_no_process() {
    let world = World::new("warm");
    let slow = world.scratch.file("slow");
    let script = format!("if [ -e {slow} ]; then exec sleep 1000; fi; exec {CARDAN} demo");
    let names: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    world.put(&names.iter().map(|name| shell(name, &script)).collect::<String>());
    let well = world.servers(&PATIENT, 0);
    assert_eq!(well.len(), 10);
    fs::write(slow, "").unwrap();
    let begun = Instant::now();
    let mut serving = world.command(CARDAN);
    let mut child = serving.args(["serve", "--stdio", "--all"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut stdin = child.stdin.take().unwrap();
    let mut ask = |id: u32, method: &str, params: Value| {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{call}").unwrap();
        let of = |line: &String| serde_json::from_str::<Value>(line).unwrap()["id"] == id;
        let line = lines.find(of).expect("an answer");
        serde_json::from_str::<Value>(&line).unwrap()["result"].take()
    };
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "tests", "version": "0" } });
    assert!(ask(1, "initialize", client)["capabilities"]["tools"].is_object());
    let tools = ask(2, "tools/list", json!({}));
    let took = begun.elapsed();
    let has = |name: &String| {
        let echo = format!("{name}__echo");
        tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == echo.as_str())
    };
    assert!(names.iter().all(has), "{tools}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(stdin);
    finish(child).exits(0);
}

/// A run of `cardan servers --watch --json`.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(world: &World) -> Self {
        let mut child = world.start(&["servers", "--watch", "--json"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next event that fits; others are passed over.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("it goes on").unwrap();
            let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if fits(&event) {
                return event;
            }
        }
    }

    fn ready(&mut self, name: &str) -> Value {
        self.until(|event| event["event"] == "state" && event["name"] == name && event["to"] == "ready")
    }

    /// Waits until each of these has come to be so, in any order.
    fn all(&mut self, names: &[&str], so: &str) {
        let mut left = names.to_vec();
        while !left.is_empty() {
            let event = self.until(|event| event["event"] == "state");
            if event["to"].as_str().is_some_and(|to| to.starts_with(so)) {
                left.retain(|name| event["name"] != *name);
            }
        }
    }

    /// Ctrl-C, and its end.
    fn end(mut self) -> Ran {
        signal(&self.child, "INT");
        // Whoever goes on writing is read to the end.
        let told = self.lines.by_ref().count();
        let ran = finish(self.child);
        assert!(told < 1000, "it ends");
        ran
    }
}

fn is_running(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
}

/// S0-44, S0-45, S0-74, S0-79: a process that is killed comes back as another one; Ctrl-C leaves none behind.
/// CLI-25, CLI-29.
#[test]
fn s0_74_a_killed_process_comes_back() {
    let world = World::new("killed");
    let started = Fifo::new(&world.scratch, "started");
    world.put(&shell("a", &format!("echo $$ > {}; exec {CARDAN} demo", started.path)));
    let mut watching = Watching::start(&world);
    let first = watching.until(|event| event["event"] == "servers");
    assert_eq!(first["servers"][0]["state"], "waiting");
    let pid = started.line();
    watching.ready("a");
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let gone = watching.until(|event| event["to"].as_str().is_some_and(|to| to.starts_with("reconnecting")));
    assert!(gone["server"]["cause"].as_str().unwrap().contains("signal: 9"), "{gone}");
    // S2-36: the event has its own cause, attempt and time, whatever the server has come to since.
    assert!(gone["cause"].as_str().unwrap().contains("signal: 9"), "{gone}");
    assert_eq!(gone["attempt"], 0, "{gone}");
    let next = started.line();
    assert_ne!(next, pid, "a new link is a new process");
    let ready = watching.ready("a");
    assert_eq!((&ready["attempt"], &ready["cause"]), (&1.into(), &Value::Null), "{ready}");
    assert!(ready["at_ms"].as_u64() > gone["at_ms"].as_u64(), "{gone} {ready}");
    assert_eq!((&ready["server"]["restarts"], &ready["server"]["up"]), (&1.into(), &true.into()));
    watching.end().exits(0);
    assert!(!is_running(&pid) && !is_running(&next));
}

/// CLI-25: a server that is gone is looked for until it is back, whichever way leads to it.
#[test]
fn cli_25_a_lost_link_is_made_anew_by_every_transport() {
    let world = World::new("transports");
    let socket = world.scratch.file("socket");
    let serve = |words: &[&str]| {
        let mut command = world.command(CARDAN);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = told.find_map(|line| {
            let at = line
                .split_whitespace()
                .find(|word| word.contains("127.0.0.1:") || word.contains("unix://"))?;
            Some(at.split_once("://").map_or(at, |(_, rest)| rest).split('/').next().unwrap().to_owned())
        });
        std::thread::spawn(move || told.count());
        (child, address.expect("an address"))
    };
    let ways = [vec!["serve", "--listen"], vec!["demo", "--tcp"], vec!["demo", "--unix"]];
    let places = ["127.0.0.1:0", "127.0.0.1:0", &socket];
    let start = |places: [&str; 3]| {
        let each = ways.iter().zip(places).map(|(words, place)| serve(&[&words[..], &[place]].concat()));
        each.collect::<Vec<_>>()
    };
    let mut running = start(places);
    let (http, tcp) = (running[0].1.clone(), running[1].1.clone());
    let soon = "reconnect = { wait_min = \"10ms\", wait_max = \"100ms\" }\n";
    let at = |name: &str, url: &str| format!("[servers.{name}]\nurl = \"{url}\"\n{soon}");
    world.put(
        &[
            at("http", &format!("http://{http}/mcp")),
            at("sse", &format!("http://{http}/sse")).replace("url", "type = \"sse\"\nurl"),
            at("ws", &format!("ws://{http}/ws")),
            at("tcp", &format!("tcp://{tcp}")),
            at("unix", &format!("unix://{socket}")),
        ]
        .concat(),
    );
    let names = ["http", "sse", "ws", "tcp", "unix"];
    let mut watching = Watching::start(&world);
    watching.all(&names, "ready");
    for (child, _) in &mut running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    watching.all(&names, "reconnecting");
    let mut running = start([&http, &tcp, &socket]);
    watching.all(&names, "ready");
    watching.end().exits(0);
    for (child, _) in &mut running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// S0-79: the file changes while it is watched: a broken one is refused, a good one touches only what it changes.
/// CLI-36.
#[test]
fn s0_79_the_file_is_followed() {
    let world = World::new("followed");
    let started = Fifo::new(&world.scratch, "started");
    let server = |name: &str, more: &str| {
        shell(name, &format!("echo {name}{more} > {}; exec {CARDAN} demo", started.path))
    };
    world.put(&(server("same", "") + &server("other", "") + &server("gone", "")));
    let mut watching = Watching::start(&world);
    let mut came: Vec<String> = (0..3).map(|_| started.line()).collect();
    came.sort();
    assert_eq!(came, ["gone", "other", "same"]);
    world.put(&(server("same", "") + "[servers.oth"));
    let refused = watching.until(|event| event["event"] == "configuration");
    assert_eq!(refused["outcome"], "refused");
    assert!(refused["problems"][0].as_str().unwrap().contains("cardan.toml:4"), "{refused}");
    world.put(&(server("new", "") + &server("same", "") + &server("other", " anew")));
    let taken = watching.until(|event| event["event"] == "configuration");
    let outcome = ["outcome", "added", "removed", "restarted", "kept"].map(|key| taken[key].to_string());
    assert_eq!(outcome, ["\"taken\"", "[\"new\"]", "[\"gone\"]", "[\"other\"]", "[\"same\"]"]);
    let mut came: Vec<String> = (0..2).map(|_| started.line()).collect();
    came.sort();
    assert_eq!(came, ["new", "other anew"]);
    watching.end().exits(0);
}

/// SIGHUP reads the configuration again at once, and is answered even where it says what it said.
#[test]
fn a_hangup_reads_the_configuration_again() {
    let world = World::new("hangup");
    world.put(&demo("a"));
    let mut watching = Watching::start(&world);
    watching.ready("a");
    signal(&watching.child, "HUP");
    let taken = watching.until(|event| event["event"] == "configuration");
    assert_eq!((taken["outcome"].as_str(), taken["kept"].to_string().as_str()), (Some("taken"), "[\"a\"]"));
    watching.end().exits(0);
}

#[test]
fn changes_are_lines_where_there_is_no_terminal() {
    let world = World::new("lines");
    world.put(&demo("a"));
    let mut child = world.start(&["servers", "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("SERVER  TRANSPORT  PROTOCOL"));
    assert!(lines.next().unwrap().starts_with("a       stdio      -         waiting"));
    assert!(lines.any(|line| line == "a: ready"));
    world.put("[servers.a");
    let refused = lines.find(|line| line.starts_with("configuration: ")).unwrap();
    assert!(refused.starts_with("configuration: refused, the old one stays in force: "), "{refused}");
    // Nobody reads any more, so the next change ends it.
    drop(lines);
    world.put(&(demo("a") + &demo("b")));
    finish(child).exits(0);
}

/// It is drawn anew in its place, and what explains a server fits below it.
#[test]
fn a_terminal_shows_one_table_that_fits() {
    let world = World::new("terminal");
    world.put(&(demo("fine") + &shell("dead", "echo this is a long story that does not fit >&2; exit 3")));
    let config = world.home.join("project/cardan.toml");
    let mut pty = Pty::new(60).env("HOME", world.home.to_str().unwrap());
    for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
        pty = pty.env(name, world.home.to_str().unwrap());
    }
    let mut seat = pty.start(&["servers", "--watch", "--config", config.to_str().unwrap()]);
    seat.sees("ready").sees("exit status: 3").types(CTRL_C);
    let shown = seat.end().exits(0);
    let left = shown.left();
    assert_eq!(left.matches("SERVER").count(), 1, "{left}");
    assert!(left.contains("exit status: 3") && left.contains("ready"), "{left}");
    assert!(left.lines().all(|line| line.chars().count() <= 60), "{left}");
}

/// A command whose terminal is closed as soon as it has shown a text.
const CLOSED: &str = r#"
import os, pty, sys
until, command = sys.argv[1].encode(), sys.argv[2:]
pid, screen = pty.fork()
if pid == 0:
    os.execv(command[0], command)
seen = b""
while until not in seen:
    seen += os.read(screen, 65536)
os.close(screen)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// A terminal that is gone is no wish to read anything again: whoever looked is gone, and so are we and our servers.
#[test]
fn a_closed_terminal_ends_it() {
    if !has_python() {
        return;
    }
    let world = World::new("closed");
    let started = Fifo::new(&world.scratch, "started");
    world.put(&shell("a", &format!("echo $$ > {}; exec {CARDAN} demo", started.path)));
    for more in [&[][..], &["--json"]] {
        let mut command = world.command("python3");
        command.args(["-c", CLOSED, "ready", CARDAN, "servers", "--watch"]).args(more);
        let child = command.spawn().unwrap();
        let pid = started.line();
        let ran = finish(child).exits(0);
        assert_eq!(ran.stdout, "0\n", "{more:?}");
        assert!(!is_running(&pid), "{more:?}");
    }
}

#[test]
fn the_table_says_what_is_wrong_and_no_secret() {
    let world = World::new("table");
    world.run(&["servers"]).exits(1).tells(&[
        "no server is configured",
        "cardan config add NAME URL",
        "cardan config import",
    ]);
    world.put("[servers.off]\ncommand = 'x'\nenabled = false\n");
    world.run(&["servers"]).exits(1).tells(&["no configured server is enabled"]);
    world.put("[servers.a");
    world.run(&["servers"]).exits(1).tells(&["cardan.toml:1:"]);
    let unset = "[servers.unset]\nurl = 'https://example.com/mcp'\nbearer_env = 'CARDAN_TEST_UNSET'\n";
    let leak = shell("leak", "echo the key is $KEY >&2; exit 4") + "env = { KEY = '${WEATHER_KEY}' }\n";
    let asleep = demo("asleep") + "lazy = true\n";
    let wrong = "[servers.wrong]\nnothing = 1\n";
    world.put(&(demo("fine") + unset + &leak + &asleep + wrong));
    let ran = world
        .run(&["servers", "--wait", "60"])
        .exits(4)
        .tells(&["not all up: 3 of 5 servers are not up: unset, leak, wrong", "next: "]);
    let row = |name: &str| ran.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("fine").contains("modern 2026-07-28  ready") && row("fine").ends_with("told"), "{ran:#?}");
    assert!(row("unset").contains("misconfigured") && row("unset").contains("CARDAN_TEST_UNSET is not set"));
    assert!(row("leak").contains("exit status: 4"));
    assert!(row("asleep").contains("asleep"));
    assert!(row("wrong").contains("misconfigured") && row("wrong").contains("cardan.toml:"));
    world.run(&["servers", "--wait", "1", "--window", "1"]).exits(1).tells(&["cannot be used with"]);
    world.put(&asleep);
    world.run(&["servers"]).exits(0);
}

/// Every command takes the name of a configured server.
#[test]
fn a_name_is_a_server() {
    let world = World::new("named");
    let serving = Serving::start(&[]);
    world.put(&(demo("files") + &format!("[servers.web]\nurl = 'http://{}/mcp'\n", serving.address)));
    for name in ["files", "web"] {
        world.run(&["call", name, "add", "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
        assert!(world.run(&["list", name, "tools"]).exits(0).stdout.contains("echo message=<string>"));
        world.run(&["read", name, "demo://clock"]).exits(0);
        world.run(&["prompt", name, "greet", "name=Ada"]).exits(0);
        assert_eq!(world.run(&["info", name, "--json", "--era", "legacy"]).exits(0).json()["era"], "legacy");
    }
    world.run(&["info", "fils"]).exits(1).tells(&["no server named `fils`", "did you mean `files`?"]);
    world.run(&["info", "web", "--header", "a: b"]).exits(1).tells(&["cardan config explain web"]);
    let other = world.scratch.file("other.toml");
    fs::write(&other, demo("loud") + "enabled = false\n").unwrap();
    world.run(&["info", "loud", "--config", &other]).exits(0);
    world.run(&["info", "files", "--config", &other]).exits(1).tells(&["there are: loud"]);
    let ended = shell("ended", "echo the key is $KEY >&2; exit 5") + "env = { KEY = '${WEATHER_KEY}' }\n";
    fs::write(&other, ended).unwrap();
    let told = ["exit status: 5", "| the key is [redacted]"];
    world.run(&["info", "ended", "--config", &other]).exits(13).tells(&told);
    world
        .run(&["info", "ended", "-v", "--config", &other])
        .exits(13)
        .tells(&["server: the key is [redacted]"]);
    fs::write(&other, "[servers.none]\ncommand = 'cardan-test-none'\n").unwrap();
    let told = ["cannot start `cardan-test-none`", "cardan config explain none"];
    world.run(&["info", "none", "--config", &other]).exits(4).tells(&told);
    fs::write(&other, "[servers.unset]\nurl = 'https://x/${CARDAN_TEST_UNSET}'\n").unwrap();
    world.run(&["info", "unset", "--config", &other]).exits(1).tells(&["CARDAN_TEST_UNSET is not set"]);
}

/// S0-78: servers that nobody here wrote, by several transports, in one fleet; one that is mute and one that ends at once hide none
/// of them.
#[test]
fn s0_78_foreign_servers_are_one_fleet() {
    let everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let (Some(node), Some(python)) = (peer("node-everything", everything), peer("python-v1", "server.py"))
    else {
        return;
    };
    let script = node.get_args().next().unwrap().to_str().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new("node")
        .args([script, "streamableHttp"])
        .env("PORT", free.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line.contains(&free.to_string())).expect("it says where it listens");
    // What it says later must not fill the pipe.
    let rest = std::thread::spawn(move || lines.count());
    let world = World::new("foreign");
    let (program, file) = (python.get_program().display(), python.get_args().next().unwrap().display());
    let foreign = format!(
        "[servers.child]\ncommand = 'node'\nargs = ['{script}', 'stdio']\n\
         [servers.http]\nurl = 'http://127.0.0.1:{free}/mcp'\n\
         [servers.python]\ncommand = '{program}'\nargs = ['{file}']\n"
    );
    let sick = shell("mute", "while read -r line; do :; done") + "start_timeout = \"1s\"\n";
    world.put(&(sick + &shell("dead", "exit 3") + &foreign + &demo("ours")));
    let servers = world.servers(&PATIENT, 4);
    assert_eq!(names(&servers, |server| server["up"] == false), ["mute", "dead"]);
    let servers = &servers[2..];
    let eras: Vec<&Value> = servers.iter().map(|server| &server["era"]).collect();
    assert_eq!(eras, ["legacy", "legacy", "legacy", "modern"]);
    for server in servers {
        assert!(server["tools"].as_array().unwrap().iter().any(|tool| tool == "echo"), "{server}");
    }
    for name in ["child", "http", "python", "ours"] {
        let ran = world.run(&["call", name, "echo", "message=joint"]).exits(0);
        assert!(ran.stdout.contains("joint"), "{name}: {ran:#?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    rest.join().unwrap();
}
