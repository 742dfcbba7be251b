//! `cardan daemon`: servers that run on between commands, as a user drives it, with real processes on every side.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod life;
mod unsound;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use common::{CARDAN, Fifo, ODD, Ran, Scratch, finish, has_python, signal, signal_pid};
use serde_json::Value;

/// A user with a configuration, a home and a folder for sockets. Daemons end with it.
struct World(Scratch);

impl World {
    fn new(name: &str, config: &str) -> Self {
        let world = Self(Scratch::new(&format!("warm-{name}")));
        for folder in ["home", "run"] {
            fs::create_dir(world.0.file(folder)).unwrap();
            fs::set_permissions(world.0.file(folder), fs::Permissions::from_mode(0o700)).unwrap();
        }
        world.put(config);
        world
    }

    /// Writes the configuration at once, as `cardan config` does.
    fn put(&self, config: &str) {
        let draft = self.0.file("draft");
        fs::write(&draft, config).unwrap();
        fs::rename(draft, self.0.file("cardan.toml")).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CARDAN);
        self.dress(&mut command).args(words);
        command
    }

    /// Runs it as this user.
    fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.0.file(""))
            .env("HOME", self.0.file("home"))
            .env("XDG_RUNTIME_DIR", self.0.file("run"))
            .env("CARDAN_CONFIG", self.0.file("cardan.toml"))
            .env_remove("CARDAN_DAEMON")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
    }

    fn spawn(&self, words: &[&str]) -> Child {
        start(self.command(words))
    }

    fn run(&self, words: &[&str]) -> Ran {
        finish(self.spawn(words))
    }

    /// The daemons that run.
    fn daemons(&self) -> Vec<Value> {
        let told = self.run(&["daemon", "status", "--json"]).json();
        told["daemons"].as_array().unwrap().clone()
    }

    /// The process of the only daemon.
    fn pid(&self) -> u32 {
        let daemons = self.daemons();
        assert_eq!(daemons.len(), 1, "{daemons:#?}");
        daemons[0]["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// What all daemons have told so far.
    fn log(&self) -> String {
        let folder = self.0.file("home/.local/state/cardan");
        let logs =
            fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        logs.collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.run(&["daemon", "stop", "--all"]);
    }
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn demo(name: &str, era: &str) -> String {
    format!("[servers.{name}]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\nera = \"{era}\"\n")
}

fn odd(manner: &str, log: &str) -> String {
    format!("[servers.{manner}]\ncommand = \"python3\"\nargs = ['{ODD}', '{manner}', '{log}']\n")
}

/// A demo server that leaves the number of its process in a file, a line for each.
fn marked(file: &str) -> String {
    format!(
        "[servers.demo]\ncommand = \"sh\"\nargs = [\"-c\", \"echo $$ >> '{file}'; exec '{CARDAN}' demo\"]\nera = \"modern\"\n"
    )
}

/// CLI-31: what a command does, prints and exits with is the same whether the server runs already or not.
#[test]
fn a_warm_server_is_as_good_as_a_cold_one() {
    let mut config = demo("modern", "modern") + &demo("legacy", "legacy");
    config += "[servers.sick]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no luck >&2; exit 3\"]\n";
    config +=
        "[servers.wrong]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { X = \"${NO_SUCH_VARIABLE_HERE}\" }\n";
    let world = World::new("same", &config);
    let both = |words: &[&str]| {
        let cold = world.run(&[words, &["--no-daemon"]].concat());
        let warm = world.run(&[words, &["--daemon"]].concat());
        assert_eq!(
            (cold.code, &cold.stdout, &cold.stderr),
            (warm.code, &warm.stdout, &warm.stderr),
            "{words:?}"
        );
        cold
    };
    for server in ["modern", "legacy"] {
        for (words, code) in [
            (&["list", server][..], 0),
            (&["list", server, "tools", "--json"], 0),
            (&["call", server, "add", "a=2", "b=3"], 0),
            (&["call", server, "add", "a=2", "--json"], 1),
            (&["call", server, "nope"], 5),
            (&["call", server, "fail", "message=no"], 5),
            (&["call", server, "ask", "question=who?", "--answer", "answer=Ada"], 0),
            (&["call", server, "ask", "question=who?"], 14),
            (&["call", server, "roots", "--root", "/usr"], 0),
            (&["call", server, "slow", "steps=3", "delay_ms=1"], 0),
            (&["call", server, "note", "level=warning", "message=hi"], 0),
            (&["call", server, "note", "level=debug", "message=hi", "--log-level", "debug"], 0),
            (&["read", server, "demo://file/poem", "--json"], 0),
            (&["read", server, "demo://nope"], 5),
            (&["prompt", server, "greet", "name=Ada"], 0),
            (&["complete", server, "greet", "name=A"], 0),
            (&["call", server, "echo", "message=hi", "--timeout", "1e19"], 0),
        ] {
            both(words).exits(code);
        }
        let late = |how| {
            let slow =
                ["call", server, "slow", "steps=1000", "delay_ms=1000", "--timeout", "0.3", "--json", how];
            let mut told: Value = serde_json::from_str(&world.run(&slow).exits(12).stderr).unwrap();
            // What it says to being cancelled comes before the end of a cold one, and when it likes from a warm one.
            told["error"].as_object_mut().unwrap().remove("stderr");
            told
        };
        assert_eq!(late("--daemon"), late("--no-daemon"));
        let info = |how| {
            let mut told = world.run(&["info", server, "--json", how]).exits(0).json();
            told["timings"] = Value::Null;
            told
        };
        assert_eq!(info("--daemon"), info("--no-daemon"));
        world.run(&["ping", server, "--count", "2", "--daemon"]).exits(0);
    }
    both(&["call", "sick", "x"]).exits(13).tells(&["| no luck"]);
    both(&["call", "wrong", "x"]).exits(1).tells(&["NO_SUCH_VARIABLE_HERE"]);
    both(&["call", "absent", "x"]).exits(1);
    world.pid();
}

/// CLI-31: faults, foreign content and the last words of a server that dies come through as they are.
#[test]
fn what_goes_wrong_is_told_as_it_would_be_without() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-odd");
    let manners = ["fault", "die", "extra", "shape"];
    let config: String = manners.iter().map(|manner| odd(manner, &scratch.file(manner))).collect();
    let world = World::new("wrong", &config);
    for (manner, code) in [("fault", 10), ("die", 13), ("extra", 0), ("shape", 11)] {
        for form in [&[][..], &["--json"]] {
            let run = |how| world.run(&[&["call", manner, "odd", how], form].concat()).exits(code);
            let (cold, warm) = (run("--no-daemon"), run("--daemon"));
            assert_eq!((&cold.stdout, told(&cold)), (&warm.stdout, told(&warm)), "{manner}");
            assert_eq!(
                cold.stderr.contains("result-shape"),
                warm.stderr.contains("result-shape"),
                "{manner}"
            );
        }
    }
    world.run(&["call", "die", "odd", "--daemon"]).exits(13).tells(&["exit status: 7", "| about to die"]);
}

/// What is told but for findings: frames have other numbers at a session that is kept.
fn told(ran: &Ran) -> String {
    match serde_json::from_str::<Value>(&ran.stderr) {
        Ok(mut told) => {
            told["error"]["findings"].take();
            told.to_string()
        }
        Err(_) => {
            ran.stderr.lines().filter(|line| !line.contains(" finding: ")).collect::<Vec<_>>().join("\n")
        }
    }
}

/// CLI-28: what a warm server says on stderr goes with failures, too.
#[test]
fn cli_28_a_warm_servers_last_words_are_told() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-words");
    let log = scratch.file("log");
    let world = World::new("words", &(odd("fails", &log) + &odd("complains", &log)));
    for (manner, exit) in [("fails", 5), ("complains", 10)] {
        let run = |how| world.run(&["call", manner, "odd", "--json", how]).exits(exit);
        assert_eq!(run("--no-daemon").stderr, run("--daemon").stderr);
        world.run(&["call", manner, "odd", "--daemon"]).exits(exit).tells(&["| the disk is full\n"]);
    }
    world.pid();
}

/// CLI-31: one process serves one command after another; without the daemon each has its own.
#[test]
fn a_server_runs_on_between_commands() {
    let world = World::new("runs-on", &(demo("modern", "modern") + &demo("legacy", "legacy")));
    for server in ["modern", "legacy"] {
        let count = |how: &str| world.run(&["call", server, "count", how]).exits(0).stdout;
        let first = count("--daemon");
        assert_ne!(first, count("--daemon"), "{server}");
        assert_eq!(count("--no-daemon"), count("--no-daemon"), "{server}");
    }
    let said = world.run(&["daemon", "status"]).exits(0).stdout;
    assert!(said.contains("modern: ready"), "{said}");
    world.run(&["daemon", "stop"]).exits(0).tells(&["the daemon has ended"]);
    world.run(&["daemon", "status"]).exits(4).prints("").tells(&["--daemon starts one"]);
    world.run(&["daemon", "stop"]).exits(0).tells(&["no daemon runs"]);
}

/// Stands before a daemon and notes every line that a command sends there.
fn overheard(socket: &str) -> mpsc::Receiver<String> {
    let real = format!("{socket}.real");
    fs::rename(socket, &real).unwrap();
    let door = UnixListener::bind(socket).unwrap();
    let (note, noted) = mpsc::channel();
    thread::spawn(move || {
        for command in door.incoming() {
            let command = command.unwrap();
            let daemon = UnixStream::connect(&real).unwrap();
            let (mut back, mut to) = (daemon.try_clone().unwrap(), command.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            let (mut daemon, note) = (daemon, note.clone());
            thread::spawn(move || {
                for line in BufReader::new(command).lines().map_while(Result::ok) {
                    let _ = note.send(line.clone());
                    if daemon.write_all(format!("{line}\n").as_bytes()).is_err() {
                        return;
                    }
                }
                let _ = daemon.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    noted
}

/// CLI-31: a call through the daemon is two questions: for the server and for the result; in the legacy era one more opens
/// the session. What the server and the tool are like comes with the first, whatever pages it is listed on.
#[test]
fn cli_31_a_warm_call_asks_twice() {
    let world = World::new("rounds", &(demo("modern", "modern") + &demo("legacy", "legacy")));
    let call = |server: &str| {
        let words = ["call", server, "visit", "url=https://example.com", "--accept-urls", "--daemon"];
        world.run(&words).exits(0).stdout
    };
    for server in ["modern", "legacy"] {
        call(server);
        // Its lists are known when the daemon says so.
        let ready = || {
            world.daemons()[0]["servers"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["name"] == server && row["catalog"] == "told")
        };
        while !ready() {
            thread::yield_now();
        }
    }
    let noted = overheard(world.daemons()[0]["socket"].as_str().unwrap());
    let methods = |server: &str| {
        call(server);
        let said: Vec<Value> = noted.try_iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        let word =
            |said: &Value| said["want"].as_str().or_else(|| said["method"].as_str()).map(str::to_owned);
        said.iter().filter_map(word).collect::<Vec<_>>()
    };
    assert_eq!(methods("modern"), ["serve", "tools/call", "tools/call"], "it asks, so it is called twice");
    assert_eq!(methods("legacy"), ["serve", "initialize", "notifications/initialized", "tools/call"]);
    // What does not fit is looked up: it may by now.
    world.run(&["call", "modern", "add", "a=2", "--daemon"]).exits(1).tells(&["/arguments/b"]);
    assert!(noted.try_iter().any(|line| line.contains("tools/list")));
}

/// CLI-31: one process is a server for all commands, of either era, from the first call on.
#[test]
fn cli_31_a_warm_server_is_one_process() {
    for era in ["legacy", "modern"] {
        let scratch = Scratch::new(&format!("warm-one-{era}"));
        let pids = scratch.file("pids");
        let world = World::new(&format!("one-{era}"), &marked(&pids).replace("modern", era));
        for words in [
            &["call", "demo", "count"][..],
            &["call", "demo", "ask", "question=who?", "--answer", "answer=Ada"],
            &["call", "demo", "note", "level=warning", "message=hi", "--log-level", "debug"],
            &["list", "demo"],
            &["read", "demo", "demo://clock"],
            &["call", "demo", "count"],
        ] {
            world.run(&[words, &["--daemon"]].concat()).exits(0);
            assert_eq!(fs::read_to_string(&pids).unwrap().lines().count(), 1, "{era}: {words:?}");
        }
    }
}

/// CLI-31: the variable and the user's configuration say what is usual, and the command line has the last word.
#[test]
fn the_daemon_can_be_usual() {
    let world = World::new("usual", &demo("demo", "modern"));
    let counts = |variable: Option<&str>, how: &[&str]| {
        let mut command = world.command(&[&["call", "demo", "count"], how].concat());
        command.envs(variable.map(|value| ("CARDAN_DAEMON", value)));
        finish(start(command)).exits(0).stdout
    };
    let cold = counts(None, &[]);
    assert!(world.daemons().is_empty());
    counts(Some("1"), &[]);
    assert_ne!(counts(Some("1"), &[]), cold);
    assert_eq!(counts(Some("0"), &[]), cold);
    assert_eq!(counts(Some("1"), &["--no-daemon"]), cold);
    world.put(&("daemon = true\n".to_owned() + &demo("demo", "modern")));
    assert_ne!(counts(None, &[]), cold);
    assert_eq!(counts(Some("0"), &[]), cold);
    world.put(&("daemon = \"yes\"\n".to_owned() + &demo("demo", "modern")));
    world.run(&["config", "list"]).tells(&["`daemon`: this is not true or false"]);
    // What concerns the session with the server itself is done without it, and it is told.
    let direct = world.run(&["call", "demo", "count", "--daemon", "--era", "modern"]).exits(0);
    direct.prints(&cold).tells(&["not through the daemon: --era"]);
    for how in ["--trace", "--dry-run"] {
        let told = world.run(&["call", "demo", "count", "--daemon", how]).exits(0);
        told.tells(&[&format!("not through the daemon: {how}")]);
    }
    let raw = world.run(&["raw", "demo", "tools/list", "--daemon"]).exits(0);
    raw.tells(&["not through the daemon: this command"]);
    let given = world.run(&["call", "count", "--daemon", "--", CARDAN, "demo"]).exits(0);
    given.prints(&cold).tells(&["not through the daemon: only configured servers"]);
}

/// CLI-13: Ctrl-C reaches the server as a cancel, and the daemon lives on.
#[test]
fn an_interrupt_cancels_on_the_wire() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-interrupt-log");
    let log = Fifo::new(&scratch, "log");
    let world = World::new("interrupt", &odd("hang", &log.path));
    let child = world.spawn(&["call", "hang", "odd", "--daemon"]);
    let call = log.message("tools/call");
    signal(&child, "INT");
    finish(child).exits(130).prints("").tells(&["interrupted"]);
    let cancel = log.message("notifications/cancelled");
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    world.pid();
}

/// CLI-32: a warm server that died is started again by the next command.
#[test]
fn a_server_that_died_is_started_again() {
    let scratch = Scratch::new("warm-pids");
    let pids = scratch.file("pids");
    let world = World::new("again", &marked(&pids));
    let count = || world.run(&["call", "demo", "count", "--daemon"]).exits(0).stdout;
    let first = count();
    let daemon = world.pid();
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        signal_pid(pid.parse().unwrap(), "KILL");
    }
    assert_eq!(count(), first, "it counts anew");
    assert_eq!(world.pid(), daemon);
}

/// CLI-31: who asks whether a server lives waits no longer than they want to, warm or cold.
#[test]
fn a_warm_ping_ends_in_time() {
    if !has_python() {
        return;
    }
    let server = "import json, sys\nasked = 0\nfor line in sys.stdin:\n    message = json.loads(line)\n    \
        if message.get('method') == 'initialize':\n        result = {'protocolVersion': message['params']['protocolVersion'], 'capabilities': {}, \
        'serverInfo': {'name': 'mute', 'version': '1'}}\n        \
        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)\n";
    let scratch = Scratch::new("warm-mute");
    fs::write(scratch.file("mute.py"), server).unwrap();
    let config = format!(
        "[servers.mute]\ncommand = \"python3\"\nargs = ['{}']\nera = \"legacy\"\n",
        scratch.file("mute.py")
    );
    let world = World::new("ping", &config);
    for how in ["--no-daemon", "--daemon"] {
        world.run(&["ping", "mute", "--timeout", "3", how]).exits(12).tells(&["--timeout"]);
    }
}

/// CLI-31: nobody but its user gets to a daemon, and a folder that others can enter is not used.
#[test]
fn only_its_user_gets_in() {
    let world = World::new("private", &demo("demo", "modern"));
    world.run(&["call", "demo", "count", "--daemon"]).exits(0);
    let mode = |path: &str| fs::symlink_metadata(path).unwrap().mode() & 0o777;
    let folder = world.0.file("run/cardan");
    assert_eq!(mode(&folder), 0o700);
    let socket = world.daemons()[0]["socket"].as_str().unwrap().to_owned();
    assert_eq!(mode(&socket), 0o600);
    let log = world.daemons()[0]["log"].as_str().unwrap().to_owned();
    assert_eq!(mode(&log), 0o600);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let told = world.run(&["call", "demo", "count", "--daemon"]).exits(0);
    told.tells(&["not through the daemon", "no folder that is yours alone"]);
    world.run(&["daemon"]).exits(1).tells(&["yours alone"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
}

/// CLI-36: a change of the configuration holds for the next command, and touches no other server.
#[test]
fn a_changed_configuration_holds_at_once() {
    let world = World::new("reload", &(demo("one", "modern") + &demo("two", "modern")));
    let run = |words: &[&str]| world.run(&[words, &["--daemon"]].concat());
    run(&["call", "one", "count"]).exits(0);
    let first = run(&["call", "two", "count"]).exits(0).stdout;
    let daemon = world.pid();
    world.put(&(demo("one", "legacy") + &demo("two", "modern") + &demo("three", "modern")));
    assert_eq!(run(&["info", "one", "--json"]).exits(0).json()["era"], "legacy");
    assert_ne!(run(&["call", "two", "count"]).exits(0).stdout, first, "it was left alone");
    run(&["call", "three", "count"]).exits(0);
    assert_eq!(world.pid(), daemon);
    world.put(&demo("two", "modern"));
    run(&["call", "one", "count"]).exits(1).tells(&["no server named `one`"]);
}

/// CLI-31: a server is never reached with somebody else's variables, and none of them is told anywhere.
#[test]
fn variables_of_another_shell_are_not_used() {
    let secret = "sk-0123456789abcdef0123456789abcdef";
    let config = demo("demo", "modern") + "env = { API_TOKEN = \"${TOKEN_HERE}\" }\n";
    let world = World::new("variables", &config);
    let run = |token: &str| {
        let mut command = world.command(&["call", "demo", "count", "--daemon"]);
        command.env("TOKEN_HERE", token);
        finish(start(command)).exits(0)
    };
    let first = run(secret);
    assert_ne!(run(secret).stdout, first.stdout);
    run("another").prints(&first.stdout).tells(&["not through the daemon", "with these variables"]);
    let said = world.daemons();
    assert!(!format!("{said:?}{}", world.log()).contains(secret));
}

/// T24: what came with a project is not run before it is trusted, by a daemon neither.
#[test]
fn a_project_is_trusted_first() {
    let world = World::new("trust", "");
    let project = world.0.file("project");
    fs::create_dir_all(format!("{project}/.git")).unwrap();
    let mark = world.0.file("mark");
    fs::write(
        format!("{project}/cardan.toml"),
        format!("daemon = true\n[servers.here]\ncommand = \"sh\"\nargs = [\"-c\", \"echo x > '{mark}'; exec '{CARDAN}' demo\"]\n"),
    )
    .unwrap();
    let run = |words: &[&str]| {
        let mut command = world.command(words);
        command.current_dir(&project).env_remove("CARDAN_CONFIG");
        finish(start(command))
    };
    run(&["call", "here", "count", "--daemon"]).exits(1).tells(&["cardan config trust"]);
    assert!(world.daemons().is_empty() && !Path::new(&mark).exists());
    run(&["config", "trust", "here"]).exits(0);
    // What such a file says of the daemon counts for nothing.
    run(&["call", "here", "count"]).exits(0);
    assert!(world.daemons().is_empty());
    run(&["call", "here", "count", "--daemon"]).exits(0);
    assert_eq!(world.daemons().len(), 1);
}

/// docs/daemon.md: every line that it says to write does what it says.
#[test]
fn every_line_of_the_page_works() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/daemon.md");
    let page = fs::read_to_string(page).unwrap();
    let lines: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("cardan ")).collect();
    assert_eq!(lines.len(), 4, "the page has changed");
    let world = World::new("page", &demo("demo", "modern"));
    for line in lines {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
        let ran = world.run(&words).exits(0);
        match words[0] {
            "call" => drop(ran.prints("{\"sum\":5}\n")),
            _ if words == ["daemon", "stop"] => assert_eq!(ran.stderr, "the daemon has ended\n"),
            _ => assert_eq!(ran.stderr, ""),
        }
    }
    assert!(world.daemons().is_empty());
}
