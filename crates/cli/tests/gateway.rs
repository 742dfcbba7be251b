//! `cardan serve --config FILE`: many servers as one, as a user drives it, with real processes on every side.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use common::{CARDAN, Fifo, Ran, Scratch, Serving, cardan, finish, signal_pid};
use serde_json::Value;

const ERAS: [&str; 2] = ["legacy", "modern"];

/// A folder with a configuration and a home of its own.
struct World(Scratch);

impl World {
    fn new(name: &str, config: &str) -> Self {
        let world = Self(Scratch::new(&format!("gateway-{name}")));
        world.put(config);
        world
    }

    /// Writes the configuration, at once as `cardan config` does.
    fn put(&self, config: &str) {
        let draft = self.0.file("draft");
        fs::write(&draft, config).unwrap();
        fs::rename(draft, self.config()).unwrap();
    }

    fn config(&self) -> String {
        self.0.file("cardan.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CARDAN);
        command
            .args(words)
            .env("HOME", self.0.file("home"))
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::null());
        command
    }

    /// Learns what the servers offer, so that a gateway knows it at once.
    fn primed(self) -> Self {
        let config = self.config();
        self.run(&["servers", "--config", &config, "--wait", "60"]);
        self
    }

    fn run(&self, words: &[&str]) -> Ran {
        finish(self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// A gateway on a free port.
    fn serve(&self) -> Gateway {
        let config = self.config();
        let words = ["serve", "--listen", "127.0.0.1:0", "--config", &config];
        let mut child = self.command(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut greeting = String::new();
        while !greeting.ends_with("end with Ctrl-C\n") {
            assert_ne!(told.read_line(&mut greeting).unwrap(), 0, "it ended: {greeting}");
        }
        let address = greeting.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Gateway { address, greeting, child }
    }
}

/// A gateway, until it is dropped.
struct Gateway {
    address: String,
    greeting: String,
    child: Child,
}

impl Gateway {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn tools(&self, era: &str) -> Vec<String> {
        let ran = cardan(&["list", &self.url("/mcp"), "tools", "--json", "--era", era]).exits(0);
        ran.json()["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until these are offered.
    fn offers(&self, tools: &[&str]) {
        loop {
            let offered = self.tools("modern");
            if tools.iter().all(|tool| offered.iter().any(|offered| offered == tool)) {
                return;
            }
        }
    }

    /// Asks it to stop, and waits until it has.
    fn stop(mut self) -> Option<i32> {
        signal_pid(self.child.id(), "TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn demo(name: &str, era: &str) -> String {
    format!("[servers.{name}]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\nera = \"{era}\"\n")
}

const SICK: &str = "[servers.sick]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no luck >&2; exit 3\"]\n
[servers.wrong]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { X = \"${NO_SUCH_VARIABLE_HERE}\" }\n";

/// Calls through `server`, which may be an address or `--` and a command, with `before` before every tool.
fn works(world: &World, server: &[&str], before: &str, era: &str) {
    let call = |words: &[&str]| {
        let tool = [before, words[1]].concat();
        let words = [&[words[0], &tool], &words[2..]].concat();
        let (address, command): (Vec<_>, Vec<_>) = match server {
            ["--", ..] => (vec![], server.to_vec()),
            address => (address.to_vec(), vec![]),
        };
        world.run(&[&words[..1], &address, &words[1..], &["--era", era], &command].concat())
    };
    call(&["call", "add", "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
    call(&["call", "ask", "question=who?", "--answer", "answer=Ada"]).exits(0).prints("Ada\n");
    call(&["call", "roots", "--root", "/usr"]).exits(0).prints("file:///usr\n");
    call(&["call", "slow", "steps=3", "delay_ms=1"]).exits(0).tells(&["1 of 3", "2 of 3", "3 of 3"]);
    call(&["call", "note", "level=warning", "message=careful"]).exits(0).tells(&["careful"]);
    call(&["call", "fail", "message=no"]).exits(5);
    call(&["prompt", "greet", "name=Ada"]).exits(0);
}

/// S0-78, TOOL-21, CLI-6: servers of both eras behind one address, by every transport, for clients of both eras; sick ones hide
/// nothing, and each is told of.
#[test]
fn many_servers_are_one() {
    let remote = Serving::start(&[]);
    let config = [
        demo("alpha", "legacy"),
        SICK.to_owned(),
        demo("beta", "modern"),
        format!("[servers.gamma]\nurl = \"ws://{}/ws\"\n", remote.address),
    ];
    let world = World::new("many", &config.concat()).primed();
    let gateway = world.serve();
    for line in [
        "cardan serves 5 servers as one at",
        "/servers/alpha/mcp  ",
        "/servers/wrong/mcp  misconfigured",
        "NO_SUCH_VARIABLE_HERE",
        &format!("cardan list {}", gateway.url("/servers/alpha/mcp")),
    ] {
        assert!(gateway.greeting.contains(line), "{line}: {}", gateway.greeting);
    }
    for era in ERAS {
        let tools = gateway.tools(era);
        assert_eq!(tools.len(), 54, "{era} {tools:?}");
        for before in ["alpha__", "beta__", "gamma__"] {
            works(&world, &[&gateway.url("/mcp")], before, era);
        }
        works(&world, &[&format!("ws://{}/ws", gateway.address)], "beta__", era);
        cardan(&["read", &gateway.url("/mcp"), "demo://clock", "--era", era]).exits(0);
        cardan(&["read", &gateway.url("/mcp"), "demo://no-such", "--era", era]).exits(5);
    }
    works(&world, &[&gateway.url("/sse")], "alpha__", "legacy");
    assert_eq!(gateway.stop(), Some(0));
}

/// Each server alone, by every transport, under its own names.
#[test]
fn each_server_is_alone_at_its_path() {
    let world =
        World::new("alone", &[demo("alpha", "legacy"), demo("'b b'", "modern"), SICK.to_owned()].concat())
            .primed();
    let gateway = world.serve();
    for era in ERAS {
        works(&world, &[&gateway.url("/servers/alpha/mcp")], "", era);
        works(&world, &[&gateway.url("/servers/b%20b/mcp")], "", era);
        works(&world, &[&format!("ws://{}/servers/alpha/ws", gateway.address)], "", era);
        let info = cardan(&["info", &gateway.url("/servers/alpha/mcp"), "--era", era]).exits(0);
        assert!(info.stdout.contains("cardan-demo"), "{info:#?}");
    }
    works(&world, &[&gateway.url("/servers/alpha/sse")], "", "legacy");
    cardan(&["info", &gateway.url("/servers/nobody/mcp")]).exits(4);
    let sick = cardan(&["call", &gateway.url("/servers/sick/mcp"), "any", "--no-check"]).exits(10);
    // It may have been given up meanwhile; the advice is another then.
    sick.tells(&["server `sick` cannot be reached", "exit status: 3", "no luck"]);
    let wrong = cardan(&["call", &gateway.url("/servers/wrong/mcp"), "any", "--no-check"]).exits(10);
    wrong.tells(&["server `wrong` cannot be reached as it is configured", "cardan config explain wrong"]);
}

/// Over stdin and stdout, and over a socket.
#[test]
fn a_gateway_needs_no_port() {
    let world =
        World::new("pipes", &[demo("alpha", "legacy"), demo("beta", "modern"), SICK.to_owned()].concat())
            .primed();
    let (config, path) = (world.config(), world.0.file("gateway.sock"));
    for era in ERAS {
        for before in ["alpha__", "beta__"] {
            works(&world, &["--", CARDAN, "serve", "--stdio", "--config", &config], before, era);
        }
    }
    let words = ["serve", "--unix", &path, "--config", &config];
    let mut child = world.command(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("listening on unix://") {
        assert_ne!(told.read_line(&mut lines).unwrap(), 0, "it ended: {lines}");
    }
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    for era in ERAS {
        works(&world, &[&format!("unix://{path}")], "beta__", era);
    }
    signal_pid(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A large payload passes whole; one that is too large is refused by who is asked, and nobody else is touched.
#[test]
fn a_megabyte_passes() {
    let world = World::new("large", &[demo("alpha", "legacy"), demo("beta", "modern")].concat()).primed();
    let gateway = world.serve();
    let (file, text) = (world.0.file("large"), "x".repeat(1 << 20));
    fs::write(&file, &text).unwrap();
    for era in ERAS {
        for tool in ["alpha__echo", "beta__echo"] {
            let message = format!("message=@{file}");
            let ran = cardan(&["call", &gateway.url("/mcp"), tool, &message, "--era", era]).exits(0);
            assert_eq!(ran.stdout.trim_end().len(), text.len(), "{era} {tool}");
        }
    }
}

/// S0-79: a server that is killed takes nobody with it, and is there again.
#[test]
fn s0_79_a_killed_server_comes_back() {
    let scratch = Scratch::new("gateway-kill-pids");
    let pids = Fifo::new(&scratch, "pids");
    let line = format!("echo $$ > {}; exec {CARDAN} demo", pids.path);
    let killed = format!("[servers.killed]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n");
    let world = World::new("kill", &[killed, demo("other", "modern")].concat());
    let gateway = world.serve();
    let pid: u32 = pids.line().parse().unwrap();
    gateway.offers(&["killed__add", "other__slow"]);
    let mut slow = common::start(&["call", &gateway.url("/mcp"), "other__slow", "steps=20", "delay_ms=100"]);
    let mut told = BufReader::new(slow.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    signal_pid(pid, "KILL");
    assert_ne!(pids.line().parse::<u32>().unwrap(), pid, "it was started anew");
    for era in ERAS {
        assert_eq!(gateway.tools(era).len(), 36, "what it offers is known all the time");
        let ran = cardan(&["call", &gateway.url("/mcp"), "killed__add", "a=2", "b=3", "--era", era]);
        ran.exits(0).prints("{\"sum\":5}\n");
    }
    let drained = std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    finish(slow).exits(0);
    drained.join().unwrap().unwrap();
}

/// S0-79: the configuration is followed: what comes is there, what goes is gone, what stays is not touched.
#[test]
fn s0_79_the_configuration_is_followed() {
    let world = World::new("reload", &[demo("stays", "modern"), demo("goes", "modern")].concat());
    let gateway = world.serve();
    let address = gateway.url("/mcp");
    gateway.offers(&["stays__slow", "goes__add"]);
    let slow = common::start(&["call", &address, "stays__slow", "steps=30", "delay_ms=100"]);
    world.put(
        &[demo("stays", "modern"), demo("comes", "legacy"), "[gateway]\nseparator = \"-\"\n".to_owned()]
            .concat(),
    );
    // Files are looked at every now and then, so this takes a moment.
    gateway.offers(&["comes-add"]);
    let tools = gateway.tools("legacy");
    assert!(
        tools.contains(&"stays-add".to_owned()) && !tools.iter().any(|tool| tool.contains("goes")),
        "{tools:?}"
    );
    cardan(&["call", &address, "comes-add", "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
    cardan(&["info", &gateway.url("/servers/goes/mcp")]).exits(4);
    finish(slow).exits(0);
}

/// S0-79: a server that was taken out of the configuration and put in again is reached alone as before, by clients of both eras.
#[test]
fn s0_79_a_server_that_comes_again_is_served_alone_again() {
    let with = |names: &[&str]| names.iter().map(|name| demo(name, "modern")).collect::<String>();
    let world = World::new("again", &with(&["stays", "returns"]));
    let gateway = world.serve();
    let alone = gateway.url("/servers/returns/mcp");
    gateway.offers(&["returns__add"]);
    let calls = || {
        for era in ERAS {
            cardan(&["call", &alone, "add", "a=2", "b=3", "--era", era]).exits(0).prints("{\"sum\":5}\n");
        }
    };
    calls();
    world.put(&with(&["stays"]));
    while gateway.tools("modern").iter().any(|tool| tool.starts_with("returns")) {}
    world.put(&with(&["stays", "returns"]));
    gateway.offers(&["returns__add"]);
    calls();
}

/// S0-79: tools, prompts and resources are hidden, renamed and described by the configuration, while it is followed;
/// what is wrong in a rule is refused with its place, and changes nothing.
#[test]
fn s0_79_rules_rename_describe_and_hide() {
    let rules = "tools = { deny = [\"fail\"], rename = { add = \"sum\" }, describe = { add = \"Adds up\" } }\n\
                 prompts = { rename = { greet = \"hello\" } }\nresources = { deny = [\"demo://clock\"] }\n";
    let world = World::new("rules", &[&demo("alpha", "modern"), rules].concat()).primed();
    let explained =
        world.run(&["config", "explain", "alpha", "--json", "--config", &world.config()]).exits(0).json();
    assert_eq!(explained["renamed_tools"], serde_json::json!({ "add": "sum" }));
    assert_eq!(explained["described_tools"], serde_json::json!({ "add": "Adds up" }));
    assert_eq!(explained["renamed_prompts"], serde_json::json!({ "greet": "hello" }));
    assert_eq!(explained["denied_resources"], serde_json::json!(["demo://clock"]));
    let gateway = world.serve();
    let address = gateway.url("/mcp");
    for era in ERAS {
        let listed = cardan(&["list", &address, "tools", "--json", "--era", era]).exits(0).json();
        let mut tools = listed["tools"].as_array().unwrap().iter();
        let sum = tools.find(|tool| tool["name"] == "alpha__sum").unwrap();
        assert_eq!(sum["description"], "Adds up", "{era}");
        cardan(&["call", &address, "alpha__sum", "a=2", "b=3", "--era", era])
            .exits(0)
            .prints("{\"sum\":5}\n");
        for gone in ["alpha__add", "alpha__fail"] {
            let ran = cardan(&["call", &address, gone, "--no-check", "--era", era]).exits(10);
            ran.tells(&[&format!("unknown tool: {gone}")]);
        }
        cardan(&["prompt", &address, "alpha__hello", "name=Ada", "--era", era]).exits(0);
        cardan(&["read", &address, "demo://clock", "--era", era]).exits(5);
    }
    world.put(&[&demo("alpha", "modern"), "tools = { rename = { echo = \"say\" } }\n"].concat());
    gateway.offers(&["alpha__say", "alpha__add"]);
    cardan(&["read", &address, "demo://clock"]).exits(0);
    world.put(&[&demo("alpha", "modern"), "tools = { rename = { echo = \"say it\" } }\n"].concat());
    let explained = world.run(&["config", "explain", "--config", &world.config()]);
    let told = "cardan.toml:5:29: server `alpha`: `echo`: this is no name; accepted: 1 to 128 letters";
    assert!([&*explained.stdout, &*explained.stderr].concat().contains(told), "{explained:#?}");
}

/// What cannot be served is told at once, with what to do.
#[test]
fn what_cannot_be_served_is_told() {
    let world = World::new("wrong", "");
    let config = world.config();
    world
        .run(&["serve", "--config", &config])
        .exits(1)
        .tells(&["no server is configured", "cardan config add"]);
    world.run(&["serve", "--config", "/no/such/file"]).exits(1).tells(&["/no/such/file"]);
    world.run(&["serve", "--stdio"]).exits(1).tells(&["--all", "cardan demo"]);
    world.run(&["serve", "--config", &config, "--all"]).exits(1).tells(&["--all"]);
    world.put("[gateway]\nnaming = \"always\"\n[servers.a]\ncommand = \"x\"\n");
    let ran = world.run(&["servers", "--config", &config, "--window", "0"]);
    ran.tells(&["`naming`: this is none of prefix, never or priority"]);
}

/// Names that two servers want are told, by the gateway and by `cardan servers`.
#[test]
fn collisions_are_told() {
    let config =
        ["[gateway]\nnaming = \"never\"\n".to_owned(), demo("alpha", "modern"), demo("beta", "modern")];
    let world = World::new("collisions", &config.concat()).primed();
    let ran = world.run(&["servers", "--config", &world.config(), "--wait", "60", "--json"]).exits(0);
    let told = "18 tools of beta give way to those of alpha";
    assert_eq!(ran.json()["servers"].as_array().map(Vec::len), Some(2));
    ran.tells(&[told, "let names be prefixed", "its server served alone has it"]);
    // Without a gateway there is nothing to be in the way of.
    let alone = World::new("no-gateway", &[demo("alpha", "modern"), demo("beta", "modern")].concat());
    let ran = alone.run(&["servers", "--config", &alone.config(), "--wait", "60"]).exits(0);
    assert_eq!(ran.stderr, "");
    let gateway = world.serve();
    assert_eq!(gateway.tools("modern").len(), 18);
    works(&world, &[&gateway.url("/mcp")], "", "modern");
}

/// INT-8: two servers that call themselves the same are told apart by the names that they are configured under.
#[test]
fn int_8_servers_are_told_apart_by_their_configured_names() {
    let world = World::new("apart", &[demo("alpha", "modern"), demo("beta", "legacy")].concat()).primed();
    let gateway = world.serve();
    let info = cardan(&["info", &gateway.url("/mcp"), "--json"]).exits(0).json();
    let instructions = find(&info, "instructions").as_str().unwrap().to_owned();
    assert!(instructions.contains("# alpha\n") && instructions.contains("# beta\n"), "{instructions}");
    for name in ["alpha", "beta"] {
        let one = cardan(&["info", &gateway.url(&format!("/servers/{name}/mcp"))]).exits(0);
        assert!(one.stdout.contains("cardan-demo"), "{one:#?}");
    }
}

fn find<'a>(value: &'a Value, name: &str) -> &'a Value {
    match value {
        Value::Object(members) => match members.get(name) {
            Some(found) => found,
            None => members
                .values()
                .map(|value| find(value, name))
                .find(|found| !found.is_null())
                .unwrap_or(&Value::Null),
        },
        _ => &Value::Null,
    }
}
