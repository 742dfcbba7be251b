//! Ctrl-C: the server hears of it before we leave.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    CARDAN, Fifo, Raw, Scratch, calling, cardan, finish, has_python, odd_server, signal, start,
    stubborn_server, watching_server,
};
use serde_json::json;

/// F25: the cancel note is on the wire before exit 130.
#[test]
fn the_first_interrupt_cancels_on_the_wire() {
    if !has_python() {
        return;
    }
    for name in ["INT", "TERM"] {
        cancels_on_the_wire(name);
    }
}

fn cancels_on_the_wire(name: &str) {
    let scratch = Scratch::new(&format!("interrupt-{name}"));
    let log = Fifo::new(&scratch, "log");
    let child = start(&[&["call", "odd"][..], &odd_server("hang", &log.path)].concat());
    let call = log.message("tools/call");
    signal(&child, name);
    finish(child).exits(130).prints("").tells(&["interrupted"]);
    let cancel: serde_json::Value = serde_json::from_str(&log.line()).expect("a message");
    assert_eq!(cancel["method"], "notifications/cancelled", "{cancel}");
    assert_eq!(cancel["params"]["requestId"], call["id"]);
}

/// CLI-13, F25: the server has the cancel while we are still there.
#[test]
fn cli_13_we_leave_after_the_server_has_heard() {
    for name in ["INT", "TERM"] {
        let scratch = Scratch::new(&format!("heard-{name}"));
        let (mark, last) = (Fifo::new(&scratch, "mark"), scratch.file("last"));
        let child = start(&calling(&watching_server(&mark.path, &last)));
        assert_eq!(mark.line(), "called");
        signal(&child, name);
        finish(child).exits(130);
        let heard = std::fs::read_to_string(last).expect("we were there");
        assert!(heard.contains("notifications/cancelled"), "{name}: {heard}");
    }
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

/// F25: a server that does not leave holds up a second signal less than it holds up a single one; neither
/// does work that a server of ours is doing.
#[test]
fn the_second_signal_ends_at_once() {
    for name in ["INT", "TERM"] {
        // After one signal alone the server has a second to leave. Both runs pay for a busy machine.
        let (once, twice) = (stubborn(name, 1), stubborn(name, 2));
        assert!(
            twice + Duration::from_millis(100) < once,
            "{name}: {twice:?} after two signals, {once:?} after one"
        );

        let mut server = Raw::start();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1,
        });
        let arguments = json!({ "steps": 1000, "delay_ms": 50 });
        server.send(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "slow", "arguments": arguments, "_meta": meta },
        }));
        assert_eq!(server.next()["method"], "notifications/progress", "it runs");
        let first = Instant::now();
        signal(server.child(), name);
        signal(server.child(), if name == "INT" { "TERM" } else { "INT" });
        server.wait().exits(0);
        // After one alone the work would have five seconds to finish.
        assert!(first.elapsed() < Duration::from_millis(4500), "{name}: {:?}", first.elapsed());
    }
}

/// How long `cardan call` takes to leave a server that hears neither the end of its input nor a TERM.
fn stubborn(name: &str, signals: usize) -> Duration {
    let scratch = Scratch::new(&format!("stubborn-{name}-{signals}"));
    let mark = Fifo::new(&scratch, "mark");
    let child = start(&calling(&stubborn_server(&mark.path)));
    assert_eq!(mark.line(), "called");
    signal(&child, name);
    assert_eq!(mark.line(), "cancelled");
    let told = Instant::now();
    for _ in 1..signals {
        signal(&child, name);
    }
    finish(child).exits(130);
    told.elapsed()
}

/// F25, CLI-29: a hangup ends us at once, and the server we started goes with us.
#[test]
fn a_hangup_leaves_nothing_behind() {
    let scratch = Scratch::new("hangup");
    let mark = Fifo::new(&scratch, "started");
    // It tells of itself once it is spoken to: then its guard knows of it.
    let script = format!("read -r line; echo $$ > {}; exec sleep 600", mark.path);
    let child = start(&["info", "--", "sh", "-c", &script]);
    let pid = mark.line();
    signal(&child, "HUP");
    assert_eq!(finish(child).code, None, "ended by the signal");
    let start = Instant::now();
    // One that is dead and not yet collected has no command line any more; collecting is init's business.
    let lives = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    while lives() {
        assert!(start.elapsed() < Duration::from_secs(10), "{pid} was left behind");
    }
}

/// CLI-29: a server has time to end by itself, and whatever it left in its group ends with it.
#[test]
fn cli_29_a_server_ends_with_its_group() {
    let scratch = Scratch::new("group");
    let (child, last) = (scratch.file("child"), scratch.file("last"));
    // What it started hears neither the end of its input nor a TERM.
    let script = format!(
        "(trap '' TERM; exec sleep 600) <&- >&- 2>&- & echo $! > {child}; {CARDAN} demo; echo ended > {last}"
    );
    cardan(&["call", "echo", "message=hi", "--", "sh", "-c", &script]).exits(0).prints("hi\n");
    assert_eq!(std::fs::read_to_string(last).unwrap(), "ended\n", "it was not cut off");
    let pid = std::fs::read_to_string(child).unwrap().trim().to_owned();
    let lives = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    let start = Instant::now();
    while lives() {
        assert!(start.elapsed() < Duration::from_secs(10), "{pid} was left behind");
    }
}

/// F25: whoever closed our stdout, before we started or since, gets no complaint.
#[test]
fn a_closed_stdout_is_no_error() {
    let script = format!("{CARDAN} call echo message=hi -- {CARDAN} demo >&-");
    let ran = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    assert_eq!((ran.status.code(), &*ran.stderr), (Some(0), &b""[..]), "{ran:?}");
    let served = Command::new("sh").args(["-c", &format!("{CARDAN} demo >&- < /dev/null")]).output().unwrap();
    assert_eq!((served.status.code(), &*served.stderr), (Some(0), &b""[..]), "{served:?}");
}
