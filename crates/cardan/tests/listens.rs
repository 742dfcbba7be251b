//! Standing interests in changes.

mod common;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::session::event::{Change, Interest};
use common::{BOTH, Raw, Way, dressed, join, plain};
use serde_json::{Value, json};

const MODERN: Revision = Revision::LATEST_MODERN;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn server() -> Server {
    Server::builder("listens", "1")
        .logging()
        .tool("t", "works", |cx: Cx| async move {
            cx.progress(1.0, None, None);
            cx.log(cardan::proto::model::LogLevel::Alert, None, &"x");
            cx.changed(&Change::Tools);
            "done"
        })
        .resource(Resource::new("x:1", "one"), |_| async { Ok(vec![ResourceContents::text("x:1", "1")]) })
        .build()
}

async fn listen(raw: &mut Raw, id: Value, filter: Value) -> Value {
    let params = dressed(json!({ "notifications": filter }), json!({}));
    raw.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params }))
        .await;
    raw.recv().await
}

/// SUB-1, SUB-3, SUB-4, SUB-6: the acknowledgement comes first, names the listen in the type of its id, and
/// lists only what is honoured; without a filter there is no listen.
#[tokio::test]
async fn listens_are_acknowledged() {
    for id in [json!(7), json!("7"), json!("ä")] {
        let server = server();
        let mut raw = Raw::client_of(&server);
        let wanted =
            json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x:1"] });
        let note = listen(&mut raw, id.clone(), wanted).await;
        assert_eq!(note["method"], "notifications/subscriptions/acknowledged");
        let honoured = json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:1"] });
        assert_eq!(note["params"]["notifications"], honoured, "there are no prompts here");
        assert_eq!(note["params"]["_meta"][SUBSCRIPTION], id);
        server.changed(&Change::Tools);
        assert_eq!(raw.recv().await["params"]["_meta"][SUBSCRIPTION], id);
    }
    let mut raw = Raw::client_of(&server());
    assert_eq!(raw.modern("subscriptions/listen", json!({}), json!({})).await["error"]["code"], -32602);
}

/// SUB-2, SUB-8, SUB-9, PRG-9: listens are independent, get what they asked for and nothing of calls.
#[tokio::test]
async fn listens_are_independent() {
    let server = server();
    let mut raw = Raw::client_of(&server);
    listen(&mut raw, json!("tools"), json!({ "toolsListChanged": true })).await;
    listen(&mut raw, json!("one"), json!({ "resourceSubscriptions": ["x:1"] })).await;
    listen(&mut raw, json!("nothing"), json!({})).await;
    server.changed(&Change::Resources);
    server.changed(&Change::Resource("x:2".into()));
    server.changed(&Change::Resource("x:1".into()));
    let note = raw.recv().await;
    assert_eq!(
        (&note["params"]["uri"], &note["params"]["_meta"][SUBSCRIPTION]),
        (&json!("x:1"), &json!("one"))
    );
    let mut params = dressed(json!({ "name": "t" }), json!({}));
    params["_meta"]["progressToken"] = json!("p");
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    raw.start("tools/call", params).await;
    let mut tagged = Vec::new();
    loop {
        let message = raw.recv().await;
        if message.get("result").is_some() {
            break;
        }
        if message["params"]["_meta"].get(SUBSCRIPTION).is_some() {
            tagged.push(message["method"].clone());
        }
    }
    while tagged.is_empty() {
        tagged.push(raw.recv().await["method"].clone());
    }
    assert_eq!(tagged, ["notifications/tools/list_changed"], "neither progress nor log notes");
    // SUB-12: a cancel note ends one listen and not the other.
    raw.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "tools" } }),
    )
    .await;
    raw.modern("server/discover", json!({}), json!({})).await;
    server.changed(&Change::Tools);
    server.changed(&Change::Resource("x:1".into()));
    assert_eq!(raw.recv().await["params"]["_meta"][SUBSCRIPTION], "one");
}

/// SUB-10, CAN-4: a server that leaves ends each listen with its result.
#[tokio::test]
async fn leaving_servers_end_listens() {
    let server = server();
    let mut raw = Raw::client_of(&server);
    listen(&mut raw, json!(7), json!({ "toolsListChanged": true })).await;
    server.close("done");
    let end = raw.recv().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(end["result"]["_meta"][SUBSCRIPTION], 7);
}

/// SUB-14: what cannot change cannot be listened to.
#[tokio::test]
async fn servers_without_changes_have_no_listens() {
    let mut raw = Raw::client_of(&Server::builder("empty", "1").build());
    let reply = raw.modern("subscriptions/listen", json!({ "notifications": {} }), json!({})).await;
    assert_eq!(reply["error"]["code"], -32601);
    let (_raw, client) = Raw::ready(plain(), MODERN, json!({ "tools": {} })).await;
    let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
    assert!(matches!(listen.ready().await, Err(CallError::Refused(_))));
}

/// SUB-5, SUB-7: the client tells what is honoured and sorts notes by their listen.
#[tokio::test]
async fn clients_sort_notes_by_listen() {
    let capabilities = json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true } });
    let (mut raw, client) = Raw::ready(plain(), MODERN, capabilities).await;
    let mut tools = client.listen(Interest { tools: true, prompts: true, ..Interest::default() });
    let mut one = client.listen(Interest { uris: vec!["x:1".into()], ..Interest::default() });
    let (first, second) = (raw.recv().await, raw.recv().await);
    assert_eq!(
        first["params"]["notifications"],
        json!({ "toolsListChanged": true, "promptsListChanged": true })
    );
    for (call, honoured) in [
        (&second, json!({ "resourceSubscriptions": ["x:1"] })),
        (&first, json!({ "toolsListChanged": true })),
    ] {
        let params = json!({ "notifications": honoured, "_meta": { SUBSCRIPTION: call["id"] } });
        raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params })).await;
    }
    assert_eq!(tools.ready().await.unwrap(), Interest { tools: true, ..Interest::default() });
    assert_eq!(one.ready().await.unwrap().uris.len(), 1);
    // SUB-16: a change below the address is told as it is.
    for (call, uri) in [(&second, "x:1/part"), (&second, "x:1")] {
        let params = json!({ "uri": uri, "_meta": { SUBSCRIPTION: call["id"] } });
        raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params }))
            .await;
    }
    let params = json!({ "_meta": { SUBSCRIPTION: first["id"] } });
    raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params }))
        .await;
    assert_eq!(one.next().await, Some(Change::Resource("x:1/part".into())));
    assert_eq!(one.next().await, Some(Change::Resource("x:1".into())));
    assert_eq!(tools.next().await, Some(Change::Tools));
    // CAN-3, SUB-10: the end of one is its own.
    raw.reply(&first, json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: first["id"] } })).await;
    assert_eq!(tools.next().await, None);
    drop(one);
    let cancel = raw.recv().await;
    assert_eq!(
        (&cancel["method"], &cancel["params"]["requestId"]),
        (&json!("notifications/cancelled"), &second["id"])
    );
}

/// A listen that is lost with its link ends, on both sides of the eras.
#[tokio::test]
async fn lost_listens_end() {
    for revision in BOTH {
        let server = server();
        let (client, _) = join(&server, plain(), revision).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        listen.ready().await.unwrap();
        client.close("done").await;
        assert_eq!(listen.next().await, None, "{revision}");
    }
}

/// After a reconnection the listen is sent again by asking again.
#[tokio::test]
async fn a_new_link_is_a_new_listen() {
    let server = server();
    for _ in 0..2 {
        let (client, wire) = join(&server, plain(), MODERN).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        listen.ready().await.unwrap();
        server.changed(&Change::Tools);
        assert_eq!(listen.next().await, Some(Change::Tools));
        assert_eq!(wire.of(Way::Out, "subscriptions/listen").len(), 1);
        client.close("next").await;
    }
}
