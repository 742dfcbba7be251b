//! Every feature across the relay, in all four cells: a client of either era before a server of either era.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cardan_client::{Answerers, CallError, Urls};
use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::model::complete::CompleteParams;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult, UrlAsk};
use cardan_proto::model::form::Form;
use cardan_proto::model::sampling::{CreateMessageParams, SamplingMessage};
use cardan_proto::model::{
    GetPromptParams, Prompt, PromptMessage, Resource, ResourceContents, ResourceTemplate,
};
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel, Wanted};
use cardan_server::builder::Builder;
use cardan_server::{Cx, Json, Server, Stop, schemars, serde};
use relaying::{CELLS, Cell, answering, connect, logging, plain, relay_sharing, revisions, soon, text};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Text {
    text: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Length {
    length: usize,
}

/// What the server and the test tell each other.
#[derive(Clone, Default)]
struct Stage {
    begun: Arc<Notify>,
    dropped: Arc<Notify>,
    runs: Arc<AtomicUsize>,
}

struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn server(era: Era, stage: &Stage) -> Server {
    let (hanging, counted) = (stage.clone(), Arc::clone(&stage.runs));
    let builder =
        Server::builder("behind", "7.1")
            .instructions("be kind")
            .revisions(revisions(era))
            .logging()
            .page_size(2)
            .tool("echo", "says it back", async |args: Text| args.text)
            .tool("length", "measures", async |args: Text| Json(Length { length: args.text.len() }))
            .tool("fail", "fails", async || Err::<String, _>(Stop::failed("on purpose")))
            .tool("fault", "faults", async || {
                Err::<String, _>(Stop::from(Fault::new(1234, "so it is").with_data(&json!({"n": 1.5}))))
            })
            .tool("steps", "tells how far it is", |cx: Cx| async move {
                for step in 1..=20 {
                    cx.progress(f64::from(step), Some(20.0), Some(&format!("step {step}")));
                    tokio::task::yield_now().await;
                }
                Ok::<_, Stop>("done")
            })
            .tool("log", "logs", |cx: Cx| async move {
                cx.log(LogLevel::Debug, None, &"quiet");
                cx.log(LogLevel::Warning, Some("it"), &json!({"n": 1}));
                Ok::<_, Stop>("done")
            })
            .tool("hang", "never ends", move |_: Cx| {
                let stage = hanging.clone();
                async move {
                    let _told = Told(stage.dropped);
                    stage.begun.notify_one();
                    std::future::pending::<()>().await;
                    Ok::<_, Stop>("never")
                }
            })
            .tool("meta", "shows its metadata", |cx: Cx| async move {
                Ok::<_, Stop>(json!(cx.meta()).to_string())
            })
            .tool("form", "asks a person", |cx: Cx| async move {
                let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
                Ok::<_, Stop>(format!("{:?}", answer.content.unwrap_or_default().get("name")))
            })
            .tool("rounds", "asks three things one after another", move |cx: Cx| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    let visited = cx.visit("url", &UrlAsk::new("go", "https://example.com/a"))?;
                    let params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
                    let sampled = cx.sample("model", &params)?;
                    let roots = cx.roots("roots")?;
                    Ok::<_, Stop>(format!("{:?} {} {}", visited.action, sampled.model, roots[0].uri))
                }
            })
            .tool("change", "changes everything", |cx: Cx| async move {
                cx.changed(&Change::Tools);
                cx.changed(&Change::Resource("note://a".into()));
                Ok::<_, Stop>("changed")
            });
    reading(builder).build()
}

/// What there is beside tools.
fn reading(builder: Builder) -> Builder {
    let template = ResourceTemplate::new("note://{name}", "notes");
    builder
        .resource(Resource::new("note://a", "a"), async |_| {
            Ok(vec![ResourceContents::text("note://a", "hello")])
        })
        .template(template, async |_, variables: cardan_server::Variables, _| {
            match variables["name"].as_str() {
                "none" => Err(Stop::from(Fault::resource_not_found("note://none"))),
                name => Ok(vec![ResourceContents::text(format!("note://{name}"), name)]),
            }
        })
        .complete("note://{name}", "name", |typed, _| vec![format!("{typed}lpha"), "beta".to_owned()])
        .prompt(Prompt::new("greet").required("who", "whom"), async |arguments, _| {
            Ok(vec![PromptMessage::user(format!("hello {}", arguments["who"]))])
        })
}

async fn stage(cell: Cell) -> (cardan_gateway::relay::Relay, Stage) {
    let stage = Stage::default();
    let (relay, _) = relay_sharing(&server(cell.server, &stage), cell.isolation).await;
    (relay, stage)
}

/// The client sees who is behind: name, version, instructions and capabilities.
#[tokio::test]
async fn clients_see_the_server_behind() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let info = client.server();
        let implementation = info.implementation.unwrap();
        assert_eq!((implementation.name.as_str(), implementation.version.as_str()), ("behind", "7.1"));
        assert_eq!(info.instructions.as_deref(), Some("be kind"), "{cell:?}");
        assert!(info.capabilities.tools.unwrap().list_changed == Some(true), "{cell:?}");
        assert!(info.capabilities.completions.is_some() && info.capabilities.logging.is_some());
        client.ping().await.unwrap();
    }
}

/// Lists come whole, page by page with the server's own cursors; a foreign cursor is refused by it.
#[tokio::test]
async fn lists_cross_page_by_page() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let tools = soon("tools", client.all_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names.len(), 11, "{cell:?} {names:?}");
        assert!(tools.iter().any(|tool| tool.name == "length" && tool.output_schema.is_some()));
        assert_eq!(client.all_resources().await.unwrap()[0].uri, "note://a");
        assert_eq!(client.all_templates().await.unwrap()[0].uri_template, "note://{name}");
        assert_eq!(client.all_prompts().await.unwrap()[0].name, "greet");
        let odd = bytes::Bytes::from_static(br#"{"cursor":"!"}"#);
        let error = client.raw(Method::ToolsList, Some(odd), CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::Fault(fault) if fault.code == code::INVALID_PARAMS), "{cell:?}");
    }
}

/// Results, structured ones and failures of tools cross; so do reading, completing and prompts.
#[tokio::test]
async fn results_cross() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        assert_eq!(text(&client, "echo", json!({"text": "hi ☕"})).await, "hi ☕");
        let result = client.call_tool("length", &json!({"text": "four"})).unwrap().await.unwrap();
        assert_eq!(json!(result.structured_content.unwrap()), json!({"length": 4}), "{cell:?}");
        let failed = client.call_tool("fail", &json!({})).unwrap().await.unwrap();
        assert!(
            failed.is_error.unwrap_or_default()
                && failed.content[0].as_text().unwrap().contains("on purpose")
        );
        let read = client.read("note://b").await.unwrap();
        assert_eq!(json!(read.contents[0])["text"], "b");
        let params = json!({"name": "greet", "arguments": {"who": "ada"}});
        let params: GetPromptParams = serde_json::from_value(params).unwrap();
        let prompt = client.prompt(&params).await.unwrap();
        assert!(json!(prompt).to_string().contains("hello ada"));
        let params = json!({"ref": {"type": "ref/resource", "uri": "note://{name}"}, "argument": {"name": "name", "value": "a"}});
        let params: CompleteParams = serde_json::from_value(params).unwrap();
        assert_eq!(client.complete(&params).await.unwrap().completion.values, ["alpha", "beta"], "{cell:?}");
    }
}

/// Faults keep code, message and data; a missing resource has the code of the client's era.
#[tokio::test]
async fn faults_cross_with_code_and_data() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let error = client.call_tool("fault", &json!({})).unwrap().await.unwrap_err();
        let CallError::Fault(fault) = error else { panic!("{cell:?}: {error}") };
        assert_eq!((fault.code, &*fault.message), (1234, "so it is"));
        assert_eq!(fault.data.unwrap(), r#"{"n":1.5}"#, "{cell:?}");
        let missing = client.read("note://none").await.unwrap_err();
        let wanted = match cell.client {
            Era::Legacy => code::RESOURCE_NOT_FOUND,
            Era::Modern => code::INVALID_PARAMS,
        };
        assert!(missing.is_not_found(), "{cell:?} {missing}");
        assert!(matches!(missing, CallError::Fault(fault) if fault.code == wanted), "{cell:?}");
        let unknown = client.call_tool("no-such", &json!({})).unwrap().await.unwrap_err();
        assert!(unknown.to_string().contains("no-such"), "{cell:?} {unknown}");
        let method = Method::Other("custom/thing".into());
        let error = client.raw(method, None, CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::Fault(fault) if fault.code == code::METHOD_NOT_FOUND), "{cell:?}");
    }
}

/// All progress comes, in order, before the result.
#[tokio::test]
async fn progress_crosses_in_order() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut call = client.call_tool_with("steps", &json!({}), options).unwrap();
        let mut steps = Vec::new();
        while let Some(at) = soon("progress", call.progress()).await {
            assert_eq!((at.total, at.message), (Some(20.0), Some(format!("step {}", at.progress))));
            steps.push(at.progress);
        }
        assert_eq!(steps, (1..=20).map(f64::from).collect::<Vec<_>>(), "{cell:?}");
        assert!(call.await.is_ok());
    }
}

/// Log notes cross at the level that the client set, before the result of their call.
#[tokio::test]
async fn log_notes_cross_at_the_level_that_is_set() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let (connector, logs) = logging(plain());
        let client = connect(&relay, cell.client, connector).await;
        client.set_level(LogLevel::Info);
        assert_eq!(text(&client, "log", json!({})).await, "done");
        let told = std::mem::take(&mut *logs.lock().unwrap());
        assert_eq!(told, [json!({"level": "warning", "logger": "it", "data": {"n": 1}})], "{cell:?}");
        client.set_level(LogLevel::Debug);
        assert_eq!(text(&client, "log", json!({})).await, "done");
        assert_eq!(logs.lock().unwrap().len(), 2, "{cell:?}");
    }
}

/// A client that gives a call up stops it behind the relay, and other calls go on.
#[tokio::test]
async fn cancelling_reaches_the_server() {
    for cell in CELLS {
        let (relay, stage) = stage(cell).await;
        for connector in [plain(), answering("ada")] {
            let client = connect(&relay, cell.client, connector).await;
            let call = client.call_tool("hang", &json!({})).unwrap();
            soon("the call begins", stage.begun.notified()).await;
            call.cancel("enough");
            soon("the call is dropped", stage.dropped.notified()).await;
            assert!(matches!(call.await.unwrap_err(), CallError::Cancelled { .. }), "{cell:?}");
            assert_eq!(text(&client, "echo", json!({"text": "on"})).await, "on");
        }
    }
}

/// A client that leaves stops its calls.
#[tokio::test]
async fn leaving_cancels() {
    for cell in CELLS {
        let (relay, stage) = stage(cell).await;
        let client = connect(&relay, cell.client, answering("ada")).await;
        let call = client.call_tool("hang", &json!({})).unwrap();
        soon("the call begins", stage.begun.notified()).await;
        drop((call, client));
        soon("the call is dropped", stage.dropped.notified()).await;
    }
}

/// MRTR-1, S1-C1: forms, addresses, sampling and roots are asked in the way of the client's era, round by round.
#[tokio::test]
async fn asks_reach_the_client() {
    for cell in CELLS {
        let (relay, stage) = stage(cell).await;
        let client = connect(&relay, cell.client, answering("ada")).await;
        assert_eq!(text(&client, "form", json!({})).await, "Some(Text(\"ada\"))", "{cell:?}");
        assert_eq!(text(&client, "rounds", json!({})).await, "Accept ada file:///ada", "{cell:?}");
        assert_eq!(stage.runs.swap(0, Ordering::SeqCst), 4, "{cell:?}: the handler ran once per round");
        assert_eq!(relay.census().1, 0, "{cell:?}: nothing stays parked");
    }
}

/// ELI-14, ELI-15: a legacy client is asked to visit an address under an id, which its revision requires, whether the server gives one
/// or not.
#[tokio::test]
async fn visits_have_an_id_where_they_need_one() {
    for cell in CELLS.into_iter().filter(|cell| cell.client == Era::Legacy) {
        let (relay, _) = stage(cell).await;
        let ids = Arc::new(Mutex::new(HashSet::new()));
        let kept = Arc::clone(&ids);
        let visiting = Answerers::default().elicit(Urls::Offered, move |params| {
            let ElicitParams::Url(ask) = params else { panic!("{params:?}") };
            kept.lock().unwrap().insert(ask.elicitation_id.unwrap());
            std::future::ready(Ok(ElicitResult::declined()))
        });
        let client = connect(&relay, Era::Legacy, plain().answer(visiting)).await;
        for _ in 0..2 {
            // It asks for more, which this client cannot be asked.
            soon("rounds", client.call_tool("rounds", &json!({})).unwrap()).await.unwrap_err();
        }
        assert_eq!(ids.lock().unwrap().len(), 2, "{cell:?}");
    }
}

/// Who cannot be asked is not: the tool says so, as it does without a relay.
#[tokio::test]
async fn clients_that_cannot_be_asked_are_not() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let error = soon("form", client.call_tool("form", &json!({})).unwrap()).await;
        assert!(matches!(error, Err(CallError::Fault(_))), "{cell:?} {error:?}");
    }
}

/// Metadata and trace context reach the tool; what is the relay's own does not.
#[tokio::test]
async fn metadata_crosses() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let params = json!({"name": "meta", "arguments": {}, "_meta": {"traceparent": "00-ab-cd-01", "my.org/x": {"n": 1}}});
        let params = bytes::Bytes::from(params.to_string());
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let raw = client.raw(Method::ToolsCall, Some(params), options).await.unwrap();
        let result: Value = serde_json::from_slice(&raw).unwrap();
        let seen: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&seen["traceparent"], &seen["my.org/x"]),
            (&json!("00-ab-cd-01"), &json!({"n": 1})),
            "{cell:?}"
        );
        let modern = seen.get("io.modelcontextprotocol/protocolVersion").is_some();
        assert_eq!(modern, cell.server == Era::Modern, "{cell:?} {seen}");
        assert_eq!(result.get("resultType").is_some(), cell.client == Era::Modern, "{cell:?} {result}");
    }
}

/// SUB-3, SUB-4: what a client listens to is told, and nothing else; a listen that ended is not told any more.
#[tokio::test]
async fn changes_cross() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let interest = Interest { tools: true, uris: vec!["note://a".into()], ..Interest::default() };
        let mut listen = client.listen(interest.clone());
        assert_eq!(soon("ready", listen.ready()).await.unwrap(), interest, "{cell:?}");
        assert_eq!(text(&client, "change", json!({})).await, "changed");
        let told = [soon("one", listen.next()).await, soon("two", listen.next()).await].map(Option::unwrap);
        assert!(told.contains(&Change::Tools), "{cell:?} {told:?}");
        assert!(told.contains(&Change::Resource("note://a".into())), "{cell:?} {told:?}");
        drop(listen);
        assert_eq!(text(&client, "change", json!({})).await, "changed", "{cell:?}");
    }
}

/// S0-72, META-7: what a server tells beside the address of a resource that changed reaches who listens, byte for byte.
#[tokio::test]
async fn s0_72_all_that_is_told_of_a_resource_crosses() {
    for cell in CELLS {
        let (server, change) = relaying::telling(cell.server);
        let (relay, _) = relay_sharing(&server, cell.isolation).await;
        let client = connect(&relay, cell.client, plain()).await;
        let mut listen = client.listen(Interest { uris: vec!["note://a".into()], ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        assert_eq!(text(&client, "update", json!({})).await, "told");
        assert_eq!(soon("an update", listen.next()).await.unwrap(), change, "{cell:?}");
    }
}

/// MRTR-6: what a call needs of its client is told in the client's terms: a legacy upstream has no code for it, but says
/// what it is.
#[tokio::test]
async fn a_capability_that_is_missing_is_named() {
    for cell in CELLS {
        let (relay, _) = stage(cell).await;
        let client = connect(&relay, cell.client, plain()).await;
        let failed = soon("form", client.call_tool("form", &json!({})).unwrap()).await;
        let Err(CallError::Fault(fault)) = failed else { panic!("{cell:?}: {failed:?}") };
        let wanted = match cell.client {
            Era::Legacy => code::INVALID_REQUEST,
            Era::Modern => code::MISSING_CAPABILITY,
        };
        assert_eq!(fault.code, wanted, "{cell:?}: {fault}");
        let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
        assert!(data["requiredCapabilities"]["elicitation"].is_object(), "{cell:?}: {data}");
    }
}

/// ELI-1, MRTR-6: what a client declares that its revision does not have is not declared: no server asks it and fails for that.
#[tokio::test]
async fn clients_are_asked_what_their_revision_has() {
    let old = [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18];
    for cell in CELLS.into_iter().filter(|cell| cell.client == Era::Legacy) {
        let (relay, stage) = stage(cell).await;
        for revision in old {
            let client = answering("ada").revisions(Revisions::only(revision));
            let client = connect(&relay, Era::Legacy, client).await;
            assert_eq!(client.settled().revision, revision);
            let form = soon("form", client.call_tool("form", &json!({})).unwrap()).await;
            match revision {
                Revision::V2025_06_18 => assert!(form.is_ok(), "{cell:?} {revision}: {form:?}"),
                _ => lacks(form.unwrap_err(), "form", &format!("{cell:?} {revision}")),
            }
            let rounds = soon("rounds", client.call_tool("rounds", &json!({})).unwrap()).await;
            lacks(rounds.unwrap_err(), "url", &format!("{cell:?} {revision}"));
        }
        assert_eq!(stage.runs.load(Ordering::SeqCst), old.len(), "{cell:?}: nobody is asked in vain");
    }
}

/// The tool knew that it cannot ask in this mode.
fn lacks(failed: CallError, mode: &str, of: &str) {
    let CallError::Fault(fault) = failed else { panic!("{of}: {failed}") };
    let data: Value =
        serde_json::from_slice(fault.data.as_ref().unwrap_or_else(|| panic!("{of}: {fault}"))).unwrap();
    assert!(data["requiredCapabilities"]["elicitation"][mode].is_object(), "{of}: {data}");
}
