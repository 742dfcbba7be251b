//! Every feature across the front, for clients of both eras, with servers of both eras behind it and sick ones among
//! them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use cardan_client::CallError;
use cardan_gateway::front::Front;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::method::Method;
use cardan_proto::model::GetPromptParams;
use cardan_proto::model::complete::CompleteParams;
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel, Wanted};
use fronting::{at, four, front, spec};
use relaying::{answering, logging, plain, soon, text};
use serde_json::json;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Clients of both eras, before fronts whose first server is of one era and whose second is of the other.
fn cells() -> impl Iterator<Item = (Era, Front)> {
    let eras = ERAS.into_iter().flat_map(|client| ERAS.map(|one| (client, one)));
    eras.map(|(client, one)| {
        let two = if one == Era::Legacy { Era::Modern } else { Era::Legacy };
        (client, four(one, two).0)
    })
}

/// TOOL-21, INT-8, S0-78: the lists of all servers come as one, each name with its server's, and sick servers hide
/// nothing. The client is told who each server is.
#[tokio::test(start_paused = true)]
async fn lists_are_those_of_all_servers() {
    for (era, front) in cells() {
        let client = at(&front, era, plain()).await;
        let tools = soon("tools", client.all_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names.len(), 20, "{era:?} {names:?}");
        assert_eq!((names[0], names[10]), ("one__echo", "two__echo"), "{era:?}: in their order");
        assert!(tools.iter().any(|tool| tool.name == "two__length" && tool.output_schema.is_some()));
        let resources = client.all_resources().await.unwrap();
        assert_eq!(resources.iter().map(|one| one.uri.as_str()).collect::<Vec<_>>(), ["one://a", "two://a"]);
        assert_eq!(client.all_templates().await.unwrap().len(), 2);
        let prompts = client.all_prompts().await.unwrap();
        assert_eq!(
            prompts.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["one__greet", "two__greet"]
        );
        // Who connects when the servers are known is told of them.
        let client = at(&front, era, plain()).await;
        let info = client.server();
        let instructions = info.instructions.unwrap();
        assert_eq!(instructions, "# one\n\nbe kind to one\n\n# two\n\nbe kind to two", "{era:?}");
        assert_eq!(info.capabilities.tools.unwrap().list_changed, Some(true));
        assert_eq!(info.implementation.unwrap().name, "cardan");
        front.end("done").await;
    }
}

/// Tools, prompts, resources and completions lead to the server that has them; results cross as they are.
#[tokio::test(start_paused = true)]
async fn calls_reach_their_server() {
    for (era, front) in cells() {
        let client = at(&front, era, plain()).await;
        for name in ["one", "two"] {
            assert_eq!(text(&client, &format!("{name}__who"), json!({})).await, name, "{era:?}");
            let length = client.call_tool(&format!("{name}__length"), &json!({"text": "four"})).unwrap();
            assert_eq!(json!(length.await.unwrap().structured_content.unwrap()), json!({"length": 4}));
            let read = client.read(&format!("{name}://a")).await.unwrap();
            assert_eq!(json!(read.contents[0])["text"], format!("hello from {name}"));
            let read = client.read(&format!("{name}://t/b")).await.unwrap();
            assert_eq!(json!(read.contents[0])["text"], format!("{name} b"));
            let params = json!({"name": format!("{name}__greet"), "arguments": {"whom": "ada"}});
            let params: GetPromptParams = serde_json::from_value(params).unwrap();
            let prompt = json!(client.prompt(&params).await.unwrap()).to_string();
            assert!(prompt.contains(&format!("{name} greets ada")), "{era:?} {prompt}");
            let references = [
                (
                    json!({"type": "ref/prompt", "name": format!("{name}__greet")}),
                    "whom",
                    format!("a+{name}"),
                ),
                (
                    json!({"type": "ref/resource", "uri": format!("{name}://t/{{key}}")}),
                    "key",
                    format!("a-{name}"),
                ),
            ];
            for (reference, argument, completed) in references {
                let params = json!({"ref": reference, "argument": {"name": argument, "value": "a"}});
                let params: CompleteParams = serde_json::from_value(params).unwrap();
                assert_eq!(client.complete(&params).await.unwrap().completion.values, [completed], "{era:?}");
            }
        }
        let large = "x".repeat(1 << 20);
        assert_eq!(text(&client, "two__echo", json!({"text": large})).await, large, "{era:?}");
        front.end("done").await;
    }
}

/// Faults keep code and data; what nobody has is refused in the words of the client's era; a server that is away fails
/// its own calls, and says which, how it stands and why.
#[tokio::test(start_paused = true)]
async fn faults_are_those_of_their_server() {
    for (era, front) in cells() {
        let client = at(&front, era, plain()).await;
        let error = client.call_tool("one__fault", &json!({})).unwrap().await.unwrap_err();
        let CallError::Fault(fault) = error else { panic!("{era:?}: {error}") };
        assert_eq!(
            (fault.code, &*fault.message, &*fault.data.unwrap()),
            (1234, "so it is", &br#"{"n":1.5}"#[..])
        );
        for missing in ["one://t/none", "nobody://x"] {
            let missing = client.read(missing).await.unwrap_err();
            let wanted = if era == Era::Legacy { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS };
            assert!(missing.is_not_found(), "{era:?} {missing}");
            assert!(matches!(missing, CallError::Fault(fault) if fault.code == wanted), "{era:?}");
        }
        let unknown = client.call_tool("one__no-such", &json!({})).unwrap().await.unwrap_err();
        assert!(unknown.to_string().contains("one__no-such"), "{era:?} {unknown}");
        let error = client.raw(Method::Other("custom/thing".into()), None, CallOptions::default()).await;
        assert!(
            matches!(error.unwrap_err(), CallError::Fault(fault) if fault.code == code::METHOD_NOT_FOUND),
            "{era:?}"
        );
        let away = soon("the dead", client.call_tool("dead__any", &json!({})).unwrap()).await.unwrap_err();
        let CallError::Fault(fault) = away else { panic!("{era:?}: {away}") };
        assert!(fault.message.contains("server `dead` cannot be reached"), "{}", fault.message);
        assert!(fault.message.contains("nobody there"), "{}", fault.message);
        // It may have been given up in the meantime.
        let advice = ["cardan servers", "a later call starts it again"];
        assert!(advice.iter().any(|advice| fault.message.contains(advice)), "{}", fault.message);
        let data: serde_json::Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
        assert_eq!((&data["server"], &data["mayHaveExecuted"]), (&json!("dead"), &json!(false)));
        front.end("done").await;
    }
}

/// All progress comes, in order, before the result; so do log notes, at the level that was set, from every server.
#[tokio::test(start_paused = true)]
async fn progress_and_log_notes_come_in_order() {
    for (era, front) in cells() {
        let (connector, logs) = logging(plain());
        let client = at(&front, era, connector).await;
        for name in ["one", "two"] {
            let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
            let mut call = client.call_tool_with(&format!("{name}__steps"), &json!({}), options).unwrap();
            let mut steps = Vec::new();
            while let Some(at) = soon("progress", call.progress()).await {
                assert_eq!((at.total, at.message), (Some(20.0), Some(format!("{name} {}", at.progress))));
                steps.push(at.progress);
            }
            assert_eq!(steps, (1..=20).map(f64::from).collect::<Vec<_>>(), "{era:?}");
            assert!(call.await.is_ok());
            client.set_level(LogLevel::Info);
            assert_eq!(text(&client, &format!("{name}__log"), json!({})).await, "done");
            let told = std::mem::take(&mut *logs.lock().unwrap());
            assert_eq!(told, [json!({"level": "warning", "logger": name, "data": {"n": 1}})], "{era:?}");
        }
        front.end("done").await;
    }
}

/// What is given up stops at its server; others are not touched.
#[tokio::test(start_paused = true)]
async fn cancelling_reaches_the_right_server() {
    for era in ERAS {
        let (front, one, two) = four(Era::Legacy, Era::Modern);
        for (name, stage) in [("one", &one), ("two", &two)] {
            let client = at(&front, era, answering("ada")).await;
            let call = client.call_tool(&format!("{name}__hang"), &json!({})).unwrap();
            soon("the call begins", stage.begun.notified()).await;
            call.cancel("enough");
            soon("the call is dropped", stage.dropped.notified()).await;
            assert!(matches!(call.await.unwrap_err(), CallError::Cancelled { .. }), "{era:?}");
            assert_eq!(text(&client, "one__echo", json!({"text": "on"})).await, "on");
        }
        front.end("done").await;
    }
}

/// MRTR-1: each server asks the client that called it, in the way of the client's era.
#[tokio::test(start_paused = true)]
async fn asks_reach_the_client() {
    for (era, front) in cells() {
        let client = at(&front, era, answering("ada")).await;
        for name in ["one", "two"] {
            let said = text(&client, &format!("{name}__ask"), json!({})).await;
            assert_eq!(said, format!("{name} \"ada\" ada file:///ada"), "{era:?}");
        }
        front.end("done").await;
    }
}

/// SUB-3: a resource is listened to at the server that has it, lists at all of them at once. What changed is told, once.
#[tokio::test(start_paused = true)]
async fn changes_are_told() {
    for (era, front) in cells() {
        let client = at(&front, era, plain()).await;
        soon("tools", client.all_tools()).await.unwrap();
        let uris = vec!["one://a".into(), "two://a".into()];
        let interest = Interest { tools: true, prompts: true, uris, ..Interest::default() };
        let mut listen = client.listen(interest.clone());
        let mut stands = soon("ready", listen.ready()).await.unwrap();
        stands.uris.sort();
        assert_eq!(stands, interest, "{era:?}");
        for name in ["one", "two"] {
            text(&client, &format!("{name}__update"), json!({})).await;
            let told = soon("an update", listen.next()).await.unwrap();
            assert_eq!(told, Change::Resource(format!("{name}://a").into()), "{era:?}");
            text(&client, &format!("{name}__grow"), json!({})).await;
            assert_eq!(soon("a change", listen.next()).await.unwrap(), Change::Tools, "{era:?}");
            assert_eq!(text(&client, &format!("{name}__more"), json!({})).await, name, "{era:?}");
        }
        drop(listen);
        front.end("done").await;
    }
}

/// S0-72, META-7: what a server tells beside the address of a resource that changed reaches who listens, byte for byte.
#[tokio::test(start_paused = true)]
async fn s0_72_all_that_is_told_of_a_resource_crosses() {
    for (era, one) in ERAS.into_iter().flat_map(|client| ERAS.map(|one| (client, one))) {
        let (server, change) = relaying::telling(one);
        let front = front(vec![spec("one", &server).0]);
        let client = at(&front, era, plain()).await;
        soon("known", front.settled()).await;
        let mut listen = client.listen(Interest { uris: vec!["note://a".into()], ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        assert_eq!(text(&client, "one__update", json!({})).await, "told");
        assert_eq!(soon("an update", listen.next()).await.unwrap(), change, "{era:?} before {one:?}");
        front.end("done").await;
    }
}

/// Each server alone: its own names, its own greeting, its own methods.
#[tokio::test(start_paused = true)]
async fn each_server_is_served_alone() {
    for (era, front) in cells() {
        soon("known", front.settled()).await;
        assert!(front.alone("nobody").is_none());
        let alone = front.alone("two").unwrap();
        let client = at(&alone, era, answering("ada")).await;
        let info = client.server();
        assert_eq!(info.implementation.unwrap().name, "two", "{era:?}");
        assert_eq!(info.instructions.as_deref(), Some("be kind to two"));
        let tools = client.all_tools().await.unwrap();
        assert_eq!((tools.len(), tools[0].name.as_str()), (10, "echo"), "{era:?}");
        assert_eq!(text(&client, "who", json!({})).await, "two");
        assert_eq!(text(&client, "ask", json!({})).await, "two \"ada\" ada file:///ada");
        assert!(client.call_tool("two__who", &json!({})).unwrap().await.is_err());
        assert!(client.read("one://a").await.unwrap_err().is_not_found(), "{era:?}");
        front.end("done").await;
    }
}

/// T13: a list that was made of what several servers told under our credentials is nobody else's to keep: it is private,
/// whatever a server said of its own.
#[tokio::test(start_paused = true)]
async fn t13_lists_are_private() {
    for (_, front) in cells() {
        let client = at(&front, Era::Modern, plain()).await;
        for list in
            [Method::ToolsList, Method::PromptsList, Method::ResourcesList, Method::ResourcesTemplatesList]
        {
            let raw = client.raw(list.clone(), None, CallOptions::default()).await.unwrap();
            let page: serde_json::Value = serde_json::from_slice(&raw).unwrap();
            assert_eq!((&page["cacheScope"], &page["ttlMs"]), (&json!("private"), &json!(0)), "{list}");
        }
        front.end("done").await;
    }
}
