//! A server that is there later than others takes no name from them that they had before.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::time::Duration;

use cardan_client::Client;
use cardan_gateway::fleet::{self, Fleet, Spec, What};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::merge::Naming;
use cardan_proto::era::Era;
use cardan_proto::session::event::{Change, Interest};
use cardan_server::Server;
use fronting::{at, dead, spec};
use relaying::{plain, soon, text};
use serde_json::json;
use tokio::sync::Semaphore;

/// A server with a tool that others have, and one of its own.
fn server(name: &'static str) -> Server {
    Server::builder(name, "1")
        .tool("who", "tells its name", move || async move { name })
        .tool(&format!("only-{name}"), "nobody else has it", move || async move { name })
        .build()
}

/// The same, when it may be there.
fn late(name: &'static str, leave: &Arc<Semaphore>) -> Spec {
    fronting::late(name, server(name), leave)
}

async fn tools(client: &Client) -> Vec<String> {
    soon("tools", client.all_tools()).await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// T25: while a server that is configured earlier may still come to have a name, nobody behind it has the name, so that it
/// leads to one server whenever it leads anywhere.
#[tokio::test(start_paused = true)]
async fn t25_a_name_leads_to_one_server_whoever_is_ready_first() {
    let priority = Naming::Priority("__".into());
    let cases: [(Naming, &[&str], &[&str]); 2] = [
        (
            priority,
            &["who", "only-zero", "two__who", "two__only-two"],
            &["who", "only-zero", "one__who", "only-one", "two__who", "only-two"],
        ),
        (Naming::Never("__".into()), &["who", "only-zero"], &["who", "only-zero", "only-one", "only-two"]),
    ];
    for (naming, before, after) in cases {
        for era in [Era::Legacy, Era::Modern] {
            let leave = Arc::new(Semaphore::new(0));
            let there = |name| spec(name, &server(name)).0;
            let specs = vec![there("zero"), late("one", &leave), there("two")];
            let options = Options { naming: naming.clone(), ..Options::default() };
            let front = Front::start(Fleet::start(specs, fleet::Options::default()), options);
            let client = at(&front, era, plain()).await;
            let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
            soon("ready", listen.ready()).await.unwrap();
            assert_eq!(tools(&client).await, before, "{naming:?} {era:?}");
            assert_eq!(text(&client, "who", json!({})).await, "zero");
            leave.add_permits(99);
            assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{naming:?} {era:?}");
            while tools(&client).await != after {
                soon("a change", listen.next()).await.unwrap();
            }
            assert_eq!(text(&client, "only-two", json!({})).await, "two");
            for listed in before {
                let led = text(&client, listed, json!({})).await;
                assert_eq!(led, if listed.contains("two") { "two" } else { "zero" }, "{listed} {naming:?}");
            }
            assert_eq!(text(&client, "who", json!({})).await, "zero");
            front.end("done").await;
        }
    }
}

/// T25: who calls a name that is not given to anyone yet waits, and reaches the server that it belongs to.
#[tokio::test(start_paused = true)]
async fn t25_a_call_of_an_open_name_waits_for_its_server() {
    let leave = Arc::new(Semaphore::new(0));
    let specs = vec![late("one", &leave), spec("two", &server("two")).0];
    let options =
        Options { naming: Naming::Never("__".into()), window: Duration::ZERO, ..Options::default() };
    let front = Front::start(Fleet::start(specs, fleet::Options::default()), options);
    let client = at(&front, Era::Modern, plain()).await;
    let (said, ()) = tokio::join!(text(&client, "who", json!({})), async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        leave.add_permits(99);
    });
    assert_eq!(said, "one");
    front.end("done").await;
}

/// A server that could not be started keeps no name from anyone.
#[tokio::test(start_paused = true)]
async fn who_cannot_be_started_holds_no_name() {
    for naming in [Naming::Never("__".into()), Naming::Priority("__".into())] {
        let options = Options { naming, ..Options::default() };
        let specs = vec![dead("one"), spec("two", &server("two")).0];
        let front = Front::start(Fleet::start(specs, fleet::Options::default()), options);
        let client = at(&front, Era::Modern, plain()).await;
        assert_eq!(tools(&client).await, ["who", "only-two"]);
        front.end("done").await;
    }
}

/// T25: a server that was tried and sleeps without having told what it offers keeps no name from anyone.
#[tokio::test(start_paused = true)]
async fn t25_who_sleeps_untold_holds_no_name() {
    for naming in [Naming::Never("__".into()), Naming::Priority("__".into())] {
        let idle = Spec { lazy: true, idle_stop: Some(Duration::from_secs(60)), ..dead("one") };
        let fleet = Fleet::start(vec![idle, spec("two", &server("two")).0], fleet::Options::default());
        let mut events = fleet.events();
        let front = Front::start(fleet, Options { naming, ..Options::default() });
        while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
        let client = at(&front, Era::Modern, plain()).await;
        assert_eq!(tools(&client).await, ["who", "only-two"]);
        front.end("done").await;
    }
}
