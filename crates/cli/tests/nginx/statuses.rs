//! Statuses that the proxy says in the place of servers that nobody here wrote.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use cardan_client::{CallError, Client};
use cardan_dial::Http;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::session::event::{Cause, Delivery, Event};
use serde_json::json;
use tokio::sync::mpsc;

use crate::common::{Scratch, peer};
use crate::proxy::{self, Nginx};

/// Longer than anything here takes, and far shorter than the deadline of a call.
const SOON: Duration = Duration::from_secs(15);

/// A server on somebody else's SDK, over Streamable HTTP, until it is dropped.
struct Stranger {
    address: String,
    child: Child,
}

impl Stranger {
    fn start(name: &str, script: &str) -> Option<Self> {
        let mut command = peer(name, script)?;
        command.arg("--http").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let place = line.trim().strip_prefix("http://")?.strip_suffix("/mcp")?;
            Some(place.to_owned())
        });
        // What it says later must not fill the pipe; the thread ends with the process.
        std::thread::spawn(move || lines.count());
        Some(Self { address: address.expect("it says where it listens"), child })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a status says of the message, by its class: refused at the door, had by the server, or nobody knows.
const STATUSES: [(u16, Delivery); 12] = [
    (400, Delivery::Sent),
    (401, Delivery::NotSent),
    (403, Delivery::NotSent),
    (405, Delivery::NotSent),
    (406, Delivery::NotSent),
    (413, Delivery::NotSent),
    (415, Delivery::NotSent),
    (418, Delivery::Sent),
    (429, Delivery::NotSent),
    (500, Delivery::Unknown),
    (502, Delivery::Unknown),
    (503, Delivery::Unknown),
];

async fn echo(client: &Client) -> Result<(), CallError> {
    let call = client.call_tool("echo", &json!({ "message": "m" })).unwrap();
    tokio::time::timeout(SOON, call).await.expect("told at once").map(drop)
}

/// The status that a call was lost to, and what that says of its delivery.
#[track_caller]
fn lost(error: &CallError) -> (u16, Delivery) {
    match error {
        CallError::Lost { cause: Cause::Http(failure), delivery, .. } => match &**failure {
            HttpFailure::Status { status, .. } | HttpFailure::SessionGone { status } => {
                (status.as_u16(), *delivery)
            }
            other => panic!("no status: {other}"),
        },
        other => panic!("not lost: {other}"),
    }
}

/// S0-83, S0-77: a call and a note fail at once with the status that they were answered with, of whatever class, and with what
/// it says of their delivery; the session of the server behind is none the worse. What says that it is gone ends it, and a
/// server that has gone is the proxy's 502.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_83_statuses_fail_their_own_message() {
    if !proxy::installed() {
        return;
    }
    for (name, script) in [("node-everything", "start.mjs"), ("python-v1", "server.py")] {
        let Some(stranger) = Stranger::start(name, script) else { return };
        let scratch = Scratch::new(&format!("statuses-{name}"));
        let flag = |status: u16| scratch.file(&format!("says-{status}"));
        let said = STATUSES.iter().map(|(status, _)| *status).chain([404]);
        let says: String =
            said.map(|status| format!("if (-f {}) {{ return {status}; }}\n", flag(status))).collect();
        let nginx = Nginx::start(&format!("statuses-{name}"), &stranger.address, &says);
        let (tell, mut found) = mpsc::unbounded_channel();
        let connector = Client::builder("ours", "1").observe(move |event| {
            if let Event::Found(finding) = event {
                let _ = tell.send(finding.to_string());
            }
        });
        let http = Http::new(&format!("http://{}/mcp", nginx.address)).unwrap();
        let mut client = connector.connect(async || http.link()).await.unwrap();
        for (status, delivery) in STATUSES {
            fs::write(flag(status), "").unwrap();
            let error = echo(&client).await.unwrap_err();
            assert_eq!(lost(&error), (status, delivery), "{name}: {error}");
            while found.try_recv().is_ok() {}
            client.roots_changed();
            let finding = tokio::time::timeout(SOON, async {
                // The push lane may be told of beside it: the proxy cuts that one when nothing comes.
                loop {
                    let finding = found.recv().await.unwrap();
                    if finding.contains("post-refused") {
                        return finding;
                    }
                }
            });
            let finding = finding.await.expect("the note is told");
            assert!(finding.contains(&status.to_string()), "{name}, {status}: {finding}");
            fs::remove_file(flag(status)).unwrap();
            echo(&client).await.unwrap_or_else(|error| panic!("{name}, after {status}: {error}"));
        }
        fs::write(flag(404), "").unwrap();
        let error = echo(&client).await.unwrap_err();
        assert_eq!(lost(&error), (404, Delivery::NotSent), "{name}: {error}");
        tokio::time::timeout(SOON, client.closed()).await.expect("no session, no link");
        fs::remove_file(flag(404)).unwrap();
        let client = Client::builder("ours", "1").connect(async || http.link()).await.unwrap();
        echo(&client).await.unwrap();
        drop(stranger);
        assert_eq!(lost(&echo(&client).await.unwrap_err()), (502, Delivery::Unknown), "{name} is gone");
    }
}
