//! Tools that send notes while they run: log notes, progress, changes. And one that lets its caller go.

use std::time::Duration;

use cardan_proto::session::event::{Change, LogLevel};
use cardan_server::Cx;
use cardan_server::builder::Builder;
use tokio::time::sleep;

/// Between two notes.
const PAUSE: Duration = Duration::from_millis(50);

/// When a caller that was let go shall come back, and how long the work takes.
const RETRY: Duration = Duration::from_millis(100);

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
        .tool("test_trigger_tool_change", "Announces that the tools changed.", async |cx: Cx| {
            cx.changed(&Change::Tools);
            "Announced."
        })
        .tool("test_trigger_prompt_change", "Announces that the prompts changed.", async |cx: Cx| {
            cx.changed(&Change::Prompts);
            "Announced."
        })
}

fn log(cx: &Cx, text: &str) {
    cx.log(LogLevel::Info, Some("conformance"), &text);
}
