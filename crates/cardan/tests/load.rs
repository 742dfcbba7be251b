//! A lot at once: nothing is lost, nothing overtakes, nothing blocks, nothing is left behind.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision, Revisions};
use cardan::proto::limits::Limits;
use cardan::proto::method::Method;
use cardan::proto::session::config::{Config, EraChoice, Role};
use cardan::proto::session::event::{Answer, CallOptions, Called, Wanted};
use cardan::runtime::cx::CallCx;
use cardan::runtime::driver::Driver;
use cardan::runtime::memory;
use cardan::runtime::service::{Handler, Service, Silent};
use common::{BOTH, LONG, Way, join, plain};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    n: u32,
}

fn server(limits: Limits) -> Server {
    Server::builder("load", "1")
        .limits(limits)
        .tool("echo", "says it back", async |args: Text| args.text)
        .tool("late", "says it back later", async |args: Text| {
            tokio::task::yield_now().await;
            args.text
        })
        .tool("count", "tells each step", |args: Count, cx: Cx| async move {
            for step in 1..=args.n {
                cx.progress(f64::from(step), None, None);
                if step % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            "counted"
        })
        .build()
}

fn wanting() -> CallOptions {
    CallOptions { progress: Wanted::Yes, ..CallOptions::default() }
}

/// Two peers that both send a lot do not block each other, though the pipe holds 64 KiB.
#[tokio::test]
async fn four_large_calls_at_once() {
    for revision in BOTH {
        for tool in ["echo", "late"] {
            let (client, _) = join(&server(Limits::DEFAULT), plain(), revision).await;
            let calls: Vec<_> = (0..4)
                .map(|n| {
                    (n, client.call_tool(tool, &json!({ "text": n.to_string().repeat(1 << 20) })).unwrap())
                })
                .collect();
            for (n, call) in calls {
                let result = tokio::time::timeout(LONG, call).await.expect("a deadlock").unwrap();
                let text = result.content[0].as_text().unwrap();
                assert!(text.len() == 1 << 20 && text.starts_with(&n.to_string()), "{revision}");
            }
        }
    }
}

/// F9: 200 replies of 256 KiB, all in flight together: none lost, none mixed up.
#[tokio::test]
async fn many_large_replies() {
    for revision in BOTH {
        let (client, _) = join(&server(Limits::DEFAULT), plain(), revision).await;
        let body = "x".repeat(256 << 10);
        let calls: Vec<_> = (0..200)
            .map(|n| client.call_tool("late", &json!({ "text": format!("{n} {body}") })).unwrap())
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            let result = tokio::time::timeout(LONG, call).await.expect("a reply is lost").unwrap();
            let text = result.content[0].as_text().unwrap();
            assert_eq!(
                (text.len() - body.len(), text.split(' ').next()),
                (n.to_string().len() + 1, Some(&*n.to_string()))
            );
        }
    }
}

/// PRG-3: two thousand notes arrive in order, all of them, and before the result.
#[tokio::test]
async fn notes_arrive_in_order() {
    let limits = Limits { progress_per_second: 10_000, notes_queued: 10_000, ..Limits::DEFAULT };
    for revision in BOTH {
        let (client, wire) = join(&server(limits.clone()), plain().limits(limits.clone()), revision).await;
        let mut call = client.call_tool_with("count", &json!({ "n": 2000 }), wanting()).unwrap();
        let mut seen = Vec::new();
        while let Some(progress) = call.progress().await {
            seen.push(progress.progress as u32);
        }
        assert_eq!(seen, (1..=2000).collect::<Vec<_>>(), "{revision}");
        call.await.unwrap();
        let came = wire.went(Way::In);
        assert!(came.last().unwrap().get("result").is_some(), "{revision}: the result comes last");
    }
}

/// F18, PRG-7: a flood is cut to a hundred notes a second, and the newest of those held back comes through.
#[tokio::test(start_paused = true)]
async fn floods_are_coalesced() {
    for revision in BOTH {
        let (client, wire) = join(&server(Limits::DEFAULT), plain(), revision).await;
        let mut call = client.call_tool_with("count", &json!({ "n": 100_000 }), wanting()).unwrap();
        let mut seen = Vec::new();
        while let Some(progress) = call.progress().await {
            seen.push(progress.progress as u32);
        }
        call.await.unwrap();
        assert_eq!(seen.last(), Some(&100_000), "{revision}: the newest is told");
        assert!(seen.len() <= 101 && seen.is_sorted(), "{revision}: {}", seen.len());
        assert_eq!(wire.of(Way::In, "notifications/progress").len(), seen.len());
    }
}

/// Answers after being polled a few times.
struct Slow;

impl Service for Slow {
    fn call(&self, cx: CallCx, _called: Called) -> Handler<Answer> {
        Box::pin(async move {
            for step in 1..4 {
                cx.progress(f64::from(step), None, None);
                tokio::task::yield_now().await;
            }
            Answer::Done(Bytes::from_static(b"{\"content\":[]}"))
        })
    }
}

fn config(role: Role, revision: Revision) -> Arc<Config> {
    let capabilities = if role == Role::Server { "{\"tools\":{}}" } else { "{}" };
    let identity = Bytes::from_static(b"{\"name\":\"x\",\"version\":\"0\"}");
    let era = if revision.era() == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
    let revisions = Revisions::only(revision);
    Arc::new(Config {
        era,
        revisions,
        ..Config::new(role, identity, Bytes::from_static(capabilities.as_bytes()))
    })
}

/// Polls both drivers `turns` times, a turn each.
async fn turn<A: Future + Unpin, B: Future + Unpin>(left: &mut A, right: &mut B, turns: usize) {
    for _ in 0..turns {
        std::future::poll_fn(|cx| {
            assert!(Pin::new(&mut *left).poll(cx).is_pending(), "a link ended");
            assert!(Pin::new(&mut *right).poll(cx).is_pending(), "a link ended");
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
}

/// F9: a call dropped at any point is cancelled, and both tables end empty.
#[tokio::test]
async fn calls_can_be_dropped_anywhere() {
    for revision in BOTH {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let (mut client, peer) = Driver::new(ours, Arc::new(Silent), config(Role::Client, revision));
        let (mut server, _) = Driver::new(theirs, Arc::new(Slow), config(Role::Server, revision));
        turn(&mut client, &mut server, 20).await;
        assert_eq!(client.session().revision(), Some(revision));
        for polls in 0..=20 {
            let params = Bytes::from_static(b"{\"name\":\"x\"}");
            let mut call = peer.call(Method::ToolsCall, Some(params), wanting());
            for _ in 0..polls {
                turn(&mut client, &mut server, 1).await;
                let settled =
                    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx).is_ready())).await;
                if settled {
                    break;
                }
            }
            drop(call);
            turn(&mut client, &mut server, 20).await;
            assert_eq!(client.session().in_flight(), (0, 0), "{revision}: after {polls} polls");
            assert_eq!(server.session().in_flight(), (0, 0), "{revision}: after {polls} polls");
        }
        assert_eq!(server.dropped_notes(), 0);
    }
}

/// The same through the whole client: every future of it may be dropped, and the next call works.
#[tokio::test]
async fn the_client_survives_dropped_futures() {
    for revision in BOTH {
        let (client, _) = join(&server(Limits::DEFAULT), plain(), revision).await;
        for polls in 0..=20 {
            let mut listing = Box::pin(client.all_tools());
            let mut call = client.call_tool("late", &json!({ "text": "x" })).unwrap();
            for _ in 0..polls {
                let done = std::future::poll_fn(|cx| {
                    let one = listing.as_mut().poll(cx).is_ready();
                    Poll::Ready(Pin::new(&mut call).poll(cx).is_ready() || one)
                });
                if done.await {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop((listing, call));
            let next = client.call_tool("echo", &json!({ "text": "y" })).unwrap();
            let result = tokio::time::timeout(Duration::from_secs(5), next).await.expect("stuck").unwrap();
            assert_eq!(result.content[0].as_text(), Some("y"), "{revision}: after {polls} polls");
        }
    }
}
