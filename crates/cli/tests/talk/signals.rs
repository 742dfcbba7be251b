//! Ctrl-C and Ctrl-Z as the terminal sends them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::pty::{CTRL_C, CTRL_Z, Pty, Seat};
use crate::common::{
    CARDAN, Fifo, Scratch, calling, has_python, odd_server, stubborn_server, watching_server,
};
use crate::scene::Scene;

/// CLI-13, F25: over stdio the cancel note is there before we leave with 130.
#[test]
fn cli_13_ctrl_c_cancels_over_stdio() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("typed-interrupt");
    let log = Fifo::new(&scratch, "log");
    let mut seat = Pty::new(80).start(&[&["call", "odd"][..], &odd_server("hang", &log.path)].concat());
    let call = log.message("tools/call");
    seat.types(CTRL_C);
    let cancel = log.message("notifications/cancelled");
    assert_eq!(cancel["params"]["requestId"], call["id"]);
    seat.end().exits(130);
}

/// CLI-13, F25: the server has the cancel while we are still there.
#[test]
fn cli_13_we_leave_after_the_server_has_heard() {
    let scratch = Scratch::new("typed-heard");
    let (mark, last) = (Fifo::new(&scratch, "mark"), scratch.file("last"));
    let mut seat = Pty::new(80).start(&calling(&watching_server(&mark.path, &last)));
    assert_eq!(mark.line(), "called");
    seat.types(CTRL_C);
    seat.end().exits(130);
    let heard = std::fs::read_to_string(last).expect("we were there");
    assert!(heard.contains("notifications/cancelled"), "{heard}");
}

/// A server on a port that says on its stderr what it notices.
struct Loud {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Loud {
    fn start() -> Self {
        let mut command = Command::new(CARDAN);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// The rest of the first line with this in it.
    fn says(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it ended without {what:?}");
            if let Some((_, rest)) = line.split_once(what) {
                return rest.to_owned();
            }
        }
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CLI-13: over HTTP, in both eras, and over a WebSocket the server gives the work up that nobody waits for.
#[test]
fn cli_13_ctrl_c_cancels_over_the_network() {
    let mut server = Loud::start();
    let rest = server.says("http://");
    let address = rest.split('/').next().unwrap().to_owned();
    let (http, ws) = (format!("http://{address}/mcp"), format!("ws://{address}/ws"));
    for (url, era) in [(&http, "legacy"), (&http, "modern"), (&ws, "legacy"), (&ws, "modern")] {
        let mut seat = Pty::new(80).start(&["call", url, "slow", "steps=1000", "delay_ms=50", "--era", era]);
        seat.sees("of 1000").types(CTRL_C);
        server.says("cancelled");
        seat.end().exits(130);
    }
}

/// CLI-13: a server that does not leave is not waited for after the second Ctrl-C, and nothing of the terminal is changed.
#[test]
fn cli_13_the_second_ctrl_c_quits() {
    // After one alone the server has a second to leave. Both runs pay for a busy machine.
    let (once, twice) = (quits_after(1), quits_after(2));
    assert!(twice + Duration::from_millis(100) < once, "{twice:?} after two, {once:?} after one");
}

/// How long a server that does not leave is waited for after so many of them.
fn quits_after(typed: usize) -> Duration {
    let scratch = Scratch::new(&format!("typed-{typed}"));
    let mark = Fifo::new(&scratch, "mark");
    let mut seat = Pty::new(80).start(&calling(&stubborn_server(&mark.path)));
    assert_eq!(mark.line(), "called");
    let before = seat.modes();
    seat.types(CTRL_C);
    assert_eq!(mark.line(), "cancelled");
    let told = Instant::now();
    for _ in 1..typed {
        seat.types(CTRL_C);
    }
    assert_eq!(seat.end().exits(130).modes, before);
    told.elapsed()
}

/// An interactive shell that stops and continues jobs. Nothing: there is none here.
fn shell(env: &[(&str, &str)]) -> Option<Seat> {
    let version = Command::new("bash").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("skipped: bash is not installed, so there is no shell that stops and continues jobs");
        return None;
    }
    let pty = Pty::new(120).program("bash").env("PS1", "ready> ").env("CARDAN", CARDAN);
    let pty = env.iter().fold(pty, |pty, (name, value)| pty.env(name, value));
    let mut seat = pty.start(&["--norc", "--noprofile", "-i"]);
    seat.sees("ready> ");
    Some(seat)
}

/// Ctrl-Z stops us at a question, and back in the foreground it is asked again.
#[test]
fn a_stopped_question_is_asked_again() {
    let Some(mut seat) = shell(&[]) else { return };
    seat.types("$CARDAN call ask question=Who? -- $CARDAN demo\r");
    seat.sees("answer: ").types(CTRL_Z).sees("Stopped").sees("ready> ");
    seat.types("fg\r")
        .sees("answer: ")
        .types("Ada\r")
        .sees("Send it?")
        .types("\r")
        .sees("Ada")
        .sees("ready> ");
    seat.types("$CARDAN call echo -- $CARDAN demo\r");
    seat.sees("message: ").types(CTRL_Z).sees("ready> ").types("fg\r");
    seat.sees("message: ").types("back again\r").sees("back again").sees("back again").sees("ready> ");
    seat.types("exit\r");
    seat.end();
}

/// The shell shows what is typed while a hidden question is stopped; back in the foreground the question is hidden again.
#[test]
fn a_stopped_secret_stays_hidden() {
    let properties = json!({ "password": { "type": "string" } });
    let Some(scene) = Scene::form("stopped-secret", "Log in", &properties, &["password"]) else { return };
    let (server, log, script) = scene.server();
    let Some(mut seat) = shell(&[("SERVER", server), ("LOG", &log), ("SCRIPT", script)]) else { return };
    seat.types("$CARDAN call go -- python3 $SERVER $LOG \"$SCRIPT\"\r").sees("[y/N] ").types("y\r");
    seat.sees("password: ").types(CTRL_Z).sees("Stopped").sees("ready> ");
    seat.types("echo shown\r").sees("echo shown").sees("ready> ").types("fg\r").sees("password: ");
    assert!(!seat.modes().0, "hidden again");
    seat.types("hunter2\r").sees("(hidden)").sees("Send it?").types("n\r").sees("ready> ");
    seat.types("exit\r");
    let shown = seat.end().written();
    assert!(!shown.contains("hunter2"), "{shown}");
}
