//! The life of a session as an application sees it: events, raw results, eras that are remembered, and
//! conversations that share a process.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan::client::{CallError, Connector, Eras};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::limits::Limits;
use cardan::proto::method::Method;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::model::{ServerCapabilities, Tool};
use cardan::proto::session::event::{Answer, CallOptions, Delivery};
use cardan::proto::session::state::State;
use cardan::runtime::lines::Lines;
use cardan::runtime::memory;
use cardan::runtime::service::Handler;
use cardan::server::tools::RunTool;
use common::{BOTH, LONG, Raw, Wire, answering, join, observing, plain, words};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

const LEGACY: Revision = Revision::LATEST_LEGACY;
const MODERN: Revision = Revision::LATEST_MODERN;

/// Answers every call with these bytes.
struct Says(&'static str);

impl RunTool for Says {
    fn run(&self, _: Option<Bytes>, _: Cx) -> Handler<Answer> {
        Box::pin(std::future::ready(Answer::Done(Bytes::from_static(self.0.as_bytes()))))
    }
}

fn tool(value: Value) -> Tool {
    serde_json::from_value(value).unwrap()
}

fn saying(bytes: &'static str) -> Server {
    let odd = tool(json!({ "name": "says", "inputSchema": { "type": "object" } }));
    Server::builder("says", "1").raw_tool(odd, Arc::new(Says(bytes))).build()
}

/// One of everything; `ask` wants a word before it answers.
fn everything() -> Server {
    Server::builder("all", "1")
        .logging()
        .tool("echo", "says it back", async || "hi")
        .tool("fail", "fails", async || Err::<String, _>(Stop::failed("no")))
        .tool("ask", "asks", |cx: Cx| async move {
            let answer = cx.elicit("word", &Form::new("which?").string("v"))?;
            let word = answer.content.unwrap_or_default();
            Ok::<_, Stop>(format!("{:?}", word.get("v")))
        })
        .resource(Resource::new("x:1", "one"), |_| async { Ok(vec![ResourceContents::text("x:1", "1")]) })
        .template(ResourceTemplate::new("y:{z}", "t"), |_, _, _| async { Ok(vec![]) })
        .prompt(Prompt::new("p"), |_, _| async { Ok(vec![PromptMessage::user("hi")]) })
        .complete("p", "a", |_, _| vec!["x".to_owned()])
        .build()
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

/// What a retry brings: the word, and the state as it came.
fn retry(word: &str, state: Option<&Value>) -> Value {
    let mut params = json!({
        "name": "ask",
        "inputResponses": { "word": { "action": "accept", "content": { "v": word } } },
    });
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    params
}

/// BASE-22: results are `complete` or `input_required` whatever is called; a type that only an extension
/// defines goes to clients that declared one, and to others as a fault.
#[tokio::test]
async fn results_are_of_a_type_that_the_client_knows() {
    let mut raw = Raw::client_of(&everything());
    let rows = [
        ("server/discover", json!({}), "complete"),
        ("tools/list", json!({}), "complete"),
        ("tools/call", json!({ "name": "echo" }), "complete"),
        ("tools/call", json!({ "name": "fail" }), "complete"),
        ("tools/call", json!({ "name": "ask" }), "input_required"),
        ("resources/list", json!({}), "complete"),
        ("resources/templates/list", json!({}), "complete"),
        ("resources/read", json!({ "uri": "x:1" }), "complete"),
        ("prompts/list", json!({}), "complete"),
        ("prompts/get", json!({ "name": "p" }), "complete"),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
            "complete",
        ),
    ];
    for (method, params, expected) in rows {
        let reply = raw.modern(method, params, forms()).await;
        assert_eq!(reply["result"]["resultType"], expected, "{method}: {reply}");
    }
    for odd in [r#"{"resultType":"task","content":[]}"#, r#"{"content":[],"resultType":7}"#] {
        let mut raw = Raw::client_of(&saying(odd));
        let call = json!({ "name": "says" });
        let undeclared = raw.modern("tools/call", call.clone(), json!({ "extensions": {} })).await;
        assert_eq!(undeclared["error"]["code"], -32603, "{undeclared}");
        let declared = raw.modern("tools/call", call, json!({ "extensions": { "com.example/x": {} } })).await;
        assert!(declared["result"].get("resultType").is_some(), "{declared}");
    }
}

/// S0-5: close, error, note and call of the server all reach the application, each as what it is.
#[tokio::test]
async fn everything_that_happens_reaches_the_application() {
    let pending = Answerers::default().elicit(Urls::NotOffered, |_| std::future::pending());
    let (connector, seen) = observing(answering(pending));
    let (mut raw, mut client) = Raw::ready(connector, LEGACY, json!({ "logging": {} })).await;
    seen.lock().unwrap().clear();
    let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    raw.send(&note("notifications/odd", json!({}))).await;
    raw.send(&note("notifications/elicitation/complete", json!({ "elicitationId": "1" }))).await;
    raw.send(&note("notifications/message", json!({ "level": "info", "data": 1 }))).await;
    raw.write("this is no message").await;
    let form = json!({ "message": "m", "requestedSchema": { "type": "object", "properties": {} } });
    let id = raw.start("elicitation/create", form).await;
    raw.send(&note("notifications/cancelled", json!({ "requestId": id }))).await;
    drop(raw);
    tokio::time::timeout(LONG, client.closed()).await.unwrap();
    let seen = seen.lock().unwrap();
    let expected = [
        "found note-unknown",
        "noted notifications/odd",
        "noted notifications/elicitation/complete",
        "logged",
        "found noise",
        "asked elicitation/create",
        "ask withdrawn",
    ];
    assert_eq!(seen[..expected.len()], expected);
    assert_eq!(seen[expected.len()..], ["Disconnected: ClosedByPeer"]);
    assert_eq!(client.state(), State::Disconnected);
}

/// S0-71: one call is a client with a short life: it opens, calls and closes like any other.
#[tokio::test]
async fn a_single_call_is_a_client_with_a_short_life() {
    for revision in BOTH {
        let (client, wire) = join(&everything(), plain(), revision).await;
        let result = client.call_tool("echo", &json!({})).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("hi"));
        let cause = tokio::time::timeout(LONG, client.close("done")).await.unwrap();
        assert_eq!(cause, cardan::proto::session::event::Cause::ClosedByUs("done".into()));
        let sent = wire.went(common::Way::Out);
        let methods: Vec<_> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
        match revision.era() {
            Era::Legacy => assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]),
            Era::Modern => assert_eq!(methods, ["server/discover", "tools/call"]),
        }
    }
}

/// S0-72: a raw call brings the bytes of the result as the server spelled them, and sends ours as we did.
#[tokio::test]
async fn raw_results_are_left_as_they_came() {
    const RESULT: &str =
        r#"{ "big": 12345678901234567890123, "n":1.50e+1, "odd" : {"é\u00e9":null}, "content":[ ] }"#;
    const PARAMS: &str = r#"{"name":"x","arguments":{"n":1.10,"big":98765432109876543210},"odd":[ 1 ]}"#;
    for revision in BOTH {
        let (mut peer, client) = Lined::ready(revision).await;
        let script = tokio::spawn(async move {
            let line = peer.line().await;
            let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
            peer.put(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{RESULT}}}"#)).await;
            line
        });
        let params = Some(Bytes::from_static(PARAMS.as_bytes()));
        let result = client.raw(Method::ToolsCall, params, CallOptions::default()).await.unwrap();
        assert_eq!(result, RESULT, "{revision}");
        let line = script.await.unwrap();
        for spelled in [r#""arguments":{"n":1.10,"big":98765432109876543210}"#, r#""odd":[ 1 ]"#] {
            assert!(line.contains(spelled), "{line}");
        }
    }
}

/// A server made of lines, for what JSON values would lose.
struct Lined(BufReader<DuplexStream>);

impl Lined {
    async fn ready(revision: Revision) -> (Self, Client) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let link = Lines::new(reader, writer, &Limits::DEFAULT);
        let connector = common::speaking(plain(), revision);
        let connecting = tokio::spawn(async move { connector.connect_link(link).await.unwrap() });
        let mut peer = Self(BufReader::new(ours));
        let hello: Value = serde_json::from_str(&peer.line().await).unwrap();
        let result = match revision.era() {
            Era::Legacy => json!({
                "protocolVersion": revision.date(), "capabilities": { "tools": {} },
                "serverInfo": { "name": "raw", "version": "0" },
            }),
            Era::Modern => json!({
                "resultType": "complete", "supportedVersions": [revision.date()],
                "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
            }),
        };
        peer.put(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": result }).to_string()).await;
        if revision.era() == Era::Legacy {
            peer.line().await;
        }
        (peer, connecting.await.unwrap())
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        tokio::time::timeout(LONG, self.0.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    async fn put(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

/// S0-77: a link that is lost fails the calls on it at once, far before any deadline, and later calls
/// too. The clock is paused: had a deadline been waited for, it would show.
#[tokio::test(start_paused = true)]
async fn a_lost_link_fails_calls_at_once() {
    for revision in BOTH {
        let (mut raw, client) = Raw::ready(plain(), revision, json!({ "tools": {} })).await;
        let (one, two) =
            (client.call_tool("a", &json!({})).unwrap(), client.call_tool("b", &json!({})).unwrap());
        raw.recv().await;
        raw.recv().await;
        let start = tokio::time::Instant::now();
        drop(raw);
        for call in [one, two] {
            let error = call.await.unwrap_err();
            let unknown =
                matches!(&error, CallError::Lost { delivery, .. } if *delivery != Delivery::NotSent);
            assert!(unknown, "{revision}: {error:?}");
        }
        let later = client.call_tool("c", &json!({})).unwrap().await.unwrap_err();
        assert!(!later.may_have_executed(), "{later:?}");
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

fn icons() -> Value {
    json!([{ "src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark" }])
}

/// What is listed under `key` by a server with these members, as it crossed the wire.
fn listed(wire: &Wire, method: &str, key: &str) -> Value {
    wire.results(method)[0]["result"][key][0].clone()
}

/// S2-24: name, title, description, both schemas, annotations, icons, metadata, and in the revision that
/// has it the execution: everything a tool can have is listed and read.
#[tokio::test]
async fn tools_carry_all_their_members() {
    let mut full = json!({
        "name": "full", "title": "Full", "description": "has it all",
        "inputSchema": { "type": "object", "properties": { "n": { "type": "number" } }, "x-odd": 1.50 },
        "outputSchema": { "type": "object", "required": ["m"] },
        "annotations": { "title": "A", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
        "execution": { "taskSupport": "optional" },
        "icons": icons(), "_meta": { "com.example/k": [1, null] },
    });
    let server = Server::builder("full", "1").raw_tool(tool(full.clone()), Arc::new(Says("{}"))).build();
    for revision in BOTH {
        let (client, wire) = join(&server, plain(), revision).await;
        let tools = client.all_tools().await.unwrap();
        if revision.era() == Era::Modern {
            full.as_object_mut().unwrap().remove("execution");
        }
        assert_eq!(listed(&wire, "tools/list", "tools"), full, "{revision}");
        assert_eq!(serde_json::to_value(&tools[0]).unwrap(), full, "{revision}");
    }
}

/// S2-25: so do resources and templates.
#[tokio::test]
async fn resources_and_templates_carry_all_their_members() {
    let annotations =
        json!({ "audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z" });
    let resource = json!({
        "uri": "x:1", "name": "one", "title": "One", "description": "the first", "mimeType": "text/plain",
        "size": 7, "icons": icons(), "annotations": annotations, "_meta": { "com.example/k": 1 },
    });
    let template = json!({
        "uriTemplate": "y:{z}", "name": "many", "title": "Many", "description": "the rest", "mimeType": "text/plain",
        "icons": icons(), "annotations": annotations, "_meta": { "com.example/k": 2 },
    });
    let server = Server::builder("full", "1")
        .resource(serde_json::from_value(resource.clone()).unwrap(), |_| async { Ok(vec![]) })
        .template(serde_json::from_value(template.clone()).unwrap(), |_, _, _| async { Ok(vec![]) })
        .build();
    for revision in BOTH {
        let (client, wire) = join(&server, plain(), revision).await;
        let (resources, templates) =
            (client.all_resources().await.unwrap(), client.all_templates().await.unwrap());
        assert_eq!(listed(&wire, "resources/list", "resources"), resource, "{revision}");
        assert_eq!(serde_json::to_value(&resources[0]).unwrap(), resource);
        assert_eq!(listed(&wire, "resources/templates/list", "resourceTemplates"), template, "{revision}");
        assert_eq!(serde_json::to_value(&templates[0]).unwrap(), template);
    }
}

/// S2-28: a client reads every capability a server can have, those of others' making included; ours
/// declares what it was given and nothing more.
#[tokio::test]
async fn capabilities_are_complete() {
    let all = json!({
        "tools": { "listChanged": true }, "prompts": { "listChanged": false },
        "resources": { "subscribe": true, "listChanged": true }, "completions": {}, "logging": {},
        "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } },
        "extensions": { "com.example/x": { "depth": 3 } }, "experimental": { "odd": { "on": true } },
        "unheard": [1],
    });
    for revision in BOTH {
        let (_raw, client) = Raw::ready(plain(), revision, all.clone()).await;
        let read = client.server().capabilities;
        assert!(read.tasks.is_some() && read.has_extension("com.example/x") && read.experimental.is_some());
        assert_eq!(serde_json::to_value(&read).unwrap(), all, "{revision}");
        let (client, _) = join(&everything(), plain(), revision).await;
        let ours = json!({
            "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true }, "completions": {}, "logging": {},
        });
        assert_eq!(serde_json::to_value(client.server().capabilities).unwrap(), ours, "{revision}");
        let (client, _) = join(&Server::builder("bare", "1").build(), plain(), revision).await;
        assert_eq!(client.server().capabilities, ServerCapabilities::default());
    }
}

/// VER-26: one process and one link serve conversations that know nothing of each other, at once: two of
/// the modern era in several rounds, answered in any order, and calls of a legacy one between them.
#[tokio::test]
async fn conversations_share_a_process() {
    let mut raw = Raw::legacy(&everything(), LEGACY, json!({})).await;
    let call = json!({ "name": "ask" });
    let first = raw.modern("tools/call", call.clone(), forms()).await["result"]["requestState"].clone();
    let other = raw.modern("tools/call", call.clone(), json!({})).await;
    assert_eq!(other["error"]["code"], -32021, "what the first declared is not known of the next: {other}");
    let second = raw.modern("tools/call", call, forms()).await["result"]["requestState"].clone();
    assert_eq!(words(&raw.call("tools/call", json!({ "name": "echo" })).await), "hi");
    let reply = raw.modern("tools/call", retry("two", Some(&second)), forms()).await;
    assert_eq!(words(&reply), r#"Some(Text("two"))"#);
    let reply = raw.modern("tools/call", retry("one", Some(&first)), forms()).await;
    assert_eq!(words(&reply), r#"Some(Text("one"))"#);

    let (client, _) = join(&everything(), plain(), MODERN).await;
    let client = Arc::new(client);
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.call_tool("echo", &json!({})).unwrap().await.is_ok() })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap(), "any task may use the process");
    }
}

/// VER-27: what spans calls is named by the state that the client passes, and by nothing else: it is
/// good on another link, and the link that got it remembers nothing.
#[tokio::test]
async fn state_is_the_only_handle() {
    let server = everything();
    let (mut here, mut there) = (Raw::client_of(&server), Raw::client_of(&server));
    let asking = here.modern("tools/call", json!({ "name": "ask" }), forms()).await;
    let state = &asking["result"]["requestState"];
    let moved = there.modern("tools/call", retry("moved", Some(state)), forms()).await;
    assert_eq!(words(&moved), r#"Some(Text("moved"))"#);
    let unnamed = here.modern("tools/call", json!({ "name": "ask" }), forms()).await;
    assert_eq!(unnamed["result"]["resultType"], "input_required", "nothing is kept: {unnamed}");
    let odd = here.modern("tools/call", retry("x", Some(&json!("guessed"))), forms()).await;
    assert_eq!(odd["error"]["code"], -32602, "{odd}");
}

/// SEC-5: holding state is not being someone: what was sealed for one principal is refused for another,
/// and for nobody; its own principal may use it.
#[tokio::test]
async fn state_is_bound_to_its_principal() {
    let server = everything();
    let mut ada = as_principal(&server, Some("ada"));
    let asking = ada.modern("tools/call", json!({ "name": "ask" }), forms()).await;
    let state = &asking["result"]["requestState"];
    for thief in [Some("bob"), None, Some("")] {
        let mut raw = as_principal(&server, thief);
        let reply = raw.modern("tools/call", retry("mine", Some(state)), forms()).await;
        assert_eq!(reply["error"]["code"], -32602, "{thief:?}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains("requestState"), "{reply}");
    }
    let mut elsewhere = as_principal(&server, Some("ada"));
    let reply = elsewhere.modern("tools/call", retry("mine", Some(state)), forms()).await;
    assert_eq!(words(&reply), r#"Some(Text("mine"))"#);
}

fn as_principal(server: &Server, principal: Option<&str>) -> Raw {
    Raw::client_of_as(server, principal.map(Into::into))
}

/// Dials a server of ours, remembering every link's wire.
struct Dial {
    server: Server,
    wires: Mutex<Vec<Wire>>,
}

impl Dial {
    fn new(server: Server) -> Self {
        Self { server, wires: Mutex::default() }
    }

    async fn connect(&self, connector: &Connector) -> Client {
        let dialled = connector.connect(async || -> Result<_, Infallible> {
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            let serving = self.server.clone();
            tokio::spawn(async move { serving.serve(theirs).await });
            let wire = Wire::default();
            self.wires.lock().unwrap().push(wire.clone());
            Ok(common::Tap { link: ours, wire })
        });
        dialled.await.unwrap()
    }

    /// The first thing said on each link so far, which are then forgotten.
    fn hellos(&self) -> Vec<String> {
        let wires = std::mem::take(&mut *self.wires.lock().unwrap());
        let first = |wire: &Wire| wire.went(common::Way::Out)[0]["method"].as_str().unwrap().to_owned();
        wires.iter().map(first).collect()
    }
}

/// VER-32, CLI-3: an era that was found is remembered, so that a legacy server is probed once only; a memory
/// that proves wrong is dropped and the server probed again. Each server has a memory of its own.
#[tokio::test]
async fn eras_are_remembered_and_found_again() {
    use cardan::proto::era::Revisions;
    let only = |revision| Dial::new(Server::builder("s", "1").revisions(Revisions::only(revision)).build());
    let (old, new) = (only(LEGACY), only(MODERN));
    let eras = Arc::new(Eras::default());
    let connector = plain().remember(Arc::clone(&eras), "s");
    assert_eq!(old.connect(&connector).await.settled().revision, LEGACY);
    assert_eq!(old.hellos(), ["server/discover"]);
    assert_eq!(eras.get("s"), Some(Era::Legacy));
    assert_eq!(old.connect(&connector).await.settled().revision, LEGACY);
    assert_eq!(old.hellos(), ["initialize"], "not probed again");
    old.connect(&plain().remember(Arc::clone(&eras), "other")).await;
    assert_eq!(old.hellos(), ["server/discover"], "another server, another memory");
    assert_eq!(new.connect(&connector).await.settled().revision, MODERN, "it was replaced by a newer one");
    assert_eq!(new.hellos(), ["initialize", "server/discover"]);
    assert_eq!(eras.get("s"), Some(Era::Modern));
    assert_eq!(old.connect(&connector).await.settled().revision, LEGACY, "and back");
    assert_eq!(eras.get("s"), Some(Era::Legacy));
}
