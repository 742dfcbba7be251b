//! `cardan call`: a tool with typed arguments, its result on stdout.

use cardan_client::Class;
use cardan_proto::method::Method;
use cardan_proto::model::tool::{CallToolParams, CallToolResult};
use cardan_proto::model::{ListToolsResult, Raw, RawObject, Tool};
use serde_json::{Map, Value};

use super::{decode, encode, first};
use crate::args::CallArgs;
use crate::arguments::{Arguments, unknown};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::results::Results;
use crate::schema::Shape;
use crate::talk;
use crate::target::Target;

pub(crate) async fn run(args: CallArgs) -> Result<(), Failure> {
    let CallArgs { words, args, no_check, content, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let tool = first(&mut words, "the tool's name")?;
    let (tool, arguments) = Arguments::of_call(&tool, &words, args.as_deref())?;
    let check = if no_check { Check::No } else { Check::Yes };
    let results = Results::new(options.form(), &content)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = call(&connection, &tool, arguments, check, &results).await;
    connection.finish(outcome).await
}

/// Whether arguments are checked before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Yes,
    No,
}

async fn call(
    connection: &Connection,
    name: &str,
    arguments: Arguments,
    check: Check,
    results: &Results,
) -> Result<(), Failure> {
    let arguments = fit(connection, name, arguments, check).await?;
    let object = Raw::of(&arguments).map_err(|error| Failure::usage(error.to_string()))?;
    let object = RawObject::try_from(object).map_err(|flaw| Failure::usage(flaw.to_string()))?;
    let params = encode(&CallToolParams::new(name, Some(object)))?;
    let raw = connection.call(Method::ToolsCall, Some(params)).await?;
    results.raw(&raw)?;
    let result: CallToolResult = decode(&raw)?;
    results.called(&result)?;
    if let Some(class) = Class::of_result(&result) {
        let failure = Failure::of_tool(class, format!("tool {name} failed; it says why on stdout"));
        return Err(failure.next("correct the arguments, or see the server's log"));
    }
    Ok(())
}

/// The arguments as the tool wants them. Nothing is sent that the tool's schema excludes.
async fn fit(
    connection: &Connection,
    name: &str,
    arguments: Arguments,
    check: Check,
) -> Result<Map<String, Value>, Failure> {
    if check == Check::No && !arguments.need_schema() {
        return arguments.unchecked(&Value::Null);
    }
    let schema = find(connection, name).await?.input_schema.raw().value();
    if check == Check::No {
        return arguments.unchecked(&schema);
    }
    let shape = Shape::of(&schema);
    let mut object = arguments.typed_for(name, &shape)?;
    if let Some(console) = connection.person().console() {
        connection.unless_left(talk::arguments::of_tool(console, name, &shape, &mut object)).await?;
    }
    Arguments::checked(name, &shape, object)
}

/// The tool, read from as few pages as it takes.
async fn find(connection: &Connection, name: &str) -> Result<Tool, Failure> {
    let mut pages = connection.client().pages::<ListToolsResult>(Method::ToolsList);
    let mut seen = Vec::new();
    loop {
        let page = async { pages.next().await.transpose() };
        let Some(page) = connection.looked_up(page).await? else { break };
        for tool in page.tools {
            if tool.name == name {
                return Ok(tool);
            }
            seen.push(tool.name);
        }
    }
    let known: Vec<&str> = seen.iter().map(String::as_str).collect();
    Err(unknown("tool", name, "the server", &known).classed(Exit::NotFound))
}
