//! What the configuration says of a server's tools, prompts and resources holds for every client, and is taken over while
//! they are here.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;
mod fronting;
mod relaying;

use std::path::Path;

use cardan_client::{CallError, Client};
use cardan_config::File;
use cardan_gateway::configured::rule_set;
use cardan_gateway::fleet::Spec;
use cardan_gateway::rules::RuleSet;
use cardan_proto::era::Era;
use cardan_proto::session::event::{Change, Interest};
use fronting::{Stage, at, front, server, spec};
use relaying::{plain, soon, text};
use serde_json::json;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn rules(text: &str) -> RuleSet {
    let file =
        File::parse(Path::new("cardan.toml"), &format!("[servers.a]\ncommand = 'x'\n{text}"), None).unwrap();
    assert_eq!(file.problems, []);
    rule_set(&file.servers[0])
}

async fn tools(client: &Client) -> Vec<String> {
    client.all_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect()
}

async fn is_unknown(client: &Client, tool: &str) {
    match client.call_tool(tool, &json!({})).unwrap().await {
        Err(CallError::Fault(fault)) => assert!(fault.message.contains("unknown tool"), "{tool}: {fault:?}"),
        other => panic!("{tool}: {other:?}"),
    }
}

/// What is renamed is called by its new name and no other, at its server by its own; what is described otherwise is told
/// so; what is hidden is not there. With all servers and alone, in either era.
#[tokio::test]
async fn rules_of_the_configuration_hold() {
    let rules = rules(
        "tools = { deny = ['fault'], rename = { who = 'name' }, describe = { who = 'Says its name' } }\n\
         prompts = { rename = { greet = 'hello' } }\n\
         resources = { rename = { 'one://a' = 'A' }, describe = { 'one://t/{key}' = 'Notes' } }\n",
    );
    for (of, client) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)] {
        let spec = Spec { rules: rules.clone(), ..spec("one", &server("one", of, &Stage::default())).0 };
        let all = front(vec![spec]);
        for (front, before) in [(all.clone(), "one__"), (all.alone("one").unwrap(), "")] {
            let client = at(&front, client, plain()).await;
            let full = |name: &str| format!("{before}{name}");
            let listed = client.all_tools().await.unwrap();
            let named = listed.iter().find(|tool| tool.name == full("name")).unwrap();
            assert_eq!(named.description.as_deref(), Some("Says its name"));
            assert!(!listed.iter().any(|tool| [full("who"), full("fault")].contains(&tool.name)));
            assert_eq!(text(&client, &full("name"), json!({})).await, "one");
            is_unknown(&client, &full("who")).await;
            is_unknown(&client, &full("fault")).await;
            let prompts = client.all_prompts().await.unwrap();
            assert_eq!(prompts[0].name, full("hello"));
            let params = json!({"name": full("hello"), "arguments": {"whom": "you"}});
            let greeting = client.prompt(&serde_json::from_value(params).unwrap()).await.unwrap();
            assert_eq!(json!(greeting)["messages"][0]["content"]["text"], "one greets you");
            let resources = client.all_resources().await.unwrap();
            assert_eq!((&*resources[0].uri, &*resources[0].name), ("one://a", "A"));
            assert_eq!(json!(client.read("one://a").await.unwrap())["contents"][0]["text"], "hello from one");
            let templates = client.all_templates().await.unwrap();
            assert_eq!(templates[0].description.as_deref(), Some("Notes"));
        }
        all.end("done").await;
    }
}

/// S0-79: rules are taken over without a server being touched, and clients hear of the lists that are another.
#[tokio::test]
async fn s0_79_new_rules_are_told() {
    let (spec, dialled) = spec("one", &server("one", Era::Modern, &Stage::default()));
    let front = front(vec![spec.clone()]);
    for era in ERAS {
        front.fleet().reload(vec![spec.clone()]).await;
        let client = at(&front, era, plain()).await;
        let mut listen =
            client.listen(Interest { tools: true, prompts: true, resources: true, ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        assert!(tools(&client).await.contains(&"one__who".to_owned()), "{era:?}");
        let dials = dialled.count();
        let reloaded = front
            .fleet()
            .reload(vec![Spec { rules: rules("tools = { rename = { who = 'name' } }\n"), ..spec.clone() }])
            .await;
        assert_eq!((&reloaded.kept[..], dialled.count()), (&["one".to_owned()][..], dials), "{era:?}");
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        let now = tools(&client).await;
        assert!(now.contains(&"one__name".to_owned()) && !now.contains(&"one__who".to_owned()), "{now:?}");
        is_unknown(&client, "one__who").await;
        assert_eq!(text(&client, "one__name", json!({})).await, "one", "{era:?}");
    }
    front.end("done").await;
}
