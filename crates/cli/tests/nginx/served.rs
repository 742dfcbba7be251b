//! The server behind the proxy: tools that tell apart what a proxy may do to a call.

use std::sync::Arc;
use std::time::Duration;

use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_server::{Cx, Server};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::proxy::PROXY_READ_TIMEOUT_S;

/// Longer than the proxy bears, twice.
const QUIET: Duration = Duration::from_secs(2 * PROXY_READ_TIMEOUT_S + 1);

/// The server, and what happens in it.
pub(crate) struct Served {
    pub(crate) address: String,
    pub(crate) signals: Arc<Signals>,
    task: JoinHandle<()>,
}

/// What handlers wait for and tell.
#[derive(Default)]
pub(crate) struct Signals {
    /// Lets `step` and `hold` go on.
    pub(crate) go: Notify,
    /// `hold` runs.
    pub(crate) entered: Notify,
    /// The handler of `wait` was dropped.
    pub(crate) dropped: Notify,
}

/// Tells when it goes.
struct Tells(Arc<Signals>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

impl Served {
    pub(crate) async fn start(keep_alive_interval: Duration) -> Self {
        let signals = Arc::new(Signals::default());
        let limits = Limits { keep_alive_interval, ..Limits::DEFAULT };
        let nobody: [&str; 0] = [];
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address().unwrap();
        let allow = Allow::bound(address.ip(), Ports::Any, &nobody, &nobody).unwrap();
        let endpoint = Endpoint::new(server(&signals, limits), Options::new(allow));
        let task = tokio::spawn(listener.serve(endpoint, std::future::pending()));
        Self { address: address.to_string(), signals, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn server(signals: &Arc<Signals>, limits: Limits) -> Server {
    let held = || Arc::clone(signals);
    let (step, go, hold, wait, gone) = (held(), held(), held(), held(), held());
    Server::builder("behind", "1")
        .tool("step", "reports, and ends when told by `go`", move |cx: Cx| {
            let signals = Arc::clone(&step);
            async move {
                cx.progress(1.0, None, None);
                signals.go.notified().await;
                "stepped"
            }
        })
        .tool("go", "lets `step` go on", move || {
            go.go.notify_one();
            async { "told" }
        })
        .tool("quiet", "says nothing for longer than the proxy bears", async || {
            let _ = tokio::time::timeout(QUIET, std::future::pending::<()>()).await;
            "patience"
        })
        .tool("hold", "reports, and then says nothing until it is let go", move |cx: Cx| {
            let signals = Arc::clone(&hold);
            async move {
                cx.progress(1.0, None, None);
                signals.entered.notify_one();
                signals.go.notified().await;
                "held"
            }
        })
        .tool("wait", "reports once and never ends", move |cx: Cx| {
            let tells = Tells(Arc::clone(&wait));
            async move {
                cx.progress(1.0, None, None);
                std::future::pending::<()>().await;
                drop(tells);
                "never"
            }
        })
        .tool("gone", "answers when `wait` was cancelled", move || {
            let signals = Arc::clone(&gone);
            async move {
                signals.dropped.notified().await;
                "gone"
            }
        })
        .limits(limits)
        .build()
}
