//! Sessions with the upstream are shared as far as it is said, and no further.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::model::resource::{ResourceContents, ResourceTemplate};
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel};
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::Host;
use cardan_server::{Cx, Server, Stop, schemars, serde};
use relaying::{Dialled, answering, choice, plain, relay_sharing, revisions, soon, text};
use serde_json::json;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Said {
    text: String,
}

async fn stage(server: Era, isolation: Isolation) -> (Relay, Dialled) {
    let server = Server::builder("plain", "1")
        .revisions(revisions(server))
        .tool("echo", "says it back", async |said: Said| said.text)
        .tool("change", "changes tools", |cx: Cx| async move {
            cx.changed(&Change::Tools);
            Ok::<_, Stop>("changed")
        })
        .build();
    relay_sharing(&server, isolation).await
}

/// A client of this era, who is `principal`.
async fn connect_as(relay: &Relay, era: Era, principal: Option<&str>) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Option<Arc<str>> = principal.map(Into::into);
    let config = relay.config(principal.as_ref());
    let (driver, _) = Driver::new(theirs, relay.service(principal.as_ref()), config);
    tokio::spawn(driver);
    plain().era(choice(era)).connect_link(ours).await.unwrap()
}

async fn says(client: &Client, what: &str) {
    assert_eq!(text(client, "echo", json!({"text": what})).await, what);
}

/// Legacy clients that share have one session between them, however many they are.
#[tokio::test]
async fn shared_is_one_session_for_all() {
    for (server, client) in ERAS.into_iter().flat_map(|server| ERAS.map(|client| (server, client))) {
        let (relay, dialled) = stage(server, Isolation::Shared).await;
        for n in 0..8 {
            says(&connect_as(&relay, client, (n % 2 == 0).then_some("ada")).await, "hi").await;
        }
        assert_eq!((dialled.count(), relay.census()), (1, (1, 0)), "{server:?} {client:?}");
    }
}

/// Principals have sessions of their own, which their clients share; those without a name share one.
#[tokio::test]
async fn principals_share_with_nobody_else() {
    for (server, client) in ERAS.into_iter().flat_map(|server| ERAS.map(|client| (server, client))) {
        let (relay, dialled) = stage(server, Isolation::Principal).await;
        for principal in [Some("ada"), Some("bob"), None, Some("ada"), Some("bob"), None] {
            says(&connect_as(&relay, client, principal).await, "hi").await;
        }
        assert_eq!((dialled.count(), relay.census().0), (3, 3), "{server:?} {client:?}");
        relay.end("over").await;
        assert_eq!(relay.census().0, 0);
    }
}

/// Each call has a session of its own, and leaves it.
#[tokio::test(start_paused = true)]
async fn calls_share_nothing() {
    for (server, client) in ERAS.into_iter().flat_map(|server| ERAS.map(|client| (server, client))) {
        let (relay, dialled) = stage(server, Isolation::Call).await;
        for client in [connect_as(&relay, client, None).await, connect_as(&relay, client, Some("ada")).await]
        {
            for _ in 0..3 {
                says(&client, "hi").await;
            }
        }
        // The first one is that by which the server was met.
        assert_eq!((dialled.count(), relay.census()), (7, (1, 0)), "{server:?} {client:?}");
    }
}

/// Legacy clients that share a session are told of changes, each of those that it asked for.
#[tokio::test]
async fn who_shares_is_told_of_changes() {
    for server in ERAS {
        let (relay, _) = stage(server, Isolation::Shared).await;
        let clients =
            [connect_as(&relay, Era::Legacy, None).await, connect_as(&relay, Era::Legacy, None).await];
        let mut listens =
            clients.each_ref().map(|client| client.listen(Interest { tools: true, ..Interest::default() }));
        for listen in &mut listens {
            soon("ready", listen.ready()).await.unwrap();
        }
        // The relay follows on its own; what it has not begun to follow it does not tell, so it is told until it does.
        for listen in &mut listens {
            let told = async {
                loop {
                    assert_eq!(text(&clients[0], "change", json!({})).await, "changed");
                    tokio::select! {
                        change = listen.next() => return change,
                        () = tokio::task::yield_now() => {}
                    }
                }
            };
            assert_eq!(soon("a change", told).await, Some(Change::Tools), "{server:?}");
        }
    }
}

/// A client that can be asked holds a session while it calls, and the others share theirs meanwhile.
#[tokio::test]
async fn who_can_be_asked_has_a_session_for_each_call() {
    for server in ERAS {
        let (relay, dialled) = stage(server, Isolation::Shared).await;
        let askable = relaying::connect(&relay, Era::Legacy, answering("ada")).await;
        for _ in 0..3 {
            says(&askable, "hi").await;
            says(&connect_as(&relay, Era::Legacy, None).await, "hi").await;
        }
        assert_eq!((dialled.count(), relay.census().0), (2, 2), "{server:?}");
    }
}

/// MRTR-1: a server's processes each seal their own states, so a retry goes to the process that asked, however many
/// calls are asked at a time.
#[tokio::test]
async fn the_next_round_goes_to_who_asked() {
    for isolation in [Isolation::Client, Isolation::Shared, Isolation::Principal, Isolation::Call] {
        let (making, dialled) = relaying::making(|link| async move {
            // A server for each link, as processes are.
            let server = Server::builder("own", "1")
                .revisions(revisions(Era::Modern))
                .logging()
                .tool("form", "asks", |cx: Cx| async move {
                    cx.log(LogLevel::Info, None, &"asking");
                    let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
                    Ok::<_, Stop>(format!("{:?}", answer.content.unwrap_or_default().remove("name")))
                })
                .build();
            drop(server.serve(link).await);
        });
        let options = Options { isolation, ..Options::default() };
        let relay = Relay::start(making, options).await.unwrap();
        let mut days = tokio::task::JoinSet::new();
        for n in 0..12 {
            let name = format!("client-{n}");
            let client = relaying::connect(&relay, Era::Modern, answering(&name)).await;
            client.set_level(LogLevel::Info);
            days.spawn(async move {
                for _ in 0..3 {
                    assert_eq!(text(&client, "form", json!({})).await, format!("Some(Text({name:?}))"));
                }
            });
        }
        while let Some(day) = soon("a day", days.join_next()).await {
            day.unwrap();
        }
        assert!(dialled.count() > 1, "{isolation:?}: log notes take a session each");
    }
}

/// Subscriptions of one client are bounded, and one that ends makes room.
#[tokio::test]
async fn subscriptions_are_bounded() {
    for isolation in [Isolation::Client, Isolation::Shared] {
        let server = Server::builder("notes", "1")
            .revisions(revisions(Era::Legacy))
            .template(ResourceTemplate::new("note://{name}", "note"), async |uri: String, _, _| {
                Ok(vec![ResourceContents::text(uri, "hi")])
            })
            .build();
        let limits = Limits { listen_uris: 2, ..Limits::DEFAULT };
        let options = Options { isolation, limits, behind: Behind::One, ..Options::default() };
        let (relay, _) = relaying::relay_with(&server, options).await;
        let client = connect_as(&relay, Era::Legacy, None).await;
        let subscribe = async |method: Method, uri: &str| {
            let params = Bytes::from(json!({"uri": uri}).to_string());
            soon("a reply", client.raw(method, Some(params), CallOptions::default())).await
        };
        for uri in ["note://a", "note://b", "note://b"] {
            subscribe(Method::ResourcesSubscribe, uri).await.unwrap();
        }
        let full = subscribe(Method::ResourcesSubscribe, "note://c").await.unwrap_err();
        assert!(matches!(full, CallError::Fault(fault) if fault.code == code::BUSY), "{isolation:?}");
        subscribe(Method::ResourcesUnsubscribe, "note://a").await.unwrap();
        subscribe(Method::ResourcesSubscribe, "note://c").await.unwrap();
    }
}

/// A client's own session has as long to be there as the first one has, which a slow start may need.
#[tokio::test(start_paused = true)]
async fn a_slow_start_is_waited_for() {
    for (era, isolation) in [(Era::Legacy, Isolation::Client), (Era::Modern, Isolation::Call)] {
        let starts = Arc::new(AtomicUsize::new(0));
        let server = Server::builder("slow", "1")
            .revisions(revisions(Era::Legacy))
            .tool("echo", "says it back", async |said: Said| said.text)
            .build();
        let (mut making, _) = relaying::making(move |link| {
            let (server, nth) = (server.clone(), starts.fetch_add(1, Ordering::SeqCst));
            async move {
                if nth > 0 {
                    tokio::time::sleep(Limits::DEFAULT.call_idle_timeout * 2).await;
                }
                drop(server.serve(link).await);
            }
        });
        making.connector = making.connector.limits(Limits { open_timeout: LATE, ..Limits::DEFAULT });
        let options = Options { isolation, opening: LATE, ..Options::default() };
        let relay = Relay::start(making, options).await.unwrap();
        let client = connect_as(&relay, era, None).await;
        let patient =
            CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..CallOptions::default() };
        let called = client.call_tool_with("echo", &json!({"text": "hi"}), patient).unwrap().await;
        assert_eq!(called.unwrap().content[0].as_text(), Some("hi"), "{era:?}");
    }
}

const LATE: Duration = Duration::from_secs(600);
