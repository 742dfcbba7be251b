//! `cardan ping`: does the server live, and how fast does it answer?

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::none_left;
use crate::args::{Options, Server};
use crate::connect::Connection;
use crate::failure::Failure;
use crate::output::{self, Form, Reader};
use crate::target::Target;

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan ping [OPTIONS] -- <COMMAND>...\n       cardan ping [OPTIONS] <SERVER>",
    after_help = "\
Servers of the modern revision have no ping; they are asked what they can do.

Examples:
  cardan ping -- cardan demo
  cardan ping https://example.com/mcp --count 5
  cardan ping weather --json"
)]
pub(crate) struct PingArgs {
    /// The server, unless a command follows `--`
    #[arg(value_name = "SERVER")]
    words: Vec<String>,
    /// How often to ask, one after another
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: PingArgs) -> Result<(), Failure> {
    let PingArgs { words, count, options, server } = args;
    let (target, words) = Target::split(words, server)?;
    none_left(&words)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = ping(&connection, count, options.form()).await;
    connection.finish(outcome).await
}

async fn ping(connection: &Connection, count: u32, form: Form) -> Result<(), Failure> {
    for nth in 1..=count {
        let start = Instant::now();
        connection.ping().await?;
        if output::write(&line(nth, start.elapsed(), form))? == Reader::Gone {
            break;
        }
    }
    Ok(())
}

fn line(nth: u32, took: Duration, form: Form) -> String {
    let millis = took.as_secs_f64() * 1000.0;
    match form {
        Form::Json => json!({ "nth": nth, "ms": (millis * 1000.0).round() / 1000.0 }).to_string(),
        Form::Text => format!("answered in {millis:.3} ms"),
    }
}
