//! `ping`, `raw`, `complete` and `listen`, against the demo server in both eras.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::io::{BufRead as _, BufReader};

use common::{
    CARDAN, Scratch, Serving, cardan, cardan_reading, demo, everything, finish, has_python, odd_server,
    signal, start,
};
use serde_json::{Value, json};

const ERAS: [&str; 2] = ["legacy", "modern"];

#[test]
fn ping_tells_how_long_it_took() {
    for era in ERAS {
        let ran = demo(&["ping", "--era", era]).exits(0);
        assert!(ran.stdout.starts_with("answered in ") && ran.stdout.ends_with(" ms\n"), "{ran:?}");
        let ran = demo(&["ping", "--count", "3", "--json", "--era", era]).exits(0);
        let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["nth"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(lines.iter().all(|line| line["ms"].as_f64().unwrap() > 0.0), "{lines:?}");
    }
    demo(&["ping", "--count", "0"]).exits(1);
    demo(&["ping", "twice"]).exits(1).tells(&["one word too many"]);
    cardan(&["ping", "--", "false"]).exits(13);
}

/// A result is printed as it came, and params go out as they are spelled.
/// CLI-22.
#[test]
fn raw_calls_anything() {
    for era in ERAS {
        let tools = demo(&["raw", "tools/list", "--era", era]).exits(0).json();
        assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "add"));
        let params = json!({"name": "add", "arguments": {"a": 2, "b": 3}}).to_string();
        let sum = demo(&["raw", "tools/call", &params, "--era", era]).exits(0).json();
        assert_eq!(sum["structuredContent"], json!({"sum": 5}));
        let ran = cardan_reading(&["raw", "tools/call", "-", "--era", era, "--", CARDAN, "demo"], &params);
        assert_eq!(ran.exits(0).json()["structuredContent"], json!({"sum": 5}));
    }
    demo(&["raw", "acme/none"]).exits(10).tells(&["-32601"]);
    // What the revision does not have is sent all the same: the server has the last word.
    demo(&["raw", "ping", "--era", "modern"]).exits(10).tells(&["-32601"]);
    demo(&["raw", "subscriptions/listen", "--era", "legacy"]).exits(10).tells(&["-32601"]);
    let held = demo(&["raw", "resources/subscribe", "--dry-run", "--era", "modern"]).exits(0).json();
    assert_eq!(held["method"], "resources/subscribe");
    demo(&["raw", "tools/call", "[1]"]).exits(1).tells(&["PARAMS is not a JSON object"]);
    demo(&["raw", "tools/call", "{oops"]).exits(1).tells(&["PARAMS is not JSON"]);
    demo(&["raw", "tools/call", "{}", "more"]).exits(1).tells(&["one word too many"]);
}

/// CLI-19: a tool that runs as a task only is called like any other, in both designs; its result comes as it is.
#[test]
fn tools_run_as_tasks() {
    for era in ERAS {
        demo(&["call", "job", "steps=2", "delay_ms=10", "--era", era]).exits(0).prints("done\n");
        let raw = demo(&["call", "job", "steps=1", "delay_ms=1", "--json", "--era", era]).exits(0).json();
        assert_eq!(raw["content"][0]["text"], "done");
    }
}

/// CLI-19, TSKE-23: what a task asks is answered like any other question, at a server that nobody here wrote.
#[test]
fn tske_23_a_task_that_asks_is_answered() {
    let Some(everything) = everything() else { return };
    let server = [everything.get_program()].into_iter().chain(everything.get_args());
    let server: Vec<&str> = server.map(|word| word.to_str().unwrap()).collect();
    let call = |answer: &str| {
        let said =
            ["call", "simulate-research-query", "topic=python", "ambiguous=true", "--answer", answer, "--"];
        cardan(&[&said[..], &server].concat())
    };
    let ran = call("interpretation=snake").exits(0);
    assert!(ran.stdout.contains("**Clarification**: snake"), "{ran:#?}");
    call("interpretation=technical").exits(14).tells(&["programming, snake, comedy"]);
}

/// CLI-13, CLI-19: a task is cancelled on the wire by Ctrl-C and by the deadline; work that was given up says so.
#[test]
fn tasks_are_cancelled_on_the_wire() {
    for era in ERAS {
        let words = [
            "call",
            "job",
            "steps=1",
            "delay_ms=600000",
            "--verbose",
            "--trace",
            "--era",
            era,
            "--",
            CARDAN,
            "demo",
        ];
        let mut child = start(&words);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        // The first look at the task: by then it runs.
        while !told.contains("tasks/get") {
            assert!(stderr.read_line(&mut told).unwrap() > 0, "{told}");
        }
        signal(&child, "INT");
        std::io::Read::read_to_string(&mut stderr, &mut told).unwrap();
        let ran = finish(child);
        assert_eq!(ran.code, Some(130), "{told}");
        assert!(told.contains(r#""method":"tasks/cancel""#), "{told}");
        let long = ["call", "job", "steps=1", "delay_ms=600000", "--trace", "--timeout", "2", "--era", era];
        demo(&long).exits(12).tells(&["the task had not ended after 2.0 s", r#""method":"tasks/cancel""#]);
    }
}

/// CLI-20: what is listened to is what the server declares to tell; where it tells nothing, that is said.
#[test]
fn listen_claims_nothing_that_is_not_told() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("deaf");
    let log = scratch.file("log");
    let words = [&["listen", "tools"][..], &odd_server("extra", &log)].concat();
    cardan(&words).exits(5).tells(&["the server tells changes of nothing that was asked for", "cardan info"]);
}

/// CLI-18: what a server proposes.
#[test]
fn completions_are_proposed() {
    for era in ERAS {
        demo(&["complete", "greet", "name=ad", "--era", era]).exits(0).prints("Ada\n");
        let files = demo(&["complete", "demo://file/{name}", "name=po", "--era", era]).exits(0);
        assert_eq!(files.stdout, "poem\n");
        let raw = demo(&["complete", "greet", "name=ad", "--json", "--era", era]).exits(0).json();
        assert_eq!(raw["completion"]["values"], json!(["Ada"]));
    }
    demo(&["complete", "greet"]).exits(1).tells(&["the argument is missing"]);
    demo(&["complete", "greet", "name"]).exits(1).tells(&["write name=, or name=<the first letters>"]);
    demo(&["complete", "nobody", "name="]).exits(5);
}

/// CLI-20: changes come as lines, whatever the transport and era; Ctrl-C ends it without a failure.
#[test]
fn listen_tells_changes_as_they_come() {
    let serving = Serving::start(&[]);
    let address = format!("http://{}/mcp", serving.address);
    for (era, form) in ERAS.into_iter().flat_map(|era| [&[][..], &["--json"]].map(|form| (era, form))) {
        let words = ["listen", &address, "tools", "demo://clock", "--era", era];
        let mut child = start(&[&words[..], form].concat());
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(stderr.next().unwrap().unwrap(), "listening to tools, demo://clock");
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        for (what, text, json) in [
            ("tools", "tools changed", json!({"changed": "tools"})),
            (
                "demo://clock",
                "resource changed: demo://clock",
                json!({"changed": "resource", "uri": "demo://clock"}),
            ),
        ] {
            cardan(&["call", &address, "change", &format!("what={what}")]).exits(0);
            let line = stdout.next().unwrap().unwrap();
            match form.is_empty() {
                true => assert_eq!(line, text),
                false => assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), json),
            }
        }
        signal(&child, "INT");
        finish(child).exits(0);
    }
}

#[test]
fn what_cannot_be_listened_to_is_told() {
    demo(&["listen", "toools"]).exits(1).tells(&["write tools, resources, prompts or a resource's address"]);
    let serving = Serving::start(&[]);
    let mut child = start(&["listen", &format!("http://{}/mcp", serving.address)]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(stderr.next().unwrap().unwrap(), "listening to tools, prompts, resources");
    assert_eq!(serving.stop(), Some(0));
    finish(child).exits(0);
    // One that is lost is a failure, which says how.
    for era in ERAS {
        let killed = ["listen", "--era", era, "--", "timeout", "-s", "KILL", "1", CARDAN, "demo"];
        cardan(&killed).exits(13).tells(&["listening to tools, prompts, resources\n", "signal: 9"]);
    }
}
