//! Servers behind a front that refuse, stay silent or die: what their clients are told, and what others notice.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::{Call, Client, way};
use cardan_gateway::fleet::{Making, Spec};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::model::tool::CallToolResult;
use cardan_proto::secret::{Redactor, Secret};
use cardan_proto::session::event::CallOptions;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::Server;
use fronting::{at, front};
use relaying::plain;
use serde_json::json;

const TOKEN: &str = "tok-1234567890";

/// A server with one tool.
fn small(name: &'static str) -> Server {
    Server::builder(name, "1").tool("who", "tells its name", move || async move { name }).build()
}

/// A call whose caller waits for ever.
fn patient(client: &Client, tool: &str) -> Call<CallToolResult> {
    let never = Some(Duration::ZERO);
    let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
    client.call_tool_with(tool, &json!({}), options).unwrap()
}

/// What a server quotes of our credentials when it refuses us is told to no client.
#[tokio::test(start_paused = true)]
async fn secrets_reach_no_client() {
    let dials = AtomicUsize::new(0);
    let way = way(move || {
        std::future::ready(match dials.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let (ours, theirs) = memory::pair(&Limits::DEFAULT);
                tokio::spawn(async move { small("one").serve(theirs).await });
                Ok(ours)
            }
            _ => Err(std::io::Error::other(format!("Incorrect API key: {TOKEN}"))),
        })
    });
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::CHILD };
    let mut spec = Spec::new("one", "http", "digest of one", making);
    spec.secrets = Redactor::new([Secret::new(TOKEN)]);
    let front = front(vec![spec]);
    // A legacy client needs a session of its own.
    let client = at(&front, Era::Legacy, plain()).await;
    let told = patient(&client, "one__who").await.unwrap_err().to_string();
    assert!(told.contains("Incorrect API key"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
}
