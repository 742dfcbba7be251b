//! The server: our endpoint on a port, all transports. It tells what is open whenever it gets a line.

use std::io::BufRead as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Census, Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::model::resource::ResourceTemplate;
use cardan_proto::session::event::Change;
use cardan_server::{Cx, Server, Stop};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A session whose client is gone: shorter than in earnest, so that its end can be seen.
pub(crate) const IDLE: Duration = Duration::from_secs(4);

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Late {
    text: String,
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Touch {
    text: String,
    uri: String,
}

fn server() -> Server {
    let limits = Limits { session_idle_timeout: IDLE, ..Limits::DEFAULT };
    Server::builder("soak", "1")
        .limits(limits)
        .tool("echo", "says it back", async |args: Echo| args.text)
        .tool("late", "says it back later", async |args: Late, cx: Cx| {
            cx.progress(1.0, None, None);
            tokio::time::sleep(Duration::from_millis(args.ms)).await;
            args.text
        })
        .tool("touch", "changes a resource", async |args: Touch, cx: Cx| {
            cx.changed(&Change::Resource(args.uri.into()));
            args.text
        })
        .template(ResourceTemplate::new("soak://{+name}", "anything"), async |_, _, _| {
            Err(Stop::failed("unread"))
        })
        .build()
}

/// Serves until stdin ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let nobody: [&str; 0] = [];
        let allow = Allow::bound(Ipv4Addr::LOCALHOST.into(), Ports::Any, &nobody, &nobody)?;
        let endpoint = Endpoint::new(server(), Options::new(allow));
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.address()?;
        let (stop, stopped) = oneshot::channel();
        let (told, handle) = (endpoint.clone(), Handle::current());
        // A thread of its own: a census must not wait for clients.
        let asked = std::thread::spawn(move || {
            for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
                let Census { sessions, streams, sockets, .. } = told.census();
                let tasks = handle.metrics().num_alive_tasks();
                println!(
                    r#"{{"sessions":{sessions},"streams":{streams},"sockets":{sockets},"tasks":{tasks}}}"#
                );
            }
            let _ = stop.send(());
        });
        // Told when it serves and not before: what it holds at rest includes what serving opens.
        let told_and_stopped = async {
            println!("{address}");
            drop(stopped.await);
        };
        listener.serve(endpoint, told_and_stopped).await;
        asked.join().ok().context("the census panicked")
    })
}
