//! Addresses that servers give: parsed strictly before anyone follows them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::{Arc, Mutex};

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::finding::Strictness;
use cardan::proto::model::elicit::{ElicitParams, ElicitResult};
use common::{BOTH, Raw, answering, plain};
use serde_json::{Value, json};

const HOSTILE: [&str; 8] = [
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:text/html,<b>",
    "https://ada:secret@example.com/",
    "https://example.com\\@evil.com/",
    "https://example.com/ a",
    "ssh://-oProxyCommand=x/",
    "/relative",
];

/// A client that would visit anything, and where it was sent.
fn trusting() -> (cardan::client::Connector, Arc<Mutex<Vec<String>>>) {
    let visited = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&visited);
    let connector = answering(Answerers::default().elicit(Urls::Offered, move |ask| {
        let ElicitParams::Url(ask) = ask else { panic!("no address") };
        keep.lock().unwrap().push(ask.address().unwrap().to_string());
        async { Ok(ElicitResult::accepted()) }
    }));
    (connector, visited)
}

/// SEC-10: nobody is sent to an address that is not plainly of the web; in the modern era the call that asks
/// so is given up.
#[tokio::test]
async fn hostile_visits_reach_nobody() {
    for revision in BOTH {
        for (url, good) in
            HOSTILE.map(|url| (url, false)).into_iter().chain([("https://example.com/go#x", true)])
        {
            let (connector, visited) = trusting();
            let (mut raw, client) = Raw::ready(connector, revision, json!({ "tools": {} })).await;
            let params = json!({ "mode": "url", "message": "m", "url": url, "elicitationId": "1" });
            if revision.era() == Era::Legacy {
                let reply = raw.call("elicitation/create", params).await;
                assert_eq!(reply["result"]["action"] == "accept", good, "{url}: {reply}");
                assert!(good || reply["error"]["code"] == -32602, "{url}: {reply}");
            } else {
                let call = client.call_tool("t", &json!({})).unwrap();
                let asked = raw.recv().await;
                let ask = json!({ "a": { "method": "elicitation/create", "params": params } });
                raw.reply(&asked, json!({ "resultType": "input_required", "inputRequests": ask })).await;
                if good {
                    let retry = raw.recv().await;
                    assert_eq!(retry["params"]["inputResponses"]["a"]["action"], "accept");
                    raw.reply(&retry, json!({ "resultType": "complete", "content": [] })).await;
                    call.await.unwrap();
                } else {
                    let why = call.await.unwrap_err().to_string();
                    assert!(why.contains("/url"), "{url}: {why}");
                }
            }
            assert_eq!(visited.lock().unwrap().len(), usize::from(good), "{revision}: {url}");
        }
    }
}

/// Icons at hostile addresses, and two that may be fetched.
fn icons() -> Value {
    let more = ["http://example.com/i.png", "data:image/png;base64,AA==", "https://example.com/i.png"];
    HOSTILE.iter().chain(&more).map(|src| json!({ "src": src })).collect()
}

/// SEC-10: icons and websites that must not be fetched are not handed on.
#[tokio::test]
async fn hostile_icons_are_not_handed_on() {
    let kept = |icons: Option<Vec<cardan::proto::model::content::Icon>>| {
        icons.unwrap().into_iter().map(|icon| icon.src).collect::<Vec<_>>()
    };
    let sound = ["data:image/png;base64,AA==", "https://example.com/i.png"];
    for (website, good) in [("javascript:alert(1)", false), ("https://example.com/", true)] {
        let (mut raw, connecting) = Raw::server_for(plain(), Revision::LATEST_LEGACY);
        let hello = raw.recv().await;
        let info = json!({ "name": "raw", "version": "0", "icons": icons(), "websiteUrl": website });
        let capabilities = json!({ "tools": {}, "resources": {}, "prompts": {} });
        let result =
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info });
        raw.reply(&hello, result).await;
        raw.recv().await;
        let client = connecting.await.unwrap().unwrap();
        let server = client.server().implementation.unwrap();
        assert_eq!(server.website_url.is_some(), good, "{website}");
        assert_eq!(kept(server.icons), sound);
        let serving = tokio::spawn(async move {
            for (list, entry) in [
                ("tools", json!({ "name": "t", "inputSchema": { "type": "object" }, "icons": icons() })),
                ("resources", json!({ "name": "r", "uri": "x:1", "icons": icons() })),
                ("resourceTemplates", json!({ "name": "r", "uriTemplate": "x:{a}", "icons": icons() })),
                ("prompts", json!({ "name": "p", "icons": icons() })),
            ] {
                let call = raw.recv().await;
                raw.reply(&call, json!({ list: [entry] })).await;
            }
        });
        assert_eq!(kept(client.all_tools().await.unwrap().remove(0).icons), sound);
        assert_eq!(kept(client.all_resources().await.unwrap().remove(0).icons), sound);
        assert_eq!(kept(client.all_templates().await.unwrap().remove(0).icons), sound);
        assert_eq!(kept(client.all_prompts().await.unwrap().remove(0).icons), sound);
        serving.await.unwrap();
    }
}

/// SEC-10: what is no address is not read, though a server linked to it; lenient clients pass it on.
#[tokio::test]
async fn links_are_parsed_before_they_are_read() {
    for odd in ["no address", "/etc/passwd", "note:a b", "note:%zz", "note:\n"] {
        let (mut raw, client) =
            Raw::ready(plain(), Revision::LATEST_LEGACY, json!({ "tools": {}, "resources": {} })).await;
        let call = client.call_tool("t", &json!({})).unwrap();
        let asked = raw.recv().await;
        raw.reply(&asked, json!({ "content": [{ "type": "resource_link", "name": "l", "uri": odd }] })).await;
        let Content::ResourceLink(link) = call.await.unwrap().content.remove(0) else { panic!("no link") };
        let error = client.read(&link.uri).await.unwrap_err();
        assert!(matches!(error, CallError::Address(_)) && !error.may_have_executed(), "{odd:?}: {error}");
        let next = client.call_tool("t", &json!({})).unwrap();
        assert_eq!(raw.recv().await["method"], "tools/call", "nothing was sent before it");
        drop(next);
    }
    let lenient = plain().strictness(Strictness::Lenient);
    let (mut raw, client) = Raw::ready(lenient, Revision::LATEST_LEGACY, json!({ "resources": {} })).await;
    let reading = tokio::spawn(async move { client.read("note:a b").await });
    let asked = raw.recv().await;
    assert_eq!(asked["params"]["uri"], "note:a b");
    raw.reply(&asked, json!({ "contents": [] })).await;
    reading.await.unwrap().unwrap();
}
