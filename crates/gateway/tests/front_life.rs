//! Servers behind a front come, go, change and crash: who is told, who is touched, who is not.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_client::{CallError, Client, Listen, way};
use cardan_gateway::fleet::{self, Fleet, Making, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::merge::Naming;
use cardan_gateway::relay::Lend;
use cardan_gateway::rules::Pattern;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{CallOptions, Change, Interest};
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_runtime::memory;
use cardan_server::{Cx, Server, Stop};
use fronting::{Stage, at, dead, front, server, spec};
use relaying::{answering, plain, revisions, soon, text};
use serde_json::{Value, json};
use tokio::sync::Notify;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

async fn names(client: &Client) -> Vec<String> {
    let tools = soon("tools", client.all_tools()).await.unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

async fn lists(client: &Client) -> Listen {
    let interest = Interest { tools: true, prompts: true, resources: true, ..Interest::default() };
    let mut listen = client.listen(interest);
    soon("ready", listen.ready()).await.unwrap();
    listen
}

/// A server with one tool.
fn small(name: &'static str) -> Server {
    Server::builder(name, "1").tool("who", "tells its name", move || async move { name }).build()
}

/// S0-79: a reload takes servers in and out; clients are told once, calls at servers that stay go on.
#[tokio::test]
async fn s0_81_a_reload_touches_only_what_changed() {
    for era in ERAS {
        let stage = Stage::default();
        let stays = spec("stays", &server("stays", Era::Legacy, &stage)).0;
        let (goes, dialled) = spec("goes", &small("goes"));
        let front = front(vec![stays.clone(), goes]);
        let client = at(&front, era, answering("ada")).await;
        assert_eq!(text(&client, "goes__who", json!({})).await, "goes");
        let before = dialled.count();
        let mut listen = lists(&client).await;
        let hanging = client.call_tool("stays__hang", &json!({})).unwrap();
        soon("begun", stage.begun.notified()).await;
        let done = front.fleet().reload(vec![stays, spec("comes", &small("comes")).0]).await;
        assert_eq!(
            (done.kept, done.added, done.removed),
            (vec!["stays".into()], vec!["comes".into()], vec!["goes".into()])
        );
        // One goes, then one comes: two changes, each told once.
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        while !names(&client).await.contains(&"comes__who".to_owned()) {
            assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        }
        assert!(!names(&client).await.contains(&"goes__who".to_owned()));
        assert_eq!(text(&client, "comes__who", json!({})).await, "comes");
        assert!(client.call_tool("goes__who", &json!({})).unwrap().await.is_err());
        assert_eq!(dialled.count(), before, "nobody dials a server that is gone");
        hanging.cancel("enough");
        soon("the call went on until now", stage.dropped.notified()).await;
        front.end("done").await;
    }
}

/// What is listened to at a server that is started again is listened to anew, and told, since it may have changed.
#[tokio::test]
async fn listens_outlive_a_restart() {
    for era in ERAS {
        for upstream in ERAS {
            let stage = Stage::default();
            let first = spec("one", &server("one", upstream, &stage)).0;
            let front = front(vec![first]);
            let client = at(&front, era, plain()).await;
            let interest = Interest { uris: vec!["one://a".into()], ..Interest::default() };
            let mut listen = client.listen(interest);
            soon("ready", listen.ready()).await.unwrap();
            let mut other = spec("one", &server("one", upstream, &stage)).0;
            other.identity = "reached otherwise".into();
            let done = front.fleet().reload(vec![other]).await;
            assert_eq!(done.restarted, ["one"]);
            let changed = Some(Change::Resource("one://a".into()));
            assert_eq!(soon("a change", listen.next()).await, changed, "{era:?} {upstream:?}");
            text(&client, "one__update", json!({})).await;
            assert_eq!(soon("an update", listen.next()).await, changed, "{era:?} {upstream:?}");
            front.end("done").await;
        }
    }
}

/// Rules and naming may change while clients are here: T15, one decision gates list and call.
#[tokio::test]
async fn t15_what_is_hidden_cannot_be_called_either() {
    for era in ERAS {
        let stage = Stage::default();
        let one = spec("one", &server("one", Era::Modern, &stage)).0;
        let front = front(vec![one.clone()]);
        let client = at(&front, era, plain()).await;
        assert_eq!(text(&client, "one__who", json!({})).await, "one");
        let mut listen = lists(&client).await;
        let mut hidden = one;
        hidden.rules.tools.deny = vec![Pattern::new("w*")];
        hidden.rules.resources.deny = vec![Pattern::new("one://*")];
        hidden.rules.tools.rename.insert("echo".into(), "say".into());
        front.fleet().reload(vec![hidden]).await;
        let told = [soon("a change", listen.next()).await, soon("a change", listen.next()).await];
        assert_eq!(told, [Some(Change::Tools), Some(Change::Resources)], "{era:?}");
        assert!(!names(&client).await.contains(&"one__who".to_owned()));
        let refused = client.call_tool("one__who", &json!({})).unwrap().await.unwrap_err();
        let unknown = client.call_tool("one__none", &json!({})).unwrap().await.unwrap_err();
        assert_eq!(
            refused.to_string().replace("who", "none"),
            unknown.to_string(),
            "it is as if it were not there"
        );
        for uri in ["one://a", "one://t/b"] {
            assert!(client.read(uri).await.unwrap_err().is_not_found(), "{era:?} {uri}");
        }
        assert_eq!(text(&client, "one__say", json!({"text": "hi"})).await, "hi", "{era:?}");
        front.adopt(Naming::Never("__".into()), cardan_gateway::policy::Policy::default());
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        assert_eq!(text(&client, "say", json!({"text": "hi"})).await, "hi", "{era:?}");
        front.end("done").await;
    }
}

/// S0-79: a server that crashes takes only its own calls with it, and is there again.
#[tokio::test]
async fn s0_79_a_crash_concerns_one_server() {
    for era in ERAS {
        let (first, second) = (Stage::default(), Stage::default());
        let (mut one, crashing) = spec("one", &server("one", Era::Legacy, &first));
        // So that the test does not wait as long as people do.
        let soon_again =
            Backoff { min: Duration::from_millis(1), max: Duration::from_millis(5), attempts: 100 };
        if let Ok(making) = &mut one.making {
            making.policy = Policy { backoff: soon_again, ..Policy::CHILD };
        }
        let front = front(vec![one, spec("two", &server("two", Era::Modern, &second)).0]);
        let client = at(&front, era, plain()).await;
        let here = client.call_tool("two__hang", &json!({})).unwrap();
        soon("begun", second.begun.notified()).await;
        let lost = client.call_tool("one__hang", &json!({})).unwrap();
        soon("begun", first.begun.notified()).await;
        crashing.crash();
        let error = soon("lost", lost).await.unwrap_err();
        assert!(error.to_string().contains("server `one` was lost"), "{era:?} {error}");
        assert!(
            names(&client).await.contains(&"one__who".to_owned()),
            "what it offers is known all the time"
        );
        assert_eq!(text(&client, "one__who", json!({})).await, "one", "{era:?}: it is there again");
        here.cancel("enough");
        soon("the other went on until now", second.dropped.notified()).await;
        front.end("done").await;
    }
}

/// A page of a list has so many entries; the next begins where it ended, also when something came before it.
#[tokio::test]
async fn lists_come_page_by_page() {
    for era in ERAS {
        let stage = Stage::default();
        let fleet = Fleet::start(vec![spec("one", &server("one", era, &stage)).0], fleet::Options::default());
        let front = Front::start(fleet, Options { page_entries: 3, ..Options::default() });
        let client = at(&front, era, plain()).await;
        soon("known", front.settled()).await;
        let mut pages = client.tools();
        let mut sizes = Vec::new();
        let mut all = Vec::new();
        while let Some(page) = soon("a page", pages.next()).await {
            let page = page.unwrap();
            sizes.push(page.tools.len());
            all.extend(page.tools.into_iter().map(|tool| tool.name));
        }
        assert_eq!(sizes, [3, 3, 3, 1], "{era:?}");
        assert_eq!(all, names(&client).await);
        // One that names something that is there, but more than any of ours does.
        let long = URL_SAFE_NO_PAD.encode(json!(["a", "b", "c", "d", "one__who"]).to_string());
        for odd in ["!", &long] {
            let params = Some(Bytes::from(json!({ "cursor": odd }).to_string()));
            let error = client.raw(Method::ToolsList, params, Default::default()).await.unwrap_err();
            assert!(error.to_string().contains("cursor: not one of ours"), "{era:?} {odd}: {error}");
        }
        front.end("done").await;
    }
}

/// What changes between two pages hides nothing that stays: the next page begins behind what is left of the last one, and where
/// nothing is left it is told to begin again.
#[tokio::test]
async fn nothing_is_left_out_between_two_pages() {
    for era in ERAS {
        let spec = spec("one", &server("one", era, &Stage::default())).0;
        let fleet = Fleet::start(vec![spec.clone()], fleet::Options::default());
        let front = Front::start(fleet, Options { page_entries: 3, ..Options::default() });
        let client = at(&front, era, plain()).await;
        soon("known", front.settled()).await;
        let page = async |cursor: Value| {
            let params = Some(Bytes::from(json!({ "cursor": cursor }).to_string()));
            let page = client.raw(Method::ToolsList, params, CallOptions::default()).await?;
            Ok::<Value, CallError>(serde_json::from_slice(&page).unwrap())
        };
        let hide = async |names: &[&str]| {
            let mut rules = spec.rules.clone();
            rules.tools.deny = names.iter().map(|name| Pattern::new(name)).collect();
            front.fleet().reload(vec![Spec { rules, ..spec.clone() }]).await;
        };
        let first = client.raw(Method::ToolsList, None, CallOptions::default()).await.unwrap();
        let first: Value = serde_json::from_slice(&first).unwrap();
        assert_eq!(first["tools"][2]["name"], "one__length", "{era:?}");
        let next = page(first["nextCursor"].clone()).await.unwrap();
        assert_eq!(next["tools"][0]["name"], "one__fault", "{era:?}");
        for gone in [&["length"][..], &["who", "length"]] {
            hide(gone).await;
            assert_eq!(
                page(first["nextCursor"].clone()).await.unwrap()["tools"],
                next["tools"],
                "{era:?} {gone:?}"
            );
        }
        hide(&["echo", "who", "length"]).await;
        let Err(CallError::Fault(fault)) = page(first["nextCursor"].clone()).await else {
            panic!("{era:?}: it went on somewhere");
        };
        assert!(fault.message.contains("start from the first page"), "{era:?} {}", fault.message);
        front.end("done").await;
    }
}

/// As many calls run at a time as a server is given, whoever makes them; one that waits for answers is one of them.
#[tokio::test]
async fn places_are_limited() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (Arc::clone(&running), Arc::clone(&most));
    let server = Server::builder("busy", "1")
        .revisions(revisions(Era::Legacy))
        .tool("work", "counts", move |cx: Cx| {
            let (running, most) = (Arc::clone(&counted), Arc::clone(&peak));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let asked = cx.elicit("who", &cardan_proto::model::form::Form::new("who?").string("name"));
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                asked?;
                Ok::<_, Stop>("done")
            }
        })
        .build();
    let mut spec = spec("busy", &server).0;
    spec.concurrency = Some(2);
    let front = front(vec![spec]);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..12 {
        let client = at(&front, ERAS[n % 2], answering("ada")).await;
        calls.spawn(async move { text(&client, "busy__work", json!({})).await });
    }
    while let Some(done) = soon("a call", calls.join_next()).await {
        assert_eq!(done.unwrap(), "done");
    }
    assert!(most.load(Ordering::SeqCst) <= 2, "{}", most.load(Ordering::SeqCst));
    front.end("done").await;
}

/// F37: a call with answers that nobody asked for is a new one, and waits for a place like any other.
#[tokio::test]
async fn f37_answers_without_a_question_find_no_way_around() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (Arc::clone(&running), Arc::clone(&most));
    let server = Server::builder("busy", "1")
        .revisions(revisions(Era::Legacy))
        .tool("work", "counts", move |_: Cx| {
            let (running, most) = (Arc::clone(&counted), Arc::clone(&peak));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Stop>("done")
            }
        })
        .build();
    let mut spec = spec("busy", &server).0;
    spec.concurrency = Some(1);
    let front = front(vec![spec]);
    let client = at(&front, Era::Modern, plain()).await;
    let params = json!({"name": "busy__work", "arguments": {}, "inputResponses": {}}).to_string();
    let calls = (0..4).map(|_| {
        let params = Some(Bytes::from(params.clone()));
        client.raw(Method::ToolsCall, params, CallOptions::default())
    });
    for done in soon("the calls", futures_util::future::join_all(calls)).await {
        assert!(done.unwrap().starts_with(b"{"));
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
    front.end("done").await;
}

/// F37: a call that finds no place in time is refused: its client reads that nothing was sent, why, and what to do.
#[tokio::test(start_paused = true)]
async fn f37_who_waits_in_vain_is_told() {
    for era in ERAS {
        let stage = Stage::default();
        let mut spec = spec("busy", &server("busy", era, &stage)).0;
        spec.concurrency = Some(1);
        let front = front(vec![spec]);
        let client = at(&front, era, plain()).await;
        let endless = || {
            let params = Bytes::from_static(br#"{"name":"busy__hang","arguments":{}}"#);
            let never = Some(Duration::ZERO);
            let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
            client.start(Method::ToolsCall, Some(params), options)
        };
        let running = endless();
        soon("begun", stage.begun.notified()).await;
        let CallError::Fault(fault) = endless().await.unwrap_err() else { panic!("{era:?}") };
        assert_eq!(fault.code, code::BUSY, "{era:?}");
        assert!(
            fault.message.starts_with("server `busy` takes no more calls at a time than 1, and had no place"),
            "{era:?} {fault}"
        );
        let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
        let told = [&data["outcome"], &data["delivery"], &data["mayHaveExecuted"]];
        assert_eq!(told, [&json!("refused"), &json!("not_sent"), &json!(false)], "{era:?}");
        drop(running);
        soon("dropped", stage.dropped.notified()).await;
        assert_eq!(text(&client, "busy__who", json!({})).await, "busy", "{era:?}: there is a place again");
        front.end("done").await;
    }
}

/// Servers that are processes: one for each session, with a state of its own.
fn processes(
    name: &'static str,
    era: Era,
    seen: &Arc<std::sync::Mutex<Vec<String>>>,
) -> (Spec, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let (count, seen) = (Arc::clone(&alive), Arc::clone(seen));
    let way = way(move || {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let (count, seen) = (Arc::clone(&count), Arc::clone(&seen));
        let process = server(name, era, &Stage::default());
        tokio::spawn(async move {
            count.fetch_add(1, Ordering::SeqCst);
            let link = relaying_named(theirs, seen);
            process.serve(link).await;
            count.fetch_sub(1, Ordering::SeqCst);
        });
        std::future::ready(Ok::<_, std::convert::Infallible>(ours))
    });
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::CHILD };
    (Spec::new(name, "stdio", format!("digest of {name}"), making), alive)
}

/// A link on which handshakes are looked at.
fn relaying_named(link: memory::MemoryLink, seen: Arc<std::sync::Mutex<Vec<String>>>) -> Overheard {
    Overheard { link, seen }
}

struct Overheard {
    link: memory::MemoryLink,
    seen: Arc<std::sync::Mutex<Vec<String>>>,
}

impl cardan_runtime::link::Link for Overheard {
    fn poll_recv(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<cardan_runtime::link::Received> {
        let received = self.link.poll_recv(cx);
        if let std::task::Poll::Ready(cardan_runtime::link::Received::Frame { bytes, .. }) = &received
            && let Ok(message) = serde_json::from_slice::<Value>(bytes)
            && message["method"] == "initialize"
        {
            let name = message["params"]["clientInfo"]["name"].as_str().unwrap_or_default().to_owned();
            self.seen.lock().unwrap().push(name);
        }
        received
    }

    fn put(
        &mut self,
        frame: u64,
        lane: cardan_proto::session::event::LaneId,
        message: &cardan_proto::session::event::Outgoing,
    ) {
        self.link.put(frame, lane, message);
    }

    fn poll_flush(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        self.link.poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.link.queued()
    }

    fn departed(&self) -> cardan_proto::session::event::Departed {
        self.link.departed()
    }

    fn abilities(&self) -> cardan_proto::session::event::Abilities {
        self.link.abilities()
    }

    fn poll_close(
        &mut self,
        cx: &mut std::task::Context<'_>,
        cause: &cardan_proto::session::event::Cause,
    ) -> std::task::Poll<()> {
        self.link.poll_close(cx, cause)
    }
}

/// A legacy client has a process of its own, which knows it by its name. What that process comes to offer is offered to
/// this client, and to no other.
#[tokio::test]
async fn a_legacy_client_sees_what_its_own_session_offers() {
    for era in ERAS {
        let seen = Arc::default();
        let (spec, alive) = processes("own", era, &seen);
        let front = front(vec![spec]);
        let client = at(&front, Era::Legacy, Client::builder("claude", "1")).await;
        let other = at(&front, Era::Legacy, plain()).await;
        assert_eq!(names(&client).await.len(), 10);
        let mut listen = lists(&client).await;
        assert_eq!(text(&client, "own__grow", json!({})).await, "grown");
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        assert!(names(&client).await.contains(&"own__more".to_owned()), "{era:?}");
        assert_eq!(text(&client, "own__more", json!({})).await, "own", "{era:?}");
        assert_eq!(text(&other, "own__who", json!({})).await, "own");
        assert!(!names(&other).await.contains(&"own__more".to_owned()), "{era:?}");
        let refused = other.call_tool("own__more", &json!({})).unwrap().await;
        assert!(refused.is_err(), "{era:?}");
        if era == Era::Legacy {
            assert_eq!(*seen.lock().unwrap(), ["gateway", "claude", "downstream"]);
        }
        assert_eq!(alive.load(Ordering::SeqCst), 3, "{era:?}: one for the list, one for each client");
        drop((client, other, listen));
        front.end("done").await;
        soon("no process is left", async {
            while alive.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// Modern clients that need nothing of their own share the one process that there is.
#[tokio::test]
async fn modern_clients_share_a_process() {
    for era in ERAS {
        let (spec, alive) = processes("one", era, &Arc::default());
        let front = front(vec![spec]);
        for _ in 0..5 {
            let client = at(&front, Era::Modern, plain()).await;
            assert_eq!(text(&client, "one__who", json!({})).await, "one");
        }
        assert_eq!(alive.load(Ordering::SeqCst), 1, "{era:?}");
        front.end("done").await;
    }
}

/// Where the fleet declares what a caller may not be able to do, a legacy server is called by another session than the
/// one that lists: a tool that wants to ask says so.
#[tokio::test]
async fn what_is_declared_for_listing_is_not_declared_for_calls() {
    for era in ERAS {
        let (mut spec, alive) = processes("one", era, &Arc::default());
        let declared = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        if let Ok(making) = &mut spec.making {
            making.connector =
                making.connector.clone().answer(cardan_client::Answerers::relayed(declared, |_, _| {
                    Box::pin(std::future::ready(Ok(Bytes::from_static(b"{\"action\":\"accept\"}"))))
                }));
        }
        let fleet = Fleet::start(vec![spec], fleet::Options::default());
        let front = Front::start(fleet, Options { lend: Lend::Modern, ..Options::default() });
        let client = at(&front, Era::Modern, plain()).await;
        assert_eq!(text(&client, "one__who", json!({})).await, "one");
        let refused = soon("ask", client.call_tool("one__ask", &json!({})).unwrap()).await;
        assert!(refused.is_err(), "{era:?} {refused:?}");
        let processes = if era == Era::Legacy { 2 } else { 1 };
        assert_eq!(alive.load(Ordering::SeqCst), processes, "{era:?}");
        front.end("done").await;
    }
}

/// A server that nobody uses is stopped, with the sessions that clients have there; the next call starts it.
#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_stopped() {
    for era in ERAS {
        let (mut spec, alive) = processes("idle", Era::Legacy, &Arc::default());
        spec.idle_stop = Some(Duration::from_secs(60));
        spec.lazy = true;
        let front = front(vec![spec]);
        let client = at(&front, era, plain()).await;
        // Started once, so that it is known what it offers.
        soon("known", front.settled()).await;
        assert_eq!(text(&client, "idle__who", json!({})).await, "idle", "{era:?}");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(alive.load(Ordering::SeqCst), 0, "{era:?}");
        assert_eq!(names(&client).await.len(), 10, "what it offers is still known");
        assert_eq!(text(&client, "idle__who", json!({})).await, "idle", "{era:?}");
        // What is subscribed to is used.
        if era == Era::Legacy {
            let interest = Interest { uris: vec!["idle://a".into()], ..Interest::default() };
            let mut listen = client.listen(interest);
            soon("ready", listen.ready()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(300)).await;
            text(&client, "idle__update", json!({})).await;
            assert_eq!(soon("an update", listen.next()).await, Some(Change::Resource("idle://a".into())));
        }
        front.end("done").await;
    }
}

/// A server that is there late is listed late, and told of; one that is never there hides nothing.
#[tokio::test]
async fn what_comes_late_is_told() {
    for era in ERAS {
        let come = Arc::new(Notify::new());
        let (stage, late) = (Stage::default(), Arc::clone(&come));
        let server = server("late", Era::Modern, &stage);
        let way = way(move || {
            let (late, server) = (Arc::clone(&late), server.clone());
            async move {
                late.notified().await;
                let (ours, theirs) = memory::pair(&Limits::DEFAULT);
                tokio::spawn(async move { server.serve(theirs).await });
                Ok::<_, std::convert::Infallible>(ours)
            }
        });
        let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::CHILD };
        let front = front(vec![
            dead("dead"),
            Spec::new("late", "http", "digest of late", making),
            spec("here", &small("here")).0,
        ]);
        let client = at(&front, era, plain()).await;
        assert_eq!(names(&client).await, ["here__who"], "{era:?}");
        let mut listen = lists(&client).await;
        come.notify_one();
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        let all = names(&client).await;
        assert_eq!(
            (all.len(), all[0].as_str(), all[10].as_str()),
            (11, "late__echo", "here__who"),
            "as configured"
        );
        front.end("done").await;
    }
}
