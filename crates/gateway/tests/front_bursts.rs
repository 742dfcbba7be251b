//! A server that tells a change again and again is asked for its lists one after another.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use cardan_gateway::fleet::Spec;
use cardan_proto::era::Era;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{Answer, Called, Change, Interest};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::service::{Handler, Service};
use fronting::{at, front};
use relaying::{making, plain, revisions, soon, text};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

/// A legacy server that tells changes in bursts, and takes its time to list once it has.
struct Bursts {
    bursts: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    listed: AtomicUsize,
    begun: Notify,
    go_on: Semaphore,
}

const NOTES: usize = 50;

impl Bursts {
    async fn list(&self) -> String {
        let mut name = "t0".to_owned();
        if self.bursts.load(SeqCst) > 0 {
            let running = self.running.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(running, SeqCst);
            self.begun.notify_one();
            self.go_on.acquire().await.unwrap().forget();
            self.running.fetch_sub(1, SeqCst);
            name = format!("t{}", self.listed.fetch_add(1, SeqCst) + 1);
        }
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        json!({"tools": [tool("burst"), tool(&name)]}).to_string()
    }
}

struct Serving(Arc<Bursts>);

impl Service for Serving {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let bursts = Arc::clone(&self.0);
        Box::pin(async move {
            match called.call.method {
                Method::ToolsList => Answer::Done(Bytes::from(bursts.list().await)),
                _ => {
                    bursts.bursts.fetch_add(1, SeqCst);
                    for _ in 0..NOTES {
                        cx.peer().change(Change::Tools);
                        tokio::task::yield_now().await;
                    }
                    Answer::Done(Bytes::from_static(b"{\"content\":[{\"type\":\"text\",\"text\":\"told\"}]}"))
                }
            }
        })
    }
}

/// Of one client's session with a server one list runs at a time, and what is told meanwhile is one more.
#[tokio::test]
async fn a_burst_of_changes_is_one_fetch_and_one_more() {
    let bursts = Arc::new(Bursts {
        bursts: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        listed: AtomicUsize::new(0),
        begun: Notify::new(),
        go_on: Semaphore::new(0),
    });
    let identity = Bytes::from_static(b"{\"name\":\"bursts\",\"version\":\"1\"}");
    let capabilities = Bytes::from_static(b"{\"tools\":{\"listChanged\":true}}");
    let mut config = Config::new(Role::Server, identity, capabilities);
    config.revisions = revisions(Era::Legacy);
    let (config, service) = (Arc::new(config), Arc::new(Serving(Arc::clone(&bursts))));
    let (making, _) = making(move |link| {
        let (driver, _) = Driver::new(link, Arc::clone(&service), Arc::clone(&config));
        async move { drop(driver.await) }
    });
    let front = front(vec![Spec::new("bursts", "http", "digest", making)]);
    let client = at(&front, Era::Legacy, plain()).await;
    let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
    soon("ready", listen.ready()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(text(&client, "bursts__burst", json!({})).await, "told");
    }
    soon("a list", bursts.begun.notified()).await;
    // One by one, for as long as lists are asked for: each that comes is another.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        bursts.go_on.add_permits(1);
        assert_eq!(soon("a change", listen.next()).await, Some(Change::Tools));
        seen.push(client.all_tools().await.unwrap()[1].name.clone());
    }
    assert_eq!(seen, ["bursts__t1", "bursts__t2"]);
    assert_eq!(bursts.most.load(SeqCst), 1, "one at a time");
    front.end("done").await;
}
