//! The client that the official conformance suite runs, once for each scenario, on the public API alone.
//!
//! The suite names scenario, revision and context in the environment and its server in the last argument. Run by
//! `cargo xtask conformance --client`.

mod answers;
mod scenarios;

use std::env;
use std::error::Error;

use cardan_client::Client;
use cardan_dial::Http;
use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::session::config::EraChoice;
use serde_json::Value;

const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";
const REVISION: &str = "MCP_CONFORMANCE_PROTOCOL_VERSION";
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().next_back().filter(|word| word.starts_with("http"));
    let url = url.ok_or("the last argument must be the address of a server")?;
    let scenario = env::var(SCENARIO).map_err(|_| format!("{SCENARIO} must name a scenario"))?;
    let revision = env::var(REVISION).map_err(|_| format!("{REVISION} must name a revision"))?;
    let revision =
        Revision::parse(&revision).ok_or_else(|| format!("{REVISION}: {revision} is not spoken here"))?;
    let context = match env::var(CONTEXT) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let client = connect(&url, revision).await?;
    let done = scenarios::play(&scenario, &context, &client).await;
    client.close("the scenario is over").await;
    done
}

/// A server of the modern era is found by asking it; one of the legacy era knows no such question.
async fn connect(url: &str, revision: Revision) -> Result<Client, Box<dyn Error>> {
    let http = Http::new(url)?;
    let era = match revision.era() {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Auto,
    };
    let connector = Client::builder("cardan-conformance", env!("CARGO_PKG_VERSION"))
        .answer(answers::all())
        .era(era)
        .revisions(Revisions::only(revision));
    Ok(connector.connect(async || http.link()).await?)
}
