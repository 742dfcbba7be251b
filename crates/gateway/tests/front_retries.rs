//! What becomes of a call that waits for its client's answers when its server is stopped or started again meanwhile.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client, way};
use cardan_gateway::fleet::{Making, Spec};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::session::event::{CallOptions, Rounds};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::{Cx, Server, Stop};
use fronting::{at, front};
use relaying::{answering, revisions, soon, text};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore};

const TTL: Duration = Limits::DEFAULT.request_state_ttl;
const IDLE: Duration = Duration::from_secs(60);

/// Where a tool waits before it asks.
#[derive(Clone)]
struct Gate {
    reached: Arc<Notify>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { reached: Arc::default(), open: Arc::new(Semaphore::new(0)) }
    }
}

/// A server that asks, and says who it is.
fn asking(who: &'static str, era: Era, gate: &Gate) -> Server {
    let gate = gate.clone();
    Server::builder("one", "1")
        .revisions(revisions(era))
        .tool("who", "tells its name", move || async move { who })
        .tool("ask", "asks for a name", move |cx: Cx| async move {
            let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
            let name = json!(answer.content.unwrap_or_default())["name"].clone();
            Ok::<_, Stop>(format!("{who} {name}"))
        })
        .tool("twice", "asks twice", move |cx: Cx| async move {
            cx.elicit("who", &Form::new("who?").string("name"))?;
            cx.elicit("who else", &Form::new("who else?").string("name"))?;
            Ok::<_, Stop>(who)
        })
        .tool("late", "asks once it may", move |cx: Cx| {
            let gate = gate.clone();
            async move {
                gate.reached.notify_one();
                // Given back, for when it goes on with the answer.
                drop(gate.open.acquire().await.unwrap());
                let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
                let name = json!(answer.content.unwrap_or_default())["name"].clone();
                Ok::<_, Stop>(format!("{who} {name}"))
            }
        })
        .build()
}

/// The processes of `one`, each with a seal of its own, and how many there are.
fn processes(who: &'static str, era: Era) -> (Spec, Arc<AtomicUsize>) {
    processes_at(who, era, &Gate::new())
}

/// The same, of which each waits here before it asks.
fn processes_at(who: &'static str, era: Era, gate: &Gate) -> (Spec, Arc<AtomicUsize>) {
    let gate = gate.clone();
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let way = way(move || {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let (process, count) = (asking(who, era, &gate), Arc::clone(&count));
        tokio::spawn(async move {
            count.fetch_add(1, Ordering::SeqCst);
            process.serve(theirs).await;
            count.fetch_sub(1, Ordering::SeqCst);
        });
        std::future::ready(Ok::<_, Infallible>(ours))
    });
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::CHILD };
    (Spec::new("one", "stdio", format!("digest of {who}"), making), alive)
}

async fn call(client: &Client, params: Value) -> Result<Value, Fault> {
    let params = Some(Bytes::from(params.to_string()));
    let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
    match soon("a call", client.raw(Method::ToolsCall, params, options)).await {
        Ok(result) => Ok(serde_json::from_slice(&result).unwrap()),
        Err(CallError::Fault(fault)) => Err(fault),
        Err(error) => panic!("{error}"),
    }
}

/// Calls, and is asked.
async fn asked(client: &Client) -> Value {
    let asked = call(client, json!({"name": "one__ask", "arguments": {}})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    asked
}

/// Calls again, with the answers, and tells what the tool says.
async fn retry(client: &Client, asked: &Value) -> Result<String, Fault> {
    let done = retry_of("one__ask", client, asked).await?;
    Ok(done["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

async fn retry_of(tool: &str, client: &Client, asked: &Value) -> Result<Value, Fault> {
    let filled = json!({"action": "accept", "content": {"name": "ada"}});
    let asks = asked["inputRequests"].as_object().unwrap();
    let answers: Map<_, _> = asks.keys().map(|key| (key.clone(), filled.clone())).collect();
    let state = &asked["requestState"];
    let params = json!({"name": tool, "arguments": {}, "inputResponses": answers, "requestState": state});
    call(client, params).await
}

/// Waits until there are so many processes.
async fn left(alive: &AtomicUsize, most: usize) {
    soon("processes end", async {
        while alive.load(Ordering::SeqCst) > most {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A server that waits for a retry is not idle: not before the time is over in which it may come.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_retry_is_not_stopped() {
    for era in [Era::Legacy, Era::Modern] {
        let (mut spec, alive) = processes("old", era);
        (spec.idle_stop, spec.lazy) = (Some(IDLE), true);
        let front = front(vec![spec]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        let first = asked(&client).await;
        tokio::time::sleep(5 * IDLE).await;
        assert_eq!(retry(&client, &first).await.unwrap(), "old \"ada\"", "{era:?}");
        tokio::time::sleep(2 * IDLE).await;
        assert_eq!(alive.load(Ordering::SeqCst), 0, "{era:?}: nobody waits any more");
        asked(&client).await;
        tokio::time::sleep(TTL + 2 * IDLE).await;
        assert_eq!(alive.load(Ordering::SeqCst), 0, "{era:?}: nobody came");
        front.end("done").await;
    }
}

/// A call that was asked by a legacy server goes on there, whatever is started in its place; what comes new does not.
#[tokio::test(start_paused = true)]
async fn a_parked_call_outlives_a_restart() {
    for comes in [true, false] {
        let (spec, alive) = processes("old", Era::Legacy);
        let front = front(vec![spec]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        let first = asked(&client).await;
        let (mut other, others) = processes("new", Era::Legacy);
        other.identity = "reached otherwise".into();
        assert_eq!(front.fleet().reload(vec![other]).await.restarted, ["one"]);
        assert_eq!(text(&client, "one__who", json!({})).await, "new");
        left(&alive, 1).await;
        assert_eq!((alive.load(Ordering::SeqCst), front.parked()), (1, 1), "the one that asked");
        if comes {
            assert_eq!(retry(&client, &first).await.unwrap(), "old \"ada\"");
        } else {
            tokio::time::sleep(TTL + Duration::from_secs(1)).await;
        }
        left(&alive, 0).await;
        assert_eq!(front.parked(), 0);
        assert_eq!(retry(&client, &first).await.unwrap_err().code, code::INVALID_PARAMS, "once, and in time");
        front.end("done").await;
        left(&others, 0).await;
    }
}

/// The retry finds its call however soon it comes, and as often as it is asked something more, whatever is started meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_is_asked_again_after_a_restart() {
    let (spec, alive) = processes("old", Era::Legacy);
    let front = front(vec![spec]);
    let client = at(&front, Era::Modern, answering("ada")).await;
    let mut asked = call(&client, json!({"name": "one__twice", "arguments": {}})).await.unwrap();
    for (round, who) in ["new", "newer"].into_iter().enumerate() {
        assert_eq!(asked["resultType"], "input_required", "{round}: {asked}");
        let (mut other, _) = processes(who, Era::Legacy);
        other.identity = who.into();
        front.fleet().reload(vec![other]).await;
        asked = retry_of("one__twice", &client, &asked).await.unwrap();
    }
    assert_eq!(asked["content"][0]["text"], "old", "{asked}");
    left(&alive, 0).await;
    assert_eq!(text(&client, "one__who", json!({})).await, "newer");
    front.end("done").await;
}

/// A call that runs when its server is started again, and is asked something only then, is one that was asked before: a legacy server
/// goes on with it, what a modern one asked is lost with it. Nothing is left once it is done.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_asked_after_a_restart_is_known() {
    for era in [Era::Legacy, Era::Modern] {
        let gate = Gate::new();
        let (spec, alive) = processes_at("old", era, &gate);
        let front = front(vec![spec]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        let (mut other, others) = processes("new", era);
        other.identity = "reached otherwise".into();
        let restart = async {
            soon("it runs", gate.reached.notified()).await;
            // Time passes when all has been done that can be without it.
            let opened = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                gate.open.add_permits(1);
            };
            tokio::join!(front.fleet().reload(vec![other]), opened)
        };
        let calling = call(&client, json!({"name": "one__late", "arguments": {}}));
        let (asked, _) = tokio::join!(calling, restart);
        let asked = asked.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{era:?}: {asked}");
        assert_eq!(text(&client, "one__who", json!({})).await, "new", "{era:?}");
        let done = retry_of("one__late", &client, &asked).await;
        match era {
            Era::Legacy => assert_eq!(done.unwrap()["content"][0]["text"], "old \"ada\""),
            Era::Modern => {
                let fault = done.unwrap_err();
                assert!(fault.message.starts_with("server `one` was lost: "), "{fault}");
            }
        }
        left(&alive, 0).await;
        front.end("done").await;
        left(&others, 0).await;
    }
}

/// Where nothing comes in place of a server, or the end comes, nobody waits for retries.
#[tokio::test(start_paused = true)]
async fn a_parked_call_ends_with_its_server() {
    for gone in [true, false] {
        let (spec, alive) = processes("old", Era::Legacy);
        let front = front(vec![spec]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        asked(&client).await;
        let (mut other, others) = processes("new", Era::Legacy);
        other.identity = "reached otherwise".into();
        if gone {
            other.making = Err("not trusted".into());
        }
        front.fleet().reload(vec![other]).await;
        if !gone {
            assert_eq!(text(&client, "one__who", json!({})).await, "new");
            front.end("done").await;
        }
        left(&alive, 0).await;
        left(&others, 0).await;
    }
}

/// The state of a modern server is good for nobody else. What is lost with it is told as lost.
#[tokio::test(start_paused = true)]
async fn a_call_whose_server_was_started_again_is_lost() {
    let (spec, alive) = processes("old", Era::Modern);
    let front = front(vec![spec]);
    let client = at(&front, Era::Modern, answering("ada")).await;
    let first = asked(&client).await;
    let (mut other, _) = processes("new", Era::Modern);
    other.identity = "reached otherwise".into();
    front.fleet().reload(vec![other]).await;
    left(&alive, 0).await;
    let fault = retry(&client, &first).await.unwrap_err();
    assert!(fault.message.starts_with("server `one` was lost: "), "{}", fault.message);
    let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
    let told = [&data["outcome"], &data["delivery"], &data["mayHaveExecuted"]];
    assert_eq!(told, [&json!("lost"), &json!("sent"), &json!(true)]);
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    assert_eq!(retry(&client, &first).await.unwrap_err().code, code::INVALID_PARAMS, "forgotten in time");
    let again = asked(&client).await;
    assert_eq!(retry(&client, &again).await.unwrap(), "new \"ada\"");
    front.end("done").await;
}

/// A parked call has its place still, so it is counted among those that run there; one that is asked by a modern server
/// has none, and has ended.
#[tokio::test(start_paused = true)]
async fn a_parked_call_is_in_flight() {
    for (era, most) in [(Era::Legacy, 1), (Era::Modern, 0)] {
        let front = front(vec![processes("old", era).0]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        let running = || front.fleet().upstream("one").unwrap().counts().running;
        let first = asked(&client).await;
        assert_eq!(running(), most, "{era:?}");
        retry(&client, &first).await.unwrap();
        assert_eq!(running(), 0, "{era:?}");
        asked(&client).await;
        tokio::time::sleep(TTL + Duration::from_secs(1)).await;
        assert_eq!(running(), 0, "{era:?}: given up");
        front.end("done").await;
    }
}

/// MRTR-8: a state that is not good says why, as far as that can be known, and what to do.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_not_good_says_why() {
    let (front, next) =
        (front(vec![processes("old", Era::Legacy).0]), front(vec![processes("old", Era::Legacy).0]));
    let client = at(&front, Era::Modern, answering("ada")).await;
    let elsewhere = at(&next, Era::Modern, answering("ada")).await;
    let told = async |client: &Client, asked: &Value, why: &str| {
        let fault = retry(client, asked).await.unwrap_err();
        assert_eq!(fault.code, code::INVALID_PARAMS, "{fault}");
        assert!(
            fault.message.contains(why) && fault.message.contains("make the call again"),
            "{why}: {fault}"
        );
    };
    let (used, late, open) = (asked(&client).await, asked(&client).await, asked(&client).await);
    retry(&client, &used).await.unwrap();
    told(&client, &used, "it was used before;").await;
    told(&elsewhere, &open, "sealed by another gateway, or before this one was started").await;
    for (at, with, why) in [
        (0, ["-", "_"], "sealed by another gateway"),
        (20, ["-", "_"], "it was changed"),
        (20, ["\u{e4}", "!"], "it is not ours"),
    ] {
        let mut changed = open.clone();
        let mut state = open["requestState"].as_str().unwrap().to_owned();
        let with = if state[at..].starts_with(with[0]) { with[1] } else { with[0] };
        state.replace_range(at..=at, with);
        changed["requestState"] = state.into();
        told(&client, &changed, why).await;
    }
    let (mut other, _) = processes("new", Era::Legacy);
    other.identity = "reached otherwise".into();
    front.fleet().reload(vec![other]).await;
    assert_eq!(text(&client, "one__who", json!({})).await, "new");
    told(&client, &used, "it was used before, or its server was started again").await;
    retry(&client, &open).await.unwrap();
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    for state in [&used, &late, &open] {
        told(&client, state, "it has expired").await;
    }
    let again = asked(&client).await;
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    told(&client, &again, "it has expired").await;
    front.end("done").await;
    next.end("done").await;
}
