//! A relay at an HTTP door: what headers mirror is checked here, since the upstream never sees them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::net::SocketAddr;

use cardan_client::Client;
use cardan_dial::Http;
use cardan_proto::era::{Era, Revision};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_server::{Server, schemars, serde};
use relaying::{choice, port, relay, revisions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Where {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Plain {
    region: String,
}

fn server(era: Era) -> Server {
    Server::builder("weather", "1")
        .revisions(revisions(era))
        .page_size(1)
        .tool("clock", "tells the time", async || "noon")
        .tool("forecast", "tells the weather", async |place: Where| format!("rain in {}", place.region))
        .build()
}

async fn connect(address: SocketAddr, era: Era) -> Client {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    Client::builder("client", "1").era(choice(era)).connect_link(http.link().unwrap()).await.unwrap()
}

/// Posts a modern call of the tool by hand, with more headers; the status, and the whole answer.
async fn post(address: SocketAddr, more: &str) -> (u16, String) {
    let date = Revision::LATEST_MODERN.date();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": date, "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "forecast", "arguments": {"region": "süd"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: {date}\r\nmcp-method: tools/call\r\nmcp-name: forecast\r\n{more}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

const GOOD: &str = "mcp-param-region: =?base64?c8O8ZA==?=\r\n";
const BAD: [&str; 4] = [
    "",
    "mcp-param-region: nord\r\n",
    "mcp-param-region: =?base64?c8O8ZA?=\r\n",
    "mcp-param-region: =?base64?c8!!ZA==?=\r\n",
];

/// INT-2, INT-3, XMH-14, XMH-16, XMH-18, T14: what was listed to a modern client as mirrored is compared before anything
/// reaches the upstream, of whichever era that is.
#[tokio::test]
async fn mirrored_headers_are_checked_before_the_relay() {
    for era in [Era::Modern, Era::Legacy] {
        let (relay, _) = relay(&server(era)).await;
        let address = port(relay.clone()).await;
        let client = connect(address, Era::Modern).await;
        assert_eq!(client.all_tools().await.unwrap().len(), 2);
        let called = client.call_tool("forecast", &json!({"region": "süd"})).unwrap().await.unwrap();
        assert_eq!(called.content[0].as_text(), Some("rain in süd"), "{era:?}");
        let (status, answer) = post(address, GOOD).await;
        assert!(status == 200 && answer.contains("rain in süd"), "{era:?}: {answer}");
        for header in BAD {
            let (status, answer) = post(address, header).await;
            assert_eq!(status, 400, "{era:?}, {header:?}: {answer}");
            let fault: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            assert_eq!(fault["error"]["code"], code::HEADER_MISMATCH, "{era:?}, {header:?}");
        }
    }
}

/// A tool that mirrors nothing any more is called without headers, once its list was told.
#[tokio::test]
async fn what_is_mirrored_follows_the_list() {
    let server = server(Era::Modern);
    let (relay, _) = relay(&server).await;
    let address = port(relay.clone()).await;
    let client = connect(address, Era::Modern).await;
    client.all_tools().await.unwrap();
    assert_eq!(post(address, "").await.0, 400);
    server.add_tool("forecast", "tells the weather", async |place: Plain| format!("sun in {}", place.region));
    connect(address, Era::Modern).await.all_tools().await.unwrap();
    let (status, answer) = post(address, "").await;
    assert!(status == 200 && answer.contains("sun in süd"), "{answer}");
}
