//! What a gateway tells on stderr, for programs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::common::{ODD, has_python, signal};
use crate::rig::{SICK, World, demo};

/// A gateway that tells its events as JSON.
fn lines(world: &World, words: &[&str]) -> (std::process::Child, impl FnMut(&str) -> Value) {
    let config = world.config();
    let all = ["serve", "--listen", "127.0.0.1:0", "--config", &config, "--log", "json"];
    let mut child = world.command(&[&all, words].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut passed: Vec<Value> = Vec::new();
    // The next event of this kind; others wait until they are asked for. Every line is JSON, and of a known level.
    let next = move |event: &str| loop {
        if let Some(place) = passed.iter().position(|value| value["event"] == event) {
            return passed.remove(place);
        }
        let line = told.next().unwrap_or_else(|| panic!("no {event}: {passed:?}")).unwrap();
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(["error", "warn", "info", "debug"].contains(&value["level"].as_str().unwrap()), "{line}");
        assert!(value["time_ms"].is_u64() && value["message"].is_string(), "{line}");
        passed.push(value);
    };
    (child, next)
}

/// Starting, transitions, reloads and the end are a line of JSON each; no secret is among them.
#[test]
fn events_are_lines_of_json() {
    let secret = "s3cr3t-canary-0123456789";
    let leaky = format!(
        "[servers.leaky]\ncommand = \"sh\"\nargs = [\"-c\", \"echo key $API_KEY >&2; exit 3\"]\nenv = {{ API_KEY = \"{secret}\" }}\n"
    );
    let world = World::new("log", &[demo("alpha"), leaky].concat());
    let (mut gateway, mut next) = lines(&world, &[]);
    let failed = loop {
        let event = next("upstream");
        if event["server"] == "leaky" {
            break event;
        }
    };
    assert_eq!(failed["level"], "warn", "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("exit status: 3"), "{failed}");
    assert!(!failed.to_string().contains(secret), "{failed}");
    assert!(next("start")["address"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let draft = world.0.file("draft");
    fs::write(&draft, demo("alpha")).unwrap();
    fs::rename(&draft, world.config()).unwrap();
    let reload = next("reload");
    assert!(reload["message"].as_str().unwrap().contains("removed leaky"), "{reload}");
    fs::write(&draft, "[servers.alpha]\n").unwrap();
    fs::rename(&draft, world.config()).unwrap();
    assert_eq!(next("reload")["level"], "warn");
    signal(&gateway, "TERM");
    assert_eq!(next("drain")["level"], "info");
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}

/// Who wants to hear little hears of trouble alone.
#[test]
fn a_level_leaves_out_what_is_below_it() {
    let world = World::new("log-level", &[&demo("alpha"), SICK].concat());
    let (mut gateway, mut next) = lines(&world, &["--log-level", "warn"]);
    for _ in 0..2 {
        assert_eq!(next("upstream")["server"], "sick");
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let wrong = world.command(&["serve", "--log", "xml"]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
}

/// TOOL-1: what a server lists badly is told with the server's name, once for all its lists as they are.
#[test]
fn what_is_listed_badly_is_told() {
    if !has_python() {
        return;
    }
    let world = World::new("log-badly", "");
    let read = world.0.file("read");
    let bad = format!("[servers.bad]\ncommand = 'python3'\nargs = ['{ODD}', 'bad list', '{read}']\n");
    fs::write(world.config(), bad + &demo("alpha")).unwrap();
    let (mut gateway, mut next) = lines(&world, &[]);
    let told = loop {
        let told = next("misshapen");
        assert_eq!((&told["level"], &told["server"]), (&"warn".into(), &"bad".into()), "{told}");
        // Its lists come one by one.
        if told["message"].as_str().unwrap().contains("3 entries") {
            break told;
        }
    };
    let first = "bad: 3 entries are listed badly: tools/list: /tools/0: missing field `inputSchema`";
    assert!(told["message"].as_str().unwrap().starts_with(first), "{told}");
    signal(&gateway, "TERM");
    assert_eq!(next("drain")["level"], "info");
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}
