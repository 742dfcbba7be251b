//! A legacy server that wants addresses visited before it answers a call: a modern client is asked to, and calls again.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Answerers, CallError, Client, Urls};
use cardan_gateway::fleet::{Making, Spec};
use cardan_gateway::relay::{Isolation, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::elicit::ElicitResult;
use cardan_proto::session::config::{EraChoice, Interests};
use cardan_proto::session::event::{Answer, CallOptions, Called, Rounds};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::{Handler, Host as _, Service};
use fronting::{at, front};
use relaying::{answering, connect, making_legacy, plain, soon, text};
use serde_json::{Map, Value, json};

/// A server that wants two addresses visited, as often as it is told to, and what it was called with.
#[derive(Clone, Default)]
struct Wanting {
    times: usize,
    data: Option<Value>,
    called: Arc<AtomicUsize>,
}

impl Wanting {
    fn new(times: usize) -> Self {
        Self { times, ..Self::default() }
    }

    fn making(&self) -> Making {
        making_legacy(self.clone(), "wanting", &json!({ "tools": {} }), Interests::Kept).0
    }

    async fn relay(&self) -> Relay {
        Relay::start(self.making(), Options::default()).await.unwrap()
    }

    fn called(&self) -> usize {
        self.called.load(Ordering::SeqCst)
    }
}

fn wanted() -> Value {
    let entry = |n: usize| json!({"mode": "url", "elicitationId": n.to_string(), "message": format!("go {n}"), "url": format!("https://example.com/{n}")});
    json!({ "elicitations": [entry(1), entry(2)], "more": 1.5 })
}

impl Service for Wanting {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        if called.call.params.text(Param::Name).as_deref() == Some("hang") {
            return Box::pin(std::future::pending());
        }
        let answer = match called.call.method {
            Method::ToolsCall if self.called.fetch_add(1, Ordering::SeqCst) < self.times => {
                let data = self.data.clone().unwrap_or_else(wanted);
                Answer::Fault(Fault::new(code::URL_ELICITATION_REQUIRED, "log in first").with_data(&data))
            }
            Method::ToolsCall => {
                let params = String::from_utf8(called.call.params.raw().unwrap().to_vec()).unwrap();
                let result = json!({"content": [{"type": "text", "text": params}]});
                Answer::Done(Bytes::from(result.to_string()))
            }
            _ => {
                let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
                Answer::Done(Bytes::from(json!({ "tools": [tool("go"), tool("hang")] }).to_string()))
            }
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Calls once, and answers nothing by itself.
async fn once(client: &Client, params: Value) -> Result<Value, Fault> {
    let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
    match soon("a call", client.raw(Method::ToolsCall, Some(Bytes::from(params.to_string())), options)).await
    {
        Ok(result) => Ok(serde_json::from_slice(&result).unwrap()),
        Err(CallError::Fault(fault)) => Err(fault),
        Err(error) => panic!("{error}"),
    }
}

fn params(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"n": 1}})
}

/// Calls again, with this answer to all that was asked.
fn again(mut params: Value, asked: &Value, action: &str) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let names = asked["inputRequests"].as_object().unwrap().keys();
    let answers: Map<_, _> = names.map(|name| (name.clone(), json!({ "action": action }))).collect();
    params["inputResponses"] = Value::Object(answers);
    params["requestState"] = asked["requestState"].clone();
    params
}

fn data(fault: &Fault) -> Value {
    serde_json::from_slice(fault.data.as_ref().unwrap()).unwrap()
}

/// ELI-14, BASE-26: what a legacy server wants visited is asked as the modern era asks, and the retry is the call from its
/// beginning.
#[tokio::test]
async fn addresses_to_visit_are_asked_for() {
    let server = Wanting::new(1);
    let relay = server.relay().await;
    let client = connect(&relay, Era::Modern, answering("ada")).await;
    let asked = once(&client, params("go")).await.unwrap();
    let asks = asked["inputRequests"].as_object().unwrap();
    let addresses: Vec<_> = asks.values().map(|ask| ask["params"]["url"].as_str().unwrap()).collect();
    assert_eq!(addresses, ["https://example.com/1", "https://example.com/2"], "{asked}");
    for ask in asks.values() {
        assert_eq!((&ask["method"], &ask["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
        assert!(ask["params"].get("elicitationId").is_none(), "{ask}");
    }
    assert_eq!((relay.census().1, server.called()), (0, 1), "nothing waits");
    let done = once(&client, again(params("go"), &asked, "accept")).await.unwrap();
    let seen: Value = serde_json::from_str(done["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(seen, params("go"), "nothing of the retry");
}

/// S1-C1: who answers by itself gets there, however often it is sent away, within the bound of rounds.
#[tokio::test]
async fn who_answers_gets_there() {
    for isolation in [Isolation::Shared, Isolation::Client, Isolation::Call] {
        let server = Wanting::new(3);
        let options = Options { isolation, ..Options::default() };
        let relay = Relay::start(server.making(), options).await.unwrap();
        let client = connect(&relay, Era::Modern, answering("ada")).await;
        assert!(text(&client, "go", json!({})).await.contains("go"), "{isolation:?}");
        assert_eq!(server.called(), 4, "{isolation:?}");
    }
    let server = Wanting::new(usize::MAX);
    let relay = server.relay().await;
    let client = connect(&relay, Era::Modern, answering("ada")).await;
    let mut asked = once(&client, params("go")).await.unwrap();
    for _ in 1..Limits::DEFAULT.ask_rounds {
        asked = once(&client, again(params("go"), &asked, "accept")).await.unwrap();
    }
    let fault = once(&client, again(params("go"), &asked, "accept")).await.unwrap_err();
    assert!(fault.message.contains("too often"), "{fault}");
    assert_eq!(data(&fault), wanted());
}

/// ELI-23: who does not want to go has not called.
#[tokio::test]
async fn who_declines_is_told_so() {
    for action in ["decline", "cancel"] {
        let server = Wanting::new(1);
        let relay = server.relay().await;
        let client = connect(&relay, Era::Modern, answering("ada")).await;
        let asked = once(&client, params("go")).await.unwrap();
        let fault = once(&client, again(params("go"), &asked, action)).await.unwrap_err();
        assert_eq!(fault.code, code::USER_REJECTED, "{fault}");
        assert!(fault.message.contains("was not visited"), "{fault}");
        assert_eq!(server.called(), 1, "{action}");
        once(&client, again(params("go"), &asked, "accept")).await.unwrap();
    }
}

/// MRTR-6: who cannot be asked is told what it is that cannot be asked, and where to go.
#[tokio::test]
async fn who_cannot_be_asked_is_told_where_to_go() {
    let forms =
        Answerers::default().elicit(Urls::NotOffered, |_| std::future::ready(Ok(ElicitResult::accepted())));
    for connector in [plain(), plain().answer(forms)] {
        let server = Wanting::new(1);
        let relay = server.relay().await;
        let client = connect(&relay, Era::Modern, connector).await;
        let fault = once(&client, params("go")).await.unwrap_err();
        assert_eq!(fault.code, code::MISSING_CAPABILITY, "{fault}");
        assert!(
            fault.message.contains("log in first") && fault.message.contains("elicitation.url"),
            "{fault}"
        );
        let told = data(&fault);
        assert_eq!(told["elicitations"], wanted()["elicitations"]);
        assert_eq!(told["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
    }
}

/// What names no address cannot be asked for; the fault says what there is.
#[tokio::test]
async fn a_fault_without_addresses_stays_one() {
    let form =
        json!({"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let many = vec![wanted()["elicitations"][0].clone(); Limits::DEFAULT.asks_per_round + 1];
    for elicitations in [json!([]), json!(7), json!([{}]), json!([form]), json!(many)] {
        let data = json!({ "elicitations": elicitations });
        let server = Wanting { data: Some(data.clone()), ..Wanting::new(1) };
        let relay = server.relay().await;
        let client = connect(&relay, Era::Modern, answering("ada")).await;
        let fault = once(&client, params("go")).await.unwrap_err();
        assert_eq!((fault.code, self::data(&fault)), (code::INTERNAL, data), "{fault}");
    }
}

/// A legacy client has the fault as it came.
#[tokio::test]
async fn legacy_clients_have_a_fault_for_it() {
    let relay = Wanting::new(1).relay().await;
    let client = connect(&relay, Era::Legacy, answering("ada")).await;
    let fault = once(&client, params("go")).await.unwrap_err();
    assert_eq!((fault.code, data(&fault)), (code::URL_ELICITATION_REQUIRED, wanted()));
}

/// MRTR-9, T12: the state is good for the call that it came with, for who made it, and for a while.
#[tokio::test(start_paused = true)]
async fn the_state_is_bound() {
    let server = Wanting::new(1);
    let relay = server.relay().await;
    let mut clients = Vec::new();
    for principal in ["ada", "bob"] {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let principal: Arc<str> = principal.into();
        let service = relay.service(Some(&principal));
        tokio::spawn(Driver::new(theirs, service, relay.config(Some(&principal))).0);
        clients.push(answering("x").era(EraChoice::Modern).connect_link(ours).await.unwrap());
    }
    let [ada, bob] = &clients[..] else { panic!() };
    let asked = once(ada, params("go")).await.unwrap();
    let other = json!({"name": "go", "arguments": {"n": 2}});
    for (client, params) in [(bob, params("go")), (ada, other)] {
        let fault = once(client, again(params, &asked, "accept")).await.unwrap_err();
        assert!(fault.message.contains("belongs to another call"), "{fault}");
    }
    assert_eq!(server.called(), 1);
    tokio::time::sleep(Limits::DEFAULT.request_state_ttl + Duration::from_secs(1)).await;
    let fault = once(ada, again(params("go"), &asked, "accept")).await.unwrap_err();
    assert!(fault.message.contains("has expired"), "{fault}");
    assert_eq!((fault.code, server.called()), (code::INVALID_PARAMS, 1));
}

/// The retry is a new call: it takes a place, at the server as it is now, and at no other server.
#[tokio::test(start_paused = true)]
async fn the_retry_takes_a_place() {
    let (server, other) = (Wanting::new(1), Wanting::new(1));
    let mut spec = Spec::new("one", "stdio", "one", server.making());
    spec.concurrency = Some(1);
    let front = front(vec![spec.clone(), Spec::new("two", "stdio", "two", other.making())]);
    let client = at(&front, Era::Modern, answering("ada")).await;
    let upstream = front.fleet().upstream("one").unwrap();
    let asked = once(&client, params("one__go")).await.unwrap();
    assert_eq!(upstream.counts().running, 0, "none while its client is asked");
    let fault = once(&client, again(params("two__go"), &asked, "accept")).await.unwrap_err();
    assert!(fault.message.contains("belongs to another call"), "{fault}");
    let hanging = client.call_tool("one__hang", &json!({})).unwrap();
    let retry = once(&client, again(params("one__go"), &asked, "accept"));
    let waited = tokio::time::timeout(Duration::from_secs(5), retry).await;
    assert!(waited.is_err(), "there is no place");
    drop(hanging);
    spec.identity = "reached otherwise".into();
    front.fleet().reload(vec![spec]).await;
    once(&client, again(params("one__go"), &asked, "accept")).await.unwrap();
    front.end("done").await;
}
