//! A front between HTTP on both sides: mirrored headers, and each server alone by its path.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cardan_client::{Client, way};
use cardan_config::File;
use cardan_dial::{Http, Kind};
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Grant, Options, Sites};
use cardan_gateway::audit::Audit;
use cardan_gateway::fleet::{self, Fleet, Making, Spec};
use cardan_gateway::front::{self, Front, Refused};
use cardan_gateway::rules::{RuleSet, Rules};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::service::Host as _;
use cardan_server::{Server, schemars, serde};
use common::Scratch;
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

fn options() -> Options {
    Options::new(Allow::bound::<&str, &str>("127.0.0.1".parse().unwrap(), Ports::Any, &[], &[]).unwrap())
}

async fn listener() -> (Listener, SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap();
    (listener, address)
}

/// A server with a tool whose region is mirrored to a header.
async fn upstream() -> SocketAddr {
    let (listener, address) = listener().await;
    let server = Server::builder("weather", "1")
        .tool("forecast", "tells the weather", async |place: Where| format!("rain in {}", place.region))
        .build();
    tokio::spawn(listener.serve(Endpoint::new(server, options()), std::future::pending()));
    address
}

async fn gateway() -> (SocketAddr, Front) {
    gateway_with(RuleSet::default()).await
}

async fn gateway_with(rules: RuleSet) -> (SocketAddr, Front) {
    gateway_of(rules, front::Options::default(), options()).await
}

async fn gateway_of(rules: RuleSet, front: front::Options, options: Options) -> (SocketAddr, Front) {
    let upstream = upstream().await;
    let http =
        Http::new(&format!("http://{upstream}/mcp")).unwrap().kind(Kind::Auto).limits(&Limits::DEFAULT);
    let way = way(move || std::future::ready(http.clone().link()));
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::REMOTE };
    let spec = Spec { rules, ..Spec::new("my weather", "http", "digest", making) };
    let fleet = Fleet::start(vec![spec], fleet::Options::default());
    let front = Front::start(fleet, front);
    let (listener, address) = listener().await;
    let alone = front.clone();
    let sites = Sites::new(front.clone(), options, "/servers/", move |name| alone.alone(name));
    tokio::spawn(listener.serve(sites, std::future::pending()));
    (address, front)
}

async fn connect(address: &str, era: EraChoice) -> Client {
    let http = Http::new(address).unwrap().limits(&Limits::DEFAULT);
    Client::builder("client", "1").era(era).connect_link(http.link().unwrap()).await.unwrap()
}

/// Posts a modern call by hand; the status, and the body.
async fn post(address: SocketAddr, name: &str, more: &str, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n{more}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// INT-12: a renamed tool is called by its own name upstream, in the headers too, or the server there would refuse.
#[tokio::test]
async fn renaming_renames_the_mirrored_headers() {
    let (address, front) = gateway().await;
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = connect(&format!("http://{address}/mcp"), era).await;
        let tools = client.all_tools().await.unwrap();
        assert_eq!(tools[0].name, "my_weather__forecast");
        let result =
            client.call_tool("my_weather__forecast", &json!({"region": "süd"})).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("rain in süd"), "{era:?}");
        let alone = connect(&format!("http://{address}/servers/my%20weather/mcp"), era).await;
        assert_eq!(alone.server().implementation.unwrap().name, "weather");
        let result = alone.call_tool("forecast", &json!({"region": "nord"})).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("rain in nord"), "{era:?}");
    }
    front.end("done").await;
}

/// INT-2, INT-3: mirrored headers are compared with the body under the tool's name here, once they are decoded; what
/// differs is refused with a status.
#[tokio::test]
async fn headers_of_renamed_tools_are_checked() {
    let (address, front) = gateway().await;
    let client = connect(&format!("http://{address}/mcp"), EraChoice::Modern).await;
    client.all_tools().await.unwrap();
    let name = "my_weather__forecast";
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": {"region": "süd"}, "_meta": meta}});
    let good = "mcp-param-region: =?base64?c8O8ZA==?=\r\n";
    let (status, answer) = post(address, name, good, &call).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("rain in süd"), "{answer}");
    for (name, header) in [(name, "mcp-param-region: nord\r\n"), (name, ""), ("forecast", good)] {
        let (status, answer) = post(address, name, header, &call).await;
        assert_eq!(status, 400, "{answer}");
    }
    // T15: what is hidden has no headers that could tell that it is there.
    let hidden = "[policy.'*']\ntools = { deny = ['my_weather__forecast'] }\n";
    let hidden = File::parse(Path::new("cardan.toml"), hidden, None).unwrap();
    front.protect(cardan_gateway::policy::Policy::of(&[hidden.policy]));
    assert!(front.mirrors(name, None).is_none());
    // But for the time of day, which may be another for each.
    let said = async |header| {
        let (status, answer) = post(address, name, header, &call).await;
        let lines = answer.lines().filter(|line| !line.starts_with("date: ")).map(str::to_owned);
        (status, lines.collect::<Vec<_>>())
    };
    assert_eq!(said("mcp-param-region: nord\r\n").await, said(good).await);
    front.end("done").await;
}

/// INT-12: the same for a tool that the configuration calls otherwise, with all servers and alone.
#[tokio::test]
async fn headers_of_tools_with_new_names_are_checked_and_made() {
    let rename = [("forecast".to_owned(), "look.out".to_owned())].into();
    let rules = RuleSet { tools: Rules { rename, ..Rules::default() }, ..RuleSet::default() };
    let (address, front) = gateway_with(rules).await;
    for (path, name) in [("/mcp", "my_weather__look.out"), ("/servers/my%20weather/mcp", "look.out")] {
        for era in [EraChoice::Modern, EraChoice::Legacy] {
            let client = connect(&format!("http://{address}{path}"), era).await;
            let tools: Vec<_> =
                client.all_tools().await.unwrap().iter().map(|one| one.name.clone()).collect();
            assert_eq!(tools, [name], "{era:?}");
            let result = client.call_tool(name, &json!({"region": "süd"})).unwrap().await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("rain in süd"), "{era:?}");
        }
    }
    assert!(
        front.mirrors("my_weather__look.out", None).is_some()
            && front.mirrors("my_weather__forecast", None).is_none()
    );
    front.end("done").await;
}

/// T15: what HTTP refuses by its headers alone, or as a method that there is not, is written down and counted, though no session saw it.
#[tokio::test]
async fn t15_what_is_refused_before_its_session_is_written_down() {
    let scratch = Scratch::new("audit-headers");
    let file = scratch.path().join("audit.jsonl");
    let audit = Arc::new(Audit::file(&file, |line| panic!("{line}")).unwrap());
    let kept = front::Options { audit: Some(Arc::clone(&audit)), ..front::Options::default() };
    let options = options().verify(|token: Option<&str>| Grant::Granted(token.map(Arc::from)));
    let (address, front) = gateway_of(RuleSet::default(), kept, options).await;
    front.settled().await;
    let hidden = "[policy.bob]\ntools = { allow = [] }\n";
    let hidden = File::parse(Path::new("cardan.toml"), hidden, None).unwrap();
    front.protect(cardan_gateway::policy::Policy::of(&[hidden.policy]));

    let (seen, able) = ("my_weather__forecast", json!({}));
    let same = "mcp-param-region: nord\r\n";
    for (who, method, name, says, more, able, status) in [
        ("bob", "tools/call", seen, seen, "", &able, 404),
        ("bob", "tools/call", "a-canary", "a-canary", "", &able, 404),
        // What is hidden is not tried unseen by whoever sends wrong headers along.
        ("bob", "tools/call", seen, seen, "mcp-method: ping\r\n", &able, 400),
        ("ada", "tools/call", seen, "another", same, &able, 400),
        ("ada", "tools/call", seen, seen, "mcp-param-region: a-canary\r\n", &able, 400),
        ("ada", "tools/call", "a-canary", "another", "", &able, 400),
        ("ada", "tools/call", seen, seen, same, &able, 200),
        // No call of something that could be written down, and nothing that is a call of the revision it names.
        ("bob", "tools/list", seen, seen, "", &able, 400),
        ("ada", "tools/call", seen, seen, same, &Value::Null, 400),
    ] {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": able});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method,
            "params": {"name": name, "arguments": {"region": "nord"}, "_meta": meta}});
        let more = format!("authorization: Bearer {who}\r\n{more}");
        let (got, answer) = post(address, says, &more, &call).await;
        assert_eq!(got, status, "{who} {method} {name} {more}: {answer}");
    }
    let counted: Vec<_> = Refused::ALL.into_iter().zip(front.refused()).collect();
    for wanted in [(Refused::Policy, 1), (Refused::Unknown, 1), (Refused::Headers, 4)] {
        assert!(counted.contains(&wanted), "{counted:?}");
    }
    front.end("done").await;
    audit.close();
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(!written.contains("canary"), "{written}");
    let lines: Vec<_> = written
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| format!("{} {} {} {}", line["principal"], line["server"], line["name"], line["outcome"]))
        .map(|line| line.replace('"', ""))
        .collect();
    let wanted = [
        "bob my weather forecast refused",
        "bob null null refused",
        "bob my weather forecast refused",
        "ada my weather forecast refused",
        "ada my weather forecast refused",
        "ada null null refused",
        "ada my weather forecast done",
    ];
    assert_eq!(lines, wanted);
}

/// A path that leads nowhere says so, in one way only; what is another spelling of a name is another path.
#[tokio::test]
async fn other_paths_lead_nowhere() {
    let (address, front) = gateway().await;
    for path in
        ["/servers/nobody/mcp", "/servers/my%20weather/no", "/servers/%6dy%20weather/mcp", "/servers/"]
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    front.end("done").await;
}
