//! The end: what runs is finished or told that it is lost, and nobody new is let in.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Legacy, initialize, modern, modern_asked};
use crate::common::{CARDAN, Fifo, Scratch};
use crate::rig::{Running, World, demo};

/// How much longer than the grace an end may take.
const IN_TIME: Duration = Duration::from_secs(1);

/// The message in the events that came last.
fn last(events: &str) -> Value {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    serde_json::from_str(data.unwrap_or_else(|| panic!("no event: {events}"))).unwrap()
}

/// F23: asked to stop, a gateway says so at once, sends away whoever comes, and lets what runs come to its end: also a call
/// that waits for its client's answer.
#[test]
fn f23_what_runs_is_finished_and_nobody_is_let_in() {
    for (path, prefix) in [("/mcp", "alpha__"), ("/servers/alpha/mcp", "")] {
        finishes(path, prefix);
    }
}

fn finishes(path: &'static str, prefix: &str) {
    let world = World::new("drain", &demo("alpha"));
    let gateway = world.serve(&["--grace", "600"]);
    gateway.stands("ready");
    let client = Legacy::open_at(&gateway, path);
    let mut asking = client.call(&format!("{prefix}ask"), &json!({ "question": "who?" }));
    let asked = last(&asking.until("elicitation/create"));
    gateway.signal("TERM");
    gateway.stands("draining");
    assert_eq!(gateway.get("/readyz", &[]).status, 503);
    assert_eq!(gateway.get("/healthz", &[]).status, 200);
    let late = [
        modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer(),
        client.call(&format!("{prefix}add"), &json!({ "a": 1, "b": 2 })).answer(),
        gateway.post("/mcp", &[], &initialize()).answer(),
        gateway.post("/servers/alpha/mcp", &[], &initialize()).answer(),
        gateway.get("/sse", &["Accept: text/event-stream"]),
    ];
    for refused in late {
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.head.contains("retry-after: "), "{refused:?}");
        assert!(
            refused.json()["error"]["message"].as_str().unwrap().contains("shutting down"),
            "{refused:?}"
        );
    }
    let answer = json!({ "action": "accept", "content": { "answer": "Ada" } });
    let told = client.post(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).answer();
    assert_eq!(told.status, 202, "{told:?}");
    assert_eq!(last(&asking.rest())["result"]["content"][0]["text"], "Ada");
    assert_eq!(gateway.ends(), Some(0));
}

/// F23: a modern call that waits for its client's answers runs, too: the end waits for the retry that brings them, however often
/// the call asks, while others are sent away. So it is behind a gateway and a bridge, before servers of both eras.
#[test]
fn f23_a_modern_call_that_was_asked_is_finished() {
    let legacy = format!("{}era = \"legacy\"\n", demo("alpha"));
    for (config, path, tool) in [
        (&legacy, "/mcp", "alpha__ask"),
        (&legacy, "/servers/alpha/mcp", "ask"),
        (&demo("alpha"), "/mcp", "alpha__ask"),
    ] {
        let world = World::new("drain-asked", config);
        let gateway = world.serve(&["--grace", "600"]);
        gateway.stands("ready");
        goes_on(gateway, path, tool);
    }
    let world = World::new("drain-asked", "");
    for era in ["legacy", "modern"] {
        let words =
            ["bridge", "--listen", "127.0.0.1:0", "--grace", "600", "--era", era, "--", CARDAN, "demo"];
        goes_on(Running::of(world.command(&words)), "/mcp", "ask");
    }
}

fn goes_on(running: Running, path: &str, tool: &str) {
    let asked = modern_asked(&running, path, tool, None).answer().json();
    let state = asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{path}: {asked}"));
    running.signal("TERM");
    while modern(&running, "none", &json!({})).answer().status != 503 {}
    let (name, _) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let mut answers = json!({});
    answers[name] = json!({ "action": "accept", "content": { "answer": "Ada" } });
    let told = modern_asked(&running, path, tool, Some((state, &answers))).answer();
    assert_eq!(told.json()["result"]["content"][0]["text"], "Ada", "{path} {told:?}");
    assert_eq!(running.ends(), Some(0));
}

/// F24: a call whose client never answers what it was asked is given up at the end of the grace, at its server too.
#[test]
fn f24_a_call_that_is_never_answered_holds_up_the_end_for_the_grace() {
    let world = World::new("drain-never", &format!("{}era = \"legacy\"\n", demo("alpha")));
    let gateway = world.serve(&["--grace", "1"]);
    gateway.stands("ready");
    let asked = modern_asked(&gateway, "/mcp", "alpha__ask", None).answer().json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let begun = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Does such a process run? One that has ended and that nobody has asked about yet does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// F24: calls longer than the grace end as lost when it is over, in both eras, and so does the process with its children, in time.
#[test]
fn f24_calls_longer_than_the_grace_end_as_lost() {
    let long = json!({ "steps": 100_000, "delay_ms": 100 });
    let world = World::new("lost", "");
    let pids = Fifo::new(&world.0, "pids");
    let line = format!("echo $$ > {}; exec {CARDAN} demo", pids.path);
    let alpha = format!("[servers.alpha]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n");
    std::fs::write(world.config(), ["[gateway]\ngrace = \"200ms\"\n", &alpha].concat()).unwrap();
    let bridged =
        [&["bridge", "--listen", "127.0.0.1:0", "--grace", "0.2", "--"], &["sh", "-c", &line][..]].concat();
    let config = world.config();
    for (words, tool, children) in [
        (&["serve", "--listen", "127.0.0.1:0", "--config", &config][..], "alpha__slow", true),
        (&bridged, "slow", true),
        (&["serve", "--listen", "127.0.0.1:0", "--grace", "0.2"], "slow", false),
    ] {
        let running = Running::of(world.command(words));
        let mut calls = vec![modern(&running, tool, &long), Legacy::open(&running).call(tool, &long)];
        for call in &mut calls {
            call.until("notifications/progress");
        }
        // One for those who list or are modern, one for the legacy client.
        let pids: Vec<_> = (0..if children { 2 } else { 0 }).map(|_| pids.line()).collect();
        let asked = Instant::now();
        running.signal("TERM");
        for call in calls {
            let lost = last(&call.rest());
            let data = json!({ "outcome": "lost", "delivery": "sent", "mayHaveExecuted": true });
            assert_eq!(lost["error"]["data"], data, "{tool}: {lost}");
            assert!(lost["error"]["message"].as_str().unwrap().contains("shutting down"), "{lost}");
        }
        assert_eq!(running.ends(), Some(0), "{tool}");
        // Beyond the grace there is nothing to wait for but processes that end.
        let took = asked.elapsed();
        assert!(took < Duration::from_millis(200) + IN_TIME, "{words:?}: {took:?}");
        for pid in pids {
            assert!(!lives(&pid), "{tool}: {pid}");
        }
    }
}

/// F24: a hundred such calls of a hundred clients, of both eras, by servers that are started or dialled, of both eras: each is told
/// within a second after the grace, and its server sees that it was given up.
#[test]
fn f24_a_hundred_calls_longer_than_the_grace_end_as_lost() {
    const CALLS: usize = 100;
    // Ten minutes, and a word soon.
    let long = json!({ "steps": 6000, "delay_ms": 100 });
    let mut upstream = Command::new(CARDAN);
    upstream.args(["serve", "--listen", "127.0.0.1:0"]);
    let upstream = Running::of(upstream);
    let world = World::new("hundred", "");
    let told = Fifo::new(&world.0, "told");
    let near = format!(
        "[servers.near]\ncommand = 'sh'\nargs = ['-c', \"exec {CARDAN} demo 2> '{}'\"]\nsessions = 'shared'\n",
        told.path
    );
    let far = |name: &str, era: &str| {
        format!("[servers.{name}]\nurl = 'http://{}/mcp'\nera = '{era}'\n", upstream.address)
    };
    let config =
        ["[gateway]\ngrace = '200ms'\n", &near, &far("old", "legacy"), &far("new", "modern")].concat();
    std::fs::write(world.config(), config).unwrap();
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    // Two of them are the one that is dialled.
    let servers = ["near", "old", "new"];
    let mut calls: Vec<_> = (0..CALLS)
        .map(|call| {
            let tool = format!("{}__slow", servers[call % servers.len()]);
            if (call / servers.len()).is_multiple_of(2) {
                modern(&gateway, &tool, &long)
            } else {
                Legacy::open(&gateway).call(&tool, &long)
            }
        })
        .collect();
    for call in &mut calls {
        call.until("notifications/progress");
    }
    let asked = Instant::now();
    gateway.signal("TERM");
    for call in calls {
        let lost = last(&call.rest());
        let data = json!({ "outcome": "lost", "delivery": "sent", "mayHaveExecuted": true });
        assert_eq!(lost["error"]["data"], data, "{lost}");
    }
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(200) + IN_TIME, "{took:?}");
    assert_eq!(gateway.ends(), Some(0));
    for call in 0..CALLS {
        match call % servers.len() {
            0 => while !told.line().contains("cancelled") {},
            _ => drop(upstream.hears("cancelled")),
        }
    }
}

/// F24: a second signal ends the process at once, whatever runs.
#[test]
fn f24_a_second_signal_ends_it_at_once() {
    let long = json!({ "steps": 100_000, "delay_ms": 100 });
    let world = World::new("twice", &demo("alpha"));
    for first in ["TERM", "INT"] {
        let gateway = world.serve(&["--grace", "600"]);
        gateway.stands("ready");
        let mut call = modern(&gateway, "alpha__slow", &long);
        call.until("notifications/progress");
        gateway.signal(first);
        gateway.stands("draining");
        gateway.signal("TERM");
        assert_eq!(gateway.ends(), Some(0));
    }
}

/// F32: a file that takes nothing more holds up the end, but not after a second signal; what is missing is told.
#[test]
fn f32_a_second_signal_waits_for_no_file() {
    let scratch = Scratch::new("drain-stuck");
    let (gone, stuck) = (Fifo::new(&scratch, "gone"), scratch.file("stuck"));
    assert!(Command::new("mkfifo").arg(&stuck).status().unwrap().success());
    let pipe = std::fs::File::options().read(true).write(true).open(&stuck).unwrap();
    // Far more than a pipe takes, and nobody reads it.
    std::thread::spawn(move || (&pipe).write_all(&vec![b'x'; 1 << 24]));
    let script = format!("'{CARDAN}' demo; echo gone > '{}'", gone.path);
    let config = format!(
        "[gateway]\naudit = {stuck:?}\n[servers.alpha]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n"
    );
    let world = World::new("drain-stuck", &config);
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    assert_eq!(modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer().status, 200);
    gateway.signal("TERM");
    // The servers are left before the last calls are written down.
    assert_eq!(gone.line(), "gone");
    gateway.signal("TERM");
    gateway.hears("were not written down");
    assert_eq!(gateway.ends(), Some(0));
}
