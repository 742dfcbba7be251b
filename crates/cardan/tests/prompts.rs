//! Prompts and completion, from both sides and in every revision.

mod common;

use std::collections::BTreeMap;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision, gates};
use cardan::proto::model::GetPromptParams;
use cardan::proto::model::complete::{CompleteArgument, CompleteContext, CompleteParams, Reference};
use cardan::proto::model::content::MediaContent;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::session::event::{Change, Interest};
use common::{BOTH, join, params_in, plain, raw_in};
use serde_json::json;

fn server() -> Server {
    let greet = Prompt::new("greet").required("who", "whom to greet").optional("how", "in what tone");
    Server::builder("prompts", "1.0")
        .prompt(greet, |arguments, _| async move {
            let how = arguments.get("how").map_or("kindly", String::as_str);
            Ok(vec![
                PromptMessage::user(format!("greet {} {how}", arguments["who"])),
                PromptMessage::assistant(Content::image(b"png", "image/png")),
                PromptMessage::user(Content::audio(b"wav", "audio/wav")),
                PromptMessage::user(Content::embedded(
                    ResourceContents::text("x:1", "t").with_mime_type("text/plain"),
                )),
            ])
        })
        .prompt(Prompt::new("fails"), |_, _| async { Err(Stop::failed("no idea")) })
        .prompt(Prompt::new("odd"), |_, _| async {
            let media =
                MediaContent { data: "?".into(), mime_type: "png".into(), annotations: None, meta: None };
            Ok(vec![PromptMessage::user(Content::Image(media))])
        })
        .prompt(Prompt::new("bare"), |_, _| async {
            Ok(vec![PromptMessage::user(Content::embedded(ResourceContents::text("x:1", "t")))])
        })
        .template(ResourceTemplate::new("user:{id}", "users"), |uri, _, _| async move {
            Ok(vec![ResourceContents::text(uri, "u")])
        })
        .complete("greet", "who", |typed, filled| {
            let all = (0..250).map(|n| format!("{typed}{n}{}", filled.get("how").map_or("", |how| how)));
            all.collect()
        })
        .complete("user:{id}", "id", |_, _| vec!["ada".into()])
        .build()
}

fn get(name: &str, arguments: &[(&str, &str)]) -> GetPromptParams {
    let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    GetPromptParams { name: name.into(), arguments: Some(arguments.collect()), ..GetPromptParams::default() }
}

/// PRM-1, PRM-2, PRM-5, PRM-6, PRM-7: listed and filled in, with sound media and resources.
#[tokio::test]
async fn prompts_are_filled_in() {
    for revision in Revision::ALL {
        let (client, _) = join(&server(), plain(), revision).await;
        assert_eq!(client.server().capabilities.prompts.unwrap().list_changed, Some(true));
        let prompts = client.all_prompts().await.unwrap();
        assert_eq!(
            prompts.iter().map(|one| &*one.name).collect::<Vec<_>>(),
            ["greet", "fails", "odd", "bare"]
        );
        assert_eq!(prompts[0].arguments.as_ref().unwrap()[0].required, Some(true));
        let result = client.prompt(&get("greet", &[("who", "ada"), ("how", "")])).await.unwrap();
        assert_eq!(result.messages[0].content.as_text(), Some("greet ada "));
        assert_eq!(result.check(), [], "{revision}");
        let audio = matches!(result.messages[2].content, Content::Audio(_));
        assert_eq!(audio, gates(revision).audio, "{revision}: audio is said in words before it existed");
    }
}

/// PRM-4, PRM-5: unknown prompts, missing and misshapen arguments are -32602; failures -32603.
#[tokio::test]
async fn wrong_prompts_are_refused() {
    for revision in Revision::ALL {
        let mut raw = raw_in(&server(), revision).await;
        for (params, code) in [
            (json!({ "name": "nope" }), -32602),
            (json!({}), -32602),
            (json!({ "name": "greet" }), -32602),
            (json!({ "name": "greet", "arguments": { "how": "x" } }), -32602),
            (json!({ "name": "greet", "arguments": { "who": 7 } }), -32602),
            (json!({ "name": "fails" }), -32603),
        ] {
            let reply = raw.call("prompts/get", params_in(revision, params.clone())).await;
            assert_eq!(reply["error"]["code"], code, "{revision}: {params} {reply}");
        }
    }
}

/// PRM-6, PRM-7, PRM-9: what a prompt returns is checked before it leaves.
#[tokio::test]
async fn malformed_prompts_do_not_leave() {
    for revision in BOTH {
        let (client, _) = join(&server(), plain(), revision).await;
        for (name, place) in [("odd", "/messages/0/content/data"), ("bare", "/resource/mimeType")] {
            let error = client.prompt(&get(name, &[])).await.unwrap_err();
            assert!(matches!(&error, CallError::Fault(fault) if fault.code == -32603), "{error}");
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}

/// PRM-3: changes of the list are announced.
#[tokio::test]
async fn list_changes_are_announced() {
    for revision in BOTH {
        let server = server();
        let (client, _) = join(&server, plain(), revision).await;
        let mut listen = client.listen(Interest { prompts: true, ..Interest::default() });
        assert!(listen.ready().await.unwrap().prompts);
        server.changed(&Change::Prompts);
        assert_eq!(listen.next().await, Some(Change::Prompts));
    }
}

/// PRM-8, PAG-7: prompts and templates come in pages too.
#[tokio::test]
async fn prompts_come_in_pages() {
    let mut builder = Server::builder("pages", "1").page_size(2);
    for n in 0..5 {
        builder = builder.prompt(Prompt::new(format!("p{n}")), |_, _| async { Ok(vec![]) });
        let template = ResourceTemplate::new(format!("t{n}:{{x}}"), "t");
        builder = builder.template(template, |_, _, _| async { Ok(vec![]) });
    }
    let server = builder.build();
    for revision in BOTH {
        let (client, wire) = join(&server, plain(), revision).await;
        assert_eq!(client.all_prompts().await.unwrap().len(), 5);
        assert_eq!(client.all_templates().await.unwrap().len(), 5);
        assert_eq!(wire.results("prompts/list").len(), 3);
        assert_eq!(wire.results("resources/templates/list").len(), 3);
    }
}

fn complete(reference: Reference, argument: &str, value: &str) -> CompleteParams {
    let argument = CompleteArgument { name: argument.into(), value: value.into() };
    CompleteParams { reference, argument, context: None, meta: None }
}

fn prompt(name: &str) -> Reference {
    Reference::Prompt { name: name.into(), title: None }
}

/// CMP-1, CMP-2, CMP-4, CMP-7: at most a hundred values, in order, counted, for prompts and templates;
/// also in the revision that has completion but no capability for it.
#[tokio::test]
async fn arguments_are_completed() {
    for revision in Revision::ALL {
        let (client, _) = join(&server(), plain(), revision).await;
        let mut params = complete(prompt("greet"), "who", "a");
        let done = client.complete(&params).await.unwrap().completion;
        assert_eq!(
            (done.values.len(), done.total, done.has_more),
            (100, Some(250), Some(true)),
            "{revision}"
        );
        assert_eq!(done.values[..2], ["a0", "a1"]);
        let filled: BTreeMap<_, _> = [("how".to_owned(), "!".to_owned())].into();
        params.context = Some(CompleteContext { arguments: Some(filled) });
        assert_eq!(client.complete(&params).await.unwrap().completion.values[0], "a0!");
        let template = Reference::Resource { uri: "user:{id}".into() };
        assert_eq!(client.complete(&complete(template, "id", "")).await.unwrap().completion.values, ["ada"]);
        let none = client.complete(&complete(prompt("greet"), "how", "")).await.unwrap().completion;
        assert_eq!((none.values.len(), none.has_more), (0, Some(false)));
    }
}

/// CMP-3, CMP-6: bad references and missing members are -32602; a server without completion says -32601.
#[tokio::test]
async fn wrong_completions_are_refused() {
    let without = Server::builder("without", "1").tool("t", "t", async || "x").build();
    for revision in Revision::ALL {
        let mut raw = raw_in(&server(), revision).await;
        let argument = json!({ "name": "who", "value": "" });
        for params in [
            json!({ "ref": { "type": "ref/prompt", "name": "nope" }, "argument": argument }),
            json!({ "ref": { "type": "ref/resource", "uri": "nope:{x}" }, "argument": argument }),
            json!({ "ref": { "type": "ref/tool", "name": "greet" }, "argument": argument }),
            json!({ "ref": { "type": "ref/prompt", "name": "greet" } }),
            json!({ "argument": argument }),
        ] {
            let reply = raw.call("completion/complete", params_in(revision, params.clone())).await;
            assert_eq!(reply["error"]["code"], -32602, "{revision}: {params} {reply}");
        }
        let mut raw = raw_in(&without, revision).await;
        let params = json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": argument });
        let reply = raw.call("completion/complete", params_in(revision, params)).await;
        assert_eq!(reply["error"]["code"], -32601, "{revision}: {reply}");
    }
}

/// CMP-1: a client does not ask a server that declares no completion, where it could declare it.
#[tokio::test]
async fn undeclared_completion_is_refused_locally() {
    let without = Server::builder("without", "1").tool("t", "t", async || "x").build();
    for revision in Revision::ALL {
        let (client, _) = join(&without, plain(), revision).await;
        let error = client.complete(&complete(prompt("p"), "a", "")).await.unwrap_err();
        let local = matches!(error, CallError::Refused(_));
        assert_eq!(local, gates(revision).completions_capability, "{revision}: {error}");
    }
    assert_eq!(Revision::V2024_11_05.era(), Era::Legacy);
}
