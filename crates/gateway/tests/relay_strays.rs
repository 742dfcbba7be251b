//! Headers of parameters that no tool here is known to mirror: they reach an upstream over modern HTTP as they came, and no
//! other.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use cardan_client::{Client, way};
use cardan_dial::{Http, Kind};
use cardan_gateway::fleet::{self, Fleet, Making, Spec};
use cardan_gateway::front::{self, Front};
use cardan_gateway::relay::{self, Behind, Relay};
use cardan_proto::era::{Era, Revision};
use cardan_proto::limits::Limits;
use cardan_proto::upkeep::policy::Policy;
use cardan_server::{Server, schemars, serde};
use relaying::{choice, port, revisions};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Where {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
}

fn server(era: Era) -> Server {
    let forecast = async |place: Where| format!("rain in {}", place.region.unwrap_or_default());
    Server::builder("weather", "1")
        .revisions(revisions(era))
        .tool("forecast", "tells the weather", forecast)
        .build()
}

/// What reaches the upstream, connection by connection.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Vec<u8>>>>);

impl Seen {
    /// A port that passes everything on to `there`, and remembers what goes there.
    async fn before(there: SocketAddr) -> (SocketAddr, Self) {
        let (seen, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (address, remembers) = (listener.local_addr().unwrap(), seen.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(remembers.clone().pass(client, TcpStream::connect(there).await.unwrap()));
            }
        });
        (address, seen)
    }

    async fn pass(self, client: TcpStream, server: TcpStream) {
        let (mut from, mut back) = client.into_split();
        let (mut answers, mut to) = server.into_split();
        let number = {
            let mut all = self.0.lock().unwrap();
            all.push(Vec::new());
            all.len() - 1
        };
        let there = async move {
            let mut piece = vec![0; 1 << 16];
            while let Ok(length @ 1..) = from.read(&mut piece).await {
                self.0.lock().unwrap()[number].extend_from_slice(&piece[..length]);
                if to.write_all(&piece[..length]).await.is_err() {
                    return;
                }
            }
        };
        // Whoever hangs up first ends it.
        let _ = tokio::join!(there, async move { tokio::io::copy(&mut answers, &mut back).await });
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// The heads of tool calls, each line but for the length of the body, sorted.
    fn calls(&self) -> Vec<Vec<String>> {
        let text = self.text();
        let heads = text.split("POST /mcp HTTP/1.1\r\n").filter_map(|request| request.split_once("\r\n\r\n"));
        let calls = heads.filter(|(head, _)| head.contains("mcp-method: tools/call"));
        let lines = |head: &str| {
            let lines = head.lines().filter(|line| !line.starts_with("content-length:"));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        calls.map(|(head, _)| lines(head)).collect()
    }

    /// What the last call mirrors of parameters.
    fn last(&self) -> Vec<String> {
        let mut last = self.calls().pop().unwrap();
        last.retain(|line| line.starts_with("mcp-param-"));
        last
    }
}

fn reaching(address: SocketAddr) -> Making {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().kind(Kind::Auto).limits(&Limits::DEFAULT);
    let way = way(move || std::future::ready(http.clone().link()));
    Making { connector: Client::builder("relay", "1"), way, policy: Policy::REMOTE }
}

/// A port before a relay before a server over HTTP, and what reaches that.
async fn relayed(era: Era) -> (SocketAddr, Seen) {
    let (upstream, seen) = Seen::before(port(server(era)).await).await;
    let options = relay::Options { behind: Behind::One, ..relay::Options::default() };
    let relay = Relay::start(reaching(upstream), options).await.unwrap();
    (port(relay).await, seen)
}

async fn connect(address: SocketAddr) -> Client {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&Limits::DEFAULT);
    let connector = Client::builder("client", "1").era(choice(Era::Modern));
    connector.connect_link(http.link().unwrap()).await.unwrap()
}

/// Posts a modern call of the tool by hand, with more headers; the status, and the whole answer.
async fn post(address: SocketAddr, tool: &str, more: &str) -> (u16, String) {
    let date = Revision::LATEST_MODERN.date();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": date, "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {"region": "eu"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: {date}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n{more}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

async fn served(address: SocketAddr, tool: &str, more: &str) {
    let (status, answer) = post(address, tool, more).await;
    assert!(status == 200 && answer.contains("rain in eu"), "{more:?}: {answer}");
}

const REGION: &str = "mcp-param-region: eu";
const ODD: &str = "mcp-param-unheard-of: a,  b;\"c\"=?base64?!";

/// INT-1: headers of parameters that no schema here mirrors reach the upstream as they came, whatever the case of their
/// names, beside those that are made anew; and nothing else of the call is another.
#[tokio::test]
async fn unknown_headers_are_passed_on() {
    let (address, seen) = relayed(Era::Modern).await;
    let odd = ODD.replace("mcp-param-unheard-of", "MCP-Param-Unheard-OF");
    // Nobody has listed the tools: none of their headers is known here.
    served(address, "forecast", &format!("Mcp-Param-REGION: eu\r\n{odd}\r\n")).await;
    assert_eq!((seen.last(), seen.calls().len()), (vec![REGION.to_owned(), ODD.to_owned()], 1));
    // One that is known upstream and forged is made anew, from the arguments.
    served(address, "forecast", &format!("mcp-param-region: us\r\n{odd}\r\n")).await;
    assert_eq!(seen.last(), [REGION, ODD]);

    connect(address).await.all_tools().await.unwrap();
    let before = seen.calls().len();
    served(address, "forecast", &format!("{REGION}\r\n")).await;
    let plain = seen.calls().pop().unwrap();
    served(address, "forecast", &format!("{REGION}\r\n{odd}\r\nmcp-param-unheard-of: \r\nx-own: 1\r\n"))
        .await;
    let mut passed = seen.calls().pop().unwrap();
    assert_eq!(seen.last(), [REGION, "mcp-param-unheard-of: ", ODD]);
    passed.retain(|line| !line.starts_with("mcp-param-unheard-of"));
    assert_eq!(passed, plain, "and nothing else");
    assert_eq!(seen.calls().len(), before + 2, "each was right at once");

    // One that is known here and forged is refused here.
    let (status, answer) = post(address, "forecast", &format!("mcp-param-region: us\r\n{odd}\r\n")).await;
    assert_eq!((status, seen.calls().len()), (400, before + 2), "{answer}");
}

/// INT-1: the same through a gateway, where the tool has another name.
#[tokio::test]
async fn a_gateway_passes_them_on() {
    let (upstream, seen) = Seen::before(port(server(Era::Modern)).await).await;
    let spec = Spec::new("my", "http", "digest", reaching(upstream));
    let front = Front::start(Fleet::start(vec![spec], fleet::Options::default()), front::Options::default());
    let address = port(front.clone()).await;
    connect(address).await.all_tools().await.unwrap();
    served(address, "my__forecast", &format!("{REGION}\r\n{ODD}\r\n")).await;
    assert_eq!(seen.last(), [REGION, ODD]);
    assert!(seen.calls().pop().unwrap().contains(&"mcp-name: forecast".to_owned()));
    front.end("done").await;
}

/// INT-1: a legacy client sends no such headers. Through a gateway its calls have them all the same, at once, by the name that the
/// server knows; without the argument there is none.
#[tokio::test]
async fn a_legacy_clients_calls_are_mirrored_by_a_gateway() {
    let (upstream, seen) = Seen::before(port(server(Era::Modern)).await).await;
    let spec = Spec::new("my", "http", "digest", reaching(upstream));
    let front = Front::start(Fleet::start(vec![spec], fleet::Options::default()), front::Options::default());
    front.settled().await;
    let http = Http::new(&format!("http://{}/mcp", port(front.clone()).await)).unwrap();
    let connector = Client::builder("client", "1").era(choice(Era::Legacy));
    let client = connector.connect_link(http.link().unwrap()).await.unwrap();
    let said = relaying::text(&client, "my__forecast", json!({"region": "eu"})).await;
    assert_eq!((said.as_str(), seen.last(), seen.calls().len()), ("rain in eu", vec![REGION.to_owned()], 1));
    assert_eq!(relaying::text(&client, "my__forecast", json!({})).await, "rain in ");
    assert_eq!((seen.last(), seen.calls().len()), (vec![], 2));
    front.end("done").await;
}

/// INT-1, INT-6, `limits.stray_headers`, `limits.stray_header_bytes`: so many are passed on, and one more is refused, with all
/// of them.
#[tokio::test]
async fn too_many_are_refused() {
    let (address, seen) = relayed(Era::Modern).await;
    let some = |count: usize| (0..count).map(|n| format!("mcp-param-x{n}: {n}\r\n")).collect::<String>();
    let most = Limits::DEFAULT.stray_headers;
    served(address, "forecast", &some(most)).await;
    assert_eq!(seen.last().iter().filter(|line| line.starts_with("mcp-param-x")).count(), most);
    let calls = seen.calls().len();
    let long = format!("mcp-param-x: {}\r\n", "x".repeat(Limits::DEFAULT.stray_header_bytes));
    for many in [some(most + 1), long] {
        let (status, answer) = post(address, "forecast", &many).await;
        assert!(status == 431 && answer.contains("send fewer"), "{answer}");
    }
    assert_eq!(seen.calls().len(), calls, "nothing reached the upstream");
}

/// INT-1: an upstream that is legacy or no HTTP server could not have asked for them: they are dropped without a word.
#[tokio::test]
async fn others_never_see_them() {
    let (address, seen) = relayed(Era::Legacy).await;
    served(address, "forecast", &format!("{ODD}\r\n")).await;
    let text = seen.text();
    assert!(text.contains("tools/call") && !text.to_lowercase().contains("mcp-param-"), "{text}");
    for era in [Era::Modern, Era::Legacy] {
        let (relay, _) = relaying::relay(&server(era)).await;
        served(port(relay).await, "forecast", &format!("{ODD}\r\n")).await;
    }
}
