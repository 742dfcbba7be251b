//! Ctrl-C: the server hears of it before we leave.

mod common;

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use common::{CARDAN, Scratch, finish, has_python, logged, odd_server, signal, start};

/// The cancel note is on the wire before exit 130.
#[test]
fn the_first_interrupt_cancels_on_the_wire() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("interrupt");
    let log = scratch.file("log");
    let child = start(&[&["call", "odd"][..], &odd_server("hang", &log)].concat());
    let begun = Instant::now();
    while !logged_whole(&log).iter().any(|message| message["method"] == "tools/call") {
        assert!(begun.elapsed() < Duration::from_secs(30), "the call never came");
        thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "INT");
    finish(child).exits(130).prints("").tells(&["interrupted"]);
    let messages = logged(&log);
    let call = messages.iter().find(|message| message["method"] == "tools/call").unwrap();
    let cancel = messages.last().unwrap();
    assert_eq!(cancel["method"], "notifications/cancelled", "{messages:?}");
    assert_eq!(cancel["params"]["requestId"], call["id"]);
}

/// The log may end inside a line while it is written.
fn logged_whole(log: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_call_with_progress_is_interrupted_too() {
    let mut child = start(&["call", "slow", "steps=1000", "delay_ms=20", "--", CARDAN, "demo"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("progress: 1 of 1000"), "{line}");
    signal(&child, "INT");
    finish(child).exits(130).prints("");
}

#[test]
fn connecting_is_interrupted_too() {
    let scratch = Scratch::new("connecting");
    let mark = scratch.file("started");
    let child = start(&["info", "--", "sh", "-c", &format!("touch {mark}; sleep 60")]);
    let begun = Instant::now();
    while !std::path::Path::new(&mark).exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the server never started");
        thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "INT");
    finish(child).exits(130);
}
