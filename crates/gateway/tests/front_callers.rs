//! A server that knows its callers by their sessions and says so with everything: nobody is told what is another's.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_client::Client;
use cardan_gateway::fleet::Spec;
use cardan_gateway::front::Front;
use cardan_gateway::relay::Isolation;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{Answer, CallOptions, Called, Change};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::{Handler, Host as _, Service};
use cardan_sim::rng::Rng;
use fronting::front;
use relaying::{choice, making, plain, revisions, soon};
use serde_json::{Value, json};

/// Of each principal, where one way of sharing is tried.
const CALLS: u64 = 850;

/// What may be kept for long, by whoever is allowed to.
const TTL_MS: u64 = 3_600_000;

/// One session of the server, as a process of its own would be: it belongs to who has logged in there.
#[derive(Default)]
struct Tagging(Mutex<Option<String>>);

impl Tagging {
    fn caller(&self) -> String {
        self.0.lock().unwrap().clone().unwrap_or_else(|| "nobody".to_owned())
    }

    /// The first page is for everybody, the second for the caller alone.
    fn page(&self, member: &str, is_first: bool, entry: impl Fn(&str) -> Value) -> Value {
        let own = entry(&format!("of-{}", self.caller()));
        match is_first {
            true => {
                let open = [entry("login"), entry("who")];
                json!({ member: open, "nextCursor": "2", "ttlMs": TTL_MS, "cacheScope": "public" })
            }
            false => json!({ member: [own], "ttlMs": TTL_MS, "cacheScope": "private" }),
        }
    }
}

impl Service for Tagging {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let text = |member| called.call.params.text(member).map(|text| text.into_owned());
        let is_first = called.call.params.raw().is_none_or(|raw| !raw.windows(6).any(|six| six == b"cursor"));
        let said = match (&called.call.method, text(Param::Name).as_deref(), text(Param::Uri).as_deref()) {
            (Method::ToolsList, ..) => self.page(
                "tools",
                is_first,
                |name| json!({ "name": name, "inputSchema": { "type": "object" } }),
            ),
            (Method::ResourcesList, ..) => self.page(
                "resources",
                is_first,
                |name| json!({ "name": name, "uri": format!("up://{name}") }),
            ),
            (Method::ToolsCall, Some("login"), _) => {
                let params: Value = serde_json::from_slice(called.call.params.raw().unwrap()).unwrap();
                *self.0.lock().unwrap() = Some(params["arguments"]["as"].as_str().unwrap().to_owned());
                cx.peer().change(Change::Tools);
                cx.peer().change(Change::Resources);
                json!({ "content": [] })
            }
            (Method::ToolsCall, ..) => json!({ "content": [{ "type": "text", "text": self.caller() }] }),
            (Method::ResourcesRead, _, Some(uri)) => {
                let (scope, text) = match uri {
                    "up://login" => ("public", "everybody".to_owned()),
                    _ => ("private", self.caller()),
                };
                json!({ "contents": [{ "uri": uri, "text": text }], "ttlMs": TTL_MS, "cacheScope": scope })
            }
            _ => {
                let fault = Fault::method_not_found(called.call.method.name());
                return Box::pin(std::future::ready(Answer::Fault(fault)));
            }
        };
        Box::pin(std::future::ready(Answer::Done(Bytes::from(said.to_string()))))
    }
}

/// A fleet of that server alone, each of whose links is a session of its own.
fn fleet(era: Era, isolation: Isolation) -> Front {
    let capabilities = json!({ "tools": { "listChanged": true }, "resources": { "listChanged": true } });
    let identity = Bytes::from_static(b"{\"name\":\"up\",\"version\":\"1\"}");
    let mut config = Config::new(Role::Server, identity, Bytes::from(capabilities.to_string()));
    config.revisions = revisions(era);
    let config = Arc::new(config);
    let (making, _) = making(move |link| {
        let (driver, _) = Driver::new(link, Arc::new(Tagging::default()), Arc::clone(&config));
        async move { drop(driver.await) }
    });
    front(vec![Spec { isolation, ..Spec::new("up", "http", "digest of up", making) }])
}

/// A client of this principal, who cannot be asked anything and so shares what its principal shares.
async fn connect(front: &Front, who: &str, era: Era) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Arc<str> = who.into();
    let (driver, peer) = Driver::new(theirs, front.service(Some(&principal)), front.config(Some(&principal)));
    front.joined(peer, Some(&principal));
    tokio::spawn(driver);
    plain().era(choice(era)).connect_link(ours).await.unwrap()
}

/// A call that no cache of the client's stands before.
async fn call(client: &Client, method: Method, params: Value) -> Value {
    let params = Some(Bytes::from(params.to_string()));
    let raw = soon("an answer", client.raw(method, params, CallOptions::default())).await.unwrap();
    serde_json::from_slice(&raw).unwrap()
}

/// Everything that one client asks for, and what it must not be told.
async fn day(client: Client, who: &'static str, other: &'static str, era: Era, calls: u64) -> Client {
    let mut rng = Rng::seeded(u64::from(who.as_bytes()[0]) + calls);
    call(&client, Method::ToolsCall, json!({ "name": "up__login", "arguments": { "as": who } })).await;
    for _ in 0..calls {
        let (said, private) = match rng.below(5) {
            0 => {
                let said = call(&client, Method::ToolsCall, json!({ "name": "up__who" })).await;
                assert_eq!(said["content"][0]["text"], who, "{era:?}");
                continue;
            }
            1 => {
                let said = call(&client, Method::ResourcesRead, json!({ "uri": "up://who" })).await;
                assert_eq!(said["contents"][0]["text"], who, "{era:?}");
                (said, true)
            }
            2 => {
                let said = call(&client, Method::ResourcesRead, json!({ "uri": "up://login" })).await;
                assert_eq!(said["contents"][0]["text"], "everybody", "{era:?}");
                (said, false)
            }
            3 => (call(&client, Method::ToolsList, json!({})).await, true),
            _ => (call(&client, Method::ResourcesList, json!({})).await, true),
        };
        assert!(!said.to_string().contains(&format!("of-{other}")), "{who}, {era:?}: {said}");
        // What one page says is private makes all that is made of it so; legacy clients know no such word.
        if era == Era::Modern && private {
            assert_eq!(said["cacheScope"], "private", "{who}: {said}");
        }
    }
    client
}

/// T13: two principals whose calls interleave are each told what is theirs, whatever may be kept for how long, and nobody is
/// told what was made for the other; where sessions are a client's own, its lists come to be its own too.
#[tokio::test]
async fn t13_nobody_is_told_what_is_anothers() {
    let eras = [Era::Legacy, Era::Modern];
    let principals =
        eras.into_iter().flat_map(|client| eras.map(|server| (client, server, Isolation::Principal)));
    let clients = eras.map(|server| (Era::Legacy, server, Isolation::Client));
    for (era, server, isolation) in principals.chain(clients) {
        let front = fleet(server, isolation);
        front.settled().await;
        let (ada, bob) = (connect(&front, "ada", era).await, connect(&front, "bob", era).await);
        let days = [
            tokio::spawn(day(ada, "ada", "bob", era, CALLS)),
            tokio::spawn(day(bob, "bob", "ada", era, CALLS)),
        ];
        for (who, day) in ["ada", "bob"].into_iter().zip(days) {
            let client =
                day.await.unwrap_or_else(|error| panic!("{era:?} {server:?} {isolation:?}: {error}"));
            if isolation == Isolation::Client {
                let own = format!("of-{who}");
                let comes = async {
                    while !call(&client, Method::ToolsList, json!({})).await.to_string().contains(&own) {
                        tokio::task::yield_now().await;
                    }
                };
                soon("a list of its own", comes).await;
            }
        }
        front.end("done").await;
    }
}
