//! How things end, and what goes on all the same.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use cardan::prelude::*;
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::Interest;
use cardan::runtime::lines::Lines;
use cardan::runtime::memory;
use cardan::transport::error::SpawnError;
use cardan::transport::spawn::Spawn;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn server() -> Server {
    Server::builder("endings", "1")
        .tool("fine", "answers", async || "fine")
        .tool("selfish", "wakes itself for ever", async || -> String {
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await
        })
        .observe(|_| panic!("an observer that panics"))
        .build()
}

async fn joined(server: Server) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    tokio::spawn(async move { server.serve(theirs).await });
    Client::builder("tester", "1").era(EraChoice::Legacy).connect_link(ours).await.unwrap()
}

/// S0-77, S0-82: the end of a session may be asked for again and again.
#[tokio::test]
async fn the_end_is_told_as_often_as_it_is_asked_for() {
    let mut client = joined(server()).await;
    client.peer().close("enough");
    let first = client.closed().await;
    assert_eq!(client.closed().await, first);
    assert_eq!(client.close("again").await, first);
}

/// A listen that failed says so each time.
#[tokio::test]
async fn a_failed_listen_fails_again() {
    let client = joined(server()).await;
    let mut listen = client.listen(Interest { uris: vec!["demo://x".into()], ..Interest::default() });
    assert!(matches!(listen.ready().await, Err(CallError::Refused(_))));
    assert!(matches!(listen.ready().await, Err(CallError::Refused(_))));
}

/// F34, F37: a handler that never lets go keeps nobody else from being served.
#[tokio::test]
async fn a_selfish_handler_does_not_freeze_the_link() {
    let client = joined(server()).await;
    let selfish = client.call_tool("selfish", &json!({})).unwrap();
    for _ in 0..3 {
        let fine = client.call_tool("fine", &json!({})).unwrap();
        let fine = tokio::time::timeout(Duration::from_secs(10), fine).await.expect("it is served").unwrap();
        assert_eq!(fine.content[0].as_text(), Some("fine"));
    }
    drop(selfish);
}

/// S0-31, S2-40, F2: giving up while connecting leaves no process behind.
#[tokio::test]
async fn a_connect_that_is_given_up_leaves_no_child() {
    let pid = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&pid);
    let spawn = Spawn::new("sh").args(["-c", "exec sleep 600"]);
    let dial = async || -> Result<_, SpawnError> {
        let link = spawn.spawn(&Limits::DEFAULT)?;
        seen.store(link.id().unwrap(), Ordering::SeqCst);
        Ok(link)
    };
    let connector = Client::builder("tester", "1");
    assert!(tokio::time::timeout(Duration::from_millis(200), connector.connect(dial)).await.is_err());
    let process = PathBuf::from(format!("/proc/{}/cmdline", pid.load(Ordering::SeqCst)));
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..500 {
        tick.tick().await;
        // A process that has ended and waits to be reaped has no command line.
        if std::fs::read(&process).map_or(true, |line| line.is_empty()) {
            return;
        }
    }
    panic!("the child is still there");
}

/// F10: a reader that is slow but reads is not given up, however large the message.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_stalled() {
    let limits = Limits { stall_timeout: Duration::from_secs(5), ..Limits::DEFAULT };
    let big = "x".repeat(200 << 10);
    let server = Server::builder("slow", "1").tool("big", "much", move || std::future::ready(big.clone()));
    let server = server.limits(limits.clone()).build();
    let (ours, theirs) = tokio::io::duplex(4 << 10);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn(async move { server.serve(Lines::new(read, write, &limits)).await });
    let (mut read, mut write) = tokio::io::split(ours);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "big", "_meta": meta}});
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let (mut got, mut piece) = (Vec::new(), vec![0; 4 << 10]);
    while !got.ends_with(b"\n") {
        tokio::time::advance(Duration::from_secs(1)).await;
        let n = read.read(&mut piece).await.unwrap();
        assert!(n > 0, "given up after {} bytes", got.len());
        got.extend_from_slice(&piece[..n]);
    }
    assert!(got.len() > 200 << 10);
    drop((read, write));
    serving.await.unwrap();
}
