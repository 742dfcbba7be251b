//! Nothing of one client reaches another, whatever servers and connections they share.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use cardan_client::Client;
use cardan_proto::era::Era;
use cardan_proto::model::form::Form;
use cardan_proto::model::{Resource, ResourceContents};
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel, Wanted};
use cardan_server::{Cx, Server, Stop, schemars, serde};
use fronting::{at, front, spec};
use relaying::{Logs, answering, logging, revisions, soon, text};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Nonce {
    nonce: String,
}

/// Of each era.
const CLIENTS: usize = 25;

/// Speaks of its nonce in every way there is.
fn gossip(name: &'static str, era: Era) -> Server {
    Server::builder(name, "1")
        .revisions(revisions(era))
        .logging()
        .tool("tell", "speaks of its nonce", async |Nonce { nonce }: Nonce, cx: Cx| {
            for step in 1..=3 {
                cx.log(LogLevel::Info, None, &nonce);
                cx.progress(f64::from(step), None, Some(&nonce));
                // Others come in between.
                tokio::task::yield_now().await;
            }
            let answer = cx.elicit("who", &Form::new(nonce.clone()).string("name"))?;
            let name = json!(answer.content.unwrap_or_default())["name"].clone();
            Ok::<_, Stop>(format!("{nonce} {name}"))
        })
        .tool("touch", "changes a resource", async |Nonce { nonce }: Nonce, cx: Cx| {
            cx.changed(&Change::Resource(nonce.into()));
            Ok::<_, Stop>("touched")
        })
        .resource(Resource::new(format!("{name}://r"), name), move |_| async move {
            Ok(vec![ResourceContents::text(format!("{name}://r"), name)])
        })
        .build()
}

/// One client's day: everything that it hears is about itself.
async fn day(client: Client, logs: Logs, nonce: String) {
    client.set_level(LogLevel::Info);
    for server in ["old", "new", "old"] {
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let tool = format!("{server}__tell");
        let mut call = client.call_tool_with(&tool, &json!({"nonce": nonce}), options).unwrap();
        while let Some(at) = soon("progress", call.progress()).await {
            assert_eq!(at.message.as_deref(), Some(nonce.as_str()));
        }
        let result = call.await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap(), format!("{nonce} \"{nonce}\""));
        let read = client.read(&format!("{server}://r")).await.unwrap();
        assert_eq!(json!(read.contents[0])["text"], server);
    }
    let told = logs.lock().unwrap().clone();
    assert!(told.len() >= 9, "{nonce}: {told:?}");
    assert!(told.iter().all(|note| note["data"] == nonce.as_str()), "{nonce}: {told:?}");
}

/// Fifty clients of both eras, whose calls have the same ids and tokens, hear only their own replies, progress, log
/// notes and asks, of a server of either era.
#[tokio::test]
async fn clients_hear_only_what_is_theirs() {
    let servers = [("old", Era::Legacy), ("new", Era::Modern)];
    let front = front(servers.map(|(name, era)| spec(name, &gossip(name, era)).0).into());
    let mut days = tokio::task::JoinSet::new();
    for (n, era) in (0..CLIENTS).flat_map(|n| [(n, Era::Legacy), (n, Era::Modern)]) {
        let nonce = format!("{era:?}-{n}");
        let (connector, logs) = logging(answering(&nonce));
        let client = at(&front, era, connector).await;
        days.spawn(day(client, logs, nonce));
    }
    while let Some(day) = soon("a day", days.join_next()).await {
        day.unwrap();
    }
    front.end("done").await;
}

/// SUB-4: a change of a resource comes to who listens for it, and to nobody else.
#[tokio::test]
async fn changes_come_to_who_listens() {
    for era in [Era::Legacy, Era::Modern] {
        let front = front(vec![spec("old", &gossip("old", Era::Legacy)).0]);
        let interest = |uri: &str| Interest { uris: vec![uri.into()], ..Interest::default() };
        let (one, two) = (at(&front, era, answering("one")).await, at(&front, era, answering("two")).await);
        let (mut first, mut second) = (one.listen(interest("old://r")), two.listen(interest("old://r/2")));
        soon("ready", first.ready()).await.unwrap();
        soon("ready", second.ready()).await.unwrap();
        text(&one, "old__touch", json!({"nonce": "old://r/1"})).await;
        assert_eq!(
            soon("a change", first.next()).await,
            Some(Change::Resource("old://r/1".into())),
            "{era:?}"
        );
        text(&two, "old__touch", json!({"nonce": "old://r/2"})).await;
        let told = soon("a change", second.next()).await;
        assert_eq!(told, Some(Change::Resource("old://r/2".into())), "{era:?}: not the other's");
        front.end("done").await;
    }
}
