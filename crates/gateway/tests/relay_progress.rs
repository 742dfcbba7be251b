//! Progress across the relay: all of it, as it came, in its order among log notes and asks.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;

use cardan_gateway::fleet::{Making, Spec};
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_runtime::memory;
use relaying::{CELLS, LONG, making, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// A server written by hand, so that it can say what no library would: lines with `TOKEN` for the token of the call.
type Script = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

fn step(rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":TOKEN,{rest}}}}}"#
    )
}

fn log(data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{data}"}}}}"#
    )
}

fn ask() -> String {
    let params = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
    json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": params}).to_string()
}

fn greeting(era: Era, id: &Value) -> String {
    let info = json!({"name": "hand", "version": "1"});
    let capabilities = json!({"tools": {}, "logging": {}});
    let result = match era {
        Era::Legacy => {
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        }
        Era::Modern => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "serverInfo": info, "ttlMs": 0, "cacheScope": "private"
        }),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Speaks by hand. A script's lines are written at once; after an ask, its answer is waited for.
async fn serve(stream: DuplexStream, era: Era, script: Script) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let mut out = match message["method"].as_str() {
            Some("initialize") if era == Era::Legacy => greeting(era, id),
            Some("server/discover") if era == Era::Modern => greeting(era, id),
            Some("initialize" | "server/discover") => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).to_string()
            }
            Some("tools/call") => {
                let token = message["params"]["_meta"]["progressToken"].to_string();
                let mut all = String::new();
                for line in script() {
                    all += &line.replace("TOKEN", &token);
                    all.push('\n');
                    if line.contains("elicitation/create") {
                        write.write_all(all.as_bytes()).await.unwrap();
                        all.clear();
                        while let Ok(Some(answer)) = lines.next_line().await {
                            if answer.contains(r#""id":900"#) {
                                break;
                            }
                        }
                    }
                }
                let sealed = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
                all + &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{sealed}"content":[]}}}}"#)
            }
            Some("tools/list") => {
                let mut page = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
                if era == Era::Modern {
                    page["resultType"] = json!("complete");
                    page["ttlMs"] = json!(0);
                    page["cacheScope"] = json!("private");
                }
                json!({"jsonrpc": "2.0", "id": id, "result": page}).to_string()
            }
            Some(_) => json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string(),
            None => continue,
        };
        out.push('\n');
        if write.write_all(out.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn by_hand(era: Era, script: Script) -> Making {
    let (making, _) = making(move |_| std::future::ready(()));
    let way = cardan_client::way(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(serve(theirs, era, Arc::clone(&script)));
        let (read, write) = tokio::io::split(ours);
        let link = cardan_runtime::lines::Lines::new(read, write, &cardan_proto::limits::Limits::DEFAULT);
        std::future::ready(Ok::<_, std::convert::Infallible>(link))
    });
    Making { way, ..making }
}

/// A client by hand, so that what it gets is seen byte for byte.
struct Hand {
    lines: tokio::io::Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    write: tokio::io::WriteHalf<DuplexStream>,
    era: Era,
}

impl Hand {
    async fn at(stream: DuplexStream, era: Era) -> Self {
        let (read, write) = tokio::io::split(stream);
        let mut hand = Self { lines: BufReader::new(read).lines(), write, era };
        if era == Era::Legacy {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "c", "version": "1"}
            });
            hand.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
            hand.line().await;
            hand.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            let level = json!({"level": "debug"});
            hand.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": level}))
                .await;
            hand.line().await;
        }
        hand
    }

    async fn say(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        soon("a line", self.lines.next_line()).await.unwrap().expect("the link lives")
    }

    /// Calls a tool, and tells all lines up to its result. What it is asked is answered.
    async fn call(&mut self, tool: &str, capabilities: &Value, logs: bool) -> Vec<String> {
        let mut meta = json!({"progressToken": "q"});
        if self.era == Era::Modern {
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "c", "version": "1"});
            if logs {
                meta[LEVEL] = json!("debug");
            }
        }
        let mut params = json!({"name": tool, "arguments": {}, "_meta": meta});
        let mut all = Vec::new();
        for id in 7.. {
            self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
            loop {
                let line = self.line().await;
                let message: Value = serde_json::from_str(&line).unwrap();
                all.push(line);
                if message["method"] == "elicitation/create" {
                    let result = json!({"action": "accept", "content": {}});
                    self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).await;
                } else if message["id"] == id {
                    let Some(asked) = message["result"]["inputRequests"].as_object() else { return all };
                    let answers =
                        asked.keys().map(|key| (key.clone(), json!({"action": "accept", "content": {}})));
                    params["inputResponses"] = Value::Object(answers.collect());
                    params["requestState"] = message["result"]["requestState"].clone();
                    break;
                }
            }
        }
        all
    }
}

async fn at_relay(era: (Era, Era), cell: &relaying::Cell, script: Script) -> Hand {
    let options = Options { behind: Behind::One, isolation: cell.isolation, ..Options::default() };
    let relay = Relay::start(by_hand(era.1, script), options).await.unwrap();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (read, write) = tokio::io::split(theirs);
    let link: memory::MemoryLink =
        cardan_runtime::lines::Lines::new(read, write, &cardan_proto::limits::Limits::DEFAULT);
    tokio::spawn(async move { relay.serve(link).await });
    Hand::at(ours, era.0).await
}

fn at_front(client: Era, server: Era, script: Script) -> impl Future<Output = Hand> {
    let front = fronting::front(vec![Spec::new("one", "http", "digest".to_owned(), by_hand(server, script))]);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (read, write) = tokio::io::split(theirs);
    let link: memory::MemoryLink =
        cardan_runtime::lines::Lines::new(read, write, &cardan_proto::limits::Limits::DEFAULT);
    tokio::spawn(async move {
        tokio::time::timeout(LONG, front.settled()).await.unwrap();
        front.serve(link).await
    });
    Hand::at(ours, client)
}

fn steps(lines: &[String]) -> Vec<&String> {
    lines.iter().filter(|line| line.contains("notifications/progress")).collect()
}

/// What a line is, in short.
fn short(line: &str) -> String {
    let message: Value = serde_json::from_str(line).unwrap();
    match message["method"].as_str() {
        Some("notifications/progress") => format!("p{}", message["params"]["progress"]),
        Some("notifications/message") => message["params"]["data"].as_str().unwrap().to_owned(),
        Some("elicitation/create") => "ask".to_owned(),
        Some(other) => other.to_owned(),
        None if message["result"].get("inputRequests").is_some() => "ask".to_owned(),
        None => "end".to_owned(),
    }
}

const ERAS: [(Era, Era); 4] = [
    (Era::Modern, Era::Modern),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Legacy, Era::Legacy),
];

/// F18: a burst arrives whole and in order, however fast it comes, and the next call is served as ever.
#[tokio::test]
async fn f18_a_burst_crosses_whole() {
    let burst: Script = Arc::new(|| (1..=5000).map(|n| step(&format!(r#""progress":{n}"#))).collect());
    let check = |lines: Vec<String>, place: &str| {
        let seen: Vec<_> = lines.iter().map(|line| short(line)).collect();
        let wanted: Vec<_> = (1..=5000).map(|n| format!("p{n}")).chain(["end".to_owned()]).collect();
        assert_eq!(seen.len(), wanted.len(), "{place}");
        assert!(seen == wanted, "{place}: in order");
    };
    for cell in CELLS {
        let mut hand = at_relay((cell.client, cell.server), &cell, Arc::clone(&burst)).await;
        for _ in 0..2 {
            check(hand.call("t", &json!({}), false).await, &format!("{cell:?}"));
        }
    }
    for era in ERAS {
        let mut hand = at_front(era.0, era.1, Arc::clone(&burst)).await;
        check(hand.call("one__t", &json!({}), false).await, &format!("front {era:?}"));
    }
}

/// What does not grow, `_meta`, members that nobody knows and the spelling of numbers cross as they came.
#[tokio::test]
async fn steps_cross_byte_for_byte() {
    let said = [
        r#""progress":0,"message":"connecting""#,
        r#""progress":0,"message":"loading""#,
        r#""progress":1.50,"total":9007199254740993,"_meta":{"my.org/x":{"n":1.0}},"odd":[1, 2]"#,
        r#""progress":1,"message":"back""#,
        r#""progress":1e2,"message":"\u00e9""#,
    ];
    let script: Script = Arc::new(move || said.map(step).to_vec());
    for cell in CELLS {
        let mut hand = at_relay((cell.client, cell.server), &cell, Arc::clone(&script)).await;
        let lines = hand.call("t", &json!({}), false).await;
        let wanted = said.map(|rest| step(rest).replace("TOKEN", "\"q\""));
        assert_eq!(steps(&lines), wanted.iter().collect::<Vec<_>>(), "{cell:?}");
    }
}

/// Progress, log notes and asks come in the order in which the server said them, before the end.
#[tokio::test]
async fn what_is_said_keeps_its_order() {
    let mixed = || (1..=20).flat_map(|n| [step(&format!(r#""progress":{n}"#)), log(&format!("l{n}"))]);
    let plain: Script = Arc::new(move || mixed().collect());
    let asking: Script = Arc::new(move || mixed().chain([ask(), step(r#""progress":21"#)]).collect());
    let told = (1..=20).flat_map(|n| [format!("p{n}"), format!("l{n}")]);
    let wanted: Vec<_> = told.clone().chain(["end".to_owned()]).collect();
    let asked: Vec<_> = told.chain(["ask", "p21", "end"].map(str::to_owned)).collect();
    for cell in CELLS {
        let eras = (cell.client, cell.server);
        let mut hand = at_relay(eras, &cell, Arc::clone(&plain)).await;
        let seen: Vec<_> = hand.call("t", &json!({}), true).await.iter().map(|line| short(line)).collect();
        assert_eq!(seen, wanted, "{cell:?}");
        // A modern server asks by its result.
        if cell.server == Era::Legacy {
            let mut hand = at_relay(eras, &cell, Arc::clone(&asking)).await;
            let can = json!({"elicitation": {}});
            let seen: Vec<_> = hand.call("t", &can, true).await.iter().map(|line| short(line)).collect();
            assert_eq!(seen, asked, "{cell:?}");
        }
    }
    for era in ERAS {
        let mut hand = at_front(era.0, era.1, Arc::clone(&plain)).await;
        let seen: Vec<_> =
            hand.call("one__t", &json!({}), true).await.iter().map(|line| short(line)).collect();
        assert_eq!(seen, wanted, "front {era:?}");
    }
}
