//! Tools: plain async functions, described by their types.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::{Revision, gates};
use cardan_proto::http::param::Mirrors;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::pointer;
use cardan_proto::model::{CallToolResult, Schema, Tool};
use cardan_proto::session::event::Answer;
use cardan_runtime::service::Handler;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::cx::{Cx, Failure};
use crate::output::{Members, ToolOutput, schema_of};
use crate::stop::Stop;
use crate::tasks::Support;

/// A registered tool: what is announced, and what runs.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) tool: Arc<Tool>,
    pub(crate) run: Arc<dyn RunTool>,
    /// The arguments that headers mirror, if any.
    pub(crate) mirrors: Option<Arc<Mirrors>>,
}

impl Registered {
    pub(crate) fn new(tool: Tool, run: Arc<dyn RunTool>) -> Self {
        // A schema whose annotations are unsound mirrors nothing: clients drop the tool over HTTP anyway.
        let mirrors = tool.input_schema.raw().read().ok().and_then(|schema| Mirrors::collect(&schema).ok());
        let mirrors = mirrors.filter(|mirrors| !mirrors.is_empty()).map(Arc::new);
        Self { tool: Arc::new(tool), run, mirrors }
    }

    pub(crate) fn typed<F, Shape>(name: &str, description: &str, function: F) -> Self
    where
        F: ToolFn<Shape>,
        Shape: 'static,
    {
        let mut tool = Tool::new(name, F::input()).with_description(description);
        tool.output_schema = F::output();
        Self::new(tool, Arc::new(Typed::new(function)))
    }
}

impl Registered {
    /// Can a call be a task?
    pub(crate) fn support(&self) -> Support {
        Support::of(&self.tool)
    }
}

/// Runs a tool on raw arguments.
pub trait RunTool: Send + Sync + 'static {
    /// The answer to a call.
    fn run(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer>;
}

/// A function that can be a tool: of nothing, of arguments, of context, or of arguments and context.
///
/// `Shape` only tells the four apart; it is never written by hand.
pub trait ToolFn<Shape>: Send + Sync + 'static {
    /// The schema of the arguments.
    fn input() -> Schema;
    /// The schema of structured output, if any.
    fn output() -> Option<Schema>;
    /// Calls the function.
    fn invoke(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer>;
}

/// The shape of `async fn(Arguments) -> Output`.
#[derive(Debug)]
pub struct OfArguments<A>(PhantomData<A>);

/// The shape of `async fn(Arguments, Cx) -> Output`.
#[derive(Debug)]
pub struct OfArgumentsAndCx<A>(PhantomData<A>);

/// The shape of `async fn(Cx) -> Output`.
#[derive(Debug)]
pub struct OfCx;

/// The shape of `async fn() -> Output`.
#[derive(Debug)]
pub struct OfNothing;

impl<F, Fut, A> ToolFn<OfArguments<A>> for F
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ToolOutput> + Send + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
{
    fn input() -> Schema {
        arguments_of::<A>()
    }

    fn output() -> Option<Schema> {
        <Fut::Output as ToolOutput>::schema()
    }

    fn invoke(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        match decode(arguments.as_ref(), cx.revision()) {
            Ok(arguments) => finished(self(arguments), cx),
            Err(refusal) => refused(refusal, &cx),
        }
    }
}

impl<F, Fut, A> ToolFn<OfArgumentsAndCx<A>> for F
where
    F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ToolOutput> + Send + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
{
    fn input() -> Schema {
        arguments_of::<A>()
    }

    fn output() -> Option<Schema> {
        <Fut::Output as ToolOutput>::schema()
    }

    fn invoke(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        match decode(arguments.as_ref(), cx.revision()) {
            Ok(arguments) => finished(self(arguments, cx.clone()), cx),
            Err(refusal) => refused(refusal, &cx),
        }
    }
}

impl<F, Fut> ToolFn<OfNothing> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ToolOutput> + Send + 'static,
{
    fn input() -> Schema {
        Schema::no_arguments()
    }

    fn output() -> Option<Schema> {
        <Fut::Output as ToolOutput>::schema()
    }

    fn invoke(&self, _arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        finished(self(), cx)
    }
}

impl<F, Fut> ToolFn<OfCx> for F
where
    F: Fn(Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ToolOutput> + Send + 'static,
{
    fn input() -> Schema {
        Schema::no_arguments()
    }

    fn output() -> Option<Schema> {
        <Fut::Output as ToolOutput>::schema()
    }

    fn invoke(&self, _arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        finished(self(cx.clone()), cx)
    }
}

/// The schema of an argument type. Arguments are an object whatever the type is, and the schema says
/// so at its root: schemas of enums do not by themselves.
fn arguments_of<A: JsonSchema>() -> Schema {
    let mut schema: serde_json::Value = schema_of::<A>().raw().value();
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| "object".into());
    }
    Schema::from(&schema)
}

/// Runs the function's future and turns what it returns into an answer.
fn finished<Fut>(running: Fut, cx: Cx) -> Handler<Answer>
where
    Fut: Future<Output: ToolOutput> + Send + 'static,
{
    Box::pin(async move {
        let output = running.await;
        let result = cx.may_embed(output.embeds()).and_then(|()| output.into_result(cx.revision()));
        match cx.answer(result, Failure::IsResult) {
            Answer::Done(result) if <Fut::Output as ToolOutput>::MEMBERS == Members::Content => {
                Answer::Bare(result)
            }
            answer => answer,
        }
    })
}

/// Arguments that do not fit are answered without running the function.
fn refused(refusal: Result<Bytes, Stop>, cx: &Cx) -> Handler<Answer> {
    Box::pin(std::future::ready(cx.answer(refusal, Failure::IsResult)))
}

/// A typed function as a tool.
pub(crate) struct Typed<F, Shape> {
    function: F,
    shape: PhantomData<fn() -> Shape>,
}

impl<F, Shape> Typed<F, Shape> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, shape: PhantomData }
    }
}

impl<F: ToolFn<Shape>, Shape: 'static> RunTool for Typed<F, Shape> {
    fn run(&self, arguments: Option<Bytes>, cx: Cx) -> Handler<Answer> {
        self.function.invoke(arguments, cx)
    }
}

/// The arguments, or the answer that says what is wrong with them.
fn decode<A: DeserializeOwned>(
    arguments: Option<&Bytes>,
    revision: Revision,
) -> Result<A, Result<Bytes, Stop>> {
    let text = arguments.map_or(&b"{}"[..], |raw| raw);
    // The pointer is worked out only for arguments that do not fit: the common case pays nothing.
    read(text).map_err(|_| {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let why = match serde_path_to_error::deserialize::<_, A>(&mut reader) {
            Ok(_) => "not valid".to_owned(),
            Err(error) => format!("{}: {}", pointer(error.path()), inner(error.inner())),
        };
        bad_arguments(&why, revision)
    })
}

/// Long texts are checked to be UTF-8 all at once, which is faster than string by string.
fn read<A: DeserializeOwned>(text: &[u8]) -> serde_json::Result<A> {
    const LONG: usize = 4 << 10;
    match simdutf8::basic::from_utf8(if text.len() < LONG { &[] } else { text }) {
        Ok(checked) if !checked.is_empty() => serde_json::from_str(checked),
        _ => serde_json::from_slice(text),
    }
}

/// Wrong arguments: for the model to read where the revision says so, else a fault.
pub(crate) fn bad_arguments(why: &str, revision: Revision) -> Result<Bytes, Stop> {
    let text = format!("invalid arguments: {why}");
    if gates(revision).bad_arguments_are_tool_errors {
        CallToolResult::error(text).into_result(revision)
    } else {
        Err(Stop::Fault(Fault::invalid_params(text)))
    }
}

/// A path as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut out = String::from("/arguments");
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer::push(&mut out, &index.to_string()),
            Segment::Map { key: name } | Segment::Enum { variant: name } => pointer::push(&mut out, name),
            Segment::Unknown => pointer::push(&mut out, "?"),
        }
    }
    out
}

/// The message without the position in our own text, which tells the caller nothing.
fn inner(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
