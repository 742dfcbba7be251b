//! What an upstream asks of a legacy client across the relay: what it is told that it may ask, and what the client says before it
//! answers. Both ends are written by hand, so that every message is seen as it is.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::limits::Limits;
use cardan_runtime::lines::Lines;
use cardan_runtime::memory::MemoryLink;
use relaying::{making, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

/// The id of what the upstream asks.
const ASK: u64 = 900;

/// One end of a link.
struct Wire {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn pair() -> (MemoryLink, Self) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(ours);
        let (their_read, their_write) = tokio::io::split(theirs);
        let wire = Self { lines: BufReader::new(their_read).lines(), write: their_write };
        (Lines::new(read, write, &Limits::DEFAULT), wire)
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok().flatten()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn say(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message of this method.
    async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = soon(method, self.next()).await.expect("the link lives");
            if message["method"] == method {
                return message;
            }
        }
    }
}

/// What the upstream was told on any of its links.
type Told = mpsc::UnboundedReceiver<Value>;

/// An upstream that asks `ask` within each call, and when it is told that roots are others.
fn asking(ask: &Value) -> (Making, Told) {
    let (tells, told) = mpsc::unbounded_channel();
    let ask = json!({"jsonrpc": "2.0", "id": ASK, "method": "sampling/createMessage", "params": ask});
    let (making, _) = making(move |_| std::future::ready(()));
    let way = cardan_client::way(move || {
        let (link, wire) = Wire::pair();
        tokio::spawn(serve(wire, ask.clone(), tells.clone()));
        std::future::ready(Ok::<_, std::convert::Infallible>(link))
    });
    (Making { way, ..making }, told)
}

async fn serve(mut wire: Wire, ask: Value, tells: mpsc::UnboundedSender<Value>) {
    let mut asked_by = Value::Null;
    while let Some(message) = wire.next().await {
        let _ = tells.send(message.clone());
        let (id, result) = match message["method"].as_str() {
            Some("initialize") => {
                let info = json!({"name": "hand", "version": "1"});
                let caps = json!({"tools": {}});
                let result =
                    json!({"protocolVersion": "2025-11-25", "capabilities": caps, "serverInfo": info});
                (message["id"].clone(), result)
            }
            Some("tools/call") => {
                asked_by = message["id"].clone();
                wire.say(&ask).await;
                continue;
            }
            Some("notifications/roots/list_changed") => {
                wire.say(&ask).await;
                continue;
            }
            None if message["id"] == ASK && !asked_by.is_null() => (asked_by.take(), json!({"content": []})),
            Some(_) if message.get("id").is_some() => (message["id"].clone(), json!({"tools": []})),
            _ => continue,
        };
        wire.say(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }
}

/// A legacy client before the upstream, which can be asked all this.
async fn client(making: Making, isolation: Isolation, capabilities: &Value) -> Wire {
    let options = Options { behind: Behind::One, isolation, ..Options::default() };
    let relay = Relay::start(making, options).await.unwrap();
    let (link, mut wire) = Wire::pair();
    tokio::spawn(async move { relay.serve(link).await });
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}
    });
    wire.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
    soon("the greeting", wire.next()).await.unwrap();
    wire.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    wire
}

fn call() -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", "arguments": {}}})
}

fn sampling(more: &[(&str, Value)]) -> Value {
    let mut params = json!({"messages": [], "maxTokens": 1});
    for (name, value) in more {
        params[name] = value.clone();
    }
    params
}

fn answer(ask: &Value) -> Value {
    let result = json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"});
    json!({"jsonrpc": "2.0", "id": ask["id"], "result": result})
}

/// A server is not told of tasks that a client would make, since what it would ask of them is not carried; where it wants one all
/// the same, it is answered as if it had not.
#[tokio::test]
async fn no_server_is_told_of_tasks_at_a_client() {
    let (making, mut told) = asking(&sampling(&[("task", json!({"ttl": 1000}))]));
    let capabilities = json!({
        "sampling": {}, "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}, "experimental": {"x": {}}
    });
    let mut client = client(making, Isolation::Client, &capabilities).await;
    client.say(&call()).await;
    let ask = client.until("sampling/createMessage").await;
    assert!(ask["params"].get("task").is_none(), "{ask}");
    client.say(&answer(&ask)).await;
    assert_eq!(soon("the result", client.next()).await.unwrap()["id"], 7);
    let mut declared = Vec::new();
    while let Ok(message) = told.try_recv() {
        if message["method"] == "initialize" {
            declared.push(message["params"]["capabilities"].clone());
        }
    }
    assert_eq!(declared.last(), Some(&json!({"sampling": {}, "experimental": {"x": {}}})), "{declared:?}");
}

/// PRG-1, PRG-5, F18: how far the client is with an answer reaches the server that asked, with its own token, as it was said and in its
/// order, before the answer; whether a call is in progress or not, and whoever shares the session.
#[tokio::test]
async fn progress_of_an_answer_crosses() {
    let token = json!("srv-7");
    for (isolation, within) in [
        (Isolation::Client, true),
        (Isolation::Client, false),
        (Isolation::Shared, true),
        (Isolation::Call, true),
    ] {
        let (making, mut told) = asking(&sampling(&[("_meta", json!({"progressToken": token}))]));
        let mut client =
            client(making, isolation, &json!({"sampling": {}, "roots": {"listChanged": true}})).await;
        if within {
            client.say(&call()).await;
        } else {
            // A note is for the session there is.
            client.say(&json!({"jsonrpc": "2.0", "id": 6, "method": "tools/list"})).await;
            soon("the list", client.next()).await.unwrap();
            client.say(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
        }
        let ask = client.until("sampling/createMessage").await;
        let ours = &ask["params"]["_meta"]["progressToken"];
        assert!(ours.is_number(), "{isolation:?}: {ask}");
        let step = |token: &Value, n: u64| {
            let params =
                json!({"progressToken": token, "progress": n / 2, "message": format!("step {n}"), "x": [n]});
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        };
        for n in 0..2000 {
            client.say(&step(ours, n)).await;
        }
        client.say(&answer(&ask)).await;
        for n in 0..2000 {
            let message = next_of_ask(&mut told).await;
            assert_eq!(message, step(&token, n), "{isolation:?}");
        }
        assert_eq!(next_of_ask(&mut told).await["id"], ASK, "{isolation:?}");
    }
}

/// The next that the upstream is told of what it asked.
async fn next_of_ask(told: &mut Told) -> Value {
    loop {
        let message = soon("word of an ask", told.recv()).await.unwrap();
        if message["method"] == "notifications/progress" || message["id"] == ASK {
            return message;
        }
    }
}
