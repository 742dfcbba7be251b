//! Clients on other people's SDKs through the proxy.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Serving, peer};
use crate::ours::{NO_PULSE, PULSE};
use crate::proxy::{self, Nginx};
use crate::served::Served;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);

/// Every check but those that the era does not have is passed.
fn passed(told: &[u8], errors: &[u8], wanted: usize, what: &str) {
    let text = String::from_utf8_lossy(told);
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let end = lines.iter().find(|line| line["check"] == "end");
    let whole = end.is_some_and(|end| end["failed"] == 0 && end["passed"].as_u64() >= Some(wanted as u64));
    assert!(whole, "{what}: {text}\n{}", String::from_utf8_lossy(errors));
}

/// F35: the whole script of the interop tests, from four SDKs in both eras and over both HTTP transports.
#[test]
fn f35_sdk_clients_pass_every_check() {
    if !proxy::installed() {
        return;
    }
    let serving = Serving::start(&["--keep-alive", "0.3"]);
    let nginx = Nginx::start("sdks", &serving.address, "");
    let table = [
        ("node-v1", "client.mjs", None, "mcp", 17),
        ("node-v1", "client.mjs", None, "sse", 17),
        ("node-v2", "client.mjs", Some("modern"), "mcp", 16),
        ("python-v1", "client.py", None, "mcp", 17),
        ("python-v2", "client.py", Some("modern"), "mcp", 16),
    ];
    for (name, script, era, path, wanted) in table {
        let Some(mut command) = peer(name, script) else { continue };
        command.args(era.iter().flat_map(|era| ["--era", *era]));
        let output = command.args(["--", &format!("http://{}/{path}", nginx.address)]).output().unwrap();
        passed(&output.stdout, &output.stderr, wanted, &format!("{name} {era:?} {path}"));
    }
}

/// F35, HTTP-17: the v2 TypeScript client sees progress while its call runs, outlasts the proxy's patience, and its
/// cancel reaches the handler: a note in the legacy era, the closing of the response in the modern one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_sdk_calls_stream_survive_and_are_cancelled() {
    if !proxy::installed() {
        return;
    }
    let served = Served::start(PULSE).await;
    let nginx = Nginx::start("sdk-calls", &served.address, "");
    for era in ["modern", "legacy"] {
        let Some(mut command) = peer("node-v2", "behind.mjs") else { return };
        command.args([
            "--era",
            era,
            "--",
            &format!("http://{}/mcp", nginx.address),
            "step",
            "quiet",
            "cancel",
        ]);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output();
        let output = tokio::time::timeout(LONG, output).await.expect("in time").unwrap();
        passed(&output.stdout, &output.stderr, 4, era);
    }
}

/// F35, HTL-7, HTL-17: a call of the v2 TypeScript client that the proxy cuts is resumed with `Last-Event-ID`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_a_cut_sdk_call_is_resumed() {
    if !proxy::installed() {
        return;
    }
    let Some(mut command) = peer("node-v2", "behind.mjs") else { return };
    let served = Served::start(NO_PULSE).await;
    let nginx = Nginx::start("sdk-resumed", &served.address, "");
    command.args(["--era", "legacy", "--", &format!("http://{}/mcp", nginx.address), "hold"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    tokio::time::timeout(LONG, served.signals.entered.notified()).await.expect("it runs");
    nginx.cuts();
    served.signals.go.notify_one();
    let output = tokio::time::timeout(LONG, running.wait_with_output()).await.expect("in time").unwrap();
    passed(&output.stdout, &output.stderr, 2, "hold");
    nginx.resumes();
}
