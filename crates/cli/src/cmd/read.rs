//! `cardan read`: the contents of a resource.

use std::time::Duration;

use cardan_config::closest::closest;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::{ReadResourceParams, ReadResourceResult};

use super::{decode, encode, first, none_left};
use crate::args::ReadArgs;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::results::Results;
use crate::target::Target;

pub(crate) async fn run(args: ReadArgs) -> Result<(), Failure> {
    let ReadArgs { words, content, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let uri = first(&mut words, "the resource's address")?;
    none_left(&words)?;
    let results = Results::new(options.form(), &content)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = read(&connection, uri, &results).await;
    connection.finish(outcome).await
}

async fn read(connection: &Connection, uri: String, results: &Results) -> Result<(), Failure> {
    let params =
        ReadResourceParams { uri: uri.clone(), input_responses: None, request_state: None, meta: None };
    let raw = match connection.call(Method::ResourcesRead, Some(encode(&params)?)).await {
        Ok(raw) => raw,
        Err(failure) if failure.fault().is_some_and(Fault::is_resource_not_found) => {
            let all = format!("see what there is with `{}`", connection.command("list", "resources"));
            let next = match near(connection, &uri).await {
                Some(near) => format!("did you mean `{near}`? {all}"),
                None => all,
            };
            return Err(failure.classed(Exit::NotFound).next(next));
        }
        Err(failure) => return Err(failure),
    };
    results.raw(&raw)?;
    results.read(&decode::<ReadResourceResult>(&raw)?.contents)
}

/// An address that the server lists and that looks like this one. It is asked only now, and within moments: this is advice.
async fn near(connection: &Connection, uri: &str) -> Option<String> {
    let listed = tokio::time::timeout(ADVICE, connection.client().all_resources()).await.ok()?.ok()?;
    closest(uri, listed.iter().map(|resource| resource.uri.as_str())).map(str::to_owned)
}

/// How long advice may take.
const ADVICE: Duration = Duration::from_secs(2);
