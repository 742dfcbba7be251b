//! Tools whose calls run as tasks, where the client can have them.

use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::form::Field;
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::model::{CallToolResult, Form};
use cardan_proto::session::event::Ask;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Stop};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use crate::rounds::text;

/// What a job takes that has nothing else to wait for.
const WORK: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long to take.
    seconds: f64,
    /// What to call the result.
    #[serde(default)]
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// What to delete.
    filename: String,
}

pub(crate) fn add_to(builder: Builder) -> Builder {
    let builder = builder
        .tool("greet", "Greets at once.", async |args: Greet| format!("Hello, {}!", args.name))
        .tool("slow_compute", "Takes its time.", async |args: Compute| {
            // A job that takes no time does not wait, so it needs no task.
            if let Some(time) = Duration::try_from_secs_f64(args.seconds).ok().filter(|time| !time.is_zero())
            {
                sleep(time).await;
            }
            format!("Computed {} in {} seconds", args.label, args.seconds)
        })
        .tool("failing_job", "Works for a while and fails.", async || {
            sleep(WORK).await;
            CallToolResult::error("The job failed, as it always does")
        })
        .tool("protocol_error_job", "Works for a while and ends with a fault.", async || {
            sleep(WORK).await;
            Err::<String, _>(Stop::Fault(Fault::internal("the job ended with a fault, as it always does")))
        });
    asking(builder)
        .task_support("slow_compute", TaskSupport::Optional)
        .task_support("failing_job", TaskSupport::Required)
        .task_support("protocol_error_job", TaskSupport::Optional)
        .task_support("confirm_delete", TaskSupport::Optional)
        .task_support("multi_input", TaskSupport::Optional)
        .task_support("test_tool_with_task", TaskSupport::Required)
}

/// Jobs that ask: once they are tasks, or before.
fn asking(builder: Builder) -> Builder {
    builder
        .tool("confirm_delete", "Deletes nothing, after asking.", async |args: Delete, cx: Cx| {
            cx.begin_task().await;
            let form = Form::new(format!("Delete {}?", args.filename)).required("confirm", Field::boolean());
            let answer = cx.elicit("confirm", &form)?;
            Ok::<_, Stop>(format!("{}: {:?}", args.filename, answer.action))
        })
        .tool("multi_input", "Asks for two things at once.", async |cx: Cx| {
            cx.begin_task().await;
            let form = |message: &str| Form::new(message).string("name").boolean("confirm");
            let (first, second) = (form("First?"), form("Second?"));
            cx.need_all(vec![("first", ask(&first)?), ("second", ask(&second)?)])?;
            let first = text(&cx.elicit("first", &first)?, "name")?;
            let second = text(&cx.elicit("second", &second)?, "name")?;
            Ok::<_, Stop>(format!("{first} and {second}"))
        })
        .tool("test_tool_with_task", "Asks first and becomes a task then.", async |cx: Cx| {
            let name =
                text(&cx.elicit("user_name", &Form::new("What is your name?").string("name"))?, "name")?;
            cx.begin_task().await;
            Ok::<_, Stop>(format!("Hello, {name}!"))
        })
}

fn ask(form: &Form) -> Result<Ask, Stop> {
    Ok(Ask { method: Method::ElicitationCreate, params: Some(Bytes::from(serde_json::to_vec(form)?)) })
}
