//! `cardan call`: a tool with typed arguments, its result on stdout.

use cardan_client::{Class, Page as _};
use cardan_proto::era::Era;
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::model::tool::{CallToolParams, CallToolResult, TaskSupport};
use cardan_proto::model::{Flaw, Raw, RawObject, Schema, Tool, task};
use cardan_schema::Validator;
use serde_json::{Map, Value};

use super::entries::{RawPage, name_of, wanted};
use super::{decode, encode, first};
use crate::args::CallArgs;
use crate::arguments::{Arguments, unknown};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::members::Members;
use crate::output::tell;
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
    let connection = Connection::open_for(&target, &options, &tool).await?;
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
    let spelled = arguments.spelled();
    let (arguments, tool) = fit(connection, name, arguments, check).await?;
    let object =
        Raw::parse(&spelled.object(&arguments)).map_err(|error| Failure::usage(error.to_string()))?;
    let object = RawObject::try_from(object).map_err(|flaw| Failure::usage(flaw.to_string()))?;
    let raw = answered(connection, CallToolParams::new(name, Some(object)), tool.as_ref()).await?;
    // What is wrong with a result comes before it, because the result is the last that is told; it is shown all the same.
    let kept = match (&tool, check) {
        (Some(tool), Check::Yes) => kept(connection, tool, &raw),
        _ => Ok(()),
    };
    results.raw(&raw)?;
    let result: CallToolResult = decode(&raw)?;
    results.called(&result)?;
    if let Some(class) = Class::of_result(&result) {
        let why = match result.content.is_empty() && result.structured_content.is_none() {
            true => " without a word",
            false => "; it says why on stdout",
        };
        let failure = Failure::of_tool(class, format!("tool {name} failed{why}"));
        return Err(failure.next("correct the arguments, or see the server's log"));
    }
    kept
}

/// Does a tool keep what its output schema promises? One that failed has promised nothing.
fn kept(connection: &Connection, tool: &Tool, raw: &Raw) -> Result<(), Failure> {
    let (Some(schema), Ok(result)) = (&tool.output_schema, raw.read::<CallToolResult>()) else {
        return Ok(());
    };
    if result.failed() {
        return Ok(());
    }
    let name = &tool.name;
    let flaw = match flaw(schema, result.structured_content.as_ref()) {
        Ok(None) => return Ok(()),
        Ok(Some(flaw)) => flaw,
        // What cannot be checked breaks no promise.
        Err(why) => {
            tell(&format!("the result was not checked: {why} (tool {name})"));
            return Ok(());
        }
    };
    let detail = flaw.under("structuredContent").to_string();
    let message = format!("the result of tool {name} does not fit its output schema");
    connection.found(Rule::OutputSchema, &detail, message)
}

/// What of a structured result does not fit, or why that cannot be told.
fn flaw(schema: &Schema, content: Option<&Raw>) -> Result<Option<Flaw>, String> {
    let validator = Validator::compile(schema).map_err(|why| format!("the output schema: {why}"))?;
    let Some(content) = content else {
        return Ok(Some(Flaw::here("is missing, and the tool has an output schema")));
    };
    let value: Value = content.read().map_err(|why| format!("/structuredContent: {why}"))?;
    if !validator.bears(&value) {
        return Err("/structuredContent is too large for its schema".to_owned());
    }
    Ok(validator.check(&value).into_iter().next())
}

/// Calls, as a task where there is no other way: in the older design the list of tools says so, in the newer one the server, which
/// has not looked at the call then. Nobody else is told of tasks: a server may take it for a wish.
async fn answered(
    connection: &Connection,
    params: CallToolParams,
    tool: Option<&Tool>,
) -> Result<Raw, Failure> {
    let client = connection.client();
    let settled = client.settled();
    let support = tool.and_then(|tool| tool.execution.as_ref()?.task_support.clone());
    let params = match support {
        Some(support @ TaskSupport::Required) if settled.revision.era() == Era::Legacy => {
            client.as_task(params, &support, &settled)
        }
        _ => params,
    };
    match connection.call(Method::ToolsCall, Some(encode(&params)?)).await {
        Err(failure) if failure.fault().is_some_and(is_for_tasks_only) => {
            let params = client.as_task(params, &TaskSupport::Required, &settled);
            let raw = connection.call(Method::ToolsCall, Some(encode(&params)?)).await?;
            finished(connection, &params, raw).await
        }
        outcome => finished(connection, &params, outcome?).await,
    }
}

/// The result, waited for if it is a task's.
async fn finished(connection: &Connection, params: &CallToolParams, raw: Raw) -> Result<Raw, Failure> {
    match connection.client().task_in(params, raw.as_str().as_bytes())? {
        Some(task) => connection.finished(task).await,
        None => Ok(raw),
    }
}

/// Does the server want to hear first that we know tasks?
fn is_for_tasks_only(fault: &Fault) -> bool {
    let data = fault.data.as_deref().and_then(|data| serde_json::from_slice::<Value>(data).ok());
    let wants = |data: Value| data["requiredCapabilities"]["extensions"].get(task::EXTENSION).is_some();
    fault.code == code::MISSING_CAPABILITY && data.is_some_and(wants)
}

/// The arguments as the tool wants them, and the tool, if it had to be looked up. Nothing is sent that the tool's schema excludes.
async fn fit(
    connection: &Connection,
    name: &str,
    arguments: Arguments,
    check: Check,
) -> Result<(Map<String, Value>, Option<Tool>), Failure> {
    if check == Check::No && !arguments.need_schema() {
        return Ok((arguments.unchecked(&Value::Null)?, None));
    }
    // What does not fit may fit by now: then it is looked up.
    if let Some(tool) = connection.tool()
        && let Ok(object) = fitted(tool, arguments.clone(), check)
    {
        return Ok((object, Some(tool.clone())));
    }
    let entry = find(connection, name).await?;
    let tool: Tool = match wanted("tool", name, &entry) {
        // Whoever wants no check is not kept from calling it.
        Err(_) if check == Check::No => {
            return Ok((arguments.unchecked(&entry.value()["inputSchema"])?, None));
        }
        tool => tool.map_err(|failure| {
            failure.next("report it to the server's author; to call it all the same, add --no-check")
        })?,
    };
    let object = match connection.person().console() {
        Some(console) if check == Check::Yes => {
            let schema = tool.input_schema.raw().value();
            let shape = Shape::of(&schema);
            let mut object = arguments.typed_for(name, &shape)?;
            // Nobody is asked for the rest where what is given cannot stay.
            let members = Members::of(shape);
            Arguments::refused(name, &members.check(&object))?;
            connection.unless_left(talk::arguments::of_tool(console, name, &members, &mut object)).await?;
            checked(&tool, &shape, object)?
        }
        _ => fitted(&tool, arguments, check)?,
    };
    Ok((object, Some(tool)))
}

/// The arguments as this tool wants them, where nobody need be asked.
fn fitted(tool: &Tool, arguments: Arguments, check: Check) -> Result<Map<String, Value>, Failure> {
    let schema = tool.input_schema.raw().value();
    if check == Check::No {
        return arguments.unchecked(&schema);
    }
    let shape = Shape::of(&schema);
    let object = arguments.typed_for(&tool.name, &shape)?;
    checked(tool, &shape, object)
}

fn checked(
    tool: &Tool,
    shape: &Shape<'_>,
    object: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let object = Arguments::checked(&tool.name, shape, object)?;
    if !shape.is_plain() {
        conforms(tool, &object)?;
    }
    Ok(object)
}

/// All that a schema can say, beyond what is told in plainer words before.
fn conforms(tool: &Tool, object: &Map<String, Value>) -> Result<(), Failure> {
    let name = &tool.name;
    let validator = match Validator::compile(&tool.input_schema) {
        Ok(validator) => validator,
        // The server has the last word.
        Err(error) => {
            tell(&format!("arguments were checked in part only: the schema of tool {name}: {error}"));
            return Ok(());
        }
    };
    let flaws = validator.check(&Value::Object(object.clone()));
    let flaws: Vec<String> = flaws.into_iter().map(|flaw| flaw.under("arguments").to_string()).collect();
    Arguments::refused(name, &flaws)
}

/// The tool as it is listed, read from as few pages as it takes. What is wrong with others is no reason not to call it.
async fn find(connection: &Connection, name: &str) -> Result<Raw, Failure> {
    let mut pages = connection.client().pages::<RawPage>(Method::ToolsList);
    let mut seen = Vec::new();
    loop {
        let page = async { pages.next().await.transpose() };
        let Some(page) = connection.looked_up(page).await? else { break };
        for entry in page.entries() {
            match name_of(&entry) {
                Some(found) if found == name => return Ok(entry),
                other => seen.extend(other),
            }
        }
    }
    let known: Vec<&str> = seen.iter().map(String::as_str).collect();
    Err(unknown("tool", name, "the server", &known).classed(Exit::NotFound))
}
