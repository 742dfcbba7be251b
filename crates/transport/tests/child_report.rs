//! Whatever ends a link to a child: its last words and how it ended are there to be read.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{Cause, Event, Outcome};
use cardan_runtime::driver::Driver;
use cardan_runtime::witness::Report;
use cardan_transport::spawn::Spawn;
use common::{Herald, config, connect, sh, start, within};

/// Runs a session to its end.
async fn run(spawn: &Spawn, config: Config) -> (Cause, Report) {
    let link = spawn.spawn(&config.limits).unwrap();
    let (driver, peer) = Driver::new(link, Arc::new(Herald::default()), Arc::new(config));
    let cause = within(10, "the end", driver).await;
    (cause, peer.report())
}

fn strict(limits: Limits) -> Config {
    Config { strictness: Strictness::Strict, ..Config::clone(&config(Role::Client, &limits)) }
}

/// S0-31, S0-35: causes that the protocol finds are told with what the process said, and how it ended.
#[tokio::test]
async fn s0_35_every_end_has_its_last_words() {
    let refusal = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}'"#;
    let unknown = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{}}}'"#;
    let rows = [
        ("read -r line; echo 'hello, world'", "violated"),
        (refusal, "refused"),
        (unknown, "no common revision"),
        (":", "timeout"),
    ];
    for (script, expected) in rows {
        let limits = Limits { open_timeout: Duration::from_secs(1), ..Limits::DEFAULT };
        let spawn = sh(&format!("echo 'out of cheese' >&2; {script}; read -r line; read -r line; exit 7"));
        let (cause, report) = run(&spawn, strict(limits)).await;
        let told = match cause {
            Cause::Violated(Rule::Noise) => "violated",
            Cause::OpenRefused(_) => "refused",
            Cause::NoCommonRevision { .. } => "no common revision",
            Cause::OpenTimeout => "timeout",
            other => panic!("{expected}: {other:?}"),
        };
        assert_eq!(told, expected);
        let exit = Some("exit status: 7".into());
        assert_eq!(report, Report { exit, stderr: "out of cheese\n".into() }, "{expected}");
    }
}

/// S0-31, S0-82: a server that does not take our bytes says why on stderr.
#[tokio::test]
async fn s0_82_a_stalled_server_has_its_last_words() {
    let limits = Limits { stall_timeout: Duration::from_millis(300), ..Limits::DEFAULT };
    let session = connect(&sh("hello; echo 'swapping' >&2; sleep 100"), &limits).await;
    let bulk = format!(r#"{{"a":"{}"}}"#, "a".repeat(1 << 20));
    let outcome = within(5, "the outcome", session.call("x", &bulk)).await;
    assert!(matches!(outcome, Outcome::Lost { cause: Cause::Stalled, .. }), "{outcome:?}");
    assert_eq!(session.peer.report(), Report { exit: None, stderr: "swapping\n".into() }, "it runs still");
    within(6, "the end", session.driver).await.unwrap();
    assert!(session.peer.report().exit.is_some_and(|exit| exit.starts_with("signal: 15")));
}

/// S0-31, S0-57: while a call waits, or after it has timed out, the last words can be read.
#[tokio::test]
async fn s0_57_a_timed_out_call_can_be_explained_by_stderr() {
    let limits = Limits { call_idle_timeout: Duration::from_millis(500), ..Limits::DEFAULT };
    let session = connect(&sh("hello; read -r line; echo 'thinking' >&2; read -r line"), &limits).await;
    let call = session.call("x", "{}");
    let outcome = within(5, "the outcome", call).await;
    assert!(matches!(outcome, Outcome::TimedOut { .. }), "{outcome:?}");
    assert_eq!(&*session.peer.report().stderr, "thinking\n");
}

/// S0-43: when a caller learns that the link is lost, the last words are there already.
#[tokio::test]
async fn s0_43_a_lost_call_finds_the_last_words() {
    let script = "hello; read -r line; echo 'about to babble' >&2; echo babble; read -r line; read -r line";
    let link = sh(script).spawn(&Limits::DEFAULT).unwrap();
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), Arc::new(strict(Limits::DEFAULT)));
    let driver = tokio::spawn(driver);
    within(5, "the handshake", herald.ready.notified()).await;
    let params = r#"{"name":"x"}"#.into();
    let call = peer.call(cardan_proto::method::Method::ToolsCall, Some(params), Default::default());
    let outcome = within(5, "the outcome", call).await;
    assert!(matches!(outcome, Outcome::Lost { cause: Cause::Violated(Rule::Noise), .. }), "{outcome:?}");
    assert_eq!(&*peer.report().stderr, "about to babble\n");
    within(5, "the end", driver).await.unwrap();
}

/// S1-11: a server that answers on stderr is found out, once, and is not cut off for it.
#[tokio::test]
async fn s1_11_frames_on_stderr_are_reported() {
    let script = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}' >&2; echo '{"jsonrpc":"2.0"}' >&2; read -r line; read -r line"#;
    let limits = Limits { open_timeout: Duration::from_millis(500), ..Limits::DEFAULT };
    let session = start(&sh(script), &limits);
    let cause = within(5, "the end", session.driver).await.unwrap();
    assert_eq!(cause, Cause::OpenTimeout);
    let events = session.herald.events.lock().unwrap();
    let found: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Found(finding) => Some((finding.rule, &*finding.detail)),
            _ => None,
        })
        .collect();
    assert_eq!(found, [(Rule::FrameOnStderr, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)]);
}
