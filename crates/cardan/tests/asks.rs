//! Asks: forms, addresses, sampling and roots, in both eras.

mod common;

use std::sync::{Arc, Mutex, RwLock};

use cardan::client::{CallError, Connector};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision, gates};
use cardan::proto::jsonrpc::fault::{Fault, code};
use cardan::proto::limits::Limits;
use cardan::proto::model::Tool;
use cardan::proto::model::content::Role;
use cardan::proto::model::elicit::{ElicitAction, ElicitParams, ElicitResult, UrlAsk};
use cardan::proto::model::form::{Field, FieldType};
use cardan::proto::model::roots::Root;
use cardan::proto::model::sampling::{Blocks, CreateMessageParams, CreateMessageResult, SamplingMessage};
use cardan::proto::session::event::Event;
use common::{BOTH, Raw, Way, answering, join, plain};
use serde_json::{Value, json};

/// Every revision that can ask a person.
const ASKING: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

fn server() -> Server {
    Server::builder("asking", "1")
        .tool("form", "asks", |cx: Cx| async move {
            let form = Form::new("who?").string("name").optional("age", Field::integer());
            let answer = cx.elicit("who", &form)?;
            Ok::<_, Stop>(format!("{:?} {:?}", answer.action, answer.content))
        })
        .tool("visit", "sends away twice", |cx: Cx| async move {
            let first = cx.visit("first", &UrlAsk::new("go", "https://example.com/a"))?;
            if first.action != ElicitAction::Accept {
                return Ok::<_, Stop>(format!("{:?}", first.action));
            }
            let second = cx.visit("second", &UrlAsk::new("go on", "https://example.com/b"))?;
            Ok(format!("{:?} {:?}", first.action, second.action))
        })
        .tool("sample", "asks the model", |cx: Cx| async move {
            let params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
            let answer = cx.sample("model", &params)?;
            Ok::<_, Stop>(format!("{} {:?} {}", answer.model, answer.stop_reason, answer.content.blocks().len()))
        })
        .tool("sample-tools", "lets the model use tools", |cx: Cx| async move {
            let mut params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
            params.tools = Some(vec![Tool::new("t", cardan::proto::model::Schema::no_arguments())]);
            Ok::<_, Stop>(cx.sample("model", &params)?.model)
        })
        .tool("roots", "asks for roots", |cx: Cx| async move {
            let roots = cx.roots("roots")?;
            Ok::<_, Stop>(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(" "))
        })
        .tool("bad-form", "asks nonsense", |cx: Cx| async move {
            let nested = Field { r#type: FieldType::Other("object".into()), ..Field::string() };
            Ok::<_, Stop>(format!("{:?}", cx.elicit("x", &Form::new("x").required("c", nested))?))
        })
        .tool("bad-url", "asks nonsense", |cx: Cx| async move {
            Ok::<_, Stop>(format!("{:?}", cx.visit("x", &UrlAsk::new("x", "no address"))?))
        })
        .tool("bad-sample", "asks nonsense", |cx: Cx| async move {
            let message = json!({ "role": "assistant", "content": { "type": "tool_use", "id": "1", "name": "t", "input": {} } });
            let params = CreateMessageParams::new(vec![serde_json::from_value(message)?], 10);
            Ok::<_, Stop>(cx.sample("x", &params)?.model)
        })
        .build()
}

/// A client that gives this answer to every form and address.
fn giving(urls: Urls, answer: ElicitResult) -> Connector {
    answering(Answerers::default().elicit(urls, move |_| {
        let answer = answer.clone();
        async move { Ok(answer) }
    }))
}

fn filled() -> ElicitResult {
    ElicitResult::filled([("name".to_owned(), "ada".into())].into())
}

async fn text(client: &Client, tool: &str) -> Result<String, CallError> {
    let result = client.call_tool(tool, &json!({}))?.await?;
    Ok(result.content[0].as_text().unwrap_or_default().to_owned())
}

/// What the server asked, whichever way the era carries it.
fn asked(wire: &common::Wire, revision: Revision, method: &str) -> Vec<Value> {
    if revision.era() == Era::Legacy {
        return wire.of(Way::In, method).into_iter().map(|call| call["params"].clone()).collect();
    }
    let rounds = wire.results("tools/call").into_iter();
    let entries = rounds.filter_map(|reply| reply["result"]["inputRequests"].as_object().cloned()).flatten();
    entries.filter(|(_, ask)| ask["method"] == method).map(|(_, ask)| ask["params"].clone()).collect()
}

/// ELI-1, ELI-4, ELI-5, ELI-6, ELI-11, ELI-23: forms are answered, declined and cancelled; a form goes
/// without mode where there are no modes, and with message and schema always.
#[tokio::test]
async fn forms_are_answered() {
    let rows = [
        (filled(), "Accept Some({\"name\": Text(\"ada\")})"),
        (ElicitResult::declined(), "Decline None"),
        (ElicitResult::cancelled(), "Cancel None"),
    ];
    for revision in ASKING {
        for (answer, expected) in &rows {
            let (client, wire) = join(&server(), giving(Urls::NotOffered, answer.clone()), revision).await;
            assert_eq!(text(&client, "form").await.unwrap(), *expected, "{revision}");
            let asked = asked(&wire, revision, "elicitation/create");
            assert_eq!(asked.len(), 1);
            assert!(asked[0]["message"] == "who?" && asked[0]["requestedSchema"]["type"] == "object");
            assert!(
                asked[0].get("mode").is_none_or(|mode| mode == "form" && revision > Revision::V2025_06_18)
            );
        }
    }
}

/// ELI-12: both sides check: an answer that does not fit the form does not leave, and one that came
/// anyway is refused.
#[tokio::test]
async fn answers_are_checked_on_both_sides() {
    let odd = ElicitResult::filled([("age".to_owned(), "old".into())].into());
    for revision in ASKING {
        let (client, wire) = join(&server(), giving(Urls::NotOffered, odd.clone()), revision).await;
        let outcome = text(&client, "form").await;
        assert!(!format!("{:?}", wire.went(Way::Out)).contains("old"), "{revision}: it left");
        match revision.era() {
            Era::Legacy => assert!(outcome.unwrap().contains("does not fit the form")),
            // MRTR-21: there is no error for one input; the call is given up.
            Era::Modern => assert!(matches!(outcome, Err(CallError::Cancelled { .. }))),
        }
    }
    let mut raw = Raw::legacy(&server(), Revision::LATEST_LEGACY, json!({ "elicitation": {} })).await;
    raw.start("tools/call", json!({ "name": "form" })).await;
    let ask = raw.recv().await;
    raw.reply(&ask, json!({ "action": "accept", "content": { "name": 7 } })).await;
    let reply = raw.recv().await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("/name"), "{reply}");
}

/// ELI-2, ELI-3, MRTR-6: no mode that was not declared; addresses need the capability.
#[tokio::test]
async fn undeclared_modes_are_never_asked() {
    for revision in BOTH {
        let (client, wire) = join(&server(), giving(Urls::NotOffered, filled()), revision).await;
        let error = text(&client, "visit").await.unwrap_err();
        let CallError::Fault(fault) = error else { panic!("{error}") };
        let modern = revision.era() == Era::Modern;
        assert_eq!(fault.code, if modern { code::MISSING_CAPABILITY } else { code::INVALID_REQUEST });
        let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
        assert_eq!(data["requiredCapabilities"], json!({ "elicitation": { "url": {} } }));
        assert_eq!(asked(&wire, revision, "elicitation/create"), [] as [Value; 0]);
        for tool in ["form", "sample", "roots"] {
            let (client, wire) = join(&server(), plain(), revision).await;
            assert!(matches!(text(&client, tool).await, Err(CallError::Fault(_))), "{revision} {tool}");
            assert_eq!(wire.results("tools/call").len(), 1, "nothing was asked");
        }
    }
}

/// ELI-5, ELI-14, ELI-25: addresses have a mode, an address and in 2025-11-25 a name; consent is not
/// completion, so the server may ask again.
#[tokio::test]
async fn addresses_are_visited() {
    for revision in BOTH {
        let (client, wire) = join(&server(), giving(Urls::Offered, ElicitResult::accepted()), revision).await;
        assert_eq!(text(&client, "visit").await.unwrap(), "Accept Accept", "{revision}");
        let asked = asked(&wire, revision, "elicitation/create");
        assert_eq!(asked.len(), 2);
        for ask in &asked {
            assert!(ask["mode"] == "url" && ask["url"].as_str().unwrap().starts_with("https://"));
            assert_eq!(ask["elicitationId"].is_string(), revision.era() == Era::Legacy, "{revision}: {ask}");
        }
        let (client, _) = join(&server(), giving(Urls::Offered, ElicitResult::declined()), revision).await;
        assert_eq!(text(&client, "visit").await.unwrap(), "Decline");
    }
}

/// ELI-14: the fault that names addresses exists in 2025-11-25; the modern era writes another code.
#[tokio::test]
async fn the_url_fault_belongs_to_one_revision() {
    let server = Server::builder("s", "1")
        .tool("t", "t", async || -> Result<String, Stop> {
            let entry =
                json!({ "mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "1" });
            let fault = Fault::new(code::URL_ELICITATION_REQUIRED, "visit first");
            Err(Stop::Fault(fault.with_data(&json!({ "elicitations": [entry] }))))
        })
        .build();
    for (revision, expected) in [(Revision::LATEST_LEGACY, -32042), (Revision::LATEST_MODERN, -32603)] {
        let (client, _) = join(&server, plain(), revision).await;
        let error = text(&client, "t").await.unwrap_err();
        assert!(matches!(&error, CallError::Fault(fault) if fault.code == expected), "{revision}: {error}");
    }
}

/// ELI-13, SAM-2, ROOT-4, S0-19: a legacy client refuses what it did not declare, -32602 for a mode and
/// -32601 for a method, answers pings, and never leaves a call of the server without an answer.
#[tokio::test]
async fn legacy_clients_answer_every_call() {
    let forms = giving(Urls::NotOffered, filled());
    let (mut raw, _client) = Raw::ready(forms, Revision::LATEST_LEGACY, json!({})).await;
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let rows = [
        (
            "elicitation/create",
            json!({ "mode": "url", "message": "m", "url": "https://x.com", "elicitationId": "1" }),
            -32602,
        ),
        ("elicitation/create", json!({ "message": "m" }), -32602),
        ("sampling/createMessage", json!({ "messages": [], "maxTokens": 1 }), -32601),
        ("roots/list", json!({}), -32601),
        ("tools/call", json!({}), -32601),
        ("odd/method", json!({}), -32601),
    ];
    for (method, params, code) in rows {
        let reply = raw.call(method, params).await;
        assert_eq!(reply["error"]["code"], code, "{method}: {reply}");
    }
    assert_eq!(raw.call("ping", json!({})).await["result"], json!({}));
    let reply = raw.call("elicitation/create", json!({ "message": "m", "requestedSchema": schema })).await;
    assert_eq!(reply["result"], json!({ "action": "accept", "content": { "name": "ada" } }));
}

/// S0-19: a call of a modern server is a violation: recorded, and not answered.
#[tokio::test]
async fn modern_server_calls_are_recorded() {
    let found = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&found);
    let connector = giving(Urls::NotOffered, filled()).observe(move |event| {
        if let Event::Found(finding) = event {
            keep.lock().unwrap().push(finding.rule.id());
        }
    });
    let (mut raw, client) = Raw::ready(connector, Revision::LATEST_MODERN, json!({ "tools": {} })).await;
    raw.start("roots/list", json!({})).await;
    let call = client.call_tool("x", &json!({})).unwrap();
    let next = raw.recv().await;
    assert_eq!(next["method"], "tools/call", "no reply went before it");
    raw.reply(&next, json!({ "content": [] })).await;
    call.await.unwrap();
    assert_eq!(*found.lock().unwrap(), ["server-call"]);
}

/// ELI-6, SAM-4, SAM-5: malformed asks do not leave the server.
#[tokio::test]
async fn malformed_asks_do_not_leave() {
    for revision in BOTH {
        let all = Answerers::default()
            .elicit(Urls::Offered, |_| async { Ok(filled()) })
            .sample(|_| async { Ok(said()) });
        let (client, wire) = join(&server(), answering(all), revision).await;
        for tool in ["bad-form", "bad-url", "bad-sample"] {
            let error = text(&client, tool).await.unwrap_err();
            assert!(matches!(&error, CallError::Fault(fault) if fault.code == -32603), "{tool}: {error}");
        }
        assert_eq!(wire.results("tools/call").len(), 3);
        assert!(asked(&wire, revision, "sampling/createMessage").is_empty());
    }
}

fn said() -> CreateMessageResult {
    let content = Blocks::Many(vec![Content::text("a"), Content::text("b")]);
    CreateMessageResult {
        role: Role::Assistant,
        content,
        model: "m".into(),
        stop_reason: Some("odd".into()),
        meta: None,
    }
}

/// SAM-1, SAM-9, S2-31: sampling in every revision; content may be a list, stop reasons are any word.
#[tokio::test]
async fn models_are_asked() {
    for revision in Revision::ALL {
        let connector = answering(Answerers::default().sample(|params| async move {
            assert_eq!(
                (params.max_tokens, params.messages[0].role.clone()),
                (10, Role::User),
                "SAM-8, SAM-17"
            );
            Ok(said())
        }));
        let (client, wire) = join(&server(), connector, revision).await;
        assert_eq!(text(&client, "sample").await.unwrap(), "m Some(\"odd\") 2", "{revision}");
        assert_eq!(asked(&wire, revision, "sampling/createMessage")[0]["messages"][0]["role"], "user");
        let tools = text(&client, "sample-tools").await;
        assert_eq!(tools.is_ok(), gates(revision).sampling_tools, "{revision}: SAM-2: {tools:?}");
    }
}

/// SAM-7: a person's refusal is -1 and reaches the handler; the modern era gives the call up.
#[tokio::test]
async fn refusals_are_told() {
    for revision in BOTH {
        let connector = answering(
            Answerers::default()
                .sample(|_| async { Err(Fault::new(code::USER_REJECTED, "the user said no")) }),
        );
        let (client, wire) = join(&server(), connector, revision).await;
        let outcome = text(&client, "sample").await;
        if revision.era() == Era::Legacy {
            assert!(outcome.unwrap().contains("the user said no"));
            let refusal =
                wire.went(Way::Out).into_iter().find(|message| message.get("error").is_some()).unwrap();
            assert_eq!(refusal["error"]["code"], -1);
        } else {
            assert!(matches!(outcome, Err(CallError::Cancelled { .. })), "MRTR-21: not retried");
            assert_eq!(wire.of(Way::Out, "tools/call").len(), 1);
        }
    }
}

/// SAM-6, SAM-15: messages that break the rules of tool use are -32602; `_meta` of blocks is kept.
#[tokio::test]
async fn legacy_clients_check_messages() {
    let seen = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&seen);
    let connector = answering(Answerers::default().sample(move |params| {
        *keep.lock().unwrap() = Some(serde_json::to_value(&params.messages).unwrap());
        async { Ok(said()) }
    }));
    let (mut raw, _client) = Raw::ready(connector, Revision::LATEST_LEGACY, json!({})).await;
    let used = json!({ "role": "assistant", "content": { "type": "tool_use", "id": "1", "name": "t", "input": {}, "_meta": { "k": 1 } } });
    let result = json!({ "type": "tool_result", "toolUseId": "1", "content": [] });
    let mixed = json!({ "role": "user", "content": [result, { "type": "text", "text": "x" }] });
    for messages in [json!([used]), json!([used, mixed])] {
        let reply = raw.call("sampling/createMessage", json!({ "messages": messages, "maxTokens": 1 })).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
    let good = json!([used, { "role": "user", "content": [result] }]);
    let reply = raw.call("sampling/createMessage", json!({ "messages": good, "maxTokens": 1 })).await;
    assert_eq!(reply["result"]["model"], "m", "{reply}");
    assert_eq!(seen.lock().unwrap().as_ref().unwrap()[0], used);
}

/// A conversation in which the model used a tool so many times.
fn turns(count: usize) -> Vec<SamplingMessage> {
    let message =
        |role: &str, block: Value| serde_json::from_value(json!({ "role": role, "content": [block] }));
    let both = (0..count).flat_map(|n| {
        let id = n.to_string();
        let used = json!({ "type": "tool_use", "id": id, "name": "t", "input": {} });
        let result = json!({ "type": "tool_result", "toolUseId": id, "content": [] });
        [message("assistant", used), message("user", result)]
    });
    both.map(Result::unwrap).collect()
}

/// SAM-11, `limits.tool_turns`: tool loops are bounded on both sides: a client does not ask its model once more,
/// and a server does not go on asking.
#[tokio::test]
async fn tool_loops_are_bounded() {
    let bounded = Limits { tool_turns: 2, ..Limits::DEFAULT };
    for revision in BOTH {
        for (ours, theirs, asks) in
            [(&bounded, &Limits::DEFAULT, [1, 1, 1]), (&Limits::DEFAULT, &bounded, [1, 1, 0])]
        {
            for (count, goes) in [(0, asks[0]), (2, asks[1]), (3, asks[2])] {
                let server = Server::builder("loop", "1")
                    .limits(theirs.clone())
                    .tool("go", "uses tools", move |cx: Cx| async move {
                        let mut params = CreateMessageParams::new(turns(count), 10);
                        params.tools =
                            Some(vec![Tool::new("t", cardan::proto::model::Schema::no_arguments())]);
                        Ok::<_, Stop>(cx.sample("model", &params)?.model)
                    })
                    .build();
                let sampled = Arc::new(Mutex::new(0));
                let keep = Arc::clone(&sampled);
                let connector = answering(Answerers::default().sample(move |_| {
                    *keep.lock().unwrap() += 1;
                    async { Ok(said()) }
                }));
                let (client, wire) = join(&server, connector.limits(ours.clone()), revision).await;
                let outcome = text(&client, "go").await;
                assert_eq!(
                    asked(&wire, revision, "sampling/createMessage").len(),
                    goes,
                    "{revision} {count}"
                );
                assert_eq!(*sampled.lock().unwrap(), usize::from(count <= 2), "{revision} {count}");
                let told = format!("{outcome:?}");
                assert_eq!(told.contains("turns of tool use"), count > 2, "{revision} {count}: {told}");
            }
        }
    }
}

/// ROOT-1, ROOT-2, ROOT-3: roots are told, changes announced to legacy servers, and files only.
#[tokio::test]
async fn roots_are_told() {
    for revision in Revision::ALL {
        let roots = Arc::new(RwLock::new(vec![Root::new("file:///a")]));
        let server = server();
        let (client, wire) =
            join(&server, answering(Answerers::default().roots(Arc::clone(&roots))), revision).await;
        assert_eq!(text(&client, "roots").await.unwrap(), "file:///a", "{revision}");
        roots.write().unwrap().push(Root::new("file:///b"));
        client.roots_changed();
        assert_eq!(text(&client, "roots").await.unwrap(), "file:///a file:///b");
        let notes = wire.of(Way::Out, "notifications/roots/list_changed").len();
        assert_eq!(notes, usize::from(revision.era() == Era::Legacy), "{revision}");
        roots.write().unwrap().push(Root::new("https://example.com/"));
        let outcome = text(&client, "roots").await;
        assert!(!outcome.is_ok_and(|text| text.contains("https")), "{revision}: not a file");
        assert!(!format!("{:?}", wire.went(Way::Out)).contains("example.com"));
    }
}

/// ELI-2, S2-27: what a client declares is what it answers.
#[tokio::test]
async fn clients_declare_what_they_answer() {
    let elicit = |urls| giving(urls, filled());
    let rows = [
        (plain(), json!({})),
        (elicit(Urls::NotOffered), json!({ "elicitation": { "form": {} } })),
        (elicit(Urls::Offered), json!({ "elicitation": { "form": {}, "url": {} } })),
        (
            answering(Answerers::default().sample(|_| async { Ok(said()) })),
            json!({ "sampling": { "tools": {} } }),
        ),
        (answering(Answerers::default().roots(Arc::default())), json!({ "roots": { "listChanged": true } })),
    ];
    for (connector, expected) in rows {
        let (_client, wire) = join(&server(), connector.clone(), Revision::LATEST_LEGACY).await;
        assert_eq!(wire.went(Way::Out)[0]["params"]["capabilities"], expected);
        let (client, wire) = join(&server(), connector, Revision::LATEST_MODERN).await;
        client.all_tools().await.unwrap();
        for call in wire.went(Way::Out) {
            assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"], expected);
        }
    }
}

/// ELI-4: a question without mode is a form.
#[test]
fn no_mode_is_a_form() {
    let ask = json!({ "message": "m", "requestedSchema": { "type": "object", "properties": {} } });
    assert!(matches!(serde_json::from_value(ask), Ok(ElicitParams::Form(_))));
}
