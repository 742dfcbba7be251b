//! A gateway before a legacy server at an address, which is killed: while clients call it, and while nobody does.
//!
//! ```text
//!   clients ──▶ gateway ──▶ own, shared, each ──▶ one server, kill -9
//!               /readyz ──▶ watched here
//! ```
//!
//! Calls to such a server go by other sessions than the one that health is told of, and none of them is a pipe that breaks.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Era, Posting};
use crate::common::signal;
use crate::kills::{TRUTH, is_lost};
use crate::rig::{LONG, Running, World};

/// The same server, by every way in which sessions with it are shared.
const WAYS: [(&str, &str); 3] = [("own", "client"), ("shared", "shared"), ("each", "call")];
/// Calls that are answered before it is killed.
const ANSWERED: usize = 30;

/// A legacy server, and a gateway that reaches it by its address.
struct Pair {
    server: Running,
    gateway: Running,
    _worlds: [World; 2],
}

impl Pair {
    fn new(name: &str) -> Self {
        let worlds = [World::new(&format!("{name}-server"), ""), World::new(name, "")];
        let server = Running::of(worlds[0].command(&["serve", "--listen", "127.0.0.1:0"]));
        let entry = |(name, sessions): (&str, &str)| {
            let url = format!("http://{}/mcp", server.address);
            format!("[servers.{name}]\nurl = '{url}'\nera = 'legacy'\nsessions = '{sessions}'\n")
        };
        fs::write(worlds[1].config(), WAYS.map(entry).concat()).unwrap();
        let gateway = worlds[1].serve(&[]);
        gateway.stands("ready");
        Self { server, gateway, _worlds: worlds }
    }

    /// Kills the server, and tells how long it took until the page said so of every way.
    fn kill(&mut self) -> Duration {
        signal(&self.server.child, "KILL");
        self.server.child.wait().unwrap();
        let begun = Instant::now();
        loop {
            let said = self.gateway.get("/readyz", &[]).json();
            let servers = said["servers"].as_array().unwrap();
            if servers.iter().all(|one| one["up"] == false) {
                assert_eq!(said["status"], "down", "{said}");
                return begun.elapsed();
            }
            assert!(begun.elapsed() < LONG, "not told within {LONG:?}: {said}");
        }
    }
}

/// Calls until it is told to stop, or until a call fails; which one does is said.
async fn client(
    address: String,
    era: Era,
    server: &'static str,
    stop: Arc<AtomicBool>,
    told: mpsc::Sender<()>,
) {
    let mut posting = Posting::open(&address, era).await;
    let tool = format!("{server}__echo");
    for call in 0.. {
        let nonce = format!("{era:?}/{call}");
        let reply = posting.call(call % 100, &tool, &json!({ "message": nonce })).await;
        if reply["result"]["content"][0]["text"] == nonce.as_str() {
            let _ = told.send(());
        } else {
            assert!(is_lost(&reply), "{server}: {reply}");
            return;
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// F1, S0-79: health tells the truth within a second of a legacy server's death under load, however its sessions are
/// shared and whatever its clients speak, and each call that it took along says so.
#[test]
fn f1_a_legacy_server_elsewhere_that_dies_under_load_is_told_within_a_second() {
    let mut pair = Pair::new("gone-loaded");
    let (stop, (tell, told)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let (address, ended) = (pair.gateway.address.clone(), Arc::clone(&stop));
    let clients = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut clients = JoinSet::new();
            for (server, _) in WAYS {
                for era in [Era::Legacy, Era::Modern] {
                    let (address, ended, tell) = (address.clone(), Arc::clone(&ended), tell.clone());
                    clients.spawn(client(address, era, server, ended, tell));
                }
            }
            clients.join_all().await.len()
        })
    });
    for _ in 0..ANSWERED {
        told.recv_timeout(LONG).expect("calls are answered");
    }
    let took = pair.kill();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(clients.join().expect("a client saw what it should not"), WAYS.len() * 2);
    println!("a legacy server died under load: told after {took:.1?}");
    assert!(took <= TRUTH, "{took:?}");
}

/// F1, S0-79: health tells the truth within a second of a legacy server's death, although nobody calls it.
#[test]
fn f1_a_legacy_server_elsewhere_that_dies_idle_is_told_within_a_second() {
    let took = Pair::new("gone-idle").kill();
    println!("an idle legacy server died: told after {took:.1?}");
    assert!(took <= TRUTH, "{took:?}");
}
