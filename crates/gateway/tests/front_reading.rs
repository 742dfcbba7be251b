//! Resources are read and followed where they are, though their server may only be starting, and a read that is asked goes on
//! where it was asked.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::Client;
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::model::{Resource, ResourceContents, ResourceTemplate};
use cardan_proto::session::event::{CallOptions, Interest};
use cardan_server::{Cx, Server, Stop, Variables};
use fronting::{Stage, at, front, server, spec};
use relaying::{answering, plain, revisions, soon};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A server that is there when it may be.
fn slow(name: &'static str, leave: &Arc<Semaphore>) -> Spec {
    fronting::late(name, server(name, Era::Modern, &Stage::default()), leave)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    Follow,
}

/// What is at an address, or that it is followed.
async fn wished(client: &Client, wish: Wish, era: Era) -> bool {
    match (wish, era) {
        (Wish::Read, _) => client.read("late://a").await.is_ok(),
        (Wish::Follow, Era::Legacy) => {
            let params = Some(Bytes::from(json!({"uri": "late://a"}).to_string()));
            client.raw(Method::ResourcesSubscribe, params, CallOptions::default()).await.is_ok()
        }
        (Wish::Follow, Era::Modern) => {
            let mut listen = client.listen(Interest { uris: vec!["late://a".into()], ..Interest::default() });
            listen.ready().await.is_ok_and(|interest| interest.uris.len() == 1)
        }
    }
}

/// S0-80: who reads or follows something before its server is known waits for it, as who calls a tool does.
#[tokio::test]
async fn s0_80_reads_and_listens_wait_for_servers_that_start() {
    for era in ERAS {
        for wish in [Wish::Read, Wish::Follow] {
            for alone in [true, false] {
                let leave = Arc::new(Semaphore::new(0));
                let known = spec("known", &server("known", Era::Modern, &Stage::default())).0;
                let fleet = Fleet::start(vec![known, slow("late", &leave)], fleet::Options::default());
                let all = Front::start(fleet, Options { window: Duration::ZERO, ..Options::default() });
                let front = if alone { all.alone("late").unwrap() } else { all.clone() };
                let client = at(&front, era, plain()).await;
                let (had, ()) = soon("an answer", async {
                    tokio::join!(wished(&client, wish, era), async {
                        // The call is on its way before the server is there.
                        for _ in 0..100 {
                            tokio::task::yield_now().await;
                        }
                        leave.add_permits(99);
                    })
                })
                .await;
                assert!(had, "{era:?} {wish:?} {alone}");
                all.end("done").await;
            }
        }
    }
}

/// Has no such thing, or asks before it tells.
fn shared(name: &'static str, era: Era, asks: bool, read: &Arc<AtomicUsize>) -> Spec {
    let read = Arc::clone(read);
    let template = ResourceTemplate::new("shared://t/{key}", "notes");
    let server = Server::builder(name, "1")
        .revisions(revisions(era))
        .template(template, move |_, variables: Variables, cx: Cx| {
            read.fetch_add(1, SeqCst);
            async move {
                let uri = format!("shared://t/{}", variables["key"]);
                if !asks {
                    return Err(Stop::from(Fault::resource_not_found(&uri)));
                }
                let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
                let filled = json!(answer.content.unwrap_or_default())["name"].clone();
                Ok(vec![ResourceContents::text(uri, format!("{name} {filled}"))])
            }
        })
        .build();
    spec(name, &server).0
}

/// MRTR-3: the answers go to the server that asked, and to no other that may have the address.
#[tokio::test]
async fn mrtr_3_a_read_goes_on_where_it_was_asked() {
    for of in ERAS {
        for era in ERAS {
            let (without, asking) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let front =
                front(vec![shared("without", of, false, &without), shared("asking", of, true, &asking)]);
            let client = at(&front, era, answering("ada")).await;
            let read = soon("the read", client.read("shared://t/x")).await.unwrap();
            assert_eq!(json!(read)["contents"][0]["text"], "asking \"ada\"", "{of:?} {era:?}");
            assert_eq!(without.load(SeqCst), 1, "{of:?} {era:?}: what was asked is none of its business");
            front.end("done").await;
        }
    }
}

/// Something at an address that others have too, by a list or by a template.
fn twice(name: &'static str, listed: bool) -> Server {
    let builder = Server::builder(name, "1");
    if listed {
        let resource = Resource::new("twice://a", name);
        return builder
            .resource(resource, move |_| async move { Ok(vec![ResourceContents::text("twice://a", name)]) })
            .build();
    }
    builder
        .template(ResourceTemplate::new("twice://{key}", "notes"), move |_, _: Variables, _: Cx| async move {
            Ok(vec![ResourceContents::text("twice://a", name)])
        })
        .build()
}

/// T25: an address leads to the server that is configured first, not to the one that is ready first; so it does where the
/// first only has a template that makes it, or the second is the one that lists it.
#[tokio::test(start_paused = true)]
async fn t25_an_address_leads_to_one_server_whoever_is_ready_first() {
    // Does the first list it, does the second, and whose it is.
    let cases = [(true, true, "one"), (true, false, "one"), (false, false, "one"), (false, true, "two")];
    for (first, second, whose) in cases {
        for late in ["one", "two"] {
            for era in ERAS {
                let leave = Arc::new(Semaphore::new(0));
                let made = |name, listed| match name == late {
                    true => fronting::late(name, twice(name, listed), &leave),
                    false => spec(name, &twice(name, listed)).0,
                };
                let specs = vec![made("one", first), made("two", second)];
                let fleet = Fleet::start(specs, fleet::Options::default());
                let front = Front::start(fleet, Options { window: Duration::ZERO, ..Options::default() });
                let client = at(&front, era, plain()).await;
                let (read, ()) = tokio::join!(client.read("twice://a"), async {
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    leave.add_permits(99);
                });
                let read = json!(read.unwrap());
                assert_eq!(read["contents"][0]["text"], whose, "{first} {second} {late} {era:?}");
                front.end("done").await;
            }
        }
    }
}

/// F37: one that does not come up is waited for once, and for as long as one that was lost.
#[tokio::test(start_paused = true)]
async fn f37_an_address_is_not_kept_by_who_never_starts() {
    let specs = vec![fronting::mute("mute"), spec("two", &twice("two", true)).0];
    let fleet = Fleet::start(specs, fleet::Options::default());
    let front = Front::start(fleet, Options { window: Duration::ZERO, ..Options::default() });
    let client = at(&front, Era::Modern, plain()).await;
    let began = Instant::now();
    for _ in 0..3 {
        let read = json!(client.read("twice://a").await.unwrap());
        assert_eq!(read["contents"][0]["text"], "two");
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    front.end("done").await;
}
