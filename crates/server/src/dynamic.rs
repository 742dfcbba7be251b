//! Tools that are described by schemas at run time: checked before they run and after.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Revision;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::model::{CallToolResult, Tool};
use cardan_proto::session::event::Answer;
use cardan_runtime::service::Handler;
use cardan_schema::{SchemaError, Validator};
use serde_json::Value;

use crate::cx::{Cx, Failure};
use crate::lower;
use crate::output::ToolOutput;
use crate::stop::Stop;
use crate::tools::{Registered, RunTool, bad_arguments};

impl Registered {
    pub(crate) fn dynamic<F, Fut>(tool: Tool, function: F) -> Result<Self, SchemaError>
    where
        F: Fn(Value, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let input = Validator::compile(&tool.input_schema)?;
        let output = tool.output_schema.as_ref().map(Validator::compile).transpose()?.map(Arc::new);
        Ok(Self::new(tool, Arc::new(Dynamic { function, input, output })))
    }
}

struct Dynamic<F> {
    function: F,
    input: Validator,
    output: Option<Arc<Validator>>,
}

impl<F, Fut> RunTool for Dynamic<F>
where
    F: Fn(Value, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ToolOutput> + Send + 'static,
{
    fn run(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        let arguments = match self.admit(arguments.as_ref()) {
            Ok(arguments) => arguments,
            Err(why) => {
                let refusal = bad_arguments(&why, cx.revision());
                return Box::pin(std::future::ready(cx.answer(refusal, Failure::IsResult)));
            }
        };
        let running = (self.function)(arguments, cx.clone());
        let output = self.output.clone();
        Box::pin(async move {
            let returned = running.await;
            let result = cx.may_embed(returned.embeds()).and_then(|()| match output {
                None => returned.into_result(cx.revision()),
                Some(schema) => checked(returned, &schema, cx.revision()),
            });
            cx.answer(result, Failure::IsResult)
        })
    }
}

impl<F> Dynamic<F> {
    /// The arguments, if they fit; else what does not, and where.
    fn admit(&self, arguments: Option<&Bytes>) -> Result<Value, String> {
        let text = arguments.map_or(&b"{}"[..], |raw| raw);
        let value = serde_json::from_slice(text).map_err(|error| format!("/arguments: {error}"))?;
        match self.input.check(&value).into_iter().next() {
            Some(flaw) => Err(flaw.under("arguments").to_string()),
            None => Ok(value),
        }
    }
}

/// What was returned, if its structured part fits. It is checked as it is, and only then brought
/// into the form of an older revision.
fn checked(returned: impl ToolOutput, schema: &Validator, revision: Revision) -> Result<Bytes, Stop> {
    let raw = returned.into_result(Revision::LATEST_MODERN)?;
    let mut result: CallToolResult = serde_json::from_slice(&raw)?;
    if !result.failed() {
        let value = result.structured_content.as_ref().map(|content| content.value());
        let Some(value) = value else { return Err(unfit("there is none")) };
        if let Some(flaw) = schema.check(&value).into_iter().next() {
            return Err(unfit(&flaw.under("structuredContent").to_string()));
        }
    }
    if revision == Revision::LATEST_MODERN {
        return Ok(raw);
    }
    lower::result(&mut result, revision);
    Ok(Bytes::from(serde_json::to_vec(&result)?))
}

/// A tool that breaks its own promise: nothing of what it returned is sent.
fn unfit(why: &str) -> Stop {
    Stop::Fault(Fault::internal(format!(
        "the structured result does not fit the tool's output schema: {why}"
    )))
}
