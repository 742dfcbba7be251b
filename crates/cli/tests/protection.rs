//! What protects a gateway and a bridge, as a user drives them: keys, policy and approved tools.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::pty::Pty;
use common::{CARDAN, Ran, Scratch, finish};
use serde_json::Value;

struct World(Scratch);

impl World {
    fn new(name: &str, config: &str) -> Self {
        let world = Self(Scratch::new(&format!("protection-{name}")));
        let demo = format!("[servers.demo]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n");
        fs::write(world.config(), [&demo, config].concat()).unwrap();
        world
    }

    fn config(&self) -> String {
        self.0.file("cardan.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CARDAN);
        let home = self.0.file("home");
        command.args(words).env("HOME", home).stdin(Stdio::null());
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        finish(self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Runs with a token in a variable.
    fn run_as(&self, token: &str, words: &[&str]) -> Ran {
        let mut command = self.command(&[words, &["--bearer-env", "TOKEN"]].concat());
        finish(command.env("TOKEN", token).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The file of the one server of which something is remembered.
    fn pins(&self) -> PathBuf {
        let dir = self.0.file("home/.config/cardan/pins");
        let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        files.find(|file| file.extension().is_some_and(|end| end == "json")).unwrap()
    }

    fn pinned(&self) -> Value {
        serde_json::from_slice(&fs::read(self.pins()).unwrap()).unwrap()
    }

    /// Something else was seen of a tool.
    fn repin(&self, tool: &str, when: &str, description: &str) {
        let mut kept = self.pinned();
        kept["tools"][tool][when]["told"]["description"] = description.into();
        fs::write(self.pins(), kept.to_string()).unwrap();
    }

    fn serve(&self, listen: &str) -> Gateway {
        let words = ["serve", "--listen", listen, "--allow-host", "127.0.0.1", "--config", &self.config()];
        Gateway::of(self.command(&words))
    }

    /// A bridge before the demo server, with a token in a variable.
    fn bridge(&self, listen: &str, words: &[&str]) -> Gateway {
        let before = ["bridge", "--listen", listen, "--allow-host", "127.0.0.1"];
        let mut command = self.command(&[&before, words, &["--", CARDAN, "demo"]].concat());
        command.env("KEY", "a token of some length");
        Gateway::of(command)
    }
}

struct Gateway {
    url: String,
    greeting: String,
    child: Child,
}

impl Gateway {
    fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut greeting = String::new();
        while !greeting.ends_with("end with Ctrl-C\n") {
            assert_ne!(told.read_line(&mut greeting).unwrap(), 0, "it ended: {greeting}");
        }
        let port = greeting.split_once("http://").unwrap().1.split('/').next().unwrap();
        let port = port.rsplit(':').next().unwrap().to_owned();
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Self { url: format!("http://127.0.0.1:{port}/mcp"), greeting, child }
    }

    /// The token that was made for it.
    fn token(&self) -> Option<String> {
        let token = self.greeting.lines().find_map(|line| line.trim().strip_prefix("cardan_"));
        token.map(|token| format!("cardan_{token}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// T15: a file of the user's that cannot be read stops the start, whatever other files have: it may say who is let in.
#[test]
fn t15_what_cannot_be_read_lets_nobody_in() {
    let world = World::new("unread", "");
    let user = world.0.file("home/.config/cardan/cardan.toml");
    fs::create_dir_all(std::path::Path::new(&user).parent().unwrap()).unwrap();
    fs::write(&user, "[policy.'*']\ntools = { deny = ['*'] }\n[[gateway.keys\n").unwrap();
    fs::create_dir_all(world.0.file(".git")).unwrap();
    let mut command = world.command(&["serve", "--all", "--stdio"]);
    command.current_dir(world.0.file("")).env_remove("XDG_CONFIG_HOME").env_remove("CARDAN_CONFIG");
    let ran = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    ran.exits(1).tells(&["cardan.toml:3:", "keys and policy must be known"]);
}

/// INT-5, T16: only a token makes anybody somebody. A header that names a principal does not, nor does a hash.
#[test]
fn int_5_only_tokens_open_the_gateway() {
    let world = World::new("keys", "");
    let made = world.run(&["key", "ada"]).exits(0);
    let token = made.stdout.trim().to_owned();
    let line = made.stderr.split_once("[[gateway.keys]]").unwrap().1.to_owned();
    assert!(line.contains("hash = \"sha256:") && !line.contains(&token), "{line}");
    let policy = "[policy.'*']\ntools = { allow = [] }\n[policy.ada]\ntools = { allow = ['demo__add'] }\n";
    let keys = format!("[[gateway.keys]]{line}\n[[gateway.keys]]\nname = 'bob'\nenv = 'BOB'\n{policy}");
    let world = World::new("keys-served", &keys);
    let gateway = world.serve("127.0.0.1:0");
    let url = gateway.url.as_str();

    let list = ["list", url, "tools", "--json"];
    world.run(&list).exits(3);
    world
        .run(&[&list[..], &["--header", "X-Principal: ada", "--header", "X-Forwarded-User: ada"]].concat())
        .exits(3);
    world.run_as("cardan_wrong", &list).exits(3);
    let hash = line.split('"').nth(3).unwrap();
    world.run_as(hash, &list).exits(3);

    let hers = world.run_as(&token, &list).exits(0).json();
    assert_eq!(hers["tools"].as_array().unwrap().len(), 1, "{hers}");
    world.run_as(&token, &["call", url, "demo__add", "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
    world.run_as(&token, &["call", url, "demo__echo", "message=x"]).exits(5);
}

/// T16: where others can come in, there is no way in without a token, and each start has its own.
#[test]
fn t16_beyond_loopback_a_token_is_made() {
    let world = World::new("beyond", "");
    let tokens = [(); 2].map(|()| {
        let gateway = world.serve("0.0.0.0:0");
        let token = gateway.token().unwrap();
        world.run(&["list", &gateway.url, "tools"]).exits(3);
        world.run_as(&token, &["list", &gateway.url, "tools"]).exits(0);
        token
    });
    assert_ne!(tokens[0], tokens[1]);
}

/// T16: so it is with the demo server, which anybody can make work for them.
#[test]
fn t16_the_demo_beyond_loopback_asks_for_a_token() {
    let world = World::new("demo", "");
    let words = ["serve", "--listen", "0.0.0.0:0", "--allow-host", "127.0.0.1"];
    let demo = Gateway::of(world.command(&words));
    world.run(&["list", &demo.url, "tools"]).exits(3);
    world.run_as("cardan_wrong-and-long-enough", &["list", &demo.url, "tools"]).exits(3);
    world.run_as(&demo.token().unwrap(), &["list", &demo.url, "tools"]).exits(0);
    let free = Gateway::of(world.command(&["serve", "--listen", "127.0.0.1:0"]));
    assert_eq!(free.token(), None, "{}", free.greeting);
    world.run(&["list", &free.url, "tools"]).exits(0);
}

/// T16: so it is with a bridge, unless it is given a token; on loopback it asks for one only where it is given one.
#[test]
fn t16_a_bridge_beyond_loopback_asks_for_a_token() {
    let world = World::new("bridged", "");
    let opens = |bridge: &Gateway, token: &str| {
        world.run(&["list", &bridge.url, "tools"]).exits(3);
        world.run_as("cardan_wrong-and-long-enough", &["list", &bridge.url, "tools"]).exits(3);
        world.run_as(token, &["list", &bridge.url, "tools"]).exits(0);
    };
    let made = world.bridge("0.0.0.0:0", &[]);
    opens(&made, &made.token().unwrap());
    for listen in ["0.0.0.0:0", "127.0.0.1:0"] {
        let given = world.bridge(listen, &["--key-env", "KEY"]);
        assert_eq!(given.token(), None, "{}", given.greeting);
        opens(&given, "a token of some length");
    }
    let free = world.bridge("127.0.0.1:0", &[]);
    assert_eq!(free.token(), None, "{}", free.greeting);
    world.run(&["list", &free.url, "tools"]).exits(0);
}

/// T16: a token that cannot be used starts nothing.
#[test]
fn t16_a_bridge_with_a_key_of_no_use_does_not_start() {
    let world = World::new("useless", "");
    for (variable, why) in
        [("NO_SUCH_VARIABLE_HERE", "there is no such variable"), ("SHORT", "fewer than 16")]
    {
        let words = ["bridge", "--listen", "127.0.0.1:0", "--key-env", variable, "--", CARDAN, "demo"];
        let mut command = world.command(&words);
        command.env("SHORT", "x").stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).exits(1).tells(&[why, variable, "next:"]);
    }
}

/// T16: whoever a proxy lets through needs no token on loopback, and that is told.
#[test]
fn t16_a_name_beyond_loopback_without_a_key_is_warned_of() {
    let world = World::new("warned", "");
    let config = world.config();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", &config];
    let bridge = ["bridge", "--listen", "127.0.0.1:0"];
    let behind = ["--", CARDAN, "demo"];
    let started = |words: &[&[&str]]| {
        let mut command = world.command(&words.concat());
        command.env("KEY", "a token of some length");
        Gateway::of(command).greeting.clone()
    };
    let named: &[&str] = &["--allow-host", "mcp.example.org"];
    let here: &[&str] = &["--allow-host", "app.localhost"];
    let warns = |greeting: &str| greeting.contains("warning: --allow-host mcp.example.org");
    for (open, greeting) in [
        (true, started(&[&serve, named])),
        (true, started(&[&bridge, named, &behind])),
        (false, started(&[&serve, here])),
        (false, started(&[&bridge, here, &behind])),
        (false, started(&[&bridge, named, &["--key-env", "KEY"], &behind])),
    ] {
        assert_eq!(warns(&greeting), open, "{greeting}");
        assert_eq!(greeting.contains("no key is configured"), open, "{greeting}");
    }
}

/// Somebody looked, and the server has told something else since.
fn refuses_what_was_not_shown(world: &World, digest: &str) {
    let (config, before) = (world.config(), world.pinned());
    let approve = ["pin", "approve", "demo", "echo", "--config", &config];
    world.repin("echo", "changed", "reads ~/.ssh");
    let refused = world.run(&[&approve[..], &["--digest", digest]].concat()).exits(1);
    assert!(refused.stdout.contains("+ description: reads ~/.ssh"), "{}", refused.stdout);
    assert!(refused.stderr.contains("cardan pin diff demo echo"), "{}", refused.stderr);
    world.run(&["pin", "approve", "demo", "--digest", digest, "--config", &config]).exits(1);
    let mut seat = Pty::new(80).env("HOME", &world.0.file("home")).start(&approve);
    seat.sees("reads ~/.ssh").sees("Approve? [y/N] ").types("\r").sees("nothing was approved");
    seat.end().exits(0);
    let kept = world.pinned();
    assert_eq!(kept["tools"]["echo"]["changed"]["told"]["description"], "reads ~/.ssh");
    assert_eq!(kept["tools"]["echo"]["approved"], before["tools"]["echo"]["approved"]);
    fs::write(world.pins(), before.to_string()).unwrap();
}

/// T25: a tool that is not what was approved is held back, shown with its difference, and there again when it is approved, while
/// the gateway runs.
#[test]
fn t25_a_changed_tool_comes_back_when_it_is_approved() {
    let world = World::new("pin", "[gateway]\npin = 'block'\naudit = 'audit.jsonl'\n");
    let offered = |gateway: &Gateway| {
        world.run(&["list", &gateway.url, "tools"]).exits(0).stdout.contains("demo__echo")
    };
    let gateway = world.serve("127.0.0.1:0");
    assert!(offered(&gateway));
    drop(gateway);
    let config = world.config();
    let pins = world.run(&["pin", "list", "demo", "--config", &config]).exits(0).stdout;
    assert!(pins.contains("approved  demo  echo"), "{pins}");
    world.run(&["pin", "list", "demo", "no-such", "--config", &config]).exits(5);

    // As if it had been another when it was first seen.
    world.repin("echo", "approved", "harmless");

    let gateway = world.serve("127.0.0.1:0");
    assert!(!offered(&gateway));
    world.run(&["call", &gateway.url, "demo__echo", "message=x"]).exits(5);
    let diff = world.run(&["pin", "diff", "--config", &config]).exits(0).stdout;
    let (head, changes) = diff.split_once('\n').unwrap();
    let digest = head.strip_prefix("demo echo  ").unwrap();
    assert!(changes.starts_with("  - description: harmless\n  + description: "), "{diff}");
    let listed = world.run(&["pin", "list", "demo", "echo", "--config", &config]).exits(0).stdout;
    assert!(listed.contains("changed") && listed.contains(digest), "{listed}");

    drop(gateway);
    refuses_what_was_not_shown(&world, digest);
    let gateway = world.serve("127.0.0.1:0");
    assert!(!offered(&gateway));
    let approve = ["pin", "approve", "demo", "echo", "--config", &config];
    let approved = world.run(&[&approve[..], &["--digest", digest]].concat()).exits(0);
    assert_eq!(approved.stdout, format!("{diff}approved  demo  echo\n"));
    // It looks twice a second; a test that waits for ever is ended by its runner.
    while !offered(&gateway) {}
    world.run(&["call", &gateway.url, "demo__echo", "message=a-canary"]).exits(0).prints("a-canary\n");
    let written = || fs::read_to_string(world.0.file("audit.jsonl")).unwrap();
    while !written().contains("\"name\":\"echo\"") {}
    assert!(!written().contains("canary"), "{}", written());
}
