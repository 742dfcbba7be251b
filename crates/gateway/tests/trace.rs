//! Calls as parts of traces: joined through `_meta`, told to a collector, and untouched where nobody records.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod collecting;
mod fronting;
mod relaying;

use std::sync::Arc;

use bytes::Bytes;
use cardan_client::Client;
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::relay;
use cardan_gateway::trace::Tracer;
use cardan_proto::era::Era;
use cardan_proto::method::Method;
use cardan_proto::session::event::CallOptions;
use cardan_server::{Cx, Server, Stop};
use collecting::{Collector, Span, spans};
use fronting::{Stage, at, dead, spec};
use relaying::{connect, plain, relay_with, revisions, soon};
use serde_json::{Value, json};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const CANARY: &str = "canary-4711";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

/// A server that tells the `_meta` of its calls, and fails in every way.
fn server(era: Era) -> Server {
    Server::builder("seer", "1")
        .revisions(revisions(era))
        .tool("meta", "tells what came beside the arguments", async |cx: Cx| {
            Ok::<_, Stop>(json!(cx.meta()).to_string())
        })
        .tool("fault", CANARY, async || {
            Err::<String, _>(Stop::from(cardan_proto::jsonrpc::fault::Fault::new(1234, CANARY)))
        })
        .tool("fail", "says no", async || Err::<String, _>(Stop::failed(CANARY)))
        .build()
}

fn front(specs: Vec<Spec>, trace: Option<Arc<Tracer>>) -> Front {
    let options = Options { trace, ..Options::default() };
    Front::start(Fleet::start(specs, fleet::Options::default()), options)
}

/// Calls a tool with this `_meta`; what it got instead.
async fn meta(client: &Client, tool: &str, meta: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": { "text": CANARY }, "_meta": meta });
    let params = Bytes::from(params.to_string());
    let raw = soon(tool, client.raw(Method::ToolsCall, Some(params), CallOptions::default())).await.unwrap();
    let result: Value = serde_json::from_slice(&raw).unwrap();
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// All spans that were exported, once the tracer is closed; and that nothing is in them that must not be.
async fn exported(collector: &Collector, tracer: &Tracer) -> Vec<Span> {
    soon("close", tracer.close()).await;
    let mut all = Vec::new();
    for request in collector.rest() {
        assert!(request.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", request.head);
        assert!(request.head.contains("content-type: application/x-protobuf\r\n"), "{}", request.head);
        let shown = String::from_utf8_lossy(&request.body);
        assert!(!shown.contains(CANARY), "T27: arguments, results and errors are in no span: {shown}");
        let (resource, some) = spans(&request.body);
        assert_eq!(resource["service.name"], "cardan");
        all.extend(some);
    }
    all
}

fn one(spans: &[Span], kind: u64) -> &Span {
    let of: Vec<_> = spans.iter().filter(|span| span.kind == kind).collect();
    assert_eq!(of.len(), 1, "{spans:?}");
    of[0]
}

/// META-6: the client's span is the parent of ours, ours that of the call to the server, and that of whatever the
/// server records. What others keep about the trace, and all else beside it, stays.
#[tokio::test]
async fn traces_join_through_a_gateway() {
    for (client_era, server_era) in ERAS.into_iter().flat_map(|era| ERAS.map(|other| (era, other))) {
        let cell = format!("{client_era:?} client, {server_era:?} server");
        let collector = Collector::open();
        let tracer = collector.tracer(&[]);
        let front = front(vec![spec("seer", &server(server_era)).0], Some(Arc::clone(&tracer)));
        let client = at(&front, client_era, plain()).await;
        let given = json!({ "traceparent": parent("01"), "tracestate": "rojo=1,congo=2", "my.org/x": 1.5 });
        let seen = meta(&client, "seer__meta", &given).await;
        let spans = exported(&collector, &tracer).await;
        let (ours, onward) = (one(&spans, 2), one(&spans, 3));
        assert_eq!((ours.trace.as_str(), ours.parent.as_str()), (TRACE, SPAN), "{cell}");
        assert_eq!((onward.trace.as_str(), &onward.parent), (TRACE, &ours.id), "{cell}");
        assert_eq!(seen["traceparent"], format!("00-{TRACE}-{}-01", onward.id), "{cell}");
        assert_eq!((&seen["tracestate"], &seen["my.org/x"]), (&given["tracestate"], &json!(1.5)), "{cell}");
        assert_eq!((ours.state.as_str(), onward.state.as_str()), ("rojo=1,congo=2", "rojo=1,congo=2"));
        assert_eq!((ours.name.as_str(), onward.name.as_str()), ("tools/call seer__meta", "tools/call meta"));
        for (key, of_ours, of_onward) in [
            ("mcp.method.name", Some("tools/call"), Some("tools/call")),
            ("gen_ai.operation.name", Some("execute_tool"), Some("execute_tool")),
            ("gen_ai.tool.name", Some("seer__meta"), Some("meta")),
            ("cardan.upstream", None, Some("seer")),
            ("network.transport", None, Some("tcp")),
            ("error.type", None, None),
        ] {
            assert_eq!((ours.of(key), onward.of(key)), (of_ours, of_onward), "{cell}: {key}");
        }
        assert!(ours.of("jsonrpc.request.id").is_some() && !ours.failed, "{cell}: {ours:?}");
        let revision = client.settled().revision.date();
        assert_eq!(ours.of("mcp.protocol.version"), Some(revision), "{cell}");
        assert_eq!(ours.of("mcp.session.id").is_some(), client_era == Era::Legacy, "{cell}: {ours:?}");
        assert!(onward.took_ns <= ours.took_ns, "{cell}: {spans:?}");
        let tally = front.traced().unwrap();
        assert_eq!((tally.exported, tally.crowded, tally.refused), (2, 0, 0), "{cell}");
        front.end("done").await;
    }
}

/// META-6: a state that is too long, or none, is passed on as it came, and takes no room in spans that wait.
#[tokio::test]
async fn a_state_that_nobody_can_follow_is_in_no_span() {
    let collector = Collector::open();
    let tracer = collector.tracer(&[]);
    let front = front(vec![spec("seer", &server(Era::Modern)).0], Some(Arc::clone(&tracer)));
    let client = at(&front, Era::Modern, plain()).await;
    let vast = format!("a={}", ",b=1".repeat(1 << 18));
    for state in [vast.as_str(), "no member"] {
        let given = json!({ "traceparent": parent("01"), "tracestate": state });
        let seen = meta(&client, "seer__meta", &given).await;
        assert_eq!(seen["tracestate"], given["tracestate"]);
    }
    let spans = exported(&collector, &tracer).await;
    assert_eq!(spans.iter().map(|span| span.state.as_str()).collect::<Vec<_>>(), [""; 4]);
    front.end("done").await;
}

/// META-6: the same where there is one server only, behind a relay.
#[tokio::test]
async fn traces_join_through_a_relay() {
    for era in ERAS {
        let collector = Collector::open();
        let tracer = collector.tracer(&[]);
        let options = relay::Options { trace: Some(Arc::clone(&tracer)), ..relay::Options::default() };
        let (relay, _) = relay_with(&server(Era::Modern), options).await;
        let client = connect(&relay, era, plain()).await;
        let seen = meta(&client, "meta", &json!({ "traceparent": parent("01") })).await;
        let spans = exported(&collector, &tracer).await;
        let (ours, onward) = (one(&spans, 2), one(&spans, 3));
        assert_eq!((ours.parent.as_str(), &onward.parent), (SPAN, &ours.id), "{era:?}");
        assert_eq!(seen["traceparent"], format!("00-{TRACE}-{}-01", onward.id), "{era:?}");
        assert_eq!(seen.get("tracestate"), None);
        relay.end("done").await;
    }
}

/// META-6: whoever does not record passes on what came, and a trace that begins here is recorded by all or by nobody.
#[tokio::test]
async fn what_is_not_recorded_stays_as_it_came() {
    // Sampler; what comes; what goes on: as it came, or a trace of ours with these flags; and how many spans there are.
    let stale = json!({ "traceparent": "00-1-2-3", "tracestate": "a=1" });
    for (sampler, given, onward, count) in [
        (None, json!({ "traceparent": parent("01"), "tracestate": "a=1" }), None, 0),
        (Some("parentbased_always_on"), json!({ "traceparent": parent("00"), "tracestate": "a=1" }), None, 0),
        (Some("always_off"), json!({ "traceparent": parent("01") }), None, 0),
        (Some("parentbased_always_off"), json!({}), Some("-00"), 0),
        (Some("parentbased_always_on"), json!({}), Some("-01"), 2),
        (Some("always_on"), stale.clone(), Some("-01"), 2),
        (Some("always_off"), stale, Some("-00"), 0),
    ] {
        let collector = Collector::open();
        let settings: &'static [(&str, &str)] = match sampler {
            Some(sampler) => Vec::leak(vec![("OTEL_TRACES_SAMPLER", sampler)]),
            None => &[],
        };
        let tracer = sampler.map(|_| collector.tracer(settings));
        let front = front(vec![spec("seer", &server(Era::Modern)).0], tracer.clone());
        let client = at(&front, Era::Modern, plain()).await;
        let seen = meta(&client, "seer__meta", &given).await;
        let place = seen["traceparent"].as_str().unwrap_or_default();
        match onward {
            None => {
                assert_eq!(seen["traceparent"], given["traceparent"], "{sampler:?} {given}");
                assert_eq!(seen.get("tracestate"), given.get("tracestate"), "{sampler:?} {given}");
            }
            Some(flags) => {
                assert!(place.len() == 55 && place.ends_with(flags), "{sampler:?} {given}: {place}");
                assert_eq!(seen.get("tracestate"), None, "{sampler:?}: a state of no trace");
            }
        }
        if let Some(tracer) = tracer {
            assert_eq!(exported(&collector, &tracer).await.len(), count, "{sampler:?} {given}");
        }
        front.end("done").await;
    }
}

/// How a call failed is told in a word, and what a client makes up not at all.
#[tokio::test]
async fn failures_are_told_by_their_kind() {
    let collector = Collector::open();
    let tracer = collector.tracer(&[]);
    let stage = Stage::default();
    let specs = vec![
        dead("dead"),
        spec("seer", &server(Era::Modern)).0,
        spec("slow", &fronting::server("slow", Era::Modern, &stage)).0,
    ];
    let front = front(specs, Some(Arc::clone(&tracer)));
    let client = at(&front, Era::Modern, plain()).await;
    for tool in ["seer__fault", "seer__fail", "dead__x", CANARY] {
        let _ = soon(tool, client.call_tool(tool, &json!({})).unwrap()).await;
    }
    let hanging = client.call_tool("slow__hang", &json!({})).unwrap();
    soon("begun", async {
        tokio::select! {
            () = stage.begun.notified() => {}
            _ = hanging => panic!("it never ends"),
        }
    })
    .await;
    soon("dropped", stage.dropped.notified()).await;
    assert!(soon("listed", client.all_tools()).await.is_ok());
    let uri = json!({ "uri": format!("{CANARY}://x") });
    let read = client.raw(Method::ResourcesRead, Some(Bytes::from(uri.to_string())), CallOptions::default());
    assert!(soon("read", read).await.is_err());
    let spans = exported(&collector, &tracer).await;
    let of = |kind: u64, name: &str| {
        let found = spans.iter().find(|span| span.kind == kind && span.name == name);
        let span = found.unwrap_or_else(|| panic!("no {name}: {spans:?}"));
        assert_eq!(span.failed, span.of("error.type").is_some(), "{span:?}");
        span.of("error.type").map(str::to_owned)
    };
    assert_eq!(of(2, "tools/call seer__fault").as_deref(), Some("1234"));
    assert_eq!(of(3, "tools/call fault").as_deref(), Some("1234"));
    assert_eq!(of(2, "tools/call seer__fail").as_deref(), Some("tool_error"));
    assert_eq!(of(3, "tools/call fail").as_deref(), Some("tool_error"));
    assert_eq!(of(2, "tools/call slow__hang").as_deref(), Some("cancelled"));
    assert_eq!(of(3, "tools/call hang").as_deref(), Some("cancelled"));
    assert_eq!(of(2, "tools/list"), None);
    assert!(spans.iter().filter(|span| span.name == "tools/call").all(|span| span.failed), "{spans:?}");
    assert!(spans.iter().any(|span| span.kind == 2 && span.name == "resources/read" && span.failed));
    front.end("done").await;
}

/// A collector that is away for a while gets all the same; one that refuses is told of once, and no call waits for it.
#[tokio::test]
async fn a_collector_in_trouble_is_no_trouble() {
    let collector = Collector::open();
    let tracer = collector.tracer(&[]);
    let front = front(vec![spec("seer", &server(Era::Modern)).0], Some(Arc::clone(&tracer)));
    let client = at(&front, Era::Modern, plain()).await;
    // The last one is taken first: busy, then well, then it wants none of it.
    collector.statuses.lock().unwrap().extend([400, 200, 503]);
    meta(&client, "seer__meta", &json!({})).await;
    let (first, again) = (collector.request().await, collector.request().await);
    assert_eq!(first.body, again.body, "the same batch comes again");
    meta(&client, "seer__meta", &json!({})).await;
    soon("close", tracer.close()).await;
    let tally = tracer.tally();
    assert_eq!((tally.exported, tally.crowded, tally.refused), (2, 0, 2));
    let told = collector.told.lock().unwrap().clone();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("503") && told[1].contains("again") && told[2].contains("400"), "{told:?}");
    // After the end calls go on, and what they leave is counted.
    meta(&client, "seer__meta", &json!({})).await;
    assert_eq!(tracer.tally().crowded, 2);
    front.end("done").await;
}
