//! How many processes a legacy server on stdio is for modern clients whom it may ask something: as many as there are calls at a
//! time, not as many as there are calls.

use std::fs;

use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Era, Posting};
use crate::common::CARDAN;
use crate::rig::{Running, World};

/// Calls one after the other.
const IN_TURN: usize = 1000;
/// Calls at once, as often as this, each of which lasts so long.
const AT_ONCE: usize = 50;
const TIMES: usize = 3;
const LASTS_MS: u64 = 200;

/// A client that can be asked.
async fn askable(address: &str) -> Posting {
    Posting::open(address, Era::Modern).await.declaring(json!({ "elicitation": {} }))
}

/// Calls by one client in turn, then by many at once. Tells how many processes there were after each.
async fn calls(address: &str, prefix: &str, started: impl Fn() -> usize) -> Vec<usize> {
    let mut client = askable(address).await;
    let (echo, slow) = (format!("{prefix}echo"), format!("{prefix}slow"));
    for call in 0..IN_TURN {
        let nonce = call.to_string();
        let reply = client.call(call, &echo, &json!({ "message": nonce })).await;
        assert_eq!(reply["result"]["content"][0]["text"], nonce.as_str(), "{reply}");
    }
    let mut counts = vec![started()];
    for _ in 0..TIMES {
        let mut running = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (address, slow) = (address.to_owned(), slow.clone());
            running.spawn(async move {
                let arguments = json!({ "steps": 1, "delay_ms": LASTS_MS });
                askable(&address).await.call(0, &slow, &arguments).await
            });
        }
        for reply in running.join_all().await {
            assert_eq!(reply["result"]["content"][0]["text"], "done", "{reply}");
        }
        counts.push(started());
    }
    counts
}

/// VER-26: calls that may be asked something have a process each while they run, which the next ones take over: a thousand in
/// turn have one, and fifty at once have fifty at most, however often. One more is that by which the server was met.
#[test]
fn calls_start_no_process_each() {
    let world = World::new("starts", "");
    let (file, config) = (world.0.file("started"), world.config());
    let line = format!("echo started >> '{file}'; exec {CARDAN} demo");
    let server = format!("[servers.up]\ncommand = 'sh'\nargs = ['-c', \"{line}\"]\nera = 'legacy'\n");
    fs::write(&config, server).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let port = ["--listen", "127.0.0.1:0"];
    for (words, prefix) in
        [(&["serve", "--config", &config][..], "up__"), (&["bridge", "--config", &config, "up"], "")]
    {
        fs::write(&file, "").unwrap();
        let running = Running::of(world.command(&[&words[..1], &port, &words[1..]].concat()));
        running.stands("ready");
        let started = || fs::read_to_string(&file).unwrap().lines().count();
        let counts = runtime.block_on(calls(&running.address, prefix, started));
        println!(
            "{}: processes after {IN_TURN} calls in turn, and after {AT_ONCE} at once: {counts:?}",
            words[0]
        );
        assert!(counts[0] <= 2, "{counts:?}");
        assert!(counts.iter().all(|count| *count <= 1 + AT_ONCE), "{counts:?}");
    }
}
