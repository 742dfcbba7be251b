//! A client of ours, a relay and a server of ours, each side held to one era.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and a failed step is a failed test"
)]

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Answerers, Client, Connector, Urls, way};
use cardan_endpoint::Endpoint;
use cardan_endpoint::listener::Listener;
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::era::{Era, Revisions};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::jsonrpc::envelope::Params;
use cardan_proto::limits::Limits;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult};
use cardan_proto::model::roots::Root;
use cardan_proto::model::sampling::CreateMessageResult;
use cardan_proto::model::{Resource, ResourceContents};
use cardan_proto::session::config::{Config, EraChoice, Interests, Role};
use cardan_proto::session::event::{Change, Event, Updated};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::driver::Driver;
use cardan_runtime::memory::{self, MemoryLink};
use cardan_runtime::service::{Host, Service};
use cardan_server::{Cx, Server, Stop};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Who speaks what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) client: Era,
    pub(crate) server: Era,
    pub(crate) isolation: Isolation,
}

/// All four, and each again where more is shared, or less.
pub(crate) const CELLS: [Cell; 10] = [
    Cell { client: Era::Modern, server: Era::Modern, isolation: Isolation::Client },
    Cell { client: Era::Legacy, server: Era::Modern, isolation: Isolation::Client },
    Cell { client: Era::Modern, server: Era::Legacy, isolation: Isolation::Client },
    Cell { client: Era::Legacy, server: Era::Legacy, isolation: Isolation::Client },
    Cell { client: Era::Legacy, server: Era::Modern, isolation: Isolation::Shared },
    Cell { client: Era::Legacy, server: Era::Legacy, isolation: Isolation::Shared },
    Cell { client: Era::Modern, server: Era::Modern, isolation: Isolation::Call },
    Cell { client: Era::Legacy, server: Era::Modern, isolation: Isolation::Call },
    Cell { client: Era::Modern, server: Era::Legacy, isolation: Isolation::Call },
    Cell { client: Era::Legacy, server: Era::Legacy, isolation: Isolation::Call },
];

pub(crate) fn revisions(era: Era) -> Revisions {
    match era {
        Era::Legacy => Revisions::LEGACY,
        Era::Modern => Revisions::MODERN,
    }
}

pub(crate) fn choice(era: Era) -> EraChoice {
    match era {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    }
}

/// The upstream's end of its links: how often it was dialled, and who serves there.
#[derive(Clone, Default)]
pub(crate) struct Dialled {
    count: Arc<AtomicUsize>,
    serving: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Dialled {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Ends every link at once, as a crash does.
    pub(crate) fn crash(&self) {
        for serving in self.serving.lock().unwrap().drain(..) {
            serving.abort();
        }
    }
}

/// How `serve` is reached, over a link in memory for every dial.
pub(crate) fn making<S, F>(serve: S) -> (Making, Dialled)
where
    S: Fn(MemoryLink) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let dialled = Dialled::default();
    let told = dialled.clone();
    let way = way(move || {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        told.count.fetch_add(1, Ordering::SeqCst);
        told.serving.lock().unwrap().push(tokio::spawn(serve(theirs)));
        std::future::ready(Ok::<_, Infallible>(ours))
    });
    let connector = Client::builder("relay", "1");
    (Making { connector, way, policy: Policy::CHILD }, dialled)
}

/// How a legacy server that is this service, offering this, is reached.
pub(crate) fn making_legacy<S: Service>(
    service: S,
    name: &str,
    capabilities: &Value,
    interests: Interests,
) -> (Making, Dialled) {
    let service = Arc::new(service);
    let identity = Bytes::from(json!({"name": name, "version": "1"}).to_string());
    let mut config = Config::new(Role::Server, identity, Bytes::from(capabilities.to_string()));
    config.revisions = revisions(Era::Legacy);
    config.interests = interests;
    let config = Arc::new(config);
    making(move |link| {
        let (driver, _) = Driver::new(link, Arc::clone(&service), Arc::clone(&config));
        async move { drop(driver.await) }
    })
}

/// A relay before `server`.
pub(crate) async fn relay(server: &Server) -> (Relay, Dialled) {
    relay_with(server, Options { behind: Behind::One, ..Options::default() }).await
}

/// The same, with sessions shared so.
pub(crate) async fn relay_sharing(server: &Server, isolation: Isolation) -> (Relay, Dialled) {
    relay_with(server, Options { behind: Behind::One, isolation, ..Options::default() }).await
}

pub(crate) async fn relay_with(server: &Server, options: Options) -> (Relay, Dialled) {
    let server = server.clone();
    let (making, dialled) = making(move |link| {
        let server = server.clone();
        async move { drop(server.serve(link).await) }
    });
    (Relay::start(making, options).await.unwrap(), dialled)
}

/// A server whose tool `update` tells that `note://a` has changed, with more than its address; and what it tells.
pub(crate) fn telling(era: Era) -> (Server, Change) {
    let told = Bytes::from_static(br#"{"uri":"note://a","_meta":{"x/y":1.50},"title":"\u00e9"}"#);
    let params = Params::scan(told, &Limits::DEFAULT).unwrap();
    let change = Change::Resource(Updated::read(&params).unwrap());
    let tells = change.clone();
    let server = Server::builder("notes", "1")
        .revisions(revisions(era))
        .resource(Resource::new("note://a", "a"), async |_| Ok(vec![ResourceContents::text("note://a", "x")]))
        .tool("update", "tells it", move |cx: Cx| {
            let change = tells.clone();
            async move {
                cx.changed(&change);
                Ok::<_, Stop>("told")
            }
        })
        .build();
    (server, change)
}

/// A port before a host.
pub(crate) async fn port(host: impl Host) -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap();
    let allow = Allow::bound::<&str, &str>(address.ip(), Ports::Any, &[], &[]).unwrap();
    tokio::spawn(
        listener.serve(Endpoint::new(host, cardan_endpoint::Options::new(allow)), std::future::pending()),
    );
    address
}

/// A client of this era at the relay.
pub(crate) async fn connect(relay: &Relay, era: Era, connector: Connector) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let relay = relay.clone();
    tokio::spawn(async move { relay.serve(theirs).await });
    let client = connector.era(choice(era)).connect_link(ours).await.unwrap();
    assert_eq!(client.settled().revision.era(), era);
    client
}

pub(crate) fn plain() -> Connector {
    Client::builder("downstream", "1")
}

/// A client that fills forms with `name`, samples as `name` and has one root called `name`.
pub(crate) fn answering(name: &str) -> Connector {
    let (filled, model) = (name.to_owned(), name.to_owned());
    let root = Root::new(format!("file:///{name}"));
    let answerers = Answerers::default()
        .elicit(Urls::Offered, move |params: ElicitParams| {
            let answer = match params {
                ElicitParams::Url(_) => ElicitResult::accepted(),
                _ => ElicitResult::filled([("name".to_owned(), filled.as_str().into())].into()),
            };
            std::future::ready(Ok(answer))
        })
        .sample(move |_| {
            let answer =
                json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": model});
            let answer: CreateMessageResult = serde_json::from_value(answer).unwrap();
            std::future::ready(Ok(answer))
        })
        .roots(Arc::new(RwLock::new(vec![root])));
    plain().answer(answerers)
}

/// Log notes as they come.
pub(crate) type Logs = Arc<Mutex<Vec<Value>>>;

pub(crate) fn logging(connector: Connector) -> (Connector, Logs) {
    let logs = Logs::default();
    let kept = Arc::clone(&logs);
    let connector = connector.observe(move |event| {
        if let Event::Logged { params } = event {
            kept.lock().unwrap().push(serde_json::from_slice(params).unwrap());
        }
    });
    (connector, logs)
}

/// Waits, not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {LONG:?}"),
    }
}

/// The first text of a tool's result.
pub(crate) async fn text(client: &Client, tool: &str, arguments: Value) -> String {
    let result = soon(tool, client.call_tool(tool, &arguments).unwrap()).await.unwrap();
    result.content[0].as_text().unwrap_or_default().to_owned()
}
