//! Lists in pages, and results that may be kept.

mod common;

use std::time::Duration;

use cardan::client::{CallError, Client};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::limits::Limits;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::session::config::{CacheHint, CacheScope};
use cardan::proto::session::event::{Change, Interest};
use common::{BOTH, Raw, Way, join, params_in, plain, raw_in};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

fn many(count: usize, size: usize) -> Server {
    let mut builder = Server::builder("many", "1").page_size(size);
    for n in 0..count {
        builder = builder.tool(&format!("t{n}"), "one of many", async || "x");
    }
    builder.build()
}

/// PAG-1, PAG-5, PAG-7: any page size, and a list without a cursor ends.
#[tokio::test]
async fn any_page_size_is_followed() {
    for revision in BOTH {
        for size in [1, 3, 7, 50] {
            let (client, wire) = join(&many(7, size), plain(), revision).await;
            let tools = client.all_tools().await.unwrap();
            assert_eq!(
                tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(),
                ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]
            );
            let pages = wire.results("tools/list");
            assert_eq!(pages.len(), 7_usize.div_ceil(size));
            assert!(pages.last().unwrap()["result"].get("nextCursor").is_none());
        }
    }
}

/// PAG-4: cursors are stable while the list changes elsewhere; what is no cursor is -32602.
#[tokio::test]
async fn cursors_are_stable_and_checked() {
    for revision in Revision::ALL {
        let server = many(6, 2);
        let mut raw = raw_in(&server, revision).await;
        let page = raw.call("tools/list", params_in(revision, json!({}))).await;
        let cursor = page["result"]["nextCursor"].clone();
        server.remove_tool("t0");
        if revision.era() == Era::Legacy {
            assert_eq!(raw.recv().await["method"], "notifications/tools/list_changed");
        }
        let page = raw.call("tools/list", params_in(revision, json!({ "cursor": cursor }))).await;
        assert_eq!(page["result"]["tools"][0]["name"], "t2", "{page}");
        for odd in [json!(""), json!("%%%"), json!("bm8"), json!(7), json!({})] {
            let reply = raw.call("tools/list", params_in(revision, json!({ "cursor": odd }))).await;
            assert_eq!(reply["error"]["code"], -32602, "{revision} {odd}: {reply}");
        }
        let whole = raw.call("tools/list", params_in(revision, json!({ "cursor": null }))).await;
        assert_eq!(whole["result"]["tools"][0]["name"], "t1", "null is no cursor");
    }
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// Answers list calls with these pages; brings back the cursors that came.
fn pages(mut raw: Raw, pages: Vec<Value>) -> JoinHandle<(Raw, Vec<Value>)> {
    tokio::spawn(async move {
        let mut cursors = Vec::new();
        for page in pages {
            let call = raw.recv().await;
            cursors.push(call["params"].get("cursor").cloned().unwrap_or(Value::Null));
            match page.get("refuse") {
                Some(code) => raw.refuse(&call, code.as_i64().expect("a code"), Value::Null).await,
                None => raw.reply(&call, page).await,
            }
        }
        (raw, cursors)
    })
}

async fn at(revision: Revision, connector: cardan::client::Connector) -> (Raw, Client) {
    Raw::ready(connector, revision, json!({ "tools": { "listChanged": true }, "resources": {} })).await
}

/// PAG-2, PAG-3, PAG-5: cursors go back as they came, the empty one too; only absence or null ends.
#[tokio::test]
async fn empty_cursors_are_followed() {
    for revision in BOTH {
        let (raw, client) = at(revision, plain()).await;
        let script = pages(
            raw,
            vec![
                json!({ "tools": [tool("a")], "nextCursor": "" }),
                json!({ "tools": [], "nextCursor": "é\u{1} =" }),
                json!({ "tools": [tool("b")], "nextCursor": null }),
            ],
        );
        assert_eq!(client.all_tools().await.unwrap().len(), 2);
        assert_eq!(script.await.unwrap().1, [json!(null), json!(""), json!("é\u{1} =")]);
    }
}

/// PAG-2, S2-23: a list that gives the same cursor again, or never ends, is given up.
#[tokio::test]
async fn endless_lists_are_given_up() {
    for revision in BOTH {
        let (raw, client) = at(revision, plain()).await;
        let again = json!({ "tools": [], "nextCursor": "x" });
        let script = pages(raw, vec![again.clone(), again]);
        assert!(matches!(client.all_tools().await, Err(CallError::Endless(_))));
        script.await.unwrap();
        let limits = Limits { pages: 4, ..Limits::DEFAULT };
        let (raw, client) = at(revision, plain().limits(limits)).await;
        let script =
            pages(raw, (0..4).map(|n| json!({ "tools": [], "nextCursor": n.to_string() })).collect());
        assert!(matches!(client.all_tools().await, Err(CallError::Endless(_))));
        script.await.unwrap();
    }
}

fn cached(ttl: Duration, scope: CacheScope) -> Server {
    Server::builder("cached", "1")
        .cache(CacheHint { ttl, scope })
        .page_size(1)
        .tool("a", "a", async || "x")
        .tool("b", "b", async || "x")
        .resource(Resource::new("x:1", "one"), |_| async { Ok(vec![ResourceContents::text("x:1", "1")]) })
        .template(ResourceTemplate::new("y:{z}", "t"), |_, _, _| async { Ok(vec![]) })
        .prompt(Prompt::new("p"), |_, _| async { Ok(vec![]) })
        .build()
}

/// CACHE-1, CACHE-2, CACHE-3, CACHE-4: hints on the six results of the modern era, alike on all pages, and
/// nowhere in the legacy era.
#[tokio::test]
async fn servers_give_hints() {
    let methods = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    for (scope, word) in [(CacheScope::Public, "public"), (CacheScope::Private, "private")] {
        let server = cached(Duration::from_millis(1500), scope);
        for revision in Revision::ALL {
            let modern = revision.era() == Era::Modern;
            let mut raw = raw_in(&server, revision).await;
            let mut replies = Vec::new();
            for method in methods {
                replies.push(raw.call(method, params_in(revision, json!({}))).await);
            }
            let cursor = replies[0]["result"]["nextCursor"].clone();
            replies.push(raw.call("tools/list", params_in(revision, json!({ "cursor": cursor }))).await);
            replies.push(raw.call("resources/read", params_in(revision, json!({ "uri": "x:1" }))).await);
            if modern {
                replies.push(raw.modern("server/discover", json!({}), json!({})).await);
            }
            for reply in replies {
                let hints = (reply["result"].get("ttlMs"), reply["result"].get("cacheScope"));
                let expected = (json!(1500), json!(word));
                assert_eq!(
                    hints,
                    if modern { (Some(&expected.0), Some(&expected.1)) } else { (None, None) },
                    "{reply}"
                );
            }
            let call = raw.call("tools/call", params_in(revision, json!({ "name": "a" }))).await;
            assert!(call["result"].get("ttlMs").is_none(), "{call}");
        }
    }
    let mut raw = Raw::client_of(&many(1, 1));
    let reply = raw.modern("tools/list", json!({}), json!({})).await;
    assert_eq!((&reply["result"]["ttlMs"], &reply["result"]["cacheScope"]), (&json!(0), &json!("private")));
}

/// CACHE-5, CACHE-8, CACHE-9: kept while fresh, for the same params only, fetched again when stale.
#[tokio::test(start_paused = true)]
async fn clients_keep_what_is_fresh() {
    let server = cached(Duration::from_secs(60), CacheScope::Private);
    let (client, wire) = join(&server, plain(), Revision::LATEST_MODERN).await;
    for _ in 0..3 {
        assert_eq!(client.all_tools().await.unwrap().len(), 2);
        client.read("x:1").await.unwrap();
    }
    assert_eq!((wire.of(Way::Out, "tools/list").len(), wire.of(Way::Out, "resources/read").len()), (2, 1));
    tokio::time::advance(Duration::from_secs(59)).await;
    client.all_tools().await.unwrap();
    assert_eq!(wire.of(Way::Out, "tools/list").len(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    client.all_tools().await.unwrap();
    assert_eq!(wire.of(Way::Out, "tools/list").len(), 4, "no polling in between, then both pages again");
    // CACHE-7: another client is another authorization context and has a cache of its own.
    let (other, own) = join(&server, plain(), Revision::LATEST_MODERN).await;
    other.read("x:1").await.unwrap();
    assert_eq!(own.of(Way::Out, "resources/read").len(), 1);
}

/// CACHE-8: zero, absent and negative hints keep nothing.
#[tokio::test]
async fn stale_hints_keep_nothing() {
    for hint in [json!({ "ttlMs": 0 }), json!({}), json!({ "ttlMs": -5 }), json!({ "ttlMs": "60000" })] {
        let (raw, client) = at(Revision::LATEST_MODERN, plain()).await;
        let mut page = json!({ "tools": [], "resultType": "complete" });
        page.as_object_mut().unwrap().extend(hint.as_object().unwrap().clone());
        let script = pages(raw, vec![page.clone(), page]);
        // A hint of the wrong type may cost the typed result, never the next fetch.
        let _ = client.all_tools().await;
        let _ = client.all_tools().await;
        assert_eq!(script.await.unwrap().1.len(), 2, "{hint}");
    }
}

/// CACHE-10: a change note makes what it is about stale at once, and nothing else.
#[tokio::test]
async fn change_notes_make_stale() {
    let server = cached(Duration::from_secs(600), CacheScope::Public);
    let (client, wire) = join(&server, plain(), Revision::LATEST_MODERN).await;
    let interest = Interest { tools: true, uris: vec!["x:1".into()], ..Interest::default() };
    let mut listen = client.listen(interest);
    listen.ready().await.unwrap();
    let count = |method: &str| wire.of(Way::Out, method).len();
    client.all_tools().await.unwrap();
    client.read("x:1").await.unwrap();
    server.changed(&Change::Tools);
    listen.next().await.unwrap();
    client.all_tools().await.unwrap();
    client.read("x:1").await.unwrap();
    assert_eq!((count("tools/list"), count("resources/read")), (4, 1));
    server.changed(&Change::Resource("x:1".into()));
    listen.next().await.unwrap();
    client.all_tools().await.unwrap();
    client.read("x:1").await.unwrap();
    assert_eq!((count("tools/list"), count("resources/read")), (4, 2));
}

/// CACHE-11: a cursor that is refused discards all pages of the list.
#[tokio::test]
async fn a_refused_cursor_discards_the_list() {
    let (raw, client) = at(Revision::LATEST_MODERN, plain()).await;
    let fresh = json!({ "resultType": "complete", "ttlMs": 60000, "tools": [tool("a")], "nextCursor": "1" });
    let last = json!({ "resultType": "complete", "ttlMs": 60000, "tools": [tool("b")] });
    let script = pages(raw, vec![fresh.clone(), json!({ "refuse": -32602 }), fresh, last]);
    assert!(matches!(client.all_tools().await, Err(CallError::Fault(_))));
    assert_eq!(client.all_tools().await.unwrap().len(), 2);
    assert_eq!(client.all_tools().await.unwrap().len(), 2, "kept now");
    let cursors = script.await.unwrap().1;
    assert_eq!(cursors, [json!(null), json!("1"), json!(null), json!("1")], "started from the first page");
}

/// PAG-6: a new session starts without cursors.
#[tokio::test]
async fn cursors_do_not_outlive_their_session() {
    let server = many(4, 2);
    for _ in 0..2 {
        let (client, wire) = join(&server, plain(), Revision::LATEST_LEGACY).await;
        client.tools().next().await.unwrap().unwrap();
        assert!(wire.of(Way::Out, "tools/list")[0].pointer("/params/cursor").is_none());
    }
}
