//! Our client, under the script that the foreign ones run: the same checks, told the same way.
//!
//! `interop-client [--era legacy|modern] -- command args... | url`. Twin of `peers/script.mjs`; run by
//! `cargo xtask interop`.

#![allow(clippy::print_stdout, reason = "the report goes to stdout")]

mod checks;
mod terms;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use cardan_client::{Answerers, Client, Connector, Urls};
use cardan_dial::{Http, Kind};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::model::Content;
use cardan_proto::model::content::Role;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult};
use cardan_proto::model::roots::Root;
use cardan_proto::model::sampling::{Blocks, CreateMessageResult};
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::Event;
use cardan_transport::spawn::{EnvPolicy, Spawn};
use checks::{Peer, Unmet};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Longest time for one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let mut word = words.next().ok_or("usage: interop-client [--era legacy|modern] -- command | url")?;
    let mut era = EraChoice::Auto;
    if word == "--era" {
        era = match words.next().as_deref() {
            Some("legacy") => EraChoice::Legacy,
            Some("modern") => EraChoice::Modern,
            _ => return Err("--era takes legacy or modern".into()),
        };
        word = words.next().unwrap_or_default();
    }
    let target: Vec<String> = words.collect();
    if word != "--" || target.is_empty() {
        return Err("the server comes after --".into());
    }
    let (logged, log) = mpsc::unbounded_channel();
    let connector = connector(era, logged);
    let client = match tokio::time::timeout(CHECK_TIMEOUT, connect(&connector, &target)).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return Ok(not_connected(&error.to_string())),
        Err(_) => return Ok(not_connected("no session in time")),
    };
    let settled = client.settled().revision;
    let era = if settled.era() == Era::Modern { "modern" } else { "legacy" };
    let server = client.server().implementation.map(|implementation| implementation.name);
    tell("connect", &Ok(json!({ "version": settled.to_string(), "era": era, "server": server })));
    let code = run(Peer::new(&client, log)).await;
    let _ = tokio::time::timeout(CHECK_TIMEOUT, client.close("done")).await;
    Ok(code)
}

fn not_connected(why: &str) -> ExitCode {
    tell("connect", &Err(Unmet::Failed(why.to_owned())));
    println!("{}", json!({ "check": "end", "passed": 0, "failed": 1, "skipped": 0 }));
    ExitCode::FAILURE
}

/// All checks after the first.
async fn run(mut peer: Peer<'_>) -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (1, 0, 0);
    for check in checks::ALL {
        let outcome = tokio::time::timeout(CHECK_TIMEOUT, peer.check(check)).await;
        let outcome =
            outcome.unwrap_or_else(|_| Err(Unmet::Failed(format!("no answer within {CHECK_TIMEOUT:?}"))));
        match &outcome {
            Ok(_) => passed += 1,
            Err(Unmet::Failed(_)) => failed += 1,
            Err(Unmet::Skipped(_)) => skipped += 1,
        }
        tell(check, &outcome);
    }
    println!("{}", json!({ "check": "end", "passed": passed, "failed": failed, "skipped": skipped }));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One line for a check.
fn tell(check: &str, outcome: &Result<Value, Unmet>) {
    let mut line = match outcome {
        Ok(facts) => facts.as_object().cloned().unwrap_or_default(),
        Err(Unmet::Failed(why) | Unmet::Skipped(why)) => {
            [("why".to_owned(), json!(why))].into_iter().collect()
        }
    };
    line.insert("check".to_owned(), json!(check));
    let ok = match outcome {
        Ok(_) => json!(true),
        Err(Unmet::Failed(_)) => json!(false),
        Err(Unmet::Skipped(_)) => Value::Null,
    };
    line.insert("ok".to_owned(), ok);
    println!("{}", Value::Object(line));
}

fn connector(era: EraChoice, logged: mpsc::UnboundedSender<Value>) -> Connector {
    let roots = vec![Root { name: Some("workspace".to_owned()), ..Root::new("file:///workspace") }];
    let answers = Answerers::default()
        .elicit(Urls::NotOffered, async |ask| elicited(&ask))
        .sample(async |_| Ok(sampled()))
        .roots(Arc::new(RwLock::new(roots)));
    Client::builder("interop-client", env!("CARGO_PKG_VERSION")).answer(answers).era(era).observe(
        move |event| {
            if let Event::Logged { params } = event {
                let _ = logged.send(serde_json::from_slice(params).unwrap_or_default());
            }
        },
    )
}

/// Starts a command, or reaches an address: by old HTTP+SSE if its path says so.
async fn connect(connector: &Connector, target: &[String]) -> Result<Client, Box<dyn Error>> {
    let first = &target[0];
    if first.starts_with("ws") && first.contains("://") {
        let options = cardan_ws::Dial::new(&Limits::DEFAULT);
        return Ok(connector.connect(async || cardan_ws::dial(first, &options).await).await?);
    }
    if first.starts_with("http") {
        let kind = if first.ends_with("/sse") { Kind::Events } else { Kind::Streamable };
        let http = Http::new(first)?.kind(kind);
        return Ok(connector.connect(async || http.link()).await?);
    }
    let spawn = Spawn::new(first).args(&target[1..]).env_policy(EnvPolicy::Inherit);
    let spawn = spawn.on_stderr(|line| eprintln!("{line}"));
    Ok(connector.connect(async || spawn.spawn(&Limits::DEFAULT)).await?)
}

fn elicited(ask: &ElicitParams) -> Result<ElicitResult, Fault> {
    let ElicitParams::Form(form) = ask else { return Err(Fault::invalid_params("not a form")) };
    let fields = &form.requested_schema.properties.0;
    let known = ["answer", "name"].into_iter().find(|name| fields.iter().any(|(field, _)| field == name));
    let field = known.ok_or_else(|| Fault::invalid_params("the form has no field `answer`"))?;
    Ok(ElicitResult::filled(BTreeMap::from([(field.to_owned(), "blue".into())])))
}

fn sampled() -> CreateMessageResult {
    CreateMessageResult {
        role: Role::Assistant,
        content: Blocks::One(Content::text("sampled")),
        model: "peer".to_owned(),
        stop_reason: None,
        meta: None,
    }
}
