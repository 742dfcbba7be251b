//! How a child ends: told apart, within bounds, and with everything it started.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Delivery, Event, LaneId, Outcome, Outgoing};
use cardan_runtime::link::{Link, Received};
use cardan_transport::guard::Guard;
use common::{
    close, connect, ended, explain, frame, group_gone, kill, members, processes, python, recv, result, sh,
    start, within,
};
use rustix::process::Signal;
use serde_json::json;

/// The process table has nothing of the group left, at once: the close has waited for it.
const SOON: Duration = Duration::from_millis(500);

fn exited(cause: &Cause) -> (&str, &str) {
    match cause {
        Cause::Exited { status, stderr } => (status, stderr),
        other => panic!("not exited: {other:?}"),
    }
}

/// S0-35, S0-82, S0-31: an end that nobody asked for tells status and last words, to callers too.
#[tokio::test]
async fn s0_35_an_exit_is_explained() {
    let session =
        connect(&sh("hello; read -r line; echo 'out of cheese' >&2; exit 3"), &Limits::DEFAULT).await;
    let outcome = within(5, "the outcome", session.call("x", "{}")).await;
    let Outcome::Lost { cause, delivery } = outcome else { panic!("{outcome:?}") };
    assert_eq!(exited(&cause), ("exit status: 3", "out of cheese\n"));
    assert_ne!(delivery, Delivery::NotSent, "S0-43: it was written in full");
    assert_eq!(within(5, "the end", session.driver).await.unwrap(), cause);
    assert!(session.peer.is_closed(), "S1-17: terminal");
    let late = within(1, "a call after the end", session.peer.listen(Default::default())).await;
    assert!(matches!(late, Outcome::Lost { delivery: Delivery::NotSent, .. }), "{late:?}");
}

/// S0-31: a server that dies before the handshake says why.
#[tokio::test]
async fn s0_31_an_exit_before_the_handshake_is_explained() {
    let session = start(&sh("echo 'usage: server FILE' >&2; exit 64"), &Limits::DEFAULT);
    let cause = within(5, "the end", session.driver).await.unwrap();
    assert_eq!(exited(&cause), ("exit status: 64", "usage: server FILE\n"));
    let text = cause.to_string();
    assert!(text.contains("exit status: 64") && text.contains("usage: server FILE"), "{text}");
}

/// S0-35, F1: a signal is told as one.
#[tokio::test]
async fn s0_35_a_signal_is_explained() {
    let mut link = sh("kill -SEGV $$").spawn(&Limits::DEFAULT).unwrap();
    assert!(matches!(recv(&mut link).await, Received::ReadClosed));
    let cause = explain(&mut link, Cause::ClosedByPeer).await;
    assert!(exited(&cause).0.starts_with("signal: 11"), "{cause:?}");
    close(&mut link).await;
}

/// S0-43: other causes are not second-guessed.
#[tokio::test]
async fn what_we_did_ourselves_needs_no_explanation() {
    let mut link = sh("exit 1").spawn(&Limits::DEFAULT).unwrap();
    assert_eq!(explain(&mut link, Cause::Stalled).await, Cause::Stalled);
    close(&mut link).await;
}

/// S1-12: a server that closes its stdout and lives has closed the link, and has not crashed.
#[tokio::test]
async fn s1_12_stdout_closed_while_alive_is_no_crash() {
    let session = connect(&sh("hello; exec 1>&-; read -r line; read -r line"), &Limits::DEFAULT).await;
    let outcome = within(5, "the outcome", session.call("x", "{}")).await;
    assert!(matches!(outcome, Outcome::Lost { cause: Cause::ClosedByPeer, .. }), "{outcome:?}");
    assert_eq!(within(5, "the end", session.driver).await.unwrap(), Cause::ClosedByPeer);
    group_gone(session.pid, SOON).await;
}

/// S1-12, S1-17: a server that closes its stdin and lives takes nothing more; the callers learn it.
#[tokio::test]
async fn s1_12_stdin_closed_while_alive_ends_the_link() {
    let closed = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&closed);
    let spawn = sh("hello; exec 0<&-; echo closed >&2; sleep 100").on_stderr(move |_| told.notify_one());
    let session = connect(&spawn, &Limits::DEFAULT).await;
    within(5, "the closing", closed.notified()).await;
    let outcome = within(5, "the outcome", session.call("x", "{}")).await;
    assert!(matches!(outcome, Outcome::Lost { cause: Cause::Io(_), .. }), "{outcome:?}");
    within(6, "the end", session.driver).await.unwrap();
    group_gone(session.pid, SOON).await;
}

/// STD-11, STD-12, S0-34, S1-C9: a server that leaves at the end of its input is given the time to.
#[tokio::test]
async fn std_11_a_polite_server_leaves_by_itself() {
    let script = "signal.signal(signal.SIGTERM, lambda *_: os._exit(9))\nserve({'x': echo})\nsys.stderr.write('left by myself')";
    let session = connect(&python(script), &Limits::DEFAULT).await;
    result(within(5, "the call", session.call("x", "{}")).await);
    let stderr = session.stderr.clone();
    let pid = session.pid;
    let (cause, took) = session.close().await;
    assert_eq!(cause, Cause::ClosedByUs("done".into()));
    assert_eq!(stderr.tail(), "left by myself", "no signal came in between");
    assert!(took < Duration::from_secs(1), "STD-12: {took:?}");
    group_gone(pid, SOON).await;
}

/// F7, STD-11: one that ignores the end of input gets TERM after its grace.
#[tokio::test]
async fn f7_term_comes_after_the_grace_of_the_end_of_input() {
    let mut link = sh("trap 'echo terminated >&2; exit 0' TERM; echo '{}'; while :; do sleep 0.05; done")
        .spawn(&Limits::DEFAULT)
        .unwrap();
    recv(&mut link).await;
    let (took, stderr) = (close(&mut link).await, link.stderr());
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert!(stderr.tail().ends_with("terminated\n"), "{}", stderr.tail());
}

/// F7, S0-34, T26: one that ignores everything, with a grandchild that does too, is gone within 5 s.
#[tokio::test]
async fn f7_what_ignores_everything_is_killed_with_its_children() {
    let script =
        "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo '{}'; while :; do sleep 1; done";
    let mut link = sh(script).spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    let id = link.id().unwrap();
    assert!(members(id).len() >= 2);
    let took = close(&mut link).await;
    assert!((Duration::from_secs(4)..Duration::from_millis(5200)).contains(&took), "{took:?}");
    group_gone(id, SOON).await;
    assert!(close(&mut link).await < SOON, "S0-34: closing again does nothing");
}

/// F7: one that exits in the middle of a grace is not waited for, and that is no error.
#[tokio::test]
async fn f7_an_exit_during_the_grace_ends_the_wait() {
    let mut link = python("sys.stdin.read(); time.sleep(0.3)").spawn(&Limits::DEFAULT).unwrap();
    let took = close(&mut link).await;
    assert!((Duration::from_millis(300)..Duration::from_millis(1500)).contains(&took), "{took:?}");
    assert_eq!(link.id(), None);
}

/// T26, F2: a leader that leaves politely does not leave its children behind, double forks included.
#[tokio::test]
async fn t26_grandchildren_do_not_outlive_the_leader() {
    let script = "(sleep 1000 & sleep 1001 &) & echo '{}'; read -r line; exit 0";
    let mut link = sh(script).spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    let id = link.id().unwrap();
    let took = close(&mut link).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    group_gone(id, SOON).await;
}

/// F1: a dead server is noticed although a process it started holds its stdout open.
#[tokio::test]
async fn f1_a_grandchild_that_holds_the_pipe_does_not_hide_the_death() {
    let session = connect(&sh("hello; sleep 1000 & read -r line; read -r line"), &Limits::DEFAULT).await;
    let call = session.call("x", "{}");
    kill(session.pid, Signal::KILL);
    let outcome = within(2, "the outcome", call).await;
    assert!(
        matches!(&outcome, Outcome::Lost { cause, .. } if exited(cause).0.starts_with("signal: 9")),
        "{outcome:?}"
    );
    within(2, "the end", session.driver).await.unwrap();
    group_gone(session.pid, SOON).await;
}

/// F1, S0-35: nor does one that has left the group, although it cannot be swept and holds both streams.
#[tokio::test]
async fn f1_a_grandchild_in_a_session_of_its_own_does_not_hide_the_death() {
    let script = "
stray = subprocess.Popen(['sleep', '1000'], start_new_session=True)
sys.stderr.write('%d\\n' % stray.pid); sys.stderr.flush()
def leave(arguments):
    send({'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {'level': 'info', 'data': 'bye'}})
    os._exit(3)
serve({'x': echo, 'leave': leave})";
    let session = connect(&python(script), &Limits::DEFAULT).await;
    result(within(5, "a reply", session.call("x", "{}")).await);
    let stray: u32 = session.stderr.tail().trim().parse().unwrap();
    let outcome = within(3, "the outcome", session.call("leave", "{}")).await;
    let end = within(3, "the end", session.driver).await.unwrap();
    kill(stray, Signal::KILL);
    assert!(
        matches!(&outcome, Outcome::Lost { cause, .. } if exited(cause).0 == "exit status: 3"),
        "{outcome:?}"
    );
    assert_eq!(exited(&end).0, "exit status: 3");
    let logged =
        session.herald.events.lock().unwrap().iter().any(|event| matches!(event, Event::Logged { .. }));
    assert!(logged, "what it said before is read");
}

/// S0-34: a driver that is dropped kills the group at once, without any grace.
#[tokio::test]
async fn dropping_the_link_kills_the_group() {
    let script = "trap '' TERM; sleep 1000 & echo '{}'; while :; do sleep 1; done";
    let mut link = sh(script).spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    let id = link.id().unwrap();
    drop(link);
    group_gone(id, SOON).await;
}

/// S0-34: even when the runtime is gone before the link is.
#[test]
fn dropping_the_link_needs_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut link = runtime
        .block_on(async { sh("echo '{}'; sleep 1000").guard(Guard::On).spawn(&Limits::DEFAULT).unwrap() });
    runtime.block_on(recv(&mut link));
    let id = link.id().unwrap();
    drop(runtime);
    drop(link);
    let start = Instant::now();
    while !members(id).is_empty() {
        assert!(start.elapsed() < SOON, "{:?}", members(id));
        std::thread::yield_now();
    }
}

/// F2: a guard is posted with the child and leaves with it, killing nobody.
#[tokio::test]
async fn f2_the_guard_leaves_after_a_close() {
    let mut link = sh("echo '{}'; read -r line").guard(Guard::On).spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    // Other tests of this binary have guards of their own for a short while; they leave likewise.
    let guard = |p: &common::Process| p.parent == std::process::id() && p.command.contains("read -r group");
    let guards: Vec<_> = processes().into_iter().filter(guard).collect();
    assert!(!guards.is_empty());
    close(&mut link).await;
    for guard in guards {
        within(5, "the guard's leave", ended(guard.pid)).await;
    }
}

/// STD-4, S1-C8: stderr is no sign of failure; its lines are forwarded, its tail is kept.
#[tokio::test]
async fn std_4_stderr_is_no_error() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let spawn =
        python("sys.stderr.write('ERROR: not really\\nready\\n'); sys.stderr.flush()\nserve({'x': echo})")
            .on_stderr(move |line| sink.lock().unwrap().push(line.to_owned()));
    let session = connect(&spawn, &Limits::DEFAULT).await;
    assert_eq!(
        result(within(5, "the call", session.call("x", r#"{"a":1}"#)).await)["structuredContent"],
        json!({"a": 1})
    );
    let found = session.herald.events.lock().unwrap().iter().any(|event| matches!(event, Event::Found(_)));
    assert!(!found, "S1-11: prose is no message");
    session.close().await;
    assert_eq!(*lines.lock().unwrap(), ["ERROR: not really", "ready"]);
}

/// S0-6, S1-9, S1-13, S1-14, S1-C7: what we write is one whole line of UTF-8 JSON per message.
#[tokio::test]
async fn s1_9_messages_are_lines_on_the_wire() {
    let script = "for line in sys.stdin.buffer: send({'raw': line.decode('utf-8', 'strict')})";
    let mut link = python(script).spawn(&Limits::DEFAULT).unwrap();
    let messages = [r#"{"a":"é\n"}"#, r#"{"b":2}"#, r#"[1]"#];
    for (frame, message) in (1..).zip(messages) {
        link.put(frame, LaneId::MAIN, &Outgoing::Raw(message.into()));
    }
    within(5, "the flush", std::future::poll_fn(|cx| link.poll_flush(cx))).await.unwrap();
    for message in messages {
        assert_eq!(frame(&mut link).await, json!({ "raw": format!("{message}\n") }));
    }
    assert_eq!((link.queued(), link.departed().in_order), (0, 3));
    close(&mut link).await;
}

/// S1-10, S1-15, S0-32: CRLF, blank lines, blanks around a line and a byte order mark are forgiven.
#[tokio::test]
async fn s1_10_foreign_line_ends_are_read() {
    let script = r#"sys.stdout.buffer.write(b'\xef\xbb\xbf{"a":1}\r\n\r\n\n  {"b":2}\t \n{"c":'); sys.stdout.flush(); time.sleep(0.05); sys.stdout.buffer.write(b'3}\n'); sys.stdout.flush(); sys.stdin.read()"#;
    let mut link = python(script).spawn(&Limits::DEFAULT).unwrap();
    for expected in [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})] {
        assert_eq!(frame(&mut link).await, expected);
    }
    close(&mut link).await;
}

/// S1-6: bytes that are no UTF-8 are a finding; the session goes on.
#[tokio::test]
async fn s1_6_invalid_utf8_is_a_finding() {
    let script = "serve({'x': lambda a: sys.stdout.buffer.write(b'{\"jsonrpc\":\"2.0\",\"method\":\"\\xff\\xfe\"}\\n') and {}, 'y': echo})";
    let session = connect(&python(script), &Limits::DEFAULT).await;
    result(within(5, "the call", session.call("x", "{}")).await);
    result(within(5, "the next", session.call("y", "{}")).await);
    let found = session.herald.events.lock().unwrap().iter().any(|event| matches!(event, Event::Found(_)));
    assert!(found, "it was noted");
    session.close().await;
}

/// F4: half a line and then death, cut at every offset: reported, never taken for a message.
#[tokio::test]
async fn f4_half_a_line_is_discarded_and_the_call_lost() {
    let reply = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;
    for cut in 1..=reply.len() {
        let script = format!("hello; read -r line; printf '%s' '{}'; exit 7", &reply[..cut]);
        let session = connect(&sh(&script), &Limits::DEFAULT).await;
        let outcome = within(5, "the outcome", session.call("x", "{}")).await;
        let Outcome::Lost { cause, .. } = &outcome else { panic!("cut at {cut}: {outcome:?}") };
        assert_eq!(exited(cause).0, "exit status: 7");
        within(5, "the end", session.driver).await.unwrap();
        let events = session.herald.events.lock().unwrap();
        let finding = events.iter().find_map(|event| match event {
            Event::Found(finding) if finding.rule == Rule::Unterminated => Some(finding.detail.clone()),
            _ => None,
        });
        assert!(
            finding.is_some_and(|detail| detail.contains(&format!("{cut} bytes"))),
            "cut at {cut}: {events:?}"
        );
    }
}
