//! `cardan raw`: any method with any params, its result as it came.

use bytes::Bytes;
use cardan_config::closest::closest;
use cardan_proto::method::Method;
use cardan_proto::session::event::Vetting;
use clap::Args;

use super::{first, none_left};
use crate::args::{Options, Server};
use crate::arguments::json_object;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::results::show_json;
use crate::target::Target;

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan raw [OPTIONS] <METHOD> [PARAMS] -- <COMMAND>...\n       \
                      cardan raw [OPTIONS] <SERVER> <METHOD> [PARAMS]",
    after_help = "\
PARAMS is a JSON object; @file reads a file, - reads stdin. What the revision needs beside them is added. Nothing is checked \
before it is sent, not even whether the revision has the method, and the result is printed as it came.

Examples:
  cardan raw tools/list -- cardan demo
  cardan raw tools/call '{\"name\":\"count\",\"arguments\":{}}' -- cardan demo
  cardan raw https://example.com/mcp acme/reindex @params.json"
)]
pub(crate) struct RawArgs {
    /// The method and its params; first the server, unless a command follows `--`
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: RawArgs) -> Result<(), Failure> {
    let RawArgs { words, options, server } = args;
    let options = options.direct();
    let (target, mut words) = Target::split(words, server)?;
    let name = first(&mut words, "the method")?;
    let method = Method::parse(&name);
    let params = match words.is_empty() {
        true => None,
        false => Some(json_object(&words.remove(0), "PARAMS")?.0),
    };
    none_left(&words)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = match connection.call_with(method, params.map(Bytes::from), Vetting::Unvetted).await {
        Ok(raw) => match options.form() {
            Form::Json => output::print_json(raw.as_str()),
            Form::Text => show_json(raw.as_str()),
        },
        Err(failure) if failure.is_unknown_method() => Err(failure.next(advice(&connection, &name))),
        Err(failure) => Err(failure),
    };
    connection.finish(outcome).await
}

/// What to do about a method that the server does not know.
fn advice(connection: &Connection, method: &str) -> String {
    let can = format!("see what the server can do with `{}`", connection.command("info", ""));
    let known = Method::KNOWN.iter().map(Method::name);
    match closest(method, known).filter(|near| *near != method) {
        Some(near) => format!("did you mean `{near}`? {can}"),
        None => can,
    }
}
