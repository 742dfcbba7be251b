//! Listens of modern clients: what stands is told first, and one line or server that fails takes no other with it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use cardan_gateway::fleet::{Making, Spec};
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Interests, Role};
use cardan_proto::session::event::{Answer, Called, Change, Interest, LogLevel};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::lines::Lines;
use cardan_runtime::service::{Handler, Service};
use fronting::front;
use relaying::{connect, making, plain, revisions, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex, split};
use tokio::sync::{Notify, Semaphore};

/// A modern server that keeps its listens itself.
struct Teller {
    uri: String,
    /// A listen is acknowledged with one of these, and then tells a change.
    leave: Arc<Semaphore>,
    told: Arc<Notify>,
    listens: Listens,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listens {
    Told,
    Refused,
}

impl Service for Teller {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let (uri, leave, told, listens) =
            (self.uri.clone(), Arc::clone(&self.leave), Arc::clone(&self.told), self.listens);
        Box::pin(async move {
            match called.call.method {
                Method::ResourcesList => {
                    let list = json!({"resources": [{"uri": uri, "name": "a"}]});
                    Answer::Done(Bytes::from(list.to_string()))
                }
                Method::ToolsList => Answer::Done(Bytes::from_static(b"{\"tools\":[]}")),
                Method::ResourcesTemplatesList => {
                    Answer::Done(Bytes::from_static(b"{\"resourceTemplates\":[]}"))
                }
                Method::SubscriptionsListen if listens == Listens::Refused => {
                    Answer::Fault(Fault::internal("not now"))
                }
                Method::SubscriptionsListen => {
                    leave.acquire().await.unwrap().forget();
                    cx.listening(Interest { uris: vec![uri.as_str().into()], ..Interest::default() });
                    cx.change(Change::Resource(uri.as_str().into()));
                    told.notify_one();
                    std::future::pending().await
                }
                _ => {
                    told.notify_one();
                    std::future::pending().await
                }
            }
        })
    }
}

/// How it is reached; the so manyth link leads to what `service` makes for it.
fn reached(service: impl Fn(usize) -> Teller + Send + Sync + 'static) -> Making {
    let identity = Bytes::from_static(b"{\"name\":\"teller\",\"version\":\"1\"}");
    let capabilities =
        Bytes::from_static(b"{\"tools\":{},\"resources\":{\"subscribe\":true},\"logging\":{}}");
    let mut config = Config::new(Role::Server, identity, capabilities);
    config.revisions = revisions(Era::Modern);
    config.interests = Interests::Handed;
    let (config, links) = (Arc::new(config), AtomicUsize::new(0));
    let (making, _) = making(move |link| {
        let service = Arc::new(service(links.fetch_add(1, SeqCst)));
        let (driver, _) = Driver::new(link, service, Arc::clone(&config));
        async move { drop(driver.await) }
    });
    making
}

/// SUB-3: the acknowledgement comes first, whatever a server has told while another had not acknowledged yet.
#[tokio::test]
async fn sub_3_nothing_is_told_before_what_stands() {
    let (leave, told) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let teller = |name: &str, leave: &Arc<Semaphore>| {
        let (uri, leave, told) = (format!("{name}://a"), Arc::clone(leave), Arc::clone(&told));
        let service = move |_| Teller {
            uri: uri.clone(),
            leave: Arc::clone(&leave),
            told: Arc::clone(&told),
            listens: Listens::Told,
        };
        Spec::new(name, "http", format!("digest of {name}"), reached(service))
    };
    let front = front(vec![teller("one", &Arc::new(Semaphore::new(9))), teller("two", &leave)]);
    front.settled().await;
    let (ours, theirs) = duplex(64 << 10);
    let serving = front.clone();
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        serving.serve(Lines::new(read, write, &Limits::DEFAULT)).await
    });
    let (read, mut write) = split(ours);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let wanted = json!({"resourceSubscriptions": ["one://a", "two://a"]});
    let params = json!({"notifications": wanted, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    soon("the first to tell", told.notified()).await;
    // What it told has all the time to come before the other acknowledges.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    leave.add_permits(9);
    let mut lines = BufReader::new(read).lines();
    let mut next = async || {
        let line = soon("a note", lines.next_line()).await.unwrap().unwrap();
        let note: Value = serde_json::from_str(&line).unwrap();
        (note["method"].as_str().unwrap_or_default().to_owned(), note["params"]["uri"].clone())
    };
    assert_eq!(next().await.0, "notifications/subscriptions/acknowledged");
    let mut changed = [next().await.1, next().await.1].map(|uri| uri.as_str().unwrap().to_owned());
    changed.sort();
    assert_eq!(changed, ["one://a", "two://a"], "what was told before is told after");
    front.end("done").await;
}

/// SUB-3: a line that refuses a listen does not end it where another stands.
#[tokio::test]
async fn a_line_that_refuses_takes_no_other_with_it() {
    let told = Arc::new(Notify::new());
    let begun = Arc::clone(&told);
    let making = reached(move |link| Teller {
        uri: "one://a".to_owned(),
        leave: Arc::new(Semaphore::new(9)),
        told: Arc::clone(&begun),
        listens: if link == 0 { Listens::Refused } else { Listens::Told },
    });
    let relay = Relay::start(making, Options { behind: Behind::Many, ..Options::default() }).await.unwrap();
    let client = connect(&relay, Era::Modern, plain()).await;
    client.set_level(LogLevel::Debug);
    // It has the first line alone, so what comes next opens another.
    let hanging = client.call_tool("hang", &json!({})).unwrap();
    soon("the call", told.notified()).await;
    let mut listen = client.listen(Interest { uris: vec!["one://a".into()], ..Interest::default() });
    let stands = soon("the listen", listen.ready()).await.unwrap();
    assert_eq!(stands.uris, [Box::from("one://a")]);
    assert_eq!(soon("a change", listen.next()).await, Some(Change::Resource("one://a".into())));
    drop(hanging);
    relay.end("done").await;
}
