//! Tools that send notes while they run: log notes, progress, changes. And one that lets its caller go.

use std::time::Duration;

use cardan_proto::model::{Prompt, PromptMessage};
use cardan_proto::session::event::LogLevel;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Server};
use tokio::time::sleep;

/// Between two notes.
const PAUSE: Duration = Duration::from_millis(50);

/// When a caller that was let go shall come back, and how long the work takes.
const RETRY: Duration = Duration::from_millis(100);

/// What is there, or is not.
const COMES: &str = "test_changed";

pub(crate) fn add_to(builder: Builder) -> Builder {
    builder
        .tool("test_tool_with_logging", "Sends three log notes.", async |cx: Cx| {
            log(&cx, "Tool execution started");
            sleep(PAUSE).await;
            log(&cx, "Tool processing data");
            sleep(PAUSE).await;
            log(&cx, "Tool execution completed");
            "Tool with logging executed successfully"
        })
        .tool("test_logging_tool", "Sends a log note to whoever asked for one.", async |cx: Cx| {
            log(&cx, "This is a log note");
            "Logged."
        })
        .tool("test_tool_with_progress", "Tells how far it is.", async |cx: Cx| {
            for step in [0.0, 50.0, 100.0] {
                cx.progress(step, Some(100.0), Some(&format!("Completed step {step} of 100")));
                sleep(PAUSE).await;
            }
            "Done."
        })
        .tool("test_reconnection", "Lets the caller go and answers when it is back.", async |cx: Cx| {
            cx.release(RETRY);
            sleep(RETRY).await;
            "The call went on while nobody held the line."
        })
}

/// Tools that change a list: what they add and take away again is there to be seen, by whoever looks before it believes.
pub(crate) fn change(server: &Server) {
    let tools = server.clone();
    server.add_tool("test_trigger_tool_change", "Changes the tools.", move |_: Cx| {
        if !tools.remove_tool(COMES) {
            tools.add_tool(COMES, "Comes and goes.", async |_: Cx| "Here.");
        }
        async { "Changed." }
    });
    let prompts = server.clone();
    server.add_tool("test_trigger_prompt_change", "Changes the prompts.", move |_: Cx| {
        if !prompts.remove_prompt(COMES) {
            prompts.add_prompt(Prompt::new(COMES).with_description("Comes and goes."), async |_, _| {
                Ok(vec![PromptMessage::user("Here.")])
            });
        }
        async { "Changed." }
    });
}

fn log(cx: &Cx, text: &str) {
    cx.log(LogLevel::Info, Some("conformance"), &text);
}
