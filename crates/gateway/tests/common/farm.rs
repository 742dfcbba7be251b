//! Servers that are there again at every dial.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_gateway::fleet::{Making, Spec};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::Cause;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::Server;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Under a paused clock this costs nothing.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// A server that is there again at every dial, unless it is told otherwise.
#[derive(Clone, Default)]
pub(crate) struct Farm(pub(crate) Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) manner: Manner,
    pub(crate) dials: AtomicUsize,
    pub(crate) down: AtomicBool,
    /// Servers that are being opened, and the most that were at a time.
    pub(crate) opening: AtomicUsize,
    pub(crate) most_opening: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    pub(crate) go_on: Notify,
    pub(crate) serving: Mutex<Option<(Server, JoinHandle<Cause>)>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Good,
    /// Dialling never ends.
    Silent,
    /// Dialling takes a while.
    Slow(Duration),
}

impl Farm {
    pub(crate) fn new(manner: Manner) -> Self {
        Self(Arc::new(Inner { manner, ..Inner::default() }))
    }

    pub(crate) fn spec(&self, name: &str, era: EraChoice) -> Spec {
        let farm = self.clone();
        let way = way(move || {
            let farm = farm.clone();
            async move { farm.dial().await }
        });
        let connector = Client::builder("fleet", "1").era(era);
        // The name is a digest in these tests, so that each server has a catalog of its own.
        let digest: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        Spec::new(name, "stdio", digest, Making { connector, way, policy: Policy::CHILD })
    }

    async fn dial(&self) -> io::Result<memory::MemoryLink> {
        let inner = &self.0;
        inner.dials.fetch_add(1, Ordering::SeqCst);
        let opening = inner.opening.fetch_add(1, Ordering::SeqCst) + 1;
        inner.most_opening.fetch_max(opening, Ordering::SeqCst);
        match inner.manner {
            Manner::Good => {}
            Manner::Silent => std::future::pending().await,
            // The clock of these tests is paused.
            Manner::Slow(wait) => tokio::time::sleep_until(Instant::now() + wait).await,
        }
        inner.opening.fetch_sub(1, Ordering::SeqCst);
        if inner.down.load(Ordering::SeqCst) {
            return Err(io::Error::other("nobody there"));
        }
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let server = self.server();
        let serving = server.clone();
        let task = tokio::spawn(async move { serving.serve(theirs).await });
        *inner.serving.lock().unwrap() = Some((server, task));
        Ok(ours)
    }

    fn server(&self) -> Server {
        let farm = self.clone();
        Server::builder("farm", "1")
            .tool("echo", "says it back", async |args: Value| args.to_string())
            .tool("work", "counts those at work", move |_: Value| {
                let farm = farm.clone();
                async move {
                    let running = farm.0.running.fetch_add(1, Ordering::SeqCst) + 1;
                    farm.0.most_running.fetch_max(running, Ordering::SeqCst);
                    farm.0.go_on.notified().await;
                    farm.0.running.fetch_sub(1, Ordering::SeqCst);
                    "done"
                }
            })
            .build()
    }

    pub(crate) fn dials(&self) -> usize {
        self.0.dials.load(Ordering::SeqCst)
    }

    pub(crate) fn kill(&self) {
        let (_, task) = self.0.serving.lock().unwrap().take().unwrap();
        task.abort();
    }
}
