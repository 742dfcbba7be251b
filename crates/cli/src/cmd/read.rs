//! `cardan read`: the contents of a resource.

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
    let params = ReadResourceParams { uri, input_responses: None, request_state: None, meta: None };
    let read = connection.call(Method::ResourcesRead, Some(encode(&params)?)).await;
    let raw = read.map_err(|failure| match failure.fault().is_some_and(Fault::is_resource_not_found) {
        true => failure.classed(Exit::NotFound).next("see what there is with `cardan list resources`"),
        false => failure,
    })?;
    results.raw(&raw)?;
    results.read(&decode::<ReadResourceResult>(&raw)?.contents)
}
