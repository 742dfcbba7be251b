//! Our own client through the proxy.

use std::time::Duration;

use cardan_client::{CallError, Client, Connector};
use cardan_dial::Http;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Wanted};
use cardan_ws::{Dial, dial};
use serde_json::json;

use crate::proxy::{self, Nginx};
use crate::served::Served;

/// Far below what the proxy bears.
pub(crate) const PULSE: Duration = Duration::from_millis(300);

/// Far above it: the proxy will cut.
pub(crate) const NO_PULSE: Duration = Duration::from_secs(600);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn connector(era: EraChoice) -> Connector {
    Client::builder("ours", "1").era(era)
}

async fn reach(nginx: &Nginx, path: &str, era: EraChoice) -> Client {
    let http = Http::new(&format!("http://{}/{path}", nginx.address)).unwrap();
    connector(era).connect(async || http.link()).await.unwrap()
}

async fn said(client: &Client, tool: &str) -> String {
    let result = client.call_tool(tool, &json!({})).unwrap();
    let result = tokio::time::timeout(LONG, result).await.expect("in time").unwrap();
    result.content[0].as_text().unwrap().to_owned()
}

/// Progress arrives while its call runs, silence is survived, and a cancel gets through.
async fn works(client: &Client) {
    let reporting = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut call = client.call_tool_with("step", &json!({}), reporting).unwrap();
    // The call ends only after this: a proxy that collects what comes would never hand it on.
    assert!(tokio::time::timeout(LONG, call.progress()).await.expect("streamed").is_some());
    assert_eq!(said(client, "go").await, "told");
    assert_eq!(call.await.unwrap().content[0].as_text(), Some("stepped"));
    assert_eq!(said(client, "quiet").await, "patience");
    let mut call = client.call_tool_with("wait", &json!({}), reporting).unwrap();
    assert!(tokio::time::timeout(LONG, call.progress()).await.expect("streamed").is_some());
    call.cancel("enough");
    assert!(matches!(call.await, Err(CallError::Cancelled { .. })));
    assert_eq!(said(client, "gone").await, "gone");
}

/// F35, HTTP-17: Streamable HTTP in both eras and old HTTP+SSE; a modern cancel is the closing of its response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_calls_stream_survive_and_are_cancelled() {
    if !proxy::installed() {
        return;
    }
    let served = Served::start(PULSE).await;
    let nginx = Nginx::start("ours", &served.address, "");
    for (path, era) in [("mcp", EraChoice::Modern), ("mcp", EraChoice::Legacy), ("sse", EraChoice::Legacy)] {
        let client = reach(&nginx, path, era).await;
        works(&client).await;
        client.close("done").await;
    }
}

/// F35, S1-38: WebSocket is upgraded through the proxy, and kept open by pings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_websockets_pass() {
    if !proxy::installed() {
        return;
    }
    let served = Served::start(PULSE).await;
    let nginx = Nginx::start("sockets", &served.address, "");
    let url = format!("ws://{}/ws", nginx.address);
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let options = Dial::new(&Limits::DEFAULT);
        let client = connector(era).connect(async || dial(&url, &options).await).await.unwrap();
        works(&client).await;
        client.close("done").await;
    }
}

/// F35, HTL-7, HTL-8, HTL-17: a proxy that cuts a legacy call costs nothing: the client comes back with `Last-Event-ID` and gets the
/// reply. It also shows that only signs of life save the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_a_cut_call_is_resumed() {
    if !proxy::installed() {
        return;
    }
    let served = Served::start(NO_PULSE).await;
    let nginx = Nginx::start("resumed", &served.address, "");
    let client = reach(&nginx, "mcp", EraChoice::Legacy).await;
    let reporting = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut call = client.call_tool_with("hold", &json!({}), reporting).unwrap();
    assert!(tokio::time::timeout(LONG, call.progress()).await.expect("streamed").is_some());
    nginx.cuts();
    served.signals.go.notify_one();
    let held = tokio::time::timeout(LONG, call).await.expect("resumed").unwrap();
    assert_eq!(held.content[0].as_text(), Some("held"));
    client.close("done").await;
    nginx.resumes();
}
