//! Resources, from both sides and in every revision.

mod common;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::model::content::{Annotations, Role};
use cardan::proto::model::resource::{ListResourcesResult, ResourceContents};
use cardan::proto::session::event::{Change, Interest};
use common::{BOTH, Raw, Way, join, params_in, plain, raw_in};
use serde_json::{Value, json};

fn server() -> Server {
    let hints = Annotations {
        audience: Some(vec![Role::User]),
        priority: Some(0.5),
        last_modified: Some("2025-01-12T15:00:58Z".into()),
    };
    let text =
        Resource { annotations: Some(hints), title: Some("Text".into()), ..Resource::new("note:1", "text") };
    Server::builder("resources", "1.0")
        .resource(text, |_| async {
            Ok(vec![ResourceContents::text("note:1", "hello").with_mime_type("text/plain")])
        })
        .resource(Resource::new("note:bytes", "bytes"), |_| async {
            Ok(vec![
                ResourceContents::blob("note:bytes", &[0, 159, 255]),
                ResourceContents::text("note:b", "b"),
            ])
        })
        .resource(Resource::new("note:broken", "broken"), |_| async { Err(Stop::failed("the disk is gone")) })
        .template(ResourceTemplate::new("file:///data/{+path}", "files"), |uri, variables, _| async move {
            match variables["path"].as_str() {
                "empty" => Ok(Vec::new()),
                path => Ok(vec![ResourceContents::text(uri, path)]),
            }
        })
        .template(ResourceTemplate::new("user:{id}", "users"), |uri, variables, _| async move {
            Ok(vec![ResourceContents::text(uri, &variables["id"])])
        })
        .build()
}

/// RES-1, RES-2, RES-18: declared, listed for everyone alike, with hints in range.
#[tokio::test]
async fn resources_are_listed() {
    let server = server();
    for revision in Revision::ALL {
        let (client, wire) = join(&server, plain(), revision).await;
        let declared = client.server().capabilities.resources.expect("declared");
        assert_eq!((declared.subscribe, declared.list_changed), (Some(true), Some(true)), "{revision}");
        let resources = client.all_resources().await.unwrap();
        assert_eq!(
            resources.iter().map(|one| &*one.uri).collect::<Vec<_>>(),
            ["note:1", "note:bytes", "note:broken"]
        );
        assert!(resources.iter().all(|one| one.check().is_empty()));
        assert_eq!(resources[0].annotations.as_ref().unwrap().priority, Some(0.5));
        assert_eq!(resources[0].title.is_some(), revision >= Revision::V2025_06_18, "{revision}");
        let templates = client.all_templates().await.unwrap();
        assert!(templates.iter().all(|one| one.check().is_empty()), "RES-17: templates are RFC 6570");
        assert_eq!(templates.len(), 2);
        let (other, again) = join(&server, plain(), revision).await;
        other.read("note:1").await.unwrap();
        other.all_resources().await.unwrap();
        let list = |wire: &common::Wire| wire.results("resources/list")[0]["result"]["resources"].clone();
        assert_eq!(list(&wire), list(&again), "the list does not vary");
    }
}

/// RES-14, RES-17: text and base64 blobs, several parts, variables of templates.
#[tokio::test]
async fn resources_are_read() {
    for revision in Revision::ALL {
        let (client, _) = join(&server(), plain(), revision).await;
        let text = client.read("note:1").await.unwrap();
        assert!(matches!(&text.contents[0], ResourceContents::Text(part) if part.text == "hello"));
        let parts = client.read("note:bytes").await.unwrap();
        assert_eq!((parts.contents.len(), parts.check()), (2, vec![]));
        assert!(
            matches!(&parts.contents[0], ResourceContents::Blob(part) if part.bytes() == Ok(vec![0, 159, 255]))
        );
        let user = client.read("user:ada%20l").await.unwrap();
        assert!(matches!(&user.contents[0], ResourceContents::Text(part) if part.text == "ada l"));
    }
}

/// RES-6, RES-7, RES-8, RES-9: what does not exist has the code of its era, names the address, is never
/// empty, and the client knows both codes.
#[tokio::test]
async fn missing_resources_have_the_code_of_their_era() {
    for revision in Revision::ALL {
        let (client, _) = join(&server(), plain(), revision).await;
        for uri in ["note:none", "file:///data/empty"] {
            let error = client.read(uri).await.unwrap_err();
            assert!(error.is_not_found(), "{revision} {uri}: {error}");
            let CallError::Fault(fault) = error else { panic!("{error}") };
            assert_eq!(fault.code, if revision.era() == Era::Legacy { -32002 } else { -32602 }, "{revision}");
            let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
            assert_eq!(data["uri"], uri);
        }
    }
    for (code, data, found) in
        [(-32002, json!(null), true), (-32602, json!({ "uri": "x:1" }), true), (-32602, json!(null), false)]
    {
        let (mut raw, client) =
            Raw::ready(plain(), Revision::LATEST_MODERN, json!({ "resources": {} })).await;
        let script = tokio::spawn(async move {
            let call = raw.recv().await;
            raw.refuse(&call, code, data).await;
            raw
        });
        assert_eq!(client.read("x:1").await.unwrap_err().is_not_found(), found, "{code}");
        script.await.unwrap();
    }
}

/// RES-10: a failure inside is -32603.
#[tokio::test]
async fn failures_inside_are_internal() {
    for revision in BOTH {
        let (client, _) = join(&server(), plain(), revision).await;
        let error = client.read("note:broken").await.unwrap_err();
        assert!(matches!(&error, CallError::Fault(fault) if fault.code == -32603), "{error}");
        assert!(!error.is_not_found());
    }
}

/// RES-12, RES-13, RES-16: addresses are checked, and file addresses cannot climb.
#[tokio::test]
async fn addresses_are_checked() {
    for revision in Revision::ALL {
        let mut raw = raw_in(&server(), revision).await;
        let odd = [
            json!({ "uri": "no address" }),
            json!({ "uri": "" }),
            json!({ "uri": 7 }),
            json!({}),
            json!({ "uri": "file:///data/../etc/passwd" }),
            json!({ "uri": "file:///data/a/%2e%2E/%2e%2e/etc/passwd" }),
            json!({ "uri": "file:///data/..%2fetc/passwd" }),
            json!({ "uri": "FILE:///data/.." }),
            json!({ "uri": "user:%zz" }),
        ];
        for params in odd {
            let reply = raw.call("resources/read", params_in(revision, params.clone())).await;
            assert_eq!(reply["error"]["code"], -32602, "{revision}: {params} {reply}");
        }
        let reply =
            raw.call("resources/read", params_in(revision, json!({ "uri": "file:///data/a..b/c" }))).await;
        assert_eq!(reply["result"]["contents"][0]["text"], "a..b/c", "{reply}");
        if revision.era() == Era::Legacy {
            let reply = raw.call("resources/subscribe", json!({ "uri": "no address" })).await;
            assert_eq!(reply["error"]["code"], -32602, "{reply}");
        }
    }
}

/// RES-3: changes of the list are announced to who listens.
#[tokio::test]
async fn list_changes_are_announced() {
    for revision in BOTH {
        let server = server();
        let (client, _) = join(&server, plain(), revision).await;
        let mut listen = client.listen(Interest { resources: true, ..Interest::default() });
        listen.ready().await.unwrap();
        server.changed(&Change::Resources);
        assert_eq!(listen.next().await, Some(Change::Resources), "{revision}");
    }
}

/// RES-4: subscribing answers an empty result; updates follow until unsubscribed.
#[tokio::test]
async fn legacy_subscriptions_bring_updates() {
    let server = server();
    let mut raw = Raw::legacy(&server, Revision::LATEST_LEGACY, json!({})).await;
    assert_eq!(raw.call("resources/subscribe", json!({ "uri": "note:1" })).await["result"], json!({}));
    server.changed(&Change::Resource("note:2".into()));
    server.changed(&Change::Resource("note:1".into()));
    let note = raw.recv().await;
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"], json!({ "uri": "note:1" }));
    assert_eq!(raw.call("resources/unsubscribe", json!({ "uri": "note:1" })).await["result"], json!({}));
    server.changed(&Change::Resource("note:1".into()));
    assert_eq!(raw.call("ping", json!({})).await["result"], json!({}), "no update came in between");
}

/// RES-5, S2-29: modern updates only for addresses in a filter; dropping the listen ends them.
#[tokio::test]
async fn updates_only_for_what_is_listened_to() {
    for revision in BOTH {
        let server = server();
        let (client, wire) = join(&server, plain(), revision).await;
        let mut listen = client.listen(Interest { uris: vec!["note:1".into()], ..Interest::default() });
        assert_eq!(listen.ready().await.unwrap().uris, ["note:1".into()]);
        for uri in ["note:2", "note:1", "note:10"] {
            server.changed(&Change::Resource(uri.into()));
        }
        assert_eq!(listen.next().await, Some(Change::Resource("note:1".into())));
        drop(listen);
        let ending =
            if revision.era() == Era::Legacy { "resources/unsubscribe" } else { "notifications/cancelled" };
        wire.until(Way::Out, ending).await;
        client.ping().await.unwrap();
        server.changed(&Change::Resource("note:1".into()));
        client.ping().await.unwrap();
        assert_eq!(wire.of(Way::In, "notifications/resources/updated").len(), 1, "{revision}");
    }
}

/// S2-29: no subscribing where the server does not offer it.
#[tokio::test]
async fn no_subscription_without_the_capability() {
    let capabilities = json!({ "resources": {} });
    let (_raw, client) = Raw::ready(plain(), Revision::LATEST_LEGACY, capabilities).await;
    let mut listen = client.listen(Interest { uris: vec!["x:1".into()], ..Interest::default() });
    assert!(matches!(listen.ready().await, Err(CallError::Refused(_))));
}

/// S2-30: list changes are heard even from servers that did not declare them.
#[tokio::test]
async fn undeclared_legacy_changes_are_heard() {
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_LEGACY, json!({ "resources": {} })).await;
    let mut listen = client.listen(Interest { resources: true, ..Interest::default() });
    listen.ready().await.unwrap();
    raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/resources/list_changed" })).await;
    assert_eq!(listen.next().await, Some(Change::Resources));
}

/// RES-18: what is out of range is found.
#[test]
fn hints_out_of_range_are_found() {
    let page: ListResourcesResult = serde_json::from_value(json!({ "resources": [
        { "uri": "a:b", "name": "n", "annotations": { "priority": 2, "audience": ["robot"], "lastModified": "soon" } }
    ]}))
    .unwrap();
    assert_eq!(page.resources[0].check().len(), 3);
}
