//! Servers that misbehave against our client: every behaviour has one defined outcome within a deadline,
//! leaves the findings it should, and the next valid call still works.
//!
//! The servers are in `peers/evil`; they need Python 3.11 and nothing else. Rows tell in short what came
//! of a call to the tool `evil`: the era, the outcome, what was found, what the server heard in reply to
//! calls of its own, and how the link ended, unless the next call was served.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{Answerers, CallError, Client, ConnectError, Urls};
use cardan::proto::era::Era;
use cardan::proto::finding::Strictness;
use cardan::proto::limits::Limits;
use cardan::proto::model::CallToolResult;
use cardan::proto::model::elicit::ElicitResult;
use cardan::proto::session::config::EraChoice::{self, Auto, Legacy, Modern};
use cardan::proto::session::event::{CallOptions, Cause, Event, Wanted};
use cardan::runtime::lines::Lines;
use cardan::transport::error::SpawnError;
use cardan::transport::spawn::Spawn;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::RwLock;

/// Peaks of memory are the whole process's: whoever measures one is alone.
static ALONE: RwLock<()> = RwLock::const_new(());

/// Whatever one run waits for must happen within this.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was found, by rule.
type Found = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// One behaviour, and how our client meets it.
struct Run {
    behaviour: &'static str,
    era: EraChoice,
    strictness: Strictness,
    limits: Limits,
    options: CallOptions,
}

/// A client that is connected, and what is known of it from outside.
struct Met {
    client: Result<Client, ConnectError<SpawnError>>,
    found: Found,
    starts: usize,
}

impl Run {
    fn new(behaviour: &'static str, era: EraChoice) -> Self {
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        Self { behaviour, era, strictness: Strictness::Standard, limits: Limits::DEFAULT, options }
    }

    async fn connect(&self) -> Met {
        let spawn = Spawn::new(python()).arg("-S").arg(evil()).args(["server", self.behaviour]);
        let found = Found::default();
        let seen = Arc::clone(&found);
        let answers = Answerers::default().elicit(Urls::NotOffered, |_| async {
            Ok(ElicitResult::filled([("a".to_owned(), "blue".into())].into()))
        });
        let connector = Client::builder("tests", "0")
            .answer(answers)
            .era(self.era)
            .strictness(self.strictness)
            .limits(self.limits.clone())
            .observe(move |event| {
                if let Event::Found(finding) = event {
                    *seen.lock().unwrap().entry(finding.rule.id()).or_default() += 1;
                }
            });
        let mut starts = 0;
        let dial = async || -> Result<_, SpawnError> {
            starts += 1;
            spawn.spawn(&self.limits)
        };
        let client = within(self.behaviour, connector.connect(dial)).await;
        Met { client, found, starts }
    }

    /// Connects, calls `evil`, then `echo`, and tells what happened.
    async fn told(&self) -> String {
        let met = self.connect().await;
        let client = match met.client {
            Ok(client) => client,
            Err(error) => return format!("{}{}", no_session(&error), told_findings(&met.found)),
        };
        let evil = self.evil(&client).await;
        let era = match client.settled().revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        let after = self.echo(client).await;
        format!("{era}: {evil}{}{after}", told_findings(&met.found))
    }

    /// Calls the tool that misbehaves; for those that misbehave at the list, lists.
    async fn evil(&self, client: &Client) -> String {
        let arguments = json!({ "message": "well done" });
        let mut call = client.call_tool_with("evil", &arguments, self.options).unwrap();
        let outcome = async {
            while let Some(progress) = call.progress().await {
                if progress.message.as_deref() == Some("cancel me") {
                    call.cancel("as asked");
                }
            }
            call.await
        };
        match within(self.behaviour, outcome).await {
            Ok(result) => format!("done, {}", text(&result)),
            Err(error) => told_error(&error),
        }
    }

    /// The next valid call, if the link lives.
    async fn echo(&self, mut client: Client) -> String {
        let echoed = client.call_tool("echo", &json!({ "message": "still there" })).unwrap();
        match within(self.behaviour, echoed).await {
            Ok(result) => {
                assert_eq!(text(&result), "still there");
                let heard = result.structured_content.unwrap().value()["heard"].clone();
                within(self.behaviour, client.close("done")).await;
                if heard == json!([]) { String::new() } else { format!("; heard {heard}") }
            }
            Err(CallError::Lost { .. }) => {
                let cause = within(self.behaviour, client.closed()).await;
                format!("; ended: {}", told_cause(&cause))
            }
            Err(error) => format!("; then {}", told_error(&error)),
        }
    }
}

fn evil() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/evil/evil.py")
}

/// The system's own Python where there is one: what a shim in `PATH` adds is not ours to test.
fn python() -> &'static str {
    let own = "/usr/bin/python3";
    if Path::new(own).exists() { own } else { "python3" }
}

async fn within<T>(behaviour: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{behaviour}: over {PATIENCE:?}"))
}

fn text(result: &CallToolResult) -> &str {
    result.content.first().and_then(|content| content.as_text()).unwrap_or_default()
}

fn told_error(error: &CallError) -> String {
    match error {
        CallError::Fault(fault) => format!("fault {}", fault.code),
        CallError::TimedOut { deadline, .. } => format!("timed out, {deadline:?}"),
        CallError::Cancelled { reason, .. } => format!("cancelled, {reason}"),
        CallError::Lost { cause, .. } => format!("lost, {}", told_cause(cause)),
        CallError::Violated(violation) => format!("violated {}", violation.rule.id()),
        other => other.to_string(),
    }
}

fn told_cause(cause: &Cause) -> String {
    match cause {
        Cause::Violated(rule) => format!("violated {}", rule.id()),
        Cause::Exited { status, stderr } => format!("{status}, {:?}", stderr.trim_end()),
        other => other.to_string(),
    }
}

fn no_session(error: &ConnectError<SpawnError>) -> String {
    match error {
        ConnectError::Opening { cause, .. } => format!("no session: {}", told_cause(cause)),
        other => other.to_string(),
    }
}

fn told_findings(found: &Found) -> String {
    let found = found.lock().unwrap();
    if found.is_empty() {
        return String::new();
    }
    let rules: Vec<_> = found.iter().map(|(rule, times)| format!("{rule} {times}")).collect();
    format!("; found {}", rules.join(", "))
}

/// Runs every row in an era, and tells all that came out otherwise.
async fn table(era: EraChoice, rows: &[(&'static str, &str)]) {
    let _others = ALONE.read().await;
    let mut wrong = Vec::new();
    for (behaviour, expected) in rows {
        let told = Run::new(behaviour, era).told().await;
        if told != *expected {
            wrong.push(format!("{behaviour}, {era:?}\n  expected {expected}\n  but      {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same in both eras.
async fn both(rows: &[(&'static str, &str)]) {
    for (choice, era) in [(Modern, "modern"), (Legacy, "legacy")] {
        let told: Vec<_> = rows.iter().map(|(_, expected)| format!("{era}: {expected}")).collect();
        let rows: Vec<_> =
            rows.iter().zip(&told).map(|((behaviour, _), told)| (*behaviour, &**told)).collect();
        table(choice, &rows).await;
    }
}

/// A behaviour that no test names proves nothing.
#[test]
fn every_behaviour_has_its_test() {
    let listed = Command::new(python()).arg("-S").arg(evil()).arg("list").output().expect("python3 is there");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let behaviours: Vec<_> = listed.lines().filter_map(|line| line.strip_prefix("server ")).collect();
    assert!(behaviours.len() > 40, "{listed}");
    for behaviour in behaviours {
        assert!(include_str!("evil_server.rs").contains(&format!("\"{behaviour}\"")), "{behaviour}");
    }
}

/// F8, S0-41, S0-81, S1-10, S3-19, STD-2, STD-18, T21: what is no message is skipped and counted; foreign line
/// ends, blank lines, a byte order mark and tiny writes are no mistakes.
#[tokio::test]
async fn f8_noise_is_skipped_and_counted() {
    both(&[
        ("banner", "done, well done; found noise 3"),
        ("blank_lines", "done, well done"),
        ("byte_order_mark", "done, well done"),
        ("crlf", "done, well done"),
        ("byte_by_byte", "done, well done"),
        ("not_utf8", "done, well done; found noise 2"),
        ("nul_bytes", "done, well done; found noise 2"),
        ("deep_line", "done, well done; found depth 2"),
        ("stderr_flood", "done, well done"),
    ])
    .await;
}

/// F8, S0-40: a thousand lines of noise in a row are borne, one more ends the link and says why.
#[tokio::test]
async fn f8_noise_without_end_ends_the_link() {
    both(&[("noise_flood", "lost, violated noise; found noise 1001; ended: violated noise")]).await;
}

/// F1, F4, S0-43, S0-82, S3-6: how a server ended is told to whoever waits, and half a line is no message.
#[tokio::test]
async fn s0_43_an_end_is_told_with_its_reason() {
    both(&[
        (
            "half_line",
            "lost, exit status: 3, \"out of ink\"; found unterminated 1; ended: exit status: 3, \"out of ink\"",
        ),
        (
            "whole_line_without_newline",
            "lost, exit status: 0, \"\"; found unterminated 1; ended: exit status: 0, \"\"",
        ),
        ("killed", "lost, signal: 9 (SIGKILL), \"\"; ended: signal: 9 (SIGKILL), \"\""),
        ("closes_stdout", "lost, closed by the peer; ended: closed by the peer"),
    ])
    .await;
}

/// F16, S0-17, S0-20, S0-81, S1-5, S3-11, S3-18, BASE-1, BASE-7, BASE-8, BASE-9, BASE-16, CAN-6, T11: a reply
/// that is none fails its own call at once; one that belongs to nobody is counted and changes nothing.
#[tokio::test]
async fn f16_wrong_replies_fail_their_own_call_or_none() {
    both(&[
        ("both_outcomes", "violated both-outcomes; found both-outcomes 1"),
        ("no_outcome", "violated no-outcome; found no-outcome 1"),
        ("wrong_version", "violated version-wrong; found version-wrong 1"),
        ("missing_version", "violated version-missing; found version-missing 1"),
        ("error_is_text", "violated error-shape; found error-shape 1"),
        ("string_id", "violated id-type-changed; found id-type-changed 1"),
        ("null_id_error", "fault -32700; found reply-without-id 1"),
        ("unknown_ids", "done, well done; found id-fraction 1, unknown-reply 4"),
        ("duplicate_reply", "done, well done; found duplicate-reply 1"),
        ("two_results", "done, well done; found duplicate-reply 2"),
        ("reply_after_cancel", "cancelled, as asked; found late-reply 1"),
        ("batch_reply", "violated batch-forbidden; found batch-forbidden 1"),
        ("result_not_an_object", "violated result-type; found result-type 1"),
        ("deep_reply", "violated depth; found depth 1"),
        ("cancels_our_call", "done, well done; found cancel-unknown 2"),
        ("odd_notes", "done, well done; found id-null 1, note-misplaced 1, note-unknown 1, params-type 1"),
        ("progress_backwards", "done, well done; found progress-stuck 3"),
        ("progress_unknown", "done, well done; found params-shape 2, progress-unknown 3"),
    ])
    .await;
}

/// BASE-14, STD-17, S0-19: what only the legacy era has, and what it does not know.
#[tokio::test]
async fn legacy_servers_may_call_and_batch_within_bounds() {
    table(
        Legacy,
        &[
            ("batch_reply_in_its_revision", "legacy: done, well done; found not-an-object 1"),
            ("unknown_result_type", "legacy: done, well done"),
            (
                "calls_the_client",
                "legacy: done, well done; found unadvertised 1; heard [\"ok\",-32601,-32601,-32601,-32601]",
            ),
        ],
    )
    .await;
}

/// F39, BASE-21, BASE-30, MRTR-2, MRTR-3, MRTR-6, MRTR-22: calls of a modern server are not answered, asks
/// that it may not make fail its call, and asks without end have one.
#[tokio::test]
async fn f39_modern_servers_may_not_call_or_ask_at_will() {
    table(
        Modern,
        &[
            ("unknown_result_type", "modern: violated result-type; found result-type 1"),
            ("ask_forever", "modern: cancelled, the server asked for input too often"),
            ("ask_undeclared", "modern: violated unadvertised; found unadvertised 1"),
            ("ask_for_nothing", "modern: violated result-shape; found result-shape 1"),
            ("calls_the_client", "modern: done, well done; found server-call 5"),
        ],
    )
    .await;
    let _others = ALONE.read().await;
    let met = Run::new("ask_on_list", Modern).connect().await;
    let client = met.client.unwrap();
    let error = within("ask_on_list", client.all_tools()).await.unwrap_err();
    assert_eq!(told_error(&error), "violated ask-misplaced");
    assert!(Run::new("ask_on_list", Modern).echo(client).await.is_empty());
}

/// A result that is not what its method promises is told as such, and is no reason to end anything.
#[tokio::test]
async fn a_result_of_the_wrong_shape_fails_its_call() {
    let _others = ALONE.read().await;
    for era in [Modern, Legacy] {
        let told = Run::new("wrong_shape", era).told().await;
        assert!(told.contains("does not have the shape of its method: invalid type"), "{told}");
        assert!(!told.contains("ended"), "{told}");
    }
}

/// VER-8, VER-12, VER-18, VER-29, VER-30, S0-31: openings that fail do so at once and say why; those that can
/// be saved are.
#[tokio::test]
async fn odd_openings_are_saved_or_explained() {
    table(
        Auto,
        &[
            ("empty_probe", "legacy: done, well done"),
            ("nonsense_probe", "legacy: done, well done; found both-outcomes 1"),
            ("prose_probe", "legacy: done, well done; found noise 2"),
            ("future_only", "no session: no common revision; the peer speaks 2099-01-01"),
            ("initialize_says_modern", "modern: done, well done"),
        ],
    )
    .await;
    table(
        Legacy,
        &[
            (
                "initialize_unknown_version",
                "no session: no common revision; the peer speaks 1999-01-01; found revision-unknown 1",
            ),
            ("initialize_says_modern", "no session: the peer refused the handshake: no (code -32022)"),
            ("initialize_without_version", "no session: violated result-shape; found result-shape 1"),
            ("initialize_not_an_object", "no session: violated result-shape; found result-shape 1"),
            ("initialize_both", "no session: violated both-outcomes; found both-outcomes 1"),
            ("initialize_dies", "no session: exit status: 7, \"no licence found\""),
        ],
    )
    .await;
    let dead = ("dies_at_probe", "no session: exit status: 1, \"\"");
    table(Modern, &[dead, ("empty_probe", "no session: no common revision; the peer names none")]).await;
}

/// F36: a server that dies of the probe is started once more and not probed; one that is silent gets the
/// handshake in the same process; an answer that comes late still counts.
#[tokio::test]
async fn f36_servers_that_cannot_be_probed() {
    let _others = ALONE.read().await;
    for (behaviour, era, starts, late) in [
        ("dies_at_probe", Era::Legacy, 2, None),
        ("mute_at_probe", Era::Legacy, 1, None),
        ("late_discover", Era::Modern, 1, Some(2)),
    ] {
        let mut run = Run::new(behaviour, Auto);
        if behaviour != "dies_at_probe" {
            run.limits.probe_timeout = Duration::from_millis(200);
        }
        let met = run.connect().await;
        let client = met.client.unwrap_or_else(|error| panic!("{behaviour}: {error}"));
        assert_eq!((client.settled().revision.era(), met.starts), (era, starts), "{behaviour}");
        assert_eq!(run.echo(client).await, "", "{behaviour}");
        assert_eq!(met.found.lock().unwrap().get("late-reply").copied(), late, "{behaviour}");
    }
}

/// S0-36, CAN-11, CAN-12, F18: silence has an end, and so has progress.
#[tokio::test]
async fn f18_every_wait_ends() {
    let _others = ALONE.read().await;
    let mut opening = Run::new("initialize_silent", Legacy);
    opening.limits.open_timeout = Duration::from_millis(300);
    assert_eq!(opening.told().await, "no session: the peer did not answer the handshake in time");
    for (choice, era) in [(Modern, "modern"), (Legacy, "legacy")] {
        let (short, ample) = (Duration::from_millis(700), Duration::from_secs(60));
        for (behaviour, idle, total, expected) in [
            ("silent", short, ample, "timed out, Idle"),
            ("oversize_reply", ample, ample, "violated oversize; found oversize 1"),
            ("progress_forever", ample, short, "timed out, Total"),
        ] {
            let mut run = Run::new(behaviour, choice);
            (run.options.idle, run.options.total) = (Some(idle), Some(total));
            assert_eq!(run.told().await, format!("{era}: {expected}"), "{behaviour}");
        }
    }
}

/// F18, PRG-7: of a flood of progress only as much is passed on as anyone can look at, and the newest always.
#[tokio::test]
async fn f18_a_flood_of_progress_is_thinned() {
    let _others = ALONE.read().await;
    let run = Run::new("progress_flood", Auto);
    let client = run.connect().await.client.unwrap();
    let mut call = client.call_tool_with("evil", &json!({}), run.options).unwrap();
    let mut seen = Vec::new();
    while let Some(progress) = within("progress_flood", call.progress()).await {
        seen.push(progress.progress);
    }
    assert!(call.await.is_ok());
    assert!(seen.is_sorted() && seen.last() == Some(&9999.0), "the newest is not lost: {:?}", seen.last());
    // At most a hundred in each second that the flood took, and what was held when it ended.
    assert!((2..2000).contains(&seen.len()), "{} of 10,000", seen.len());
    assert_eq!(run.echo(client).await, "");
}

/// PAG-5: a list that does not end is given up, by its cursor or by its length.
#[tokio::test]
async fn lists_without_end_are_given_up() {
    let _others = ALONE.read().await;
    for (behaviour, expected) in [("same_cursor", "gave before"), ("new_cursors", "more than 50 pages")] {
        for era in [Modern, Legacy] {
            let mut run = Run::new(behaviour, era);
            run.limits.pages = 50;
            let client = run.connect().await.client.unwrap();
            let error = within(behaviour, client.all_tools()).await.unwrap_err();
            assert!(matches!(&error, CallError::Endless(why) if why.contains(expected)), "{error}");
            assert_eq!(run.echo(client).await, "", "{behaviour}");
        }
    }
}

/// S0-17, S0-20, F9, F16, T11: 200 calls at once, answered in random order, and 2,000 calls answered twice with
/// strangers in between: each caller gets what is its own.
#[tokio::test]
async fn f16_replies_find_their_callers_in_any_order() {
    let _others = ALONE.read().await;
    for (behaviour, waves) in [("shuffled", 1), ("doubled", 10)] {
        let run = Run::new(behaviour, Auto);
        let met = run.connect().await;
        let client = met.client.unwrap();
        for wave in 0..waves {
            let nonces: Vec<_> = (0..200).map(|n| format!("{wave}-{n}")).collect();
            let call = |nonce| client.call_tool("evil", &json!({ "message": nonce })).unwrap();
            let calls: Vec<_> = nonces.iter().map(call).collect();
            for (nonce, call) in nonces.iter().zip(calls) {
                assert_eq!(text(&within(behaviour, call).await.unwrap()), nonce);
            }
        }
        assert_eq!(run.echo(client).await, "");
        let found = met.found.lock().unwrap();
        let strays = |rule| found.get(rule).copied().unwrap_or_default();
        let expected = if behaviour == "doubled" { (4000, 2000) } else { (0, 0) };
        assert_eq!((strays("duplicate-reply"), strays("unknown-reply")), expected);
    }
}

/// F6, S0-46: a server that stops reading is given up in time, and every caller is told.
#[tokio::test]
async fn f6_a_deaf_server_is_given_up() {
    let _others = ALONE.read().await;
    let mut run = Run::new("deaf", Auto);
    run.limits.stall_timeout = Duration::from_millis(300);
    run.limits.child_eof_grace = Duration::from_millis(200);
    let mut client = run.connect().await.client.unwrap();
    let mut evil = client.call_tool_with("evil", &json!({}), run.options).unwrap();
    assert!(within("deaf", evil.progress()).await.is_some(), "from here on it reads nothing");
    let large = client.call_tool("echo", &json!({ "message": "x".repeat(1 << 20) })).unwrap();
    for call in [evil, large] {
        assert_eq!(
            told_error(&within("deaf", call).await.unwrap_err()),
            "lost, the peer does not take our bytes"
        );
    }
    assert_eq!(within("deaf", client.closed()).await, Cause::Stalled);
}

/// Strict ends at the first mistake; lenient repairs what can be understood; both leave a finding.
#[tokio::test]
async fn strictness_decides_what_a_mistake_costs() {
    let _others = ALONE.read().await;
    for (behaviour, strictness, expected) in [
        ("banner", Strictness::Strict, "no session: violated noise; found noise 1"),
        ("missing_version", Strictness::Lenient, "modern: done, well done; found version-missing 1"),
        ("wrong_version", Strictness::Lenient, "modern: done, well done; found version-wrong 1"),
        ("string_id", Strictness::Lenient, "modern: done, well done; found id-type-changed 1"),
        (
            "both_outcomes",
            Strictness::Strict,
            "modern: violated both-outcomes; found both-outcomes 1; ended: violated both-outcomes",
        ),
    ] {
        let run = Run { strictness, ..Run::new(behaviour, Modern) };
        assert_eq!(run.told().await, expected, "{behaviour}, {strictness:?}");
    }
}

/// F5 scaled, T19, T20, S0-42, F8: a line of 20 MiB and 200,000 wrong lines cost no more than the limits say.
#[tokio::test]
async fn t19_floods_are_met_in_bounded_memory() {
    let _alone = ALONE.write().await;
    let floods = "found noise 40000, not-an-object 40000, note-unknown 40000, unknown-reply 40000, version-missing 40000";
    for (behaviour, found, bound_mib) in [
        ("oversize_line", "found oversize 1", (3 * Limits::DEFAULT.frame_bytes) >> 20),
        ("garbage_flood", floods, 8),
    ] {
        forget_peak();
        let before = status_mib("VmRSS:");
        let told = Run::new(behaviour, Auto).told().await;
        assert_eq!(told, format!("modern: done, well done; {found}"));
        let peak = status_mib("VmHWM:");
        assert!(peak < before + bound_mib, "{behaviour}: {before} MiB before, {peak} MiB at most");
    }
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
}

fn status_mib(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() >> 10
}

/// F4: a reply cut at every byte is never taken for one: the call is lost, the rest reported.
#[tokio::test]
async fn f4_a_reply_cut_anywhere_is_no_reply() {
    let _others = ALONE.read().await;
    let reply = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}"#;
    for cut in 0..=reply.len() {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(ours);
        let server = tokio::spawn(answer_in_part(theirs, reply[..cut].to_owned()));
        let found = Found::default();
        let seen = Arc::clone(&found);
        let connector = Client::builder("tests", "0").era(Modern).observe(move |event| {
            if let Event::Found(finding) = event {
                *seen.lock().unwrap().entry(finding.rule.id()).or_default() += 1;
            }
        });
        let client = connector.connect_link(Lines::new(read, write, &Limits::DEFAULT)).await.unwrap();
        let outcome = within("cut", client.call_tool("x", &json!({})).unwrap()).await;
        assert_eq!(told_error(&outcome.unwrap_err()), "lost, closed by the peer", "cut at {cut}");
        let expected = if cut == 0 { "" } else { "; found unterminated 1" };
        assert_eq!(told_findings(&found), expected, "cut at {cut}");
        server.await.unwrap();
    }
}

/// Answers the probe, then the next call in part, and leaves.
async fn answer_in_part(theirs: DuplexStream, part: String) {
    let mut theirs = BufReader::new(theirs);
    let mut line = String::new();
    theirs.read_line(&mut line).await.unwrap();
    let discovered = json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } });
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": discovered }).to_string() + "\n";
    theirs.write_all(reply.as_bytes()).await.unwrap();
    theirs.read_line(&mut line).await.unwrap();
    theirs.write_all(part.as_bytes()).await.unwrap();
}
