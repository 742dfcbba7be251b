//! A canary before servers that are reached by HTTP: it sees every byte that a gateway sends there.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cardan_client::{Client, way};
use cardan_dial::Http;
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Grant, Options};
use cardan_gateway::fleet::{Making, Spec};
use cardan_gateway::front::Front;
use cardan_proto::era::Era;
use cardan_proto::http::challenge::Bearer;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{CallOptions, Interest, Wanted};
use cardan_proto::upkeep::policy::Policy;
use cardan_sim::rng::Rng;
use fronting::{Stage, front, server};
use relaying::{choice, plain, port, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// How every token of a client begins, and the same as Base64.
const INBOUND: [&str; 2] = ["inboundtoken", "aW5ib3VuZHRva2Vu"];

/// What the gateway shows to its servers, of its own.
const OUTBOUND: &str = "outbound-credential";

/// Headers by which gateways know each other or whom they serve.
const INTERNAL: [&str; 5] =
    ["cardan-pass", "x-mcp-principal", "x-mcp-internal-key", "x-forwarded-user", "x-forwarded-authorization"];

const CLIENTS: u64 = 8;
const CALLS: u64 = 1250;

/// What was seen.
#[derive(Default)]
struct Canary {
    inbound: AtomicUsize,
    outbound: AtomicUsize,
    requests: AtomicUsize,
}

impl Canary {
    /// Counts what begins in what is new, of which the last bytes may be the beginning of something.
    fn look(&self, text: &str) {
        let count = |what: &str| text.matches(what).count();
        self.inbound.fetch_add(INBOUND.into_iter().map(count).sum(), Ordering::SeqCst);
        self.outbound.fetch_add(count(OUTBOUND), Ordering::SeqCst);
        self.requests.fetch_add(count(" HTTP/1.1\r\n"), Ordering::SeqCst);
    }

    /// Passes bytes on, and looks at all of them.
    async fn watch(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let (mut text, mut some) = (String::new(), vec![0; 16 << 10]);
        while let Ok(count @ 1..) = from.read(&mut some).await {
            // A head or a body may come in pieces: a piece is looked at when its message is whole.
            text += &String::from_utf8_lossy(&some[..count]);
            if count < some.len() {
                self.look(&std::mem::take(&mut text));
            }
            if to.write_all(&some[..count]).await.is_err() {
                break;
            }
        }
        self.look(&text);
    }

    /// A port that leads to `server` past the canary.
    async fn before(self: &Arc<Self>, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let canary = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (canary, far) = (Arc::clone(&canary), TcpStream::connect(server).await.unwrap());
                let ((from, mut back), (mut answers, to)) = (near.into_split(), far.into_split());
                tokio::spawn(async move {
                    tokio::join!(canary.watch(from, to), tokio::io::copy(&mut answers, &mut back))
                });
            }
        });
        address
    }
}

/// A server of this era behind the canary, as one of a fleet.
async fn watched(name: &'static str, era: Era, canary: &Arc<Canary>) -> (Spec, SocketAddr) {
    let address = canary.before(port(server(name, era, &Stage::default())).await).await;
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    let http = http.header("authorization", &format!("Bearer {OUTBOUND}")).unwrap();
    let way = way(move || std::future::ready(http.clone().link()));
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::REMOTE };
    (Spec::new(name, "http", format!("digest of {name}"), making), address)
}

/// A gateway that takes tokens.
async fn guarded(front: Front) -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap();
    let allow = Allow::bound::<&str, &str>(address.ip(), Ports::Any, &[], &[]).unwrap();
    let options = Options::new(allow).verify(|token: Option<&str>| match token {
        Some(token) if token.starts_with(INBOUND[0]) => Grant::Granted(Some(token.into())),
        Some(_) => Grant::Invalid(Bearer::default()),
        None => Grant::Missing(Bearer::default()),
    });
    tokio::spawn(listener.serve(Endpoint::new(front, options), std::future::pending()));
    address
}

async fn connect(address: SocketAddr, token: &str, era: Era) -> Client {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    let mut http = http.header("authorization", &format!("Bearer {token}")).unwrap();
    for name in INTERNAL {
        http = http.header(name, token).unwrap();
    }
    soon("a client", plain().era(choice(era)).connect_link(http.link().unwrap())).await.unwrap()
}

/// Any call of a client.
fn any(rng: &mut Rng) -> (Method, Value) {
    let (name, word) = (rng.pick(&["old", "new"]), rng.number());
    match rng.below(16) {
        0..=4 => (
            Method::ToolsCall,
            json!({ "name": format!("{name}__echo"), "arguments": { "text": format!("{word}") } }),
        ),
        5 => (Method::ToolsCall, json!({ "name": format!("{name}__steps") })),
        6 => (Method::ToolsCall, json!({ "name": format!("{name}__update") })),
        7 | 8 => (Method::ResourcesRead, json!({ "uri": format!("{name}://a") })),
        9 | 10 => (Method::ResourcesRead, json!({ "uri": format!("{name}://t/{word}") })),
        11 | 12 => (
            Method::PromptsGet,
            json!({ "name": format!("{name}__greet"), "arguments": { "whom": format!("{word}") } }),
        ),
        13 => {
            let about = json!({ "type": "ref/prompt", "name": format!("{name}__greet") });
            (
                Method::CompletionComplete,
                json!({ "ref": about, "argument": { "name": "whom", "value": "a" } }),
            )
        }
        14 => (Method::ToolsList, json!({})),
        _ => (Method::ResourcesTemplatesList, json!({})),
    }
}

/// One client's calls, by a connection after the other.
async fn day(address: SocketAddr, number: u64) {
    let mut rng = Rng::seeded(number);
    let token = format!("{}{:016x}", INBOUND[0], rng.number());
    let era = if number.is_multiple_of(2) { Era::Legacy } else { Era::Modern };
    for _ in 0..5 {
        let client = connect(address, &token, era).await;
        let uris = vec!["old://a".into(), "new://a".into()];
        let mut listen = client.listen(Interest { tools: true, uris, ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        for _ in 0..CALLS / 5 {
            let (method, params) = any(&mut rng);
            let progress = if rng.percent(20) { Wanted::Yes } else { Wanted::No };
            let options = CallOptions { progress, ..CallOptions::default() };
            let told = format!("{method} {params}");
            let called =
                soon(&told, client.raw(method, Some(Bytes::from(params.to_string())), options)).await;
            called.unwrap_or_else(|error| panic!("{told}: {error}"));
        }
    }
}

/// T9, T16: what a client shows to a gateway is nothing for the servers behind it, in whichever header. Whatever is called, in
/// either era and at a server of either, they are shown the credential that is configured for them, with every request, and no
/// client's token ever.
#[tokio::test]
async fn t9_no_token_of_a_client_reaches_a_server() {
    let canary = Arc::new(Canary::default());
    let (old, behind) = watched("old", Era::Legacy, &canary).await;
    let (new, _) = watched("new", Era::Modern, &canary).await;
    let front = front(vec![old, new]);
    front.settled().await;
    let address = guarded(front.clone()).await;
    let mut days = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        days.spawn(day(address, number));
    }
    while let Some(day) = days.join_next().await {
        day.unwrap();
    }
    let seen = [&canary.requests, &canary.outbound, &canary.inbound].map(|one| one.load(Ordering::SeqCst));
    assert!(seen[0] > 5_000, "too few requests came by: {seen:?}");
    assert_eq!((seen[1], seen[2]), (seen[0], 0), "requests, and what was shown with them");
    // The canary sees what there is to be seen.
    let direct = connect(behind, &format!("{}0", INBOUND[0]), Era::Legacy).await;
    direct.all_tools().await.unwrap();
    assert!(canary.inbound.load(Ordering::SeqCst) > 0);
    front.end("done").await;
}
