//! What upkeep costs a call: instructions of an echo over the memory link, both sides, through a managed connection
//! and through a plain client. This program runs itself under callgrind, with two numbers of calls, so that
//! start-up cancels out.

use std::convert::Infallible;
use std::process::Command;

use anyhow::{Context as _, ensure};
use cardan_client::{Caller, Client, Managed, way};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory::{self, MemoryLink};
use cardan_server::Server;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::Figure;

/// Calls of the two runs.
const CALLS: [u32; 2] = [100, 400];

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed, so no figures of what upkeep costs");
        return Ok(Vec::new());
    }
    let (plain, managed) = (per_call("plain")?, per_call("managed")?);
    Ok(vec![
        Figure::new("echo over the memory link, both sides: instructions", plain, "", None),
        Figure::new("the same through a managed connection", managed, "", None),
        Figure::new("a managed call to a plain one", managed / plain, "times", Some(1.1)),
    ])
}

fn per_call(kind: &str) -> anyhow::Result<f64> {
    let [few, many] = CALLS;
    let difference = instructions(kind, many)? - instructions(kind, few)?;
    Ok(difference / f64::from(many - few))
}

fn instructions(kind: &str, calls: u32) -> anyhow::Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["calls", kind, &calls.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the calls failed under valgrind: {text}");
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, count) = line.with_context(|| format!("valgrind counted nothing: {text}"))?;
    Ok(count.trim().parse()?)
}

/// Makes so many calls, and nothing else.
pub(crate) fn calls(kind: &str, calls: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connector = Client::builder("bench", "1").era(EraChoice::Modern);
        if kind == "managed" {
            let way = way(|| std::future::ready(Ok::<_, Infallible>(link())));
            let managed = Managed::start(connector, way, Policy::CHILD);
            managed.ready(Limits::DEFAULT.open_timeout).await?;
            make(&managed, calls).await?;
            managed.close("done").await;
        } else {
            let client = connector.connect_link(link()).await?;
            make(&client, calls).await?;
            client.close("done").await;
        }
        Ok(())
    })
}

/// A link with a server at its other end.
fn link() -> MemoryLink {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let server =
        Server::builder("bench", "1").tool("echo", "says it back", async |args: Echo| args.text).build();
    tokio::spawn(async move { server.serve(theirs).await });
    ours
}

async fn make(caller: &Caller, calls: u32) -> anyhow::Result<()> {
    for _ in 0..calls {
        caller.call_tool("echo", &json!({ "text": "hello there, universal joint" }))?.await?;
    }
    Ok(())
}
