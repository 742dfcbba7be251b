//! What a principal may not use is not there for it: in no list, and for no call.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;
mod fronting;
mod relaying;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_config::{Config, File, Tool};
use cardan_gateway::audit::Audit;
use cardan_gateway::configured::{self, naming, rule_set};
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options, Refused};
use cardan_gateway::policy::Policy;
use cardan_gateway::relay::Isolation;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{CallOptions, Change, Interest, Vetting};
use cardan_runtime::service::Host as _;
use common::Scratch;
use fronting::behalf::{is_followed, on_behalf, policy};
use fronting::{Stage, server, spec};
use relaying::{soon, text};
use serde_json::json;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn two_with(options: Options) -> Front {
    let spec = |name| spec(name, &server(name, Era::Modern, &Stage::default())).0;
    Front::start(Fleet::start(vec![spec("one"), spec("two")], fleet::Options::default()), options)
}

fn two() -> Front {
    two_with(Options::default())
}

async fn tools(client: &Client) -> Vec<String> {
    client.all_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect()
}

fn refused<T: std::fmt::Debug>(called: Result<T, CallError>) -> Fault {
    match called {
        Err(CallError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

/// T15: a hidden tool that is called anyway is refused exactly as one that does not exist, at all servers and at one alone, in
/// either era; the same rule shows it to someone else.
#[tokio::test]
async fn t15_what_is_hidden_cannot_be_called() {
    let front = two();
    front.protect(policy("[policy.ada]\ntools = { deny = ['one__who'] }\n"));
    let alone = front.alone("one").unwrap();
    for era in ERAS {
        for (front, name) in [(&front, "one__who"), (&alone, "who")] {
            let (ada, bob) = (on_behalf(front, "ada", era).await, on_behalf(front, "bob", era).await);
            let (hers, his) = (tools(&ada).await, tools(&bob).await);
            assert!(!hers.iter().any(|tool| tool == name), "{era:?} {hers:?}");
            assert_eq!(hers.len() + 1, his.len(), "{era:?}");
            let hidden = refused(ada.call_tool(name, &json!({})).unwrap().await);
            let absent = refused(ada.call_tool("absent", &json!({})).unwrap().await);
            assert_eq!(hidden.message.replace(name, "absent"), absent.message, "{era:?}");
            assert_eq!((hidden.code, hidden.data), (absent.code, absent.data), "{era:?}");
            assert_eq!(text(&bob, name, json!({})).await, "one", "{era:?}");
        }
    }
    front.end("done").await;
}

/// What a `cardan.toml` with this text says of names and policy.
fn said(text: &str) -> Options {
    let file = File::parse(Path::new("cardan.toml"), text, Some(Tool::Cardan)).unwrap();
    assert_eq!(file.problems, [], "{text}");
    let config = Config { gateway: file.gateway, policies: vec![file.policy], ..Config::default() };
    Options { naming: naming(&config), policy: configured::policy(&config), ..Options::default() }
}

/// T15: rules name tools with the configured separator, whatever clients see: what is denied so is denied.
#[tokio::test]
async fn t15_rules_have_the_configured_separator_however_names_look() {
    for (naming, name) in [("prefix", "one.who"), ("never", "who"), ("priority", "who")] {
        let rules = format!(
            "[gateway]\nnaming = '{naming}'\nseparator = '.'\n[policy.ada]\ntools = {{ deny = ['one.who'] }}\n"
        );
        let front = two_with(said(&rules));
        let alone = front.alone("one").unwrap();
        for (front, name) in [(&front, name), (&alone, "who")] {
            let (ada, bob) =
                (on_behalf(front, "ada", Era::Modern).await, on_behalf(front, "bob", Era::Modern).await);
            assert!(!tools(&ada).await.iter().any(|tool| tool == name), "{naming}");
            assert_eq!(text(&bob, name, json!({})).await, "one", "{naming}");
            let fault = refused(ada.call_tool(name, &json!({})).unwrap().await);
            assert!(fault.message.contains("unknown tool"), "{naming} {fault:?}");
        }
        front.end("done").await;
    }
}

/// T15: names and the rules that are made of them are others in one step, so whoever looks meanwhile sees nothing that both hide.
#[tokio::test]
async fn t15_names_and_rules_are_others_at_once() {
    let said = |separator: &str| {
        said(&format!(
            "[gateway]\nseparator = '{separator}'\n[policy.ada]\ntools = {{ deny = ['one{separator}*'] }}\n\
             prompts = {{ deny = ['one{separator}*'] }}\nresources = {{ deny = ['one://*'] }}\n"
        ))
    };
    let front = two_with(said("__"));
    front.settled().await;
    let (looking, ada) = (front.clone(), Some("ada".into()));
    let (turned, over) = std::sync::mpsc::channel::<()>();
    let (looked, looks) = std::sync::mpsc::channel();
    let looker = std::thread::spawn(move || {
        while over.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            let told = looking.config(ada.as_ref()).instructions.clone().unwrap_or_default();
            let told = String::from_utf8_lossy(&told).into_owned();
            assert!(told.contains("be kind to two") && !told.contains("one"), "{told}");
            let _ = looked.send(());
        }
    });
    looks.recv().unwrap();
    for _ in 0..500 {
        for separator in [".", "__"] {
            let Options { naming, policy, .. } = said(separator);
            front.adopt(naming, policy);
        }
    }
    looks.recv().unwrap();
    drop(turned);
    looker.join().unwrap();
    front.end("done").await;
}

/// T15: a server whose name becomes another before the names of its tools may stand in rules either way.
#[tokio::test]
async fn t15_rules_name_a_server_as_it_is_configured_or_shown() {
    let spec = || {
        let mut spec = spec("my.files", &server("one", Era::Modern, &Stage::default())).0;
        spec.rules.tools.rename.insert("echo".into(), "say".into());
        spec
    };
    for server in ["my.files", "my_files"] {
        for (rules, shown, hidden) in [
            (format!("deny = ['{server}__who']"), "say", "who"),
            (format!("deny = ['{server}__echo']"), "who", "say"),
            (format!("deny = ['{server}__say']"), "who", "say"),
            (format!("allow = ['{server}__who']"), "who", "say"),
            (format!("allow = ['{server}__say']"), "say", "who"),
            (format!("allow = ['*'], deny = ['{server}__w*']"), "say", "who"),
        ] {
            let policy = policy(&format!("[policy.ada]\ntools = {{ {rules} }}\n"));
            let front = Front::start(
                Fleet::start(vec![spec()], fleet::Options::default()),
                Options { policy, ..Options::default() },
            );
            let ada = on_behalf(&front, "ada", Era::Modern).await;
            let listed = tools(&ada).await;
            let is_listed = |name: &str| listed.contains(&format!("my_files__{name}"));
            assert_eq!((is_listed(shown), is_listed(hidden)), (true, false), "{rules} {listed:?}");
            refused(ada.call_tool(&format!("my_files__{hidden}"), &json!({ "text": "x" })).unwrap().await);
            text(&ada, &format!("my_files__{shown}"), json!({ "text": "x" })).await;
            front.end("done").await;
        }
    }
}

/// T15: the same for prompts and their completion, and for resources, those included that no list has.
#[tokio::test]
async fn t15_prompts_and_resources_are_gated_alike() {
    let front = two();
    front.protect(policy(
        "[policy.'*']\nprompts = { allow = ['two__*'] }\nresources = { deny = ['one://a', 'one://t/s*'] }\n",
    ));
    for era in ERAS {
        let client = on_behalf(&front, "ada", era).await;
        let prompts: Vec<_> =
            client.all_prompts().await.unwrap().iter().map(|one| one.name.clone()).collect();
        assert_eq!(prompts, ["two__greet"], "{era:?}");
        let params =
            serde_json::from_value(json!({"name": "one__greet", "arguments": {"whom": "x"}})).unwrap();
        refused(client.prompt(&params).await);
        let resources: Vec<_> =
            client.all_resources().await.unwrap().iter().map(|one| one.uri.clone()).collect();
        assert_eq!(resources, ["two://a"], "{era:?}");
        for hidden in ["one://a", "one://t/secret"] {
            let fault = refused(client.read(hidden).await);
            assert!(fault.is_resource_not_found(), "{era:?} {fault:?}");
        }
        assert_eq!(json!(client.read("one://t/open").await.unwrap())["contents"][0]["text"], "one open");
    }
    front.end("done").await;
}

/// T15: what a completion is about is what its type says, and nothing else that it says leads around that.
#[tokio::test]
async fn t15_a_completion_is_about_one_thing() {
    let front = two();
    front.protect(policy("[policy.'*']\nprompts = { deny = ['one__greet'] }\n"));
    let alone = front.alone("one").unwrap();
    let complete = async |client: &Client, reference: serde_json::Value, argument: &str| {
        let params = json!({ "ref": reference, "argument": { "name": argument, "value": "x" } }).to_string();
        let method = Method::CompletionComplete;
        client.raw(method, Some(Bytes::from(params)), CallOptions::default()).await
    };
    let uri = "one://t/{key}";
    for era in ERAS {
        for (front, hidden) in [(&front, "one__greet"), (&front, "greet"), (&alone, "greet")] {
            let client = on_behalf(front, "ada", era).await;
            let about = json!({ "type": "ref/prompt", "name": hidden, "uri": uri });
            let fault = refused(complete(&client, about, "whom").await);
            assert!(fault.message.contains("unknown prompt"), "{era:?} {fault:?}");
            let about = json!({ "type": "ref/resource", "name": hidden, "uri": uri });
            let completed = complete(&client, about, "key").await.unwrap();
            assert!(String::from_utf8_lossy(&completed).contains("x-one"), "{era:?} {completed:?}");
        }
    }
    let before = front.refused();
    let client = on_behalf(&front, "ada", Era::Modern).await;
    for about in [
        json!({ "type": "ref/prompt", "name": "one__greet" }),
        json!({ "type": "ref/prompt", "name": "nobody" }),
        json!({ "type": "ref/resource", "uri": "nowhere://{key}" }),
    ] {
        refused(complete(&client, about, "key").await);
    }
    let counted: Vec<_> = front.refused().into_iter().zip(before).map(|(now, before)| now - before).collect();
    assert_eq!(counted, [2, 1, 0, 0, 0, 0], "each is counted, as a call is");
    front.end("done").await;
}

/// T15: what a server says of itself is said to nobody who may see nothing of it, with all servers and alone.
#[tokio::test]
async fn t15_a_hidden_server_says_nothing() {
    let front = two();
    front.settled().await;
    front.protect(policy(
        "[policy.ada]\ntools = { deny = ['one__*'] }\nprompts = { deny = ['one__*'] }\n\
         resources = { deny = ['one://*'] }\n[policy.bob]\ntools = { deny = ['one__*'] }\n",
    ));
    let alone = front.alone("one").unwrap();
    let told = |front: &Front, who: &str| {
        let said = front.config(Some(&who.into())).instructions.clone().unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    };
    assert!(!told(&front, "ada").contains("one"), "{}", told(&front, "ada"));
    assert!(told(&front, "ada").contains("be kind to two"));
    assert_eq!(told(&alone, "ada"), "");
    for who in ["bob", "eve"] {
        assert!(told(&front, who).contains("be kind to one") && told(&alone, who).contains("be kind to one"));
    }
    front.end("done").await;
}

/// T15: whoever followed a resource before it was hidden hears of it no more, and again when it is shown again.
#[tokio::test]
async fn t15_what_is_hidden_meanwhile_is_not_told() {
    for isolation in [Isolation::Client, Isolation::Shared] {
        for era in ERAS {
            let spec =
                |name| Spec { isolation, ..spec(name, &server(name, Era::Modern, &Stage::default())).0 };
            let front = fronting::front(vec![spec("one"), spec("two")]);
            let (ada, bob) = (on_behalf(&front, "ada", era).await, on_behalf(&front, "bob", era).await);
            let both = Interest { uris: vec!["one://a".into(), "two://a".into()], ..Interest::default() };
            let (mut hers, mut his) = (ada.listen(both.clone()), bob.listen(both));
            for listen in [&mut hers, &mut his] {
                assert_eq!(soon("ready", listen.ready()).await.unwrap().uris.len(), 2);
            }
            let one = || Some(Change::Resource("one://a".into()));
            front.protect(policy("[policy.ada]\nresources = { deny = ['one://a'] }\n"));
            text(&bob, "one__update", json!({})).await;
            assert_eq!(soon("his", his.next()).await, one(), "{isolation:?} {era:?}");
            text(&bob, "two__update", json!({})).await;
            let two = Some(Change::Resource("two://a".into()));
            assert_eq!(soon("hers", hers.next()).await, two, "{isolation:?} {era:?}");
            front.protect(Policy::default());
            text(&bob, "one__update", json!({})).await;
            assert_eq!(soon("hers", hers.next()).await, one(), "{isolation:?} {era:?}");
            front.end("done").await;
        }
    }
}

/// T15: what a hidden template makes cannot be read or followed by its address, whoever hides it, listed or not, with all
/// servers and alone; what an allowed one makes can.
#[tokio::test]
async fn t15_a_hidden_template_makes_nothing_readable() {
    let deny = "resources = { deny = ['one://t/{key}'] }\n";
    let allow = "resources = { allow = ['one://a', 'two://t/{key}'] }\n";
    for (rules, uri, readable) in [
        (deny, "one://t/x", false),
        (deny, "one://t/..", false),
        (deny, "one://a", true),
        (deny, "two://t/x", true),
        (allow, "one://t/x", false),
        (allow, "two://t/x", true),
        (allow, "two://a", false),
    ] {
        let by_rules = |name| {
            let file = format!("[servers.a]\ncommand = 'x'\n{rules}");
            let file = File::parse(Path::new("cardan.toml"), &file, None).unwrap();
            Spec {
                rules: rule_set(&file.servers[0]),
                ..spec(name, &server(name, Era::Modern, &Stage::default())).0
            }
        };
        let ruled = fronting::front(vec![by_rules("one"), by_rules("two")]);
        let gated = two();
        gated.protect(policy(&format!("[policy.'*']\n{rules}")));
        for front in [ruled, gated] {
            let alone = front.alone(&uri[..3]).unwrap();
            for era in ERAS {
                let (all, one) = (on_behalf(&front, "ada", era).await, on_behalf(&alone, "ada", era).await);
                for client in [&all, &one] {
                    let read = client.read(uri).await;
                    assert_eq!(read.is_ok(), readable, "{rules} {uri} {era:?} {read:?}");
                }
                // Among all servers another one may have it.
                assert_eq!(is_followed(&one, uri, era).await, readable, "{rules} {uri} {era:?}");
            }
            front.end("done").await;
        }
    }
}

/// A name that is hidden from someone is free for nobody else, and whoever may use less than before is told.
#[tokio::test]
async fn a_change_of_policy_is_told() {
    let front = two();
    for era in ERAS {
        front.protect(Policy::default());
        let client = on_behalf(&front, "ada", era).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        let before = tools(&client).await;
        front.protect(policy("[policy.ada]\ntools = { allow = ['two__*'] }\n"));
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        let after = tools(&client).await;
        let left: Vec<_> = before.into_iter().filter(|name| name.starts_with("two__")).collect();
        assert_eq!(after, left, "{era:?}");
    }
    front.end("done").await;
}

/// Every call is written down with its principal and how it went, and nothing of what was said in it.
#[tokio::test]
async fn calls_are_written_down_without_what_was_said() {
    let scratch = Scratch::new("audit");
    let file = scratch.path().join("audit.jsonl");
    for era in ERAS {
        let audit = Arc::new(Audit::file(&file, |line| panic!("{line}")).unwrap());
        let front = two_with(Options { audit: Some(Arc::clone(&audit)), ..Options::default() });
        front.protect(policy(
            "[policy.ada]\ntools = { deny = ['one__who'] }\nresources = { deny = ['two://a'] }\n",
        ));
        let ada = on_behalf(&front, "ada", era).await;
        text(&ada, "two__echo", json!({"text": "a canary"})).await;
        refused(ada.call_tool("one__who", &json!({})).unwrap().await);
        refused(ada.call_tool("a-canary", &json!({})).unwrap().await);
        refused(ada.call_tool("one__fault", &json!({})).unwrap().await);
        ada.read("one://a").await.unwrap();
        ada.read("two://t/a-canary").await.unwrap();
        ada.read("two://a").await.unwrap_err();
        ada.read("nowhere://a-canary").await.unwrap_err();
        front.end("done").await;
        audit.close();
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(!written.contains("canary"), "{written}");
        let lines: Vec<_> = written
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| {
                assert_eq!(line["principal"], "ada");
                format!("{} {} {} {}", line["method"], line["server"], line["name"], line["outcome"])
                    .replace('"', "")
            })
            .collect();
        let wanted = [
            "tools/call two echo done",
            "tools/call one who refused",
            "tools/call null null refused",
            "tools/call one fault fault",
            "resources/read one one://a done",
            "resources/read two two://t/{key} done",
            "resources/read two two://a refused",
            "resources/read null null refused",
        ];
        assert_eq!(lines, wanted, "{era:?}");
        std::fs::remove_file(&file).unwrap();
    }
}

/// T15: whoever may see nothing of a kind is told that there is no such method, and what was tried is written down and counted.
#[tokio::test]
async fn t15_what_is_tried_of_a_kind_that_is_hidden_whole_is_written_down() {
    let scratch = Scratch::new("audit-whole");
    let file = scratch.path().join("audit.jsonl");
    for era in ERAS {
        let audit = Arc::new(Audit::file(&file, |line| panic!("{line}")).unwrap());
        let front = two_with(Options { audit: Some(Arc::clone(&audit)), ..Options::default() });
        front.settled().await;
        front.protect(policy(
            "[policy.bob]\ntools = { allow = [] }\nprompts = { allow = [] }\nresources = { allow = [] }\n",
        ));
        let bob = on_behalf(&front, "bob", era).await;
        for (method, params) in [
            (Method::ToolsCall, json!({ "name": "one__who" })),
            (Method::ToolsCall, json!({ "name": "a-canary" })),
            (Method::PromptsGet, json!({ "name": "two__greet" })),
            (Method::ResourcesRead, json!({ "uri": "one://a" })),
            (Method::ResourcesRead, json!({ "uri": "one://t/a-canary" })),
            (Method::ToolsList, json!({})),
        ] {
            let options = CallOptions { vetting: Vetting::Unvetted, ..CallOptions::default() };
            let called = bob.raw(method.clone(), Some(Bytes::from(params.to_string())), options);
            let fault = refused(called.await);
            let absent = Fault::method_not_found(method.name());
            assert_eq!((fault.code, fault.message), (absent.code, absent.message), "{era:?} {method}");
        }
        let counted: Vec<_> = Refused::ALL.into_iter().zip(front.refused()).collect();
        assert!(counted.contains(&(Refused::Policy, 4)), "{era:?} {counted:?}");
        assert!(counted.contains(&(Refused::Unknown, 1)), "{era:?} {counted:?}");
        front.end("done").await;
        audit.close();
        let written = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = written
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| {
                format!("{} {} {} {}", line["principal"], line["server"], line["name"], line["outcome"])
            })
            .map(|line| line.replace('"', ""))
            .collect();
        let wanted = [
            "bob one who refused",
            "bob null null refused",
            "bob two greet refused",
            "bob one one://a refused",
            "bob one one://t/{key} refused",
        ];
        assert_eq!(lines, wanted, "{era:?}");
        std::fs::remove_file(&file).unwrap();
    }
}

/// A call is written down with the server that it went to, though nothing leads there any more when it ends.
#[tokio::test]
async fn a_call_is_written_down_with_where_it_went() {
    let scratch = Scratch::new("audit-went");
    let file = scratch.path().join("audit.jsonl");
    let audit = Arc::new(Audit::file(&file, |line| panic!("{line}")).unwrap());
    let stage = Stage::default();
    let specs = vec![spec("one", &server("one", Era::Modern, &stage)).0];
    let options = Options { audit: Some(Arc::clone(&audit)), ..Options::default() };
    let front = Front::start(Fleet::start(specs, fleet::Options::default()), options);
    let ada = on_behalf(&front, "ada", Era::Modern).await;
    let call = tokio::spawn(ada.call_tool("one__hang", &json!({})).unwrap().into_future());
    soon("its begin", stage.begun.notified()).await;
    front.protect(policy("[policy.ada]\ntools = { deny = ['one__hang'] }\n"));
    call.abort();
    soon("its end", stage.dropped.notified()).await;
    front.end("done").await;
    audit.close();
    let written = std::fs::read_to_string(&file).unwrap();
    let line: serde_json::Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
    assert_eq!([&line["server"], &line["name"], &line["outcome"]], ["one", "hang", "cancelled"], "{written}");
}
