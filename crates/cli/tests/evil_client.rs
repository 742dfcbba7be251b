//! Clients that misbehave against `cardan demo`: every behaviour has one defined result, and the next
//! valid call still works.
//!
//! The clients are in `peers/evil`; they need Python 3.11 and nothing else. What a server sent is told
//! in short: `7 ok` is a result under the id 7, `7 failed` a tool's own failure, `7 asks` a request for
//! input, `7 -32600` a fault, `- -32700` a fault without an id, `~ x` a note, `[..]` a batch.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// How a behaviour ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// The next valid call works, and the end of input ends the server as it should.
    Served,
    /// The behaviour itself closed the input; the server left in order.
    Left,
    /// The server ended the link by itself, and said why.
    GivenUp,
}

/// The program that misbehaves.
fn evil() -> Command {
    // The system's own Python where there is one: what a shim in `PATH` adds is not ours to test.
    let own = Path::new("/usr/bin/python3");
    let mut command = Command::new(if own.exists() { own } else { Path::new("python3") });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/evil/evil.py");
    command.arg("-S").arg(script);
    command
}

/// Plays one behaviour and tells what came of it.
fn play(behaviour: &str) -> Value {
    let output = evil()
        .args(["client", behaviour, "--", env!("CARGO_BIN_EXE_cardan"), "demo"])
        // A backtrace per panic would be most of the time and memory of the test.
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("python3 is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{behaviour}: no report\n{errors}"))
}

/// A behaviour that no test names proves nothing.
#[test]
fn every_behaviour_has_its_test() {
    let listed = evil().arg("list").output().expect("python3 is there");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let behaviours: Vec<_> = listed.lines().filter_map(|line| line.strip_prefix("client ")).collect();
    assert!(behaviours.len() > 30, "{listed}");
    for behaviour in behaviours {
        assert!(include_str!("evil_client.rs").contains(&format!("\"{behaviour}\"")), "{behaviour}");
    }
}

/// Checks what came of a behaviour: what was sent, and how it ended.
fn check(behaviour: &str, sent: &[&str], end: End) -> Value {
    let report = play(behaviour);
    assert_eq!(in_short(&report["seen"]), sent, "{behaviour}: {report}");
    let (served, exit) = match end {
        End::Served => (true, 0),
        End::Left => (false, 0),
        End::GivenUp => (false, 11),
    };
    assert_eq!((&report["served"], &report["exit"]), (&json!(served), &json!(exit)), "{behaviour}: {report}");
    report
}

/// What was sent, what repeats told once.
fn in_short(seen: &Value) -> Vec<String> {
    let mut sent: Vec<(String, usize)> = Vec::new();
    for one in seen.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match sent.last_mut() {
            Some((last, times)) if last == one => *times += 1,
            _ => sent.push((one.to_owned(), 1)),
        }
    }
    let told = |(one, times)| if times == 1 { one } else { format!("{one}, {times} times") };
    sent.into_iter().map(told).collect()
}

fn table(rows: &[(&str, &[&str])]) {
    for (behaviour, sent) in rows {
        check(behaviour, sent, End::Served);
    }
}

fn peak_mib(report: &Value) -> u64 {
    report["peak_kib"].as_u64().expect("the peak is reported") / 1024
}

/// S0-41, S0-81, S2-3, S3-6, S3-19, F8, T21, STD-3, BASE-2, BASE-11: a line that is no message is answered
/// without an id, and the next one is read. Foreign habits of framing are no mistakes.
#[test]
fn bad_lines_do_not_end_a_server() {
    let garbage = ["- -32700, 2 times", "- -32600, 5 times", "- -32700, 3 times", "- -32600"];
    table(&[("garbage", &garbage), ("foreign_lines", &["1 ok", "2 ok", "3 ok"])]);
}

/// F8, S0-40: a thousand bad lines in a row are answered; one more and this is no client.
#[test]
fn noise_without_end_ends_the_link() {
    check("noise_flood", &["- -32700, 1000 times"], End::GivenUp);
}

/// F4, S3-6, STD-12: half a line is never taken for a message, and what was asked before is answered.
#[test]
fn f4_half_a_line_is_refused_and_the_server_leaves() {
    check("half_line", &["- -32600"], End::Left);
    check("call_without_newline", &["- -32600", "1 ok"], End::Left);
}

/// F5 scaled, T19, S0-42: a line of 20 MiB is skipped in bounded memory, and the stream goes on.
#[test]
fn t19_an_oversize_line_is_skipped() {
    let report = check("oversize_line", &["- -32600"], End::Served);
    assert!(peak_mib(&report) < 64, "{report}");
}

/// T20: nesting beyond the limit is refused, under its id where that was read before; below it is served.
#[test]
fn t20_deep_json_is_refused() {
    let report = check("deep_json", &["- -32700, 3 times", "1 -32700", "2 ok"], End::Served);
    assert!(peak_mib(&report) < 64, "{report}");
}

/// T11, T14, F15, BASE-1, BASE-3, BASE-4, BASE-6, BASE-7, BASE-17, S2-4, S3-11, S3-18: a malformed call gets
/// one fault under its own id, where that can be read. Ids are told apart by type as well.
#[test]
fn malformed_calls_get_one_fault_each() {
    table(&[
        ("duplicate_keys", &["2 -32600", "3 -32600", "4 -32600", "5 -32600", "6 -32600", "7 failed"]),
        ("duplicate_ids", &["1 -32600, 2 times", "1 ok"]),
        ("ids_alike", &["\"1\" ok", "1 ok", "1.0 ok"]),
        ("wrong_ids", &["- -32600, 5 times", "\"\" ok", "-5 ok", "9223372036854775808 ok", "Infinity ok"]),
        ("wrong_envelopes", &["0 -32600", "1 -32600", "2 -32600", "3 -32600", "4 -32600", "9 -32600"]),
    ]);
    let report = check("wrong_params", &WRONG_PARAMS, End::Served);
    assert!(peak_mib(&report) < 64, "{report}");
}

/// Params of the wrong type, names that do not exist, and one tool that lacks its argument: that is told
/// to the model.
const WRONG_PARAMS: [&str; 16] = [
    "0 -32602",
    "1 -32602",
    "2 -32602",
    "3 -32602",
    "10 -32602",
    "11 -32602",
    "12 -32602",
    "20 -32602",
    "21 -32602",
    "22 -32602",
    "23 -32602",
    "24 failed",
    "25 -32602",
    "26 -32602",
    "27 -32602",
    "28 -32602",
];

/// S2-4, BASE-13, BASE-29, BASE-31, F16, F39: unknown methods do not exist, unknown notes and replies that
/// nobody waits for are silence.
#[test]
fn what_nobody_knows_is_refused_or_silence() {
    table(&[
        (
            "unknown_methods",
            &[
                "0 -32601",
                "1 -32601",
                "2 -32601",
                "3 -32601",
                "4 -32601",
                "5 -32601",
                "10 -32601",
                "11 -32601",
                "12 -32601",
            ],
        ),
        ("notes_nobody_knows", &[]),
        ("replies_nobody_wants", &[]),
    ]);
}

/// VER-7, VER-16, VER-17, VER-24, VER-34, VER-35, BASE-15: openings out of order are refused by
/// themselves, and both eras are served side by side.
#[test]
fn odd_openings_are_refused_one_by_one() {
    table(&[
        ("before_initialize", &["1 -32602", "2 -32602", "3 ok", "4 -32602", "5 ok", "6 ok"]),
        ("initialize_twice", &["1 ok", "2 -32600", "3 ok"]),
        ("initialize_oddly", &["1 -32602", "2 -32602", "3 ok"]),
        ("initialize_batched", &["- -32600", "[2 -32600, 3 ok]"]),
        ("cancel_initialize", &["1 ok", "2 ok"]),
        (
            "modern_meta_missing",
            &["0 -32602", "1 -32602", "2 -32602", "3 -32602", "4 -32602", "5 -32602", "6 ok", "7 ok"],
        ),
        ("unsupported_version", &["0 -32022", "1 -32022", "2 -32022", "3 -32022"]),
    ]);
    let report = play("eras_interleaved");
    assert_eq!(report["texts"], json!((0..40).collect::<Vec<_>>()), "{report}");
    assert_eq!(report["modern"], json!((1..40).step_by(2).collect::<Vec<_>>()), "{report}");
    assert_eq!(report["served"], true);
}

/// F19, BASE-14, BASE-16: batches exist in one revision, within limits; elsewhere they are one mistake.
#[test]
fn f19_batches_are_bounded_or_refused() {
    table(&[
        ("batch_without_revision", &["- -32600, 2 times"]),
        (
            "batches",
            &[
                "null -32600, 2 times",
                "[null -32600]",
                "[null -32600, 2 ok, 3 -32600]",
                "[0 ok, 64 in all, 63 ok]",
                "null -32600",
            ],
        ),
    ]);
}

/// F17, CAN-5, CAN-7, CAN-8, STD-10, T11: a cancelled call is answered with silence, a pointless cancel too.
#[test]
fn f17_cancels_of_any_kind_do_no_harm() {
    table(&[
        ("cancel_nonsense", &["1 -32602"]),
        ("cancel_twice", &["2 ok"]),
        ("cancel_other_type", &["1 ok"]),
    ]);
}

/// PRG-1, PRG-10: a token of the right type comes back as it was; any other is none.
#[test]
fn prg_1_progress_tokens_of_every_type() {
    let told = ["0 ok told", "1 ok told", "2 ok told", "3 ok told", "4 ok told", "5 ok told"];
    table(&[("progress_tokens", &[&told[..], &["6 ok", "7 ok", "8 ok", "9 ok"]].concat())]);
}

/// T12, MRTR-7, MRTR-8, MRTR-9, MRTR-17, MRTR-18, MRTR-19: state that is not ours and answers that do not fit
/// are refused; what is missing is asked for again; the true state still works afterwards.
#[test]
fn mrtr_8_tampered_state_and_garbage_answers_are_refused() {
    let refused =
        |ids: std::ops::RangeInclusive<u32>| ids.map(|id| format!("{id} -32602")).collect::<Vec<_>>();
    let state =
        [&["1 asks".to_owned()][..], &refused(10..=15), &refused(20..=22), &["30 ok".to_owned()]].concat();
    let answers =
        [&["1 asks".to_owned()][..], &refused(10..=19), &["20 asks".to_owned(), "21 asks".to_owned()]]
            .concat();
    for (behaviour, sent) in [("tampered_state", state), ("garbage_answers", answers)] {
        check(behaviour, &sent.iter().map(String::as_str).collect::<Vec<_>>(), End::Served);
    }
}

/// SUB-1, SUB-3, SUB-12: interests that are none are refused, more than the limit too; a listen's id is in use.
#[test]
fn garbage_listens_are_refused() {
    let acknowledged = "~ notifications/subscriptions/acknowledged";
    let many = format!("{acknowledged}, 64 times");
    table(&[
        (
            "garbage_listens",
            &["1 -32602", "2 -32602", "3 -32602", "4 -32602", "5 42900", acknowledged, "6 -32600"],
        ),
        ("many_listens", &[&many, "64 42900"]),
    ]);
}

/// S2-3: 300 slow calls at once, of which 256 are served; the rest is refused and none is lost.
#[test]
fn too_many_calls_are_refused_and_none_is_lost() {
    let report = check("slow_calls", &[], End::Served);
    assert_eq!(report["outcomes"], json!({"ok": 256, "42900": 44}));
}

/// F10: 10,000 calls before a reply is read cost no more than their replies, and all are answered.
#[test]
fn f10_a_client_that_reads_late_is_served_in_order() {
    let report = check("reads_late", &[], End::Served);
    assert_eq!(report["in_order"], true, "{report}");
    assert!(peak_mib(&report) < 64, "{report}");
}

/// F10: a client that never reads 640 MiB of replies costs what the limits say, then is given up.
#[test]
fn f10_a_client_that_never_reads_is_given_up() {
    let report = check("never_reads", &[], End::GivenUp);
    assert!(peak_mib(&report) < 192, "{report}");
}

/// F16, T11: 100,000 pipelined pings are answered, each once and in order.
#[test]
fn f16_a_flood_of_pings_is_answered_in_order() {
    let report = check("ping_flood", &[], End::Served);
    assert_eq!(report["in_order"], true, "{report}");
    assert!(peak_mib(&report) < 64, "{report}");
}

/// F34, T21: one call in a hundred panics: it fails with -32603, and the others succeed.
#[test]
fn f34_panics_fail_their_own_calls_only() {
    let report = check("panics", &[], End::Served);
    assert_eq!(report["outcomes"], json!({"ok": 990, "-32603": 10}));
}
