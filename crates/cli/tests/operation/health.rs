//! `/healthz` and `/readyz` tell the truth, to those who may know it.

use std::fs;

use serde_json::{Value, json};

use crate::common::{CARDAN, Fifo, signal_pid};
use crate::rig::{Running, SICK, World, demo};

fn server<'a>(said: &'a Value, name: &str) -> &'a Value {
    said["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap()
}

/// Each server is told of; those that are sick make the whole degraded, not useless.
#[test]
fn a_gateway_says_how_each_server_stands() {
    let wrong =
        "[servers.wrong]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { X = \"${NO_SUCH_VARIABLE_HERE}\" }\n";
    let world = World::new("each", &[&demo("alpha"), SICK, wrong].concat());
    let gateway = world.serve(&[]);
    let alive = gateway.get("/healthz", &[]);
    assert_eq!((alive.status, &alive.json()["status"]), (200, &json!("ok")));
    assert!(alive.json()["version"].is_string(), "{alive:?}");
    assert!(alive.head.contains("content-type: application/json"), "{alive:?}");
    assert!(alive.head.contains("cache-control: no-store"), "{alive:?}");

    // It is up before it is known what it offers.
    let said = loop {
        let said = gateway.stands("degraded");
        if !server(&said, "alpha")["tools"].is_null() {
            break said;
        }
    };
    assert_eq!(gateway.get("/readyz", &[]).status, 200);
    let alpha = server(&said, "alpha");
    assert_eq!((&alpha["state"], &alpha["up"], &alpha["tools"]), (&json!("ready"), &json!(true), &json!(18)));
    assert!(alpha["since_ms"].is_u64() && alpha["restarts"] == 0, "{alpha}");
    let sick = server(&said, "sick");
    assert!(sick["up"] == false && sick["tools"].is_null(), "{sick}");
    assert!(server(&said, "wrong")["cause"].as_str().unwrap().contains("NO_SUCH_VARIABLE_HERE"), "{said}");

    let head = gateway.ask("HEAD", "/healthz", &[]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let posted = gateway.ask("POST", "/readyz", &[]);
    assert_eq!(posted.status, 405);
    assert!(posted.head.contains("allow: get, head"), "{posted:?}");
    assert_eq!(gateway.get("/readyz/", &[]).status, 404);
}

/// Where no server is of use, no calls should come.
#[test]
fn a_gateway_without_servers_is_not_ready() {
    let world = World::new("none", SICK);
    let gateway = world.serve(&[]);
    let said = gateway.stands("down");
    assert!(server(&said, "sick")["cause"].as_str().unwrap().contains("exit status: 3"), "{said}");
    assert_eq!(gateway.get("/readyz", &[]).status, 503);
    assert_eq!(gateway.get("/healthz", &[]).status, 200);
}

/// T16, INT-5: strangers learn the word and no name; a page of another origin learns nothing at all.
#[test]
fn t16_strangers_learn_no_names() {
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("keys", &[&demo("alpha"), SICK, keys].concat());
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("ADA_TOKEN", "ada-0123456789abcdef");
    let gateway = Running::of(command);
    gateway.stands("ready");
    assert_eq!(gateway.get("/healthz", &[]).body, "{\"status\":\"ok\"}\n");
    assert_eq!(gateway.get("/readyz", &[]).body, "{\"status\":\"ready\"}\n");
    let ada = || gateway.get("/readyz", &["Authorization: Bearer ada-0123456789abcdef"]);
    assert_eq!((ada().status, &server(&ada().json(), "alpha")["up"]), (200, &json!(true)));
    assert_eq!(ada().json()["status"], "degraded", "what is wrong is for those who may know it");
    let wrong = gateway.get("/readyz", &["Authorization: Bearer ada-0123456789abcdee"]);
    assert_eq!((wrong.status, wrong.body.as_str()), (401, ""));
    assert!(wrong.head.contains("www-authenticate: bearer"), "{wrong:?}");
    for foreign in ["Host: evil.example", "Origin: https://evil.example"] {
        let refused = gateway.get("/readyz", &[foreign, "Authorization: Bearer ada-0123456789abcdef"]);
        assert_eq!(refused.status, 403, "{foreign}");
        assert!(!refused.body.contains("alpha"), "{refused:?}");
    }
}

/// T16: nor can strangers tell from what they are answered which servers there are.
#[test]
fn t16_strangers_cannot_guess_names() {
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("guess", &[&demo("alpha"), keys].concat());
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("ADA_TOKEN", "ada-0123456789abcdef");
    let gateway = Running::of(command);
    for verb in ["GET", "POST", "PUT", "DELETE"] {
        for below in ["mcp", "sse", "messages", "ws", "else", ""] {
            let [there, nowhere] = ["alpha", "nobody"].map(|name| {
                let got = gateway.ask(verb, &format!("/servers/{name}/{below}"), &[]);
                let head =
                    got.head.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>().join("\n");
                (got.status, head, got.body)
            });
            assert_eq!((there.0, &there), (401, &nowhere), "{verb} {below}");
        }
    }
    let ada = "Authorization: Bearer ada-0123456789abcdef";
    let statuses =
        ["alpha", "nobody"].map(|name| gateway.get(&format!("/servers/{name}/mcp"), &[ada]).status);
    assert_eq!(statuses, [405, 404], "whoever may come in is told");
}

/// T16: why no calls may come is not told to strangers either.
#[test]
fn t16_strangers_do_not_learn_why() {
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("why", &[SICK, keys].concat());
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("ADA_TOKEN", "ada-0123456789abcdef");
    let gateway = Running::of(command);
    let got = gateway.get("/readyz", &[]);
    assert_eq!((got.status, got.body.as_str()), (503, "{\"status\":\"unavailable\"}\n"));
    let ada = gateway.get("/readyz", &["Authorization: Bearer ada-0123456789abcdef"]);
    assert!(["starting", "down"].contains(&ada.json()["status"].as_str().unwrap()), "{ada:?}");
}

/// S0-79: a server that dies is told of as soon as it is known to be dead, with its cause, and again when it is back.
#[test]
fn s0_79_a_dead_server_is_told_at_once() {
    let world = World::new("dead", "");
    let (pids, broken) = (Fifo::new(&world.0, "pids"), world.0.file("broken"));
    let line = format!("[ -e {broken} ] && exit 3; echo $$ > {}; exec {CARDAN} demo", pids.path);
    fs::write(world.config(), format!("[servers.alpha]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n"))
        .unwrap();
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    fs::write(&broken, "").unwrap();
    signal_pid(pids.line().parse().unwrap(), "KILL");
    gateway.hears("alpha: reconnecting");
    let got = gateway.get("/readyz", &[]);
    assert_eq!((got.status, &got.json()["status"]), (503, &json!("down")));
    let alpha = server(&got.json(), "alpha").clone();
    assert!(
        alpha["up"] == false && alpha["cause"].as_str().unwrap().contains("server's process ended"),
        "{alpha}"
    );
    assert_eq!(alpha["tools"], 18, "what it offers is known all the time");
    assert_eq!(gateway.get("/healthz", &[]).status, 200);
    fs::remove_file(&broken).unwrap();
    assert_eq!(server(&gateway.stands("ready"), "alpha")["restarts"], 1);
}

/// S0-79, T16: a bridge tells how its server stands, with the cause while it is gone, and that it ends; strangers get one word.
#[test]
fn s0_79_a_bridge_says_how_its_server_stands() {
    let world = World::new("bridge", "");
    let (pids, broken) = (Fifo::new(&world.0, "pids"), world.0.file("broken"));
    let line = format!("[ -e {broken} ] && exit 3; echo $$ > {}; exec {CARDAN} demo", pids.path);
    let words = ["bridge", "--listen", "127.0.0.1:0", "--key-env", "KEY", "--grace", "600", "--"];
    let mut command = world.command(&[&words[..], &["sh", "-c", &line]].concat());
    command.env("KEY", "ada-0123456789abcdef");
    let bridge = Running::of(command);
    let known = |path| bridge.get(path, &["Authorization: Bearer ada-0123456789abcdef"]);
    let strange = |path| (bridge.get(path, &[]).status, bridge.get(path, &[]).body);
    assert_eq!(strange("/healthz"), (200, "{\"status\":\"ok\"}\n".to_owned()));
    assert_eq!(strange("/readyz"), (200, "{\"status\":\"ready\"}\n".to_owned()));
    assert!(known("/healthz").json()["version"].is_string());
    let ready = json!({ "status": "ready", "server": { "state": "ready", "up": true, "cause": null } });
    assert_eq!(known("/readyz").json(), ready);
    assert_eq!(bridge.get("/readyz", &["Host: evil.example"]).status, 403);

    fs::write(&broken, "").unwrap();
    signal_pid(pids.line().parse().unwrap(), "KILL");
    // Nothing is told of it on stderr, so whoever watches looks again.
    while strange("/readyz").0 == 200 {}
    assert_eq!(strange("/readyz"), (503, "{\"status\":\"unavailable\"}\n".to_owned()));
    let down = known("/readyz").json();
    assert_eq!((&down["status"], &down["server"]["up"]), (&json!("down"), &json!(false)));
    assert!(down["server"]["cause"].as_str().unwrap().contains("server's process ended"), "{down}");
    assert_eq!(strange("/healthz").0, 200);
    fs::remove_file(&broken).unwrap();
    while strange("/readyz").0 != 200 {}
}
