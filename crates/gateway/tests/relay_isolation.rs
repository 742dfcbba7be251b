//! Nothing of one client reaches another, whatever both share; and what is parked belongs to who parked it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::model::{Prompt, PromptMessage};
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel, Rounds, Wanted};
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::Host;
use cardan_server::{Cx, Server, Stop, schemars, serde};
use relaying::{answering, connect, logging, relay, relay_sharing, relay_with, revisions, soon, text};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Nonce {
    nonce: String,
}

const CLIENTS: usize = 12;

/// Speaks of its nonce in every way there is.
fn gossip(era: Era, together: &Arc<Barrier>) -> Server {
    let together = Arc::clone(together);
    Server::builder("gossip", "1")
        .revisions(revisions(era))
        .logging()
        .tool("tell", "speaks of its nonce", move |Nonce { nonce }: Nonce, cx: Cx| {
            let together = Arc::clone(&together);
            async move {
                cx.log(LogLevel::Info, None, &nonce);
                cx.progress(1.0, None, Some(&nonce));
                // The second round finds the answer there, and waits for nobody.
                if cx.roots("first").is_err() {
                    let _ = tokio::time::timeout(Duration::from_millis(200), together.wait()).await;
                }
                cx.roots("first")?;
                let answer = cx.elicit("who", &Form::new(nonce.clone()).string("name"))?;
                let name = answer.content.unwrap_or_default().remove("name");
                Ok::<_, Stop>(format!("{nonce} {name:?}"))
            }
        })
        .build()
}

/// One client's day: everything that it hears is about itself.
async fn alone(client: Client, logs: relaying::Logs, nonce: String) {
    client.set_level(LogLevel::Info);
    for _ in 0..3 {
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut call = client.call_tool_with("tell", &json!({"nonce": nonce}), options).unwrap();
        while let Some(at) = soon("progress", call.progress()).await {
            assert_eq!(at.message.as_deref(), Some(nonce.as_str()));
        }
        let result = call.await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap(), format!("{nonce} Some(Text({nonce:?}))"));
    }
    let told = logs.lock().unwrap().clone();
    assert!(told.len() >= 3, "{nonce}: {told:?}");
    assert!(told.iter().all(|note| note["data"] == nonce.as_str()), "{nonce}: {told:?}");
}

/// Many clients of both eras, whose calls have the same ids and tokens, hear only their own replies, progress,
/// log notes and asks, whatever they share.
#[tokio::test]
async fn clients_hear_only_what_is_theirs() {
    use Isolation::{Call, Client, Principal, Shared};
    let eras = [Era::Legacy, Era::Modern].into_iter();
    for (era, isolation) in eras.flat_map(|era| [Shared, Principal, Client, Call].map(|how| (era, how))) {
        let together = Arc::new(Barrier::new(2 * CLIENTS));
        let (relay, _) = relay_sharing(&gossip(era, &together), isolation).await;
        let mut days = tokio::task::JoinSet::new();
        for (n, client_era) in (0..CLIENTS).flat_map(|n| [(n, Era::Legacy), (n, Era::Modern)]) {
            let nonce = format!("{client_era:?}-{n}");
            let (connector, logs) = logging(answering(&nonce));
            let client = connect(&relay, client_era, connector).await;
            days.spawn(alone(client, logs, nonce));
        }
        while let Some(day) = soon("a day", days.join_next()).await {
            day.unwrap();
        }
        assert_eq!(relay.census().1, 0, "nothing stays parked");
    }
}

/// Modern calls that need nothing of their own share one session with the upstream, however many there are.
#[tokio::test]
async fn plain_calls_share_a_line() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::builder("plain", "1")
            .revisions(revisions(era))
            .tool("echo", "says it back", async |args: Nonce| args.nonce)
            .build();
        let (relay, dialled) = relay(&server).await;
        for n in 0..8 {
            let client = connect(&relay, Era::Modern, relaying::plain()).await;
            assert_eq!(text(&client, "echo", json!({"nonce": n.to_string()})).await, n.to_string());
        }
        assert_eq!((dialled.count(), relay.census()), (1, (1, 0)));
    }
}

/// Lines that calls held alone are there for the next ones, however many, and are left once nobody needs them.
#[tokio::test(start_paused = true)]
async fn lines_are_kept_for_a_while() {
    const CALLS: usize = 16;
    let together = Arc::new(Barrier::new(CALLS));
    let meeting = Arc::clone(&together);
    let server = Server::builder("meeting", "1")
        .revisions(revisions(Era::Legacy))
        .tool("meet", "waits for the others", move |_: Cx| {
            let meeting = Arc::clone(&meeting);
            async move {
                meeting.wait().await;
                Ok::<_, Stop>("met")
            }
        })
        .build();
    let (relay, dialled) = relay(&server).await;
    for _ in 0..3 {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..CALLS {
            let client = connect(&relay, Era::Modern, answering("ada")).await;
            calls.spawn(async move { text(&client, "meet", json!({})).await });
        }
        while let Some(met) = soon("a call", calls.join_next()).await {
            assert_eq!(met.unwrap(), "met");
        }
    }
    // One more is there for calls that nobody can be asked for.
    assert_eq!((dialled.count(), relay.census().0), (CALLS + 1, CALLS + 1));
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert_eq!(relay.census().0, 1, "that for calls which nobody can be asked for is left");
}

/// A line is not left while someone listens there, and is left a while after they have gone.
#[tokio::test(start_paused = true)]
async fn a_line_is_kept_for_who_listens() {
    let server = Server::builder("plain", "1")
        .revisions(revisions(Era::Legacy))
        .tool("who", "tells its name", async || "plain")
        .tool("grow", "gets one more tool", |cx: Cx| async move {
            cx.server().add_tool("more", "came later", async || "more");
            Ok::<_, Stop>("grown")
        })
        .build();
    let (relay, _) = relay(&server).await;
    let client = connect(&relay, Era::Modern, answering("ada")).await;
    let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
    soon("ready", listen.ready()).await.unwrap();
    assert_eq!(text(&client, "who", json!({})).await, "plain");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(relay.census().0, 2, "someone listens");
    assert_eq!(text(&client, "grow", json!({})).await, "grown");
    assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools));
    drop(listen);
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert_eq!(relay.census().0, 1, "nobody does");
}

/// How far a careless server is: a call has begun; it may speak; it has spoken.
type Stage = [Arc<Notify>; 3];

/// A relay before a server that goes on with a call which nobody waits for any more, as a thread does. Each line leads to one of
/// its own, since a server speaks to all of its clients.
async fn careless(era: Era, call_timeout: Option<Duration>) -> (Relay, Stage) {
    let stage = Stage::default();
    let on = stage.clone();
    let (making, _) = relaying::making(move |link| {
        let server = going_on(era, &on);
        async move { drop(server.serve(link).await) }
    });
    let options = Options { behind: Behind::One, call_timeout, ..Options::default() };
    (Relay::start(making, options).await.unwrap(), stage)
}

fn going_on(era: Era, on: &Stage) -> Server {
    let on = on.clone();
    Server::builder("late", "1")
        .revisions(revisions(era))
        .logging()
        .tool("late", "goes on regardless", move |cx: Cx| {
            let [begun, go_on, said] = on.clone();
            async move {
                let server = cx.server().clone();
                tokio::spawn(async move {
                    begun.notify_one();
                    go_on.notified().await;
                    server.log(LogLevel::Error, &"secret");
                    said.notify_one();
                });
                std::future::pending::<()>().await;
                Ok::<_, Stop>("never")
            }
        })
        .tool("log", "logs", |cx: Cx| async move {
            cx.log(LogLevel::Error, None, &"mine");
            Ok::<_, Stop>("done")
        })
        .build()
}

/// Late words of a call that was given up reach nobody.
#[tokio::test]
async fn late_words_reach_nobody() {
    for era in [Era::Legacy, Era::Modern] {
        let (relay, [begun, go_on, said]) = careless(era, None).await;
        let first = connect(&relay, Era::Modern, relaying::plain()).await;
        first.set_level(LogLevel::Info);
        let call = first.call_tool("late", &json!({})).unwrap();
        soon("begun", begun.notified()).await;
        call.cancel("enough");
        assert!(call.await.is_err());
        nothing_is_heard(&relay, era, &go_on, &said).await;
    }
}

/// T11: the same where the server did not answer in time: it was never known to be done, so it may speak yet.
#[tokio::test(start_paused = true)]
async fn late_words_of_calls_that_timed_out_reach_nobody() {
    for era in [Era::Legacy, Era::Modern] {
        let (relay, [begun, go_on, said]) = careless(era, Some(Duration::from_secs(1))).await;
        let first = connect(&relay, Era::Modern, relaying::plain()).await;
        first.set_level(LogLevel::Info);
        let outcome = soon("an end", first.call_tool("late", &json!({})).unwrap()).await;
        assert!(outcome.unwrap_err().to_string().contains("did not answer in time"), "{era:?}");
        soon("begun", begun.notified()).await;
        nothing_is_heard(&relay, era, &go_on, &said).await;
    }
}

/// The next who wants log notes hears their own.
async fn nothing_is_heard(relay: &Relay, era: Era, go_on: &Notify, said: &Notify) {
    let (connector, logs) = logging(relaying::plain());
    let second = connect(relay, Era::Modern, connector).await;
    second.set_level(LogLevel::Info);
    let hushed = async {
        go_on.notify_one();
        // Where its session was left, nobody speaks any more.
        let _ = tokio::time::timeout(Duration::from_secs(1), said.notified()).await;
    };
    let (first, ()) = tokio::join!(text(&second, "log", json!({})), hushed);
    assert_eq!(first, "done");
    assert_eq!(text(&second, "log", json!({})).await, "done");
    let told = logs.lock().unwrap().clone();
    assert!(told.len() == 2 && told.iter().all(|note| note["data"] == "mine"), "{era:?} {told:?}");
}

/// The same where the call that was given up had wanted no log notes, but another before it had.
#[tokio::test]
async fn late_words_of_plain_calls_reach_nobody() {
    let (relay, [begun, go_on, said]) = careless(Era::Legacy, None).await;
    let (connector, logs) = logging(relaying::plain());
    let loud = connect(&relay, Era::Modern, connector).await;
    loud.set_level(LogLevel::Info);
    assert_eq!(text(&loud, "log", json!({})).await, "done");
    let quiet = connect(&relay, Era::Modern, relaying::plain()).await;
    let call = quiet.call_tool("late", &json!({})).unwrap();
    soon("begun", begun.notified()).await;
    call.cancel("enough");
    assert!(call.await.is_err());
    // The next that wants log notes holds another line, or none of these words.
    let mut next = Box::pin(text(&loud, "log", json!({})));
    go_on.notify_one();
    tokio::select! {
        _ = &mut next => {}
        () = said.notified() => drop(next.await),
    }
    assert_eq!(text(&loud, "log", json!({})).await, "done");
    let told = logs.lock().unwrap().clone();
    assert!(told.iter().all(|note| note["data"] == "mine"), "{told:?}");
}

/// A legacy server that asks once.
fn asking() -> Server {
    Server::builder("asking", "1")
        .revisions(revisions(Era::Legacy))
        .tool("ask", "asks", async |Nonce { nonce }: Nonce, cx: Cx| {
            let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
            Ok::<_, Stop>(format!("{nonce} {:?}", answer.content.unwrap_or_default().remove("name")))
        })
        .prompt(Prompt::new("ask").required("nonce", "nonce"), async |_, _| {
            Ok(vec![PromptMessage::user("who?")])
        })
        .build()
}

/// A modern client that answers by itself, for one principal.
async fn connect_as(relay: &Relay, principal: &str) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Arc<str> = principal.into();
    let service = relay.service(Some(&principal));
    let (driver, _) = Driver::new(theirs, service, relay.config(Some(&principal)));
    tokio::spawn(driver);
    answering("nobody").era(EraChoice::Modern).connect_link(ours).await.unwrap()
}

async fn round(client: &Client, params: Value, state: Option<&Value>) -> Result<Value, CallError> {
    round_of(Method::ToolsCall, client, params, state).await
}

async fn round_of(
    method: Method,
    client: &Client,
    mut params: Value,
    state: Option<&Value>,
) -> Result<Value, CallError> {
    if let Some(state) = state {
        params["requestState"] = state.clone();
        params["inputResponses"] = json!({"ask-1": {"action": "accept", "content": {"name": "ada"}}});
    }
    let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
    let raw = client.raw(method, Some(Bytes::from(params.to_string())), options).await?;
    Ok(serde_json::from_slice(&raw).unwrap())
}

fn ask(nonce: &str) -> Value {
    json!({"name": "ask", "arguments": {"nonce": nonce}})
}

/// The call had begun, and its client is told so.
#[track_caller]
fn given_up(outcome: Result<Value, CallError>) {
    let data = failed(outcome, code::BUSY);
    assert_eq!(data, json!({"outcome": "cancelled", "delivery": "sent", "mayHaveExecuted": true}));
}

/// The same for one of whose end nothing is known any more.
#[track_caller]
fn begun(outcome: Result<Value, CallError>) {
    let data = failed(outcome, code::INVALID_PARAMS);
    assert_eq!(data, json!({"delivery": "sent", "mayHaveExecuted": true}));
}

#[track_caller]
fn failed(outcome: Result<Value, CallError>, code: i64) -> Value {
    let Err(CallError::Fault(fault)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(fault.code, code, "{fault}");
    serde_json::from_slice(&fault.data.unwrap_or_default()).unwrap()
}

fn refused(outcome: Result<Value, CallError>, why: &str) {
    match outcome {
        Err(CallError::Fault(fault)) => {
            assert!(fault.code == code::INVALID_PARAMS && fault.message.contains(why), "{why}: {fault}");
        }
        other => panic!("{why}: {other:?}"),
    }
}

/// MRTR-7, MRTR-8, MRTR-9, MRTR-10, T12: a parked call goes on for its own client and call, once.
#[tokio::test]
async fn a_parked_call_belongs_to_who_made_it() {
    let (relay, _) = relay(&asking()).await;
    let (ada, bob) = (connect_as(&relay, "ada").await, connect_as(&relay, "bob").await);
    let asked = soon("asked", round(&ada, ask("n"), None)).await.unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["ask-1"]["method"], "elicitation/create", "{asked}");
    let state = &asked["requestState"];
    assert_eq!(relay.census().1, 1);
    refused(round(&bob, ask("n"), Some(state)).await, "belongs to another call");
    refused(round(&ada, ask("m"), Some(state)).await, "belongs to another call");
    let mut forged = state.as_str().unwrap().to_owned();
    forged.replace_range(20..21, if &forged[20..21] == "A" { "B" } else { "A" });
    refused(round(&ada, ask("n"), Some(&json!(forged))).await, "changed");
    refused(round(&ada, ask("n"), Some(&json!("no state"))).await, "not ours");
    let done = soon("done", round(&ada, ask("n"), Some(state))).await.unwrap();
    assert_eq!(done["content"][0]["text"], "n Some(Text(\"ada\"))", "a stranger's try does not use it up");
    refused(round(&ada, ask("n"), Some(state)).await, "used before");
    begun(round(&ada, ask("n"), Some(state)).await);
    assert_eq!(relay.census().1, 0);
}

/// MRTR-8, MRTR-9, T12: the state of a call that waits is good as it is alone: with another character anywhere, at another method,
/// with another name, with other arguments, for somebody else it is refused, and no try uses it up. It is good once, and for a while.
#[tokio::test(start_paused = true)]
async fn a_state_is_good_for_its_own_call_alone() {
    let options = Options { behind: Behind::One, ..Options::default() };
    let ttl = options.limits.request_state_ttl;
    let (relay, _) = relay_with(&asking(), options).await;
    let (ada, bob) = (connect_as(&relay, "ada").await, connect_as(&relay, "bob").await);
    let asked = soon("asked", round(&ada, ask("n"), None)).await.unwrap();
    let state = asked["requestState"].as_str().unwrap();
    for at in 0..state.len() {
        // The next letter, which differs in the last bits alone, and one that differs in others.
        for by in [1, 32] {
            let mut changed = state.to_owned();
            let letter = LETTERS.find(&state[at..=at]).unwrap();
            let other = (letter + by) % LETTERS.len();
            changed.replace_range(at..=at, &LETTERS[other..=other]);
            refused(round(&ada, ask("n"), Some(&json!(changed))).await, "params.requestState: ");
        }
    }
    let state = &asked["requestState"];
    let prompt = round_of(Method::PromptsGet, &ada, ask("n"), Some(state)).await;
    refused(prompt, "belongs to another call");
    let mut other = ask("n");
    other["name"] = json!("other");
    for (client, params) in [(&ada, other), (&ada, ask("m")), (&bob, ask("n"))] {
        refused(round(client, params, Some(state)).await, "belongs to another call");
    }
    assert_eq!(relay.census().1, 1, "it waits still");
    let done = soon("done", round(&ada, ask("n"), Some(state))).await.unwrap();
    assert_eq!(done["content"][0]["text"], "n Some(Text(\"ada\"))");
    refused(round(&ada, ask("n"), Some(state)).await, "used before");
    let late = soon("asked", round(&ada, ask("n"), None)).await.unwrap();
    tokio::time::sleep(ttl + Duration::from_secs(1)).await;
    refused(round(&ada, ask("n"), Some(&late["requestState"])).await, "has expired");
    assert_eq!(relay.census().1, 0);
}

/// What a sealed state is written with, by value.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What is left open is asked again.
#[tokio::test]
async fn a_retry_without_the_answer_is_asked_again() {
    let (relay, _) = relay(&asking()).await;
    let ada = connect_as(&relay, "ada").await;
    let asked = round(&ada, ask("n"), None).await.unwrap();
    let mut params = ask("n");
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({});
    let again = soon("again", round(&ada, params, None)).await.unwrap();
    assert_eq!(again["inputRequests"], asked["inputRequests"]);
    let done = soon("done", round(&ada, ask("n"), Some(&again["requestState"]))).await.unwrap();
    assert_eq!(done["content"][0]["text"], "n Some(Text(\"ada\"))");
}

/// MRTR-18, MRTR-19: answers that come with no state belong to no call that waits: nobody asked for them, so the call
/// begins and asks.
#[tokio::test]
async fn answers_that_nobody_asked_for_begin_a_call() {
    let (relay, _) = relay(&asking()).await;
    let ada = connect_as(&relay, "ada").await;
    let mut params = ask("n");
    params["inputResponses"] = json!({"who": {"action": "accept", "content": {"name": "eve"}}});
    let asked = soon("asked", round(&ada, params, None)).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let done = soon("done", round(&ada, ask("n"), Some(&asked["requestState"]))).await.unwrap();
    assert_eq!(done["content"][0]["text"], "n Some(Text(\"ada\"))");
}

/// Parked calls are bounded in number and in time. Whose call finds no place, or waited too long, is told that it may have been executed.
#[tokio::test(start_paused = true)]
async fn parking_is_bounded() {
    let options = Options { parked: 1, behind: Behind::One, ..Options::default() };
    let ttl = options.limits.request_state_ttl;
    let (relay, _) = relay_with(&asking(), options).await;
    let ada = connect_as(&relay, "ada").await;
    let first = round(&ada, ask("1"), None).await.unwrap();
    given_up(round(&ada, ask("2"), None).await);
    assert_eq!(relay.census().1, 1);
    tokio::time::sleep(ttl + Duration::from_secs(1)).await;
    assert_eq!(relay.census().1, 0, "nobody came back for it");
    begun(round(&ada, ask("1"), Some(&first["requestState"])).await);
    let third = round(&ada, ask("3"), None).await.unwrap();
    let done = round(&ada, ask("3"), Some(&third["requestState"])).await.unwrap();
    assert_eq!(done["content"][0]["text"], "3 Some(Text(\"ada\"))");
}

/// A principal that answers nothing leaves places for others, and so do those who have no name.
#[tokio::test(start_paused = true)]
async fn one_principal_cannot_fill_all_places() {
    let options = Options { parked: 4, behind: Behind::One, ..Options::default() };
    let (relay, _) = relay_with(&asking(), options).await;
    let ada = connect_as(&relay, "ada").await;
    for n in 0..2 {
        round(&ada, ask(&n.to_string()), None).await.unwrap();
    }
    given_up(round(&ada, ask("3"), None).await);
    let bob = connect_as(&relay, "bob").await;
    let asked = round(&bob, ask("1"), None).await.unwrap();
    let done = round(&bob, ask("1"), Some(&asked["requestState"])).await.unwrap();
    assert_eq!(done["content"][0]["text"], "1 Some(Text(\"ada\"))");

    let options = Options { parked: 4, behind: Behind::One, ..Options::default() };
    let (relay, _) = relay_with(&asking(), options).await;
    for n in 0..2 {
        // Whoever has no name may be anyone, so another link makes nobody else of them.
        let nobody = connect(&relay, Era::Modern, answering("ada")).await;
        round(&nobody, ask(&n.to_string()), None).await.unwrap();
    }
    let nobody = connect(&relay, Era::Modern, answering("ada")).await;
    given_up(round(&nobody, ask("3"), None).await);
    let bob = connect_as(&relay, "bob").await;
    round(&bob, ask("1"), None).await.unwrap();
}
