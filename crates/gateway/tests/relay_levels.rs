//! The level of log notes that a legacy server is told, and when.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_gateway::fleet::{Making, Spec};
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, CallOptions, Called, LogLevel};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use relaying::{Dialled, connect, making_legacy, plain, soon, text};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// How a server answers whoever sets its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// After a while, in which other calls run.
    Slowly,
    No,
    Never,
}

/// The levels that it has taken.
type Taken = Arc<Mutex<Vec<LogLevel>>>;

/// A legacy server whose tool tells the level that it has.
struct Levelled(Manner, Taken);

impl Service for Levelled {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        let (manner, taken) = (self.0, Arc::clone(&self.1));
        Box::pin(async move {
            let result = match (called.call.method, manner) {
                (Method::LoggingSetLevel, Manner::Slowly) => {
                    sleep(SLOW).await;
                    taken.lock().unwrap().push(called.log_level.unwrap());
                    json!({})
                }
                (Method::LoggingSetLevel, Manner::No) => return Answer::Fault(Fault::new(1234, "not here")),
                (Method::LoggingSetLevel, Manner::Never) => return std::future::pending().await,
                (Method::ToolsList, _) => {
                    json!({"tools": [{"name": "level", "inputSchema": {"type": "object"}}]})
                }
                _ => {
                    let level = taken.lock().unwrap().last().copied();
                    json!({"content": [{"type": "text", "text": level.map_or("none", LogLevel::name)}]})
                }
            };
            Answer::Done(Bytes::from(result.to_string()))
        })
    }
}

/// In virtual time.
const SLOW: Duration = Duration::from_millis(200);

fn served(manner: Manner) -> (Making, Dialled, Taken) {
    let (taken, offered) = (Taken::default(), json!({ "tools": {}, "logging": {} }));
    let server = Levelled(manner, Arc::clone(&taken));
    let (making, dialled) = making_legacy(server, "levelled", &offered, Interests::Handed);
    (making, dialled, taken)
}

async fn relay(manner: Manner) -> (Relay, Dialled, Taken) {
    let (making, dialled, taken) = served(manner);
    let options = Options { behind: Behind::One, ..Options::default() };
    (Relay::start(making, options).await.unwrap(), dialled, taken)
}

/// Sets the level, and waits for the answer.
async fn set(client: &Client, level: &str) -> Result<Bytes, CallError> {
    let params = Some(Bytes::from(json!({ "level": level }).to_string()));
    soon("an answer", client.raw(Method::LoggingSetLevel, params, CallOptions::default())).await
}

/// LOG-2, LOG-4: the call of a modern client reaches a legacy server once that has taken the level, so that no note between is lost.
#[tokio::test(start_paused = true)]
async fn a_call_waits_until_its_level_is_taken() {
    let (relay, _, taken) = relay(Manner::Slowly).await;
    let client = connect(&relay, Era::Modern, plain()).await;
    for level in [LogLevel::Debug, LogLevel::Debug, LogLevel::Error] {
        client.set_level(level);
        assert_eq!(text(&client, "level", json!({})).await, level.name());
    }
    assert_eq!(
        *taken.lock().unwrap(),
        [LogLevel::Debug, LogLevel::Error],
        "one that stands is not told again"
    );
}

/// A server that refuses levels, or says nothing to them, holds up no call for long.
#[tokio::test(start_paused = true)]
async fn a_level_that_is_not_taken_holds_up_nobody() {
    for (manner, longest) in [(Manner::No, SLOW), (Manner::Never, Duration::from_secs(3))] {
        let (relay, ..) = relay(manner).await;
        let client = connect(&relay, Era::Modern, plain()).await;
        client.set_level(LogLevel::Debug);
        let begun = Instant::now();
        assert_eq!(text(&client, "level", json!({})).await, "none");
        assert!(begun.elapsed() < longest, "{manner:?}: {:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(text(&client, "level", json!({})).await, "none");
        assert!(begun.elapsed() < SLOW, "{manner:?}: {:?}, once is enough", begun.elapsed());
    }
}

/// LOG-2: a legacy client that sets the level is answered by the server, and once that has taken it. Every session is told it.
#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_answered_by_its_server() {
    let (relay, dialled, taken) = relay(Manner::Slowly).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    assert_eq!(text(&client, "level", json!({})).await, "none");
    assert_eq!(set(&client, "debug").await.unwrap(), "{}");
    assert_eq!(*taken.lock().unwrap(), [LogLevel::Debug]);
    dialled.crash();
    soon("told again", async {
        while taken.lock().unwrap().len() < 2 {
            sleep(SLOW).await;
        }
    })
    .await;
    assert_eq!(*taken.lock().unwrap(), [LogLevel::Debug; 2], "told in the session that came after");
    let (relay, ..) = self::relay(Manner::No).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    assert_eq!(text(&client, "level", json!({})).await, "none");
    let refused = set(&client, "debug").await.unwrap_err();
    assert!(matches!(&refused, CallError::Fault(fault) if fault.code == 1234), "{refused}");
}

/// LOG-2: before several servers the client is answered once each has, or was silent for long. One that refuses is nobody's fault.
#[tokio::test(start_paused = true)]
async fn before_several_servers_all_are_told() {
    let manners = [("slow", Manner::Slowly), ("no", Manner::No), ("never", Manner::Never)];
    let (specs, taken): (Vec<_>, Vec<_>) = manners
        .map(|(name, manner)| {
            let (making, _, taken) = served(manner);
            (Spec::new(name, "child", format!("digest of {name}"), making), taken)
        })
        .into_iter()
        .unzip();
    let front = fronting::front(specs);
    let client = fronting::at(&front, Era::Legacy, plain()).await;
    for (name, _) in manners {
        assert_eq!(text(&client, &format!("{name}__level"), json!({})).await, "none");
    }
    assert_eq!(set(&client, "debug").await.unwrap(), "{}");
    assert_eq!(*taken[0].lock().unwrap(), [LogLevel::Debug]);
    assert_eq!(text(&client, "slow__level", json!({})).await, "debug");
    front.end("done").await;
}
