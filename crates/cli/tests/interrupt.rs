//! Ctrl-C: the server hears of it before we leave.

mod common;

use std::io::{BufRead, BufReader};

use common::{CARDAN, Fifo, Scratch, finish, has_python, odd_server, signal, start};

/// The cancel note is on the wire before exit 130.
#[test]
fn the_first_interrupt_cancels_on_the_wire() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("interrupt");
    let log = Fifo::new(&scratch, "log");
    let child = start(&[&["call", "odd"][..], &odd_server("hang", &log.path)].concat());
    let call = log.message("tools/call");
    signal(&child, "INT");
    finish(child).exits(130).prints("").tells(&["interrupted"]);
    let cancel: serde_json::Value = serde_json::from_str(&log.line()).unwrap();
    assert_eq!(cancel["method"], "notifications/cancelled", "{cancel}");
    assert_eq!(cancel["params"]["requestId"], call["id"]);
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
    let mark = Fifo::new(&scratch, "started");
    let child = start(&["info", "--", "sh", "-c", &format!("echo started > {}; sleep 60", mark.path)]);
    assert_eq!(mark.line(), "started");
    signal(&child, "INT");
    finish(child).exits(130);
}
