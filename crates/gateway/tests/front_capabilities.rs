//! What clients are told that all servers as one can do: what some server can, and no more.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::path::Path;
use std::sync::Arc;

use cardan_config::File;
use cardan_gateway::configured::rule_set;
use cardan_gateway::fleet::Spec;
use cardan_gateway::front::Front;
use cardan_gateway::policy::Policy;
use cardan_proto::era::Era;
use cardan_runtime::service::Host as _;
use cardan_server::Server;
use fronting::{Stage, at, dead, front, mute, server, spec};
use relaying::plain;
use serde_json::{Value, json};

/// A server that has tools and nothing else.
fn bare(name: &'static str) -> Spec {
    let server =
        Server::builder(name, "1").tool("who", "tells its name", move || async move { name }).build();
    spec(name, &server).0
}

fn full(name: &'static str) -> Spec {
    spec(name, &server(name, Era::Modern, &Stage::default())).0
}

fn config(text: &str) -> File {
    let file = File::parse(Path::new("cardan.toml"), text, None).unwrap();
    assert_eq!(file.problems, []);
    file
}

/// What a principal is told.
fn told(front: &Front, principal: Option<&str>) -> Value {
    let principal = principal.map(Arc::<str>::from);
    serde_json::from_slice(&front.config(principal.as_ref()).capabilities).unwrap()
}

/// TOOL-1, RES-1, PRM-1, CMP-1: what no server has is not claimed. A list is, while a server may still come to tell of it; the rest while one starts.
#[tokio::test]
async fn only_what_some_server_has_is_claimed() {
    let list = json!({"listChanged": true});
    let lists = json!({"tools": list, "prompts": list, "resources": list});
    let all = json!({"tools": list, "prompts": list, "resources": {"listChanged": true, "subscribe": true},
        "completions": {}, "logging": {}});
    let mut starting = all.clone();
    starting["extensions"] = json!({"io.modelcontextprotocol/skills": {}});
    for (specs, claimed) in [
        (vec![bare("one")], json!({"tools": list})),
        (vec![bare("one"), full("two")], all.clone()),
        (vec![bare("one"), dead("dead")], lists.clone()),
        (vec![bare("one"), mute("mute")], starting.clone()),
        (vec![bare("one"), Spec { lazy: true, ..mute("lazy") }], starting.clone()),
        (vec![], lists.clone()),
    ] {
        let names: Vec<_> = specs.iter().map(|spec| spec.name.clone()).collect();
        let front = front(specs);
        front.settled().await;
        assert_eq!(told(&front, None), claimed, "{names:?}");
        for era in [Era::Legacy, Era::Modern] {
            let client = at(&front, era, plain()).await;
            let capabilities = client.server().capabilities;
            assert_eq!(capabilities.completions.is_some(), claimed.get("completions").is_some(), "{names:?}");
            assert_eq!(capabilities.tools.unwrap().list_changed, Some(true), "{names:?}");
            if names.iter().any(|name| name == "one") {
                assert_eq!(client.all_tools().await.unwrap()[0].name, "one__who");
            }
        }
        front.end("done").await;
    }
}

/// T15: whoever may see nothing of a kind is not told that there is any, with all servers and alone; whoever may is.
#[tokio::test]
async fn t15_what_a_principal_may_not_see_is_not_claimed() {
    let front = front(vec![full("one")]);
    front.settled().await;
    let policy = "[policy.ada]\ntools = { allow = [] }\n[policy.bob]\ntools = { deny = ['one__*'] }\n\
                  prompts = { deny = ['*'] }\nresources = { allow = ['one://t/x'] }\n\
                  [policy.eve]\nprompts = { allow = [] }\nresources = { allow = [] }\n";
    front.protect(Policy::of(&[config(policy).policy]));
    for front in [&front, &front.alone("one").unwrap()] {
        for (who, hidden) in [
            (None, &[][..]),
            (Some("ada"), &["tools"]),
            (Some("bob"), &["tools", "prompts"]),
            (Some("eve"), &["prompts", "resources"]),
        ] {
            let told = told(front, who);
            for name in ["tools", "prompts", "resources"] {
                assert_eq!(told.get(name).is_none(), hidden.contains(&name), "{who:?} {name} {told}");
            }
        }
    }
    assert_eq!(told(&front, Some("eve")).get("completions"), None, "there is nothing to complete");
    front.protect(Policy::default());
    assert!(told(&front, Some("ada")).get("tools").is_some());
    front.end("done").await;
}

/// What the configuration hides whole is not claimed either.
#[tokio::test]
async fn what_rules_hide_is_not_claimed() {
    let hidden = "[servers.a]\ncommand = 'x'\ntools = { deny = ['*'] }\nresources = { allow = [] }\n";
    let rules = rule_set(&config(hidden).servers[0]);
    let front = front(vec![Spec { rules, ..full("one") }]);
    front.settled().await;
    let told = told(&front, None);
    assert!(told.get("tools").is_none() && told.get("resources").is_none(), "{told}");
    assert!(told.get("prompts").is_some(), "{told}");
    front.end("done").await;
}
