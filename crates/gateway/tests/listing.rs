//! Lists that do not come, that expire, and that nobody tells of: against a server that follows a script.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client, way};
use cardan_gateway::cache::CatalogCache;
use cardan_gateway::catalog::Kind;
use cardan_gateway::fleet::{Fleet, Known, Making, Options, Spec, Status, What};
use cardan_gateway::front::{self, Front, Refused};
use cardan_gateway::pin::store::PinStore;
use cardan_gateway::pin::{Mode, Pins};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::lines::Lines;
use cardan_runtime::memory;
use common::Scratch;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinHandle;

/// Under a paused clock this costs nothing.
const LONG: Duration = Duration::from_secs(3600);

/// A server that answers what is written here; what is not is a fault.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    capabilities: Value,
    /// Results by method.
    results: Vec<(&'static str, Value)>,
    asked: Vec<String>,
    serving: Option<JoinHandle<()>>,
}

impl Script {
    fn new(capabilities: Value, results: &[(&'static str, Value)]) -> Self {
        let inner = Inner { capabilities, results: results.to_vec(), ..Inner::default() };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn spec(&self, name: &str) -> Spec {
        let script = self.clone();
        let way = way(move || {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (read, write) = tokio::io::split(ours);
            let serving = tokio::spawn(script.clone().serve(theirs));
            script.0.lock().unwrap().serving = Some(serving);
            std::future::ready(Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT)))
        });
        let connector = Client::builder("fleet", "1").era(EraChoice::Legacy);
        Spec::new(name, "stdio", "aa", Making { connector, way, policy: Policy::CHILD })
    }

    async fn serve(self, link: DuplexStream) {
        let (read, mut write) = tokio::io::split(link);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
            let mut reply = json!({ "jsonrpc": "2.0", "id": id });
            match self.answer(method, &message) {
                Some(result) => reply["result"] = result,
                None => reply["error"] = json!({ "code": -32000, "message": "not now" }),
            }
            write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
    }

    fn answer(&self, method: &str, message: &Value) -> Option<Value> {
        let mut inner = self.0.lock().unwrap();
        inner.asked.push(method.to_owned());
        match method {
            "initialize" => Some(json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": inner.capabilities,
                "serverInfo": { "name": "script", "version": "1" },
            })),
            "ping" => Some(json!({})),
            other => inner.results.iter().find(|(name, _)| *name == other).map(|(_, result)| result.clone()),
        }
    }

    fn set(&self, method: &'static str, result: Option<Value>) {
        let mut inner = self.0.lock().unwrap();
        inner.results.retain(|(name, _)| *name != method);
        inner.results.extend(result.map(|result| (method, result)));
    }

    fn asked(&self, method: &str) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|asked| *asked == method).count()
    }

    fn kill(&self) {
        self.0.lock().unwrap().serving.take().unwrap().abort();
    }
}

fn tools(names: &[&str]) -> Value {
    let tools: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
    json!({ "tools": tools })
}

fn prompts(names: &[&str]) -> Value {
    json!({ "prompts": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() })
}

fn fleet(spec: Spec, scratch: &Scratch) -> Fleet {
    Fleet::start(vec![spec], Options { cache: Some(CatalogCache::new(scratch.path())), ..Options::default() })
}

fn status(fleet: &Fleet) -> Status {
    fleet.status().remove(0)
}

fn names(fleet: &Fleet, kind: Kind) -> Vec<String> {
    let catalog = fleet.upstreams()[0].catalog();
    let list = catalog.map(|catalog| catalog.list(kind).clone()).unwrap_or_default();
    list.entries.iter().map(|entry| entry.key().to_owned()).collect()
}

/// Waits until an upstream offers just these.
async fn offers(fleet: &Fleet, kind: Kind, wanted: &[&str]) {
    let mut events = fleet.events();
    let offered = async {
        while names(fleet, kind) != wanted {
            events.recv().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, offered).await.unwrap();
}

/// S0-80: a list that did not come is neither known nor kept, and is asked for again: after a while, and on a new link.
#[tokio::test(start_paused = true)]
async fn s0_80_a_failed_listing_is_no_empty_list() {
    let scratch = Scratch::new("failed-listing");
    let script = Script::new(json!({ "tools": {}, "prompts": {} }), &[]);
    let first = fleet(script.spec("a"), &scratch);
    let mut events = first.events();
    first.started(LONG).await;
    assert_eq!(status(&first).known, Known::Nothing);
    assert_eq!(CatalogCache::new(scratch.path()).load("aa"), None, "nothing came, so nothing is kept");
    while !matches!(events.recv().await.unwrap().what, What::Unlisted(_)) {}
    script.set("tools/list", Some(tools(&["one"])));
    offers(&first, Kind::Tools, &["one"]).await;
    // It is written down after it is in force.
    let kept = loop {
        match CatalogCache::new(scratch.path()).load("aa") {
            Some(kept) => break kept,
            None => tokio::task::yield_now().await,
        }
    };
    assert!(kept.told.age(Kind::Tools).is_some());
    assert_eq!(kept.told.age(Kind::Prompts), None, "it never came");
    script.set("prompts/list", Some(prompts(&["p"])));
    script.kill();
    offers(&first, Kind::Prompts, &["p"]).await;
    first.close("the test goes on").await;
    // The next process: what is held over keeps its age, and is not called told.
    let told = CatalogCache::new(scratch.path()).load("aa").unwrap().told;
    script.set("tools/list", None);
    script.set("prompts/list", Some(prompts(&["q"])));
    let second = fleet(script.spec("a"), &scratch);
    offers(&second, Kind::Prompts, &["q"]).await;
    assert!(matches!(status(&second).known, Known::Cached(_)));
    assert_eq!(names(&second, Kind::Tools), ["one"]);
    second.close("the test is over").await;
    let kept = CatalogCache::new(scratch.path()).load("aa").unwrap();
    assert_eq!(json!(kept.told)[0], json!(told)[0], "when the tools were told does not change");
}

/// S2-45: after a loss, lists that the server tells no changes of are fetched again, and so are those it did not offer
/// before.
#[tokio::test(start_paused = true)]
async fn s2_45_after_a_loss_untold_lists_are_fetched_again() {
    let scratch = Scratch::new("untold");
    let results = [("tools/list", tools(&["one"])), ("prompts/list", prompts(&["p"]))];
    let script = Script::new(json!({ "tools": { "listChanged": true }, "prompts": {} }), &results);
    let fleet = fleet(script.spec("a"), &scratch);
    offers(&fleet, Kind::Prompts, &["p"]).await;
    script.set("prompts/list", Some(prompts(&["q"])));
    script.set("resources/list", Some(json!({ "resources": [{ "uri": "x:1", "name": "x" }] })));
    script.set("tools/list", Some(tools(&["one", "two"])));
    script.0.lock().unwrap().capabilities["resources"] = json!({});
    script.kill();
    offers(&fleet, Kind::Prompts, &["q"]).await;
    offers(&fleet, Kind::Resources, &["x:1"]).await;
    offers(&fleet, Kind::Tools, &["one", "two"]).await;
    fleet.close("the test is over").await;
}

/// A list whose server says for how long it holds is fetched again when it does not any more.
#[tokio::test(start_paused = true)]
async fn an_expired_list_is_fetched_again() {
    let scratch = Scratch::new("expired");
    let mut first = tools(&["one"]);
    first["ttlMs"] = json!(60_000);
    let script = Script::new(json!({ "tools": {} }), &[("tools/list", first)]);
    let fleet = fleet(script.spec("a"), &scratch);
    offers(&fleet, Kind::Tools, &["one"]).await;
    let start = tokio::time::Instant::now();
    script.set("tools/list", Some(tools(&["two"])));
    offers(&fleet, Kind::Tools, &["two"]).await;
    assert!(start.elapsed() >= Duration::from_secs(59), "{:?}", start.elapsed());
    assert_eq!(script.asked("tools/list"), 2);
    fleet.close("the test is over").await;
}

/// What else an entry has changes nothing of what it is called: tools go by their name and resources by their address.
#[tokio::test(start_paused = true)]
async fn an_entry_is_called_as_its_kind_is() {
    let scratch = Scratch::new("kinds");
    let all =
        json!({ "name": "n", "uri": "x:1", "uriTemplate": "x:{a}", "inputSchema": { "type": "object" } });
    let results = [
        ("tools/list", json!({ "tools": [all] })),
        ("prompts/list", json!({ "prompts": [all] })),
        ("resources/list", json!({ "resources": [all] })),
        ("resources/templates/list", json!({ "resourceTemplates": [all] })),
    ];
    let script = Script::new(json!({ "tools": {}, "prompts": {}, "resources": {} }), &results);
    let called = |fleet: &Fleet| {
        [Kind::Tools, Kind::Prompts, Kind::Resources, Kind::Templates].map(|kind| names(fleet, kind).concat())
    };
    for known in [false, true] {
        let fleet = fleet(Spec { lazy: known, ..script.spec("a") }, &scratch);
        fleet.started(LONG).await;
        assert_eq!(called(&fleet), ["n", "n", "x:1", "x:{a}"], "from the cache: {known}");
        fleet.close("the test goes on").await;
    }
    assert_eq!(script.asked("tools/list"), 1);
}

/// T25: a server that does not tell its tools is not called where those that have changed are held back; it is once it does.
#[tokio::test(start_paused = true)]
async fn t25_who_does_not_tell_its_tools_is_not_called() {
    let scratch = Scratch::new("unjudged");
    let results = [("tools/list", tools(&["one"])), ("tools/call", json!({ "content": [] }))];
    for tells in [true, false] {
        let script = Script::new(json!({ "tools": { "listChanged": tells } }), &results);
        let fleet = fleet(script.spec("a"), &scratch);
        let pins =
            Pins::new(PinStore::new(scratch.path().join("pins")), Mode::Block, |line| panic!("{line}"));
        let options = front::Options { pins: Some(Arc::new(pins)), ..front::Options::default() };
        let front = Front::start(fleet.clone(), options);
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let serving = front.clone();
        tokio::spawn(async move { serving.serve(theirs).await });
        let client = Client::builder("client", "1").era(EraChoice::Modern).connect_link(ours).await.unwrap();
        client.call_tool("a__one", &json!({})).unwrap().await.unwrap();
        let mut events = fleet.events();
        script.set("tools/list", None);
        script.kill();
        while !matches!(events.recv().await.unwrap().what, What::Condition(seen) if seen.to.is_up()) {}
        for _ in 0..2 {
            let refused = client.call_tool("a__one", &json!({})).unwrap().await.unwrap_err();
            let CallError::Fault(fault) = refused else { panic!("{refused}") };
            assert!(fault.message.contains("has not told its tools"), "{fault:?}");
            let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
            assert_eq!((&data["delivery"], &data["mayHaveExecuted"]), (&json!("not_sent"), &json!(false)));
        }
        assert_eq!((script.asked("tools/call"), front.refused()[Refused::Pin as usize]), (1, 2));
        script.set("tools/list", Some(tools(&["one", "two"])));
        client.call_tool("a__one", &json!({})).unwrap().await.unwrap();
        front.end("done").await;
    }
}
