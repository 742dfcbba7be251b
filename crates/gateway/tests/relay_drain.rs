//! The end while calls wait for their modern clients: of an HTTP door, of a WebSocket, and of a stream such as a pipe.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardan_client::{Answerers, Client, Connector, Urls};
use cardan_dial::Http;
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use cardan_gateway::relay::{self, Behind, Relay};
use cardan_proto::era::Era;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult};
use cardan_proto::model::form::Form;
use cardan_runtime::memory;
use cardan_runtime::service::Host as _;
use cardan_server::{Cx, Server, Stop};
use relaying::{choice, relay_with, revisions, soon};
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Asks two things, one after the other.
fn server(era: Era) -> Server {
    let twice = |cx: Cx| async move {
        let first = cx.elicit("first", &Form::new("first?").string("name"))?;
        let second = cx.elicit("second", &Form::new("second?").string("name"))?;
        Ok::<_, Stop>(format!("{:?} {:?}", first.action, second.action))
    };
    Server::builder("asking", "1").revisions(revisions(era)).tool("twice", "asks twice", twice).build()
}

/// A port before a relay that ends when it is told.
async fn serve(relay: &Relay, stop: &Arc<Notify>) -> (SocketAddr, JoinHandle<()>) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap();
    let allow = Allow::bound::<&str, &str>(address.ip(), Ports::Any, &[], &[]).unwrap();
    let endpoint = Endpoint::new(relay.clone(), Options::new(allow));
    let stop = Arc::clone(stop);
    let serving = tokio::spawn(listener.serve(endpoint, async move { stop.notified().await }));
    (address, serving)
}

fn options(behind: Behind, grace: Duration) -> relay::Options {
    let limits = Limits { drain_timeout: grace, ..Limits::DEFAULT };
    relay::Options { behind, limits, ..relay::Options::default() }
}

/// A modern client that lets the test know what it is asked, and waits for a word before it answers.
fn hesitating(asked: mpsc::UnboundedSender<()>, go: Arc<Notify>) -> Connector {
    let answer = move |_: ElicitParams| {
        let (asked, go) = (asked.clone(), Arc::clone(&go));
        async move {
            let _ = asked.send(());
            go.notified().await;
            Ok(ElicitResult::filled([("name".to_owned(), "ada".into())].into()))
        }
    };
    let answerers = Answerers::default().elicit(Urls::Offered, answer);
    Client::builder("client", "1").era(choice(Era::Modern)).answer(answerers)
}

async fn connect(address: SocketAddr, asked: mpsc::UnboundedSender<()>, go: Arc<Notify>) -> Client {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    hesitating(asked, go).connect_link(http.link().unwrap()).await.unwrap()
}

/// Waits until nobody new is served.
async fn closing(address: SocketAddr) {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    loop {
        let client = Client::builder("late", "1").era(choice(Era::Modern));
        match client.connect_link(http.clone().link().unwrap()).await {
            Ok(client) if client.all_tools().await.is_ok() => {}
            _ => return,
        }
    }
}

/// F23: the end waits for a call whose client was asked, as often as that happens, whichever era the server has.
#[tokio::test]
async fn f23_the_end_waits_for_calls_that_ask() {
    for (era, behind) in
        [(Era::Legacy, Behind::One), (Era::Legacy, Behind::Many), (Era::Modern, Behind::Many)]
    {
        let (relay, _) = relay_with(&server(era), options(behind, Duration::from_secs(600))).await;
        let (stop, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (address, serving) = serve(&relay, &stop).await;
        let (ask, mut asked) = mpsc::unbounded_channel();
        let client = connect(address, ask, Arc::clone(&go)).await;
        let call = tokio::spawn(client.call_tool("twice", &json!({})).unwrap());
        soon("the first question", asked.recv()).await.unwrap();
        stop.notify_one();
        soon("the end", closing(address)).await;
        go.notify_one();
        soon("the second question", asked.recv()).await.unwrap();
        assert!(!serving.is_finished(), "{era:?} {behind:?}");
        go.notify_one();
        let result = soon("the result", call).await.unwrap().unwrap();
        assert_eq!(result.content[0].as_text(), Some("Accept Accept"), "{era:?} {behind:?}");
        soon("the end", serving).await.unwrap();
        relay.end("the test is over").await;
    }
}

/// How a client comes that stays on one link.
#[derive(Debug, Clone, Copy)]
enum Link {
    Stream,
    Socket,
}

/// F23: so it is where a client stays on one link: over pipes and sockets, and over WebSocket. Nothing new begins there
/// meanwhile.
#[tokio::test]
async fn f23_the_end_of_a_link_waits_for_calls_that_ask() {
    let servers = [(Era::Legacy, Behind::One), (Era::Modern, Behind::One), (Era::Modern, Behind::Many)];
    for ((era, behind), link) in
        servers.into_iter().flat_map(|one| [(one, Link::Stream), (one, Link::Socket)])
    {
        let case = format!("{era:?} {behind:?} {link:?}");
        let (relay, _) = relay_with(&server(era), options(behind, Duration::from_secs(600))).await;
        let (stop, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (ask, mut asked) = mpsc::unbounded_channel();
        let connector = hesitating(ask, Arc::clone(&go));
        let (client, serving) = match link {
            Link::Stream => {
                let (ours, theirs) = memory::pair(&Limits::DEFAULT);
                let (served, stop) = (relay.clone(), Arc::clone(&stop));
                let serving = tokio::spawn(async move {
                    let close = async {
                        stop.notified().await;
                        served.close("asked to stop");
                    };
                    tokio::join!(served.serve(theirs), close);
                });
                (connector.connect_link(ours).await.unwrap(), serving)
            }
            Link::Socket => {
                let (address, serving) = serve(&relay, &stop).await;
                let url = format!("ws://{address}/ws");
                let ws = cardan_ws::dial(&url, &cardan_ws::Dial::new(&Limits::DEFAULT)).await.unwrap();
                (connector.connect_link(ws).await.unwrap(), serving)
            }
        };
        let call = tokio::spawn(client.call_tool("twice", &json!({})).unwrap());
        soon("the first question", asked.recv()).await.unwrap();
        stop.notify_one();
        while soon("a refusal", client.all_tools()).await.is_ok() {}
        go.notify_one();
        soon("the second question", asked.recv()).await.unwrap();
        assert!(!serving.is_finished(), "{case}");
        go.notify_one();
        let result = soon("the result", call).await.unwrap().unwrap();
        assert_eq!(result.content[0].as_text(), Some("Accept Accept"), "{case}");
        soon("the end", serving).await.unwrap();
        relay.end("the test is over").await;
    }
}

/// F24: it does not wait longer than the grace for one that is never answered, which is then given up.
#[tokio::test]
async fn f24_a_call_that_is_never_answered_is_given_up() {
    let (relay, _) = relay_with(&server(Era::Legacy), options(Behind::One, Duration::from_millis(50))).await;
    let (stop, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (address, serving) = serve(&relay, &stop).await;
    let (ask, mut asked) = mpsc::unbounded_channel();
    let client = connect(address, ask, go).await;
    let call = tokio::spawn(client.call_tool("twice", &json!({})).unwrap());
    soon("the question", asked.recv()).await.unwrap();
    assert_eq!(relay.census().1, 1);
    stop.notify_one();
    soon("the end", serving).await.unwrap();
    soon("the farewell", relay.end("the test is over")).await;
    assert_eq!(relay.census().1, 0);
    call.abort();
}
