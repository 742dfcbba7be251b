//! Policies at random: what is listed is what can be used.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_gateway::front::Front;
use cardan_gateway::policy::Policy;
use cardan_proto::era::Era;
use cardan_proto::method::Method;
use cardan_proto::session::event::CallOptions;
use fronting::behalf::{is_followed, on_behalf, policy};
use fronting::{Stage, server, spec};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

/// What rules for tools and prompts may say.
const NAMES: [&str; 11] = [
    "*",
    "one__*",
    "two__*",
    "*__who",
    "*__greet",
    "one__who",
    "two__echo",
    "one__greet",
    "*e*",
    "who",
    "greet",
];

/// What rules for resources may say.
const ADDRESSES: [&str; 7] = ["*", "one://*", "two://*", "*://a", "one://a", "two://a", "one://t/*"];

/// One `[policy.WHO]`.
fn section(who: &'static str) -> impl Strategy<Value = String> {
    fn list(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
        vec(select(words), 0..3)
    }
    let kind = |name: &'static str, words: &'static [&'static str]| {
        (option::of(list(words)), list(words)).prop_map(move |(allow, deny)| {
            let allow = allow.map(|allow| format!("allow = {allow:?}, ")).unwrap_or_default();
            format!("{name} = {{ {allow}deny = {deny:?} }}\n")
        })
    };
    let kinds = (kind("tools", &NAMES), kind("prompts", &NAMES), kind("resources", &ADDRESSES));
    kinds
        .prop_map(move |(tools, prompts, resources)| format!("[policy.'{who}']\n{tools}{prompts}{resources}"))
}

/// Is there such a thing for this client? Every other answer says that there is.
fn is_there<T>(answered: Result<T, CallError>) -> bool {
    match answered {
        Ok(_) => true,
        Err(CallError::Fault(fault)) => {
            let missing = fault.is_resource_not_found() || fault.message.contains("unknown ");
            assert!(missing, "{fault:?}");
            false
        }
        Err(error) => panic!("{error:?}"),
    }
}

async fn completes(client: &Client, prompt: &str) -> bool {
    let about = json!({ "type": "ref/prompt", "name": prompt });
    let params = json!({ "ref": about, "argument": { "name": "whom", "value": "x" } }).to_string();
    let options = CallOptions::default();
    is_there(client.raw(Method::CompletionComplete, Some(Bytes::from(params)), options).await)
}

/// Everything that is listed can be used, and nothing else.
async fn list_and_call_agree(front: &Front, text: &str, era: Era) {
    // It has seen everything before, and so uses what it is not offered any more.
    front.protect(Policy::default());
    let client = on_behalf(front, "ada", era).await;
    front.protect(policy(text));
    let tools: Vec<_> = client.all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    let prompts: Vec<_> = client.all_prompts().await.unwrap().into_iter().map(|one| one.name).collect();
    let resources: Vec<_> = client.all_resources().await.unwrap().into_iter().map(|one| one.uri).collect();
    for server in ["one", "two"] {
        for tool in ["who", "echo"].map(|own| format!("{server}__{own}")) {
            let called = client.call_tool(&tool, &json!({ "text": "x" })).unwrap().await;
            assert_eq!(is_there(called), tools.contains(&tool), "{era:?} {tool}\n{text}");
        }
        let prompt = format!("{server}__greet");
        let params = serde_json::from_value(json!({"name": prompt, "arguments": {"whom": "x"}})).unwrap();
        let listed = prompts.contains(&prompt);
        assert_eq!(is_there(client.prompt(&params).await), listed, "{era:?} {prompt}\n{text}");
        assert_eq!(completes(&client, &prompt).await, listed, "{era:?} completing {prompt}\n{text}");
        let uri = format!("{server}://a");
        let listed = resources.contains(&uri);
        assert_eq!(is_there(client.read(&uri).await), listed, "{era:?} {uri}\n{text}");
        assert_eq!(is_followed(&client, &uri, era).await, listed, "{era:?} following {uri}\n{text}");
    }
}

/// T15: for a thousand policies, who may list something may call, complete, read or follow it, and nobody else may.
#[test]
fn t15_one_decision_gates_list_and_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let front = runtime.block_on(async {
        let spec = |name| spec(name, &server(name, Era::Modern, &Stage::default())).0;
        let front = fronting::front(vec![spec("one"), spec("two")]);
        front.settled().await;
        front
    });
    let config = Config { cases: 1000, failure_persistence: None, ..Config::default() };
    let policies = (section("*"), option::of(section("ada")), select(&[Era::Legacy, Era::Modern][..]));
    let checked = TestRunner::new(config).run(&policies, |(all, own, era)| {
        let text = all + &own.unwrap_or_default();
        runtime.block_on(list_and_call_agree(&front, &text, era));
        Ok(())
    });
    checked.unwrap();
    runtime.block_on(front.end("done"));
}
