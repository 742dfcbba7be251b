//! Modern clients share sessions with a legacy server: what such a session comes to offer is offered to those who share
//! it, and to nobody else.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Client, Connector, Listen};
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::relay::{Isolation, Lend};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{Answer, CallOptions, Called, Change, Interest};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::{Handler, Host as _, Service};
use relaying::{Dialled, answering, choice, making, plain, revisions, soon, text};
use serde_json::{Value, json};

/// One session of a server that has more tools once it is asked for them.
#[derive(Default)]
struct Growing(AtomicBool);

impl Service for Growing {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let name = called.call.params.text(Param::Name).map(|name| name.into_owned());
        let grown = self.0.load(Ordering::SeqCst);
        let said = match (&called.call.method, name.as_deref()) {
            (Method::ToolsList, _) => {
                let names = ["grow", "shrink", "more"].into_iter().filter(|name| *name != "more" || grown);
                let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                json!({ "tools": tools.collect::<Vec<_>>() })
            }
            (Method::ToolsCall, Some(size @ ("grow" | "shrink"))) => {
                self.0.store(size == "grow", Ordering::SeqCst);
                cx.peer().change(Change::Tools);
                json!({ "content": [{ "type": "text", "text": "so it is" }] })
            }
            (Method::ToolsCall, Some("more")) if grown => {
                json!({ "content": [{ "type": "text", "text": "more" }] })
            }
            (method, _) => {
                let fault = Fault::method_not_found(method.name());
                return Box::pin(std::future::ready(Answer::Fault(fault)));
            }
        };
        Box::pin(std::future::ready(Answer::Done(Bytes::from(said.to_string()))))
    }
}

/// That server behind a front, each of whose links is a session of its own.
async fn growing(isolation: Isolation) -> (Front, Dialled) {
    let capabilities = Bytes::from_static(b"{\"tools\":{\"listChanged\":true}}");
    let identity = Bytes::from_static(b"{\"name\":\"up\",\"version\":\"1\"}");
    let mut config = Config::new(Role::Server, identity, capabilities);
    config.revisions = revisions(Era::Legacy);
    let config = Arc::new(config);
    let (making, dialled) = making(move |link| {
        let (driver, _) = Driver::new(link, Arc::new(Growing::default()), Arc::clone(&config));
        async move { drop(driver.await) }
    });
    let spec = Spec { isolation, ..Spec::new("up", "stdio", "digest of up", making) };
    let fleet = Fleet::start(vec![spec], fleet::Options::default());
    let front = Front::start(fleet, Options { lend: Lend::Modern, ..Options::default() });
    front.settled().await;
    (front, dialled)
}

async fn connect(front: &Front, who: &str, connector: Connector) -> Client {
    connect_as(front, who, connector, Era::Modern).await
}

async fn connect_as(front: &Front, who: &str, connector: Connector, era: Era) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Arc<str> = who.into();
    let (driver, peer) = Driver::new(theirs, front.service(Some(&principal)), front.config(Some(&principal)));
    front.joined(peer, Some(&principal));
    tokio::spawn(driver);
    connector.era(choice(era)).connect_link(ours).await.unwrap()
}

/// What is listed, whatever the client remembers.
async fn tools(client: &Client) -> Vec<String> {
    let listed = soon("tools", client.raw(Method::ToolsList, None, CallOptions::default())).await.unwrap();
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn listening(client: &Client) -> Listen {
    let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
    soon("it stands", listen.ready()).await.unwrap();
    listen
}

const FEW: [&str; 2] = ["up__grow", "up__shrink"];
const MORE: [&str; 3] = ["up__grow", "up__shrink", "up__more"];

/// S0-79: what a call changed in its session is in the next list, told to who listens, and can be called, whether the
/// client can be asked something or not; whoever shares the session sees it, nobody else does or is told. What is taken
/// back is gone.
#[tokio::test(start_paused = true)]
async fn s0_79_what_a_shared_session_comes_to_offer_is_offered() {
    let ways: [fn() -> Connector; 2] = [plain, || answering("somebody")];
    for [connector, other] in [ways, [ways[1], ways[0]]] {
        let (front, _) = growing(Isolation::Client).await;
        let (ada, bob) =
            (connect(&front, "ada", connector()).await, connect(&front, "bob", connector()).await);
        let carol = connect(&front, "carol", other()).await;
        let (mut told, mut untold) = (listening(&bob).await, listening(&carol).await);
        assert_eq!(tools(&ada).await, FEW);
        assert_eq!(text(&ada, "up__grow", json!({})).await, "so it is");
        assert_eq!(tools(&ada).await, MORE);
        assert_eq!(text(&ada, "up__more", json!({})).await, "more");
        assert_eq!(soon("a change", told.next()).await, Some(Change::Tools));
        assert_eq!(tools(&bob).await, MORE);
        assert_eq!(tools(&carol).await, FEW);
        assert_eq!(text(&bob, "up__shrink", json!({})).await, "so it is");
        assert_eq!(tools(&ada).await, FEW);
        assert_eq!(soon("a change", told.next()).await, Some(Change::Tools));
        // Time passes when nothing is on its way any more.
        let nothing = tokio::time::timeout(Duration::from_secs(1), untold.next()).await;
        assert_eq!(nothing.ok(), None, "she was told of a session that is not hers");
        assert_eq!(text(&carol, "up__grow", json!({})).await, "so it is");
        assert_eq!(soon("a change", untold.next()).await, Some(Change::Tools));
        assert_eq!(tools(&carol).await, MORE);
        assert_eq!(tools(&bob).await, FEW);
        front.end("done").await;
    }
}

/// The same at one server alone, whoever looks at it first.
#[tokio::test]
async fn what_a_shared_session_comes_to_offer_is_offered_alone() {
    let (front, _) = growing(Isolation::Client).await;
    let ada = connect(&front, "ada", plain()).await;
    assert_eq!(text(&ada, "up__grow", json!({})).await, "so it is");
    let alone = connect(&front.alone("up").unwrap(), "bob", plain()).await;
    assert_eq!(tools(&alone).await, ["grow", "shrink", "more"]);
    assert_eq!(text(&alone, "more", json!({})).await, "more");
    front.end("done").await;
}

/// A legacy client where sessions are shared is among those who share them, beside modern ones; one that has its own is not.
#[tokio::test]
async fn legacy_clients_that_share_are_offered_it_too() {
    for isolation in [Isolation::Shared, Isolation::Client] {
        let (front, _) = growing(isolation).await;
        let ada = connect_as(&front, "ada", answering("ada"), Era::Legacy).await;
        let bob = connect(&front, "bob", answering("bob")).await;
        let (mut ada_told, mut bob_told) = (listening(&ada).await, listening(&bob).await);
        assert_eq!(text(&ada, "up__grow", json!({})).await, "so it is");
        assert_eq!(soon("a change", ada_told.next()).await, Some(Change::Tools));
        assert_eq!(tools(&ada).await, MORE);
        assert_eq!(text(&ada, "up__more", json!({})).await, "more");
        if isolation == Isolation::Shared {
            assert_eq!(soon("a change", bob_told.next()).await, Some(Change::Tools));
            assert_eq!(tools(&bob).await, MORE);
        } else {
            assert_eq!(tools(&bob).await, FEW);
            assert_eq!(text(&bob, "up__grow", json!({})).await, "so it is");
            assert_eq!(tools(&bob).await, MORE);
        }
        front.end("done").await;
    }
}

/// T13: where principals share nothing, what one's session offers is that one's.
#[tokio::test]
async fn t13_what_a_principals_session_comes_to_offer_is_its_own() {
    let (front, _) = growing(Isolation::Principal).await;
    let (ada, bob) = (connect(&front, "ada", plain()).await, connect(&front, "bob", plain()).await);
    assert_eq!(text(&ada, "up__grow", json!({})).await, "so it is");
    assert_eq!(tools(&ada).await, MORE);
    assert_eq!(tools(&bob).await, FEW);
    front.end("done").await;
}

/// A session that was lost takes with it what it alone had offered. Who listens is told.
#[tokio::test]
async fn what_a_lost_session_offered_is_gone() {
    let (front, dialled) = growing(Isolation::Client).await;
    let ada = connect(&front, "ada", answering("ada")).await;
    let mut told = listening(&ada).await;
    assert_eq!(text(&ada, "up__grow", json!({})).await, "so it is");
    assert_eq!(soon("a change", told.next()).await, Some(Change::Tools));
    assert_eq!(tools(&ada).await, MORE);
    dialled.crash();
    assert_eq!(soon("a change", told.next()).await, Some(Change::Tools));
    assert_eq!(tools(&ada).await, FEW);
    front.end("done").await;
}
