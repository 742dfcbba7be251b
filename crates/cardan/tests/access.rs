//! Who may do what: one function decides for calls, lists and change notes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::limits::Limits;
use cardan::proto::model::ResourceContents;
use cardan::proto::session::config::{CacheHint, CacheScope};
use cardan::proto::session::event::Change;
use cardan::runtime::memory;
use cardan::server::{Access, Action};
use common::{Raw, Tap, Way, Wire, dressed, plain, speaking};
use serde_json::{Value, json};

/// What was run, and what was decided about.
type Log = Arc<Mutex<Vec<String>>>;

/// Everything with `secret` in its name is for ada alone. All of it says that everyone may keep it.
fn server(log: &Log) -> Server {
    let ran = |log: &Log, what: &'static str| {
        let log = Arc::clone(log);
        move || log.lock().unwrap().push(format!("ran {what}"))
    };
    let (tool, read, prompt) = (ran(log, "tool"), ran(log, "read"), ran(log, "prompt"));
    let templated = read.clone();
    let asked = Arc::clone(log);
    Server::builder("guarded", "1")
        .page_size(1)
        .cache(CacheHint { ttl: Duration::from_secs(600), scope: CacheScope::Public })
        .tool("open", "for all", async || "open")
        .tool("secret", "for ada", move || {
            tool();
            async { "done" }
        })
        .tool("wide", "for all", async || "wide")
        .resource(Resource::new("note:open", "open"), async |_| {
            Ok(vec![ResourceContents::text("note:open", "o")])
        })
        .resource(Resource::new("note:secret", "secret"), move |_| {
            read();
            async { Ok(vec![ResourceContents::text("note:secret", "s")]) }
        })
        .template(ResourceTemplate::new("secret:{id}", "secrets"), move |uri, _, _| {
            templated();
            async move { Ok(vec![ResourceContents::text(uri, "t")]) }
        })
        .template(ResourceTemplate::new("file:{name}", "files"), async |uri: String, _, _| {
            Ok(if uri == "file:absent" { vec![] } else { vec![ResourceContents::text(uri, "f")] })
        })
        .prompt(Prompt::new("secret"), move |_, _| {
            prompt();
            async { Ok(vec![PromptMessage::user("p")]) }
        })
        .complete("secret", "a", |_, _| vec!["leak".into()])
        .complete("secret:{id}", "id", |_, _| vec!["leak".into()])
        .access(move |who, action| {
            asked.lock().unwrap().push(format!("{who:?} {action:?}"));
            let (Action::Call(name) | Action::Prompt(name) | Action::Read(name) | Action::Template(name)) =
                action
            else {
                return Access::Denied;
            };
            if who == Some("ada") || !name.contains("secret") { Access::Granted } else { Access::Denied }
        })
        .build()
}

async fn ask(raw: &mut Raw, method: &str, params: Value) -> Value {
    raw.modern(method, params, json!({})).await
}

/// The entries of all pages of a list, by this member.
async fn listed(raw: &mut Raw, method: &str, list: &str, member: &str) -> Vec<Value> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let result = ask(raw, method, params).await["result"].clone();
        names.extend(result[list].as_array().unwrap().iter().map(|entry| entry[member].clone()));
        match result.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return names,
        }
    }
}

fn took_place(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap()).into_iter().filter(|line| line.starts_with("ran")).collect()
}

const CALLS: [(&str, &str); 5] = [
    ("tools/call", r#"{"name":"secret"}"#),
    ("resources/read", r#"{"uri":"note:secret"}"#),
    ("resources/read", r#"{"uri":"secret:1"}"#),
    ("resources/read", r#"{"uri":"file:secret"}"#),
    ("prompts/get", r#"{"name":"secret"}"#),
];

/// RES-15, TOOL-16: access is decided before anything is read or run, and what is denied looks like what
/// does not exist.
#[tokio::test]
async fn denied_is_as_good_as_absent() {
    let log = Log::default();
    let server = server(&log);
    let mut ada = Raw::client_of_as(&server, Some("ada".into()));
    for who in [Some(Arc::from("bob")), None] {
        let mut other = Raw::client_of_as(&server, who);
        for (method, params) in CALLS {
            let params: Value = serde_json::from_str(params).unwrap();
            let denied = ask(&mut other, method, params.clone()).await;
            assert_eq!(took_place(&log), [""; 0], "{method}: nothing ran");
            let elsewhere = params.to_string().replace("secret", "absent");
            let absent = ask(&mut other, method, serde_json::from_str(&elsewhere).unwrap()).await;
            let told = denied["error"].to_string().replace("secret", "absent");
            assert_eq!(told, absent["error"].to_string(), "{method} {params}");
            assert!(denied["error"]["code"].is_i64());
            let granted = ask(&mut ada, method, params).await;
            assert!(granted["result"].is_object(), "{method}: {granted}");
            took_place(&log);
        }
        for reference in [
            json!({ "type": "ref/prompt", "name": "secret" }),
            json!({ "type": "ref/resource", "uri": "secret:{id}" }),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": "a", "value": "" } });
            assert_eq!(ask(&mut other, "completion/complete", params).await["error"]["code"], -32602);
        }
    }
}

/// RES-15: the same function decides about lists; a cursor tells nothing of what is hidden.
#[tokio::test]
async fn lists_show_what_may_be_done() {
    let log = Log::default();
    let server = server(&log);
    let (mut ada, mut bob) =
        (Raw::client_of_as(&server, Some("ada".into())), Raw::client_of_as(&server, Some("bob".into())));
    for (method, list, member, all, some) in [
        ("tools/list", "tools", "name", json!(["open", "secret", "wide"]), json!(["open", "wide"])),
        ("resources/list", "resources", "uri", json!(["note:open", "note:secret"]), json!(["note:open"])),
        (
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
            json!(["secret:{id}", "file:{name}"]),
            json!(["file:{name}"]),
        ),
        ("prompts/list", "prompts", "name", json!(["secret"]), json!([])),
    ] {
        assert_eq!(json!(listed(&mut ada, method, list, member).await), all);
        assert_eq!(json!(listed(&mut bob, method, list, member).await), some);
    }
    // `secret` as a cursor: a place in ada's list, and no place at all in bob's.
    let after = json!({ "cursor": "c2VjcmV0" });
    assert_eq!(ask(&mut ada, "tools/list", after.clone()).await["result"]["tools"][0]["name"], "wide");
    assert_eq!(ask(&mut bob, "tools/list", after).await["error"]["code"], -32602);
}

/// RES-15, RES-5: changes of a resource are told to those who may read it.
#[tokio::test]
async fn changes_are_told_to_readers() {
    let server = server(&Log::default());
    let mut told = Vec::new();
    for who in ["ada", "bob"] {
        let mut raw = Raw::client_of_as(&server, Some(who.into()));
        let filter = json!({ "resourceSubscriptions": ["note:secret", "note:open"] });
        raw.start("subscriptions/listen", dressed(json!({ "notifications": filter }), json!({}))).await;
        assert_eq!(raw.recv().await["method"], "notifications/subscriptions/acknowledged");
        told.push(raw);
    }
    server.changed(&Change::Resource("note:secret".into()));
    server.changed(&Change::Resource("note:open".into()));
    assert_eq!(told[0].recv().await["params"]["uri"], "note:secret");
    assert_eq!(told[0].recv().await["params"]["uri"], "note:open");
    assert_eq!(told[1].recv().await["params"]["uri"], "note:open", "and nothing before it");
}

/// CACHE-12, CACHE-7: a result that everyone may keep opens nothing: each call that reaches the server is
/// decided anew, what depends on who asks is marked private, and what one client keeps no other sees.
#[tokio::test]
async fn access_does_not_depend_on_the_scope() {
    let log = Log::default();
    let server = server(&log);
    // One description of a client serves both: what is kept belongs to the session, not to it.
    let connector = speaking(plain(), Revision::LATEST_MODERN);
    let mut clients = Vec::new();
    for who in ["ada", "bob"] {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let serving = server.clone();
        tokio::spawn(async move { serving.serve_as(theirs, Some(who.into())).await });
        let wire = Wire::default();
        let client = connector.connect_link(Tap { link: ours, wire: wire.clone() }).await.unwrap();
        clients.push((client, wire));
    }
    let [(ada, ada_wire), (bob, bob_wire)] = &clients[..] else { unreachable!() };
    for _ in 0..2 {
        ada.read("note:secret").await.unwrap();
    }
    let read = &ada_wire.results("resources/read")[0]["result"];
    assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(600_000), &json!("private")));
    assert_eq!(ada_wire.of(Way::Out, "resources/read").len(), 1, "ada keeps what is hers");
    for _ in 0..2 {
        assert!(bob.read("note:secret").await.unwrap_err().is_not_found());
    }
    assert_eq!(bob_wire.of(Way::Out, "resources/read").len(), 2, "a refusal is not kept");
    let decided = log
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.contains("bob") && line.contains("note:secret"))
        .count();
    assert_eq!(decided, 2, "each one was decided");
}
