//! `cardan servers --at URL`: what a gateway that runs says of its servers.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::common::{CARDAN, Fifo, Ran, Serving, finish, signal_pid};
use crate::rig::{Running, SICK, World, demo};

fn servers(world: &World, words: &[&str], key: Option<&str>) -> Ran {
    let mut command = world.command(&[&["servers"], words].concat());
    match key {
        Some(key) => command.env("CARDAN_KEY", key),
        None => command.env_remove("CARDAN_KEY"),
    };
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A gateway's own word, by any of its addresses, and nothing is started for it.
#[test]
fn a_gateway_that_runs_is_asked() {
    let world = World::new("at", &[&demo("alpha"), SICK].concat());
    let gateway = world.serve(&[]);
    gateway.stands("degraded");
    let ran = servers(&world, &["--at", &format!("http://{}", gateway.address)], None).exits(4);
    let lines: Vec<_> = ran.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0][..2], ["SERVER", "TRANSPORT"], "{ran:?}");
    assert_eq!((lines[1][0], lines[1][4], lines[2][0]), ("alpha", "ready", "sick"), "{ran:?}");
    assert!(ran.stdout.contains("exit status: 3"), "{ran:?}");
    ran.tells(&["1 of 2 servers are not up: sick"]);
    let json =
        servers(&world, &["--json", "--at", &format!("http://{}/mcp", gateway.address)], None).exits(4);
    let said = json.json();
    assert_eq!((&said["status"], &said["servers"][0]["tools"]), (&"degraded".into(), &18.into()), "{said}");
}

/// A bridge stands before one server, and asks for no key where it has none.
#[test]
fn a_bridge_that_runs_is_asked() {
    let world = World::new("at-bridge", "");
    let bridge = world.command(&["bridge", "--listen", "127.0.0.1:0", "--", CARDAN, "demo"]);
    let bridge = Running::of(bridge);
    let at = format!("http://{}", bridge.address);
    let ran = servers(&world, &["--at", &at], None).exits(0);
    let lines: Vec<_> = ran.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!((lines.len(), lines[0][0], lines[1][3]), (2, "SERVER", "ready"), "{ran:?}");
    let said = servers(&world, &["--json", "--at", &at], None).exits(0).json();
    assert_eq!(said["server"]["up"], true, "{said}");
}

/// What is wrong is told, with what to do.
#[test]
fn whoever_is_not_there_is_told() {
    let world = World::new("at-wrong", &demo("alpha"));
    // A port that was free a moment ago, and that nobody else is given while the socket is bound and not listening.
    let held = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", held.local_addr().unwrap());
    servers(&world, &["--at", &nowhere], None)
        .exits(4)
        .tells(&["no gateway answers at", "cardan serve --config"]);
    let other = Serving::start(&[]);
    let ran = servers(&world, &["--at", &format!("http://{}", other.address)], None).exits(4);
    ran.tells(&["is no gateway of ours", "404"]);
    servers(&world, &["--at", "here"], None).exits(1);
    servers(&world, &["--at", &nowhere, "--wait", "1"], None).exits(1);
}

/// T16: without its key a gateway names no servers, and says what is missing.
#[test]
fn t16_a_key_is_needed_where_there_is_one() {
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("at-keys", &[&demo("alpha"), keys].concat());
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("ADA_TOKEN", "ada-0123456789abcdef");
    let gateway = Running::of(command);
    gateway.stands("ready");
    let at = format!("http://{}", gateway.address);
    for key in [None, Some("ada-wrong-9abcdef0")] {
        let ran = servers(&world, &["--at", &at], key).exits(3).tells(&["asks for a key", "CARDAN_KEY"]);
        assert!(!ran.stdout.contains("alpha"), "{ran:?}");
    }
    servers(&world, &["--at", &at], Some("ada-0123456789abcdef")).exits(0);
}

/// Every change is shown while it is watched, and the gateway's end.
#[test]
fn changes_are_shown() {
    let world = World::new("at-watch", "");
    let pids = Fifo::new(&world.0, "pids");
    let line = format!("echo $$ > {}; exec {CARDAN} demo", pids.path);
    let config = format!("[servers.alpha]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n");
    std::fs::write(world.config(), config).unwrap();
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let at = format!("http://{}", gateway.address);
    let mut command = world.command(&["servers", "--json", "--watch", "--at", &at]);
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&told.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["servers"][0]["restarts"], 0);
    signal_pid(pids.line().parse().unwrap(), "KILL");
    while next()["servers"][0]["restarts"] != 1 {}
    drop(gateway);
    finish(watching).exits(4).tells(&["no gateway answers"]);
}
