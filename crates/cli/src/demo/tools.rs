//! Tools that work on their own: results, failures, progress, log notes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::event::LogLevel;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Json, Stop};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::output::tell;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say back.
    // Benchmarks of several implementations call it `text`.
    #[serde(alias = "text")]
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// Both numbers together.
    sum: Number,
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How many steps there are.
    #[serde(default = "three")]
    steps: u32,
    /// How long each step takes, in milliseconds.
    #[serde(default = "hundred")]
    delay_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    /// What the failure says.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Big {
    /// How many bytes of text, at most 8 MiB.
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// How serious.
    #[schemars(schema_with = "levels")]
    level: LogLevel,
    /// What the note says.
    message: String,
}

/// With the base64 of a picture of this size, a frame still fits its limit.
const MAX_BIG_BYTES: usize = 8 << 20;

pub(super) fn add_to(builder: Builder) -> Builder {
    let count = Arc::new(AtomicU64::new(0));
    builder
        .tool("echo", "Says the message back.", async |args: Echo| args.message)
        .tool("add", "Adds two numbers; the result is structured.", async |args: Add| add(&args))
        .tool("slow", "Takes its time and tells how far it is.", slow)
        .task_support("slow", TaskSupport::Optional)
        .tool("job", "Does steps of work, as a task only.", slow)
        .task_support("job", TaskSupport::Required)
        .tool("fail", "Fails with the message, as tools fail.", async |args: Fail| {
            Err::<(), _>(Stop::failed(args.message))
        })
        .tool("panic", "Panics: its own call fails and nothing else.", async || -> String {
            panic!("the tool was asked to panic")
        })
        .tool("big", "Returns that many bytes of text.", big)
        .tool("note", "Sends a log note.", note)
        .tool("count", "Tells how often it was called in this process.", move || {
            let calls = count.fetch_add(1, Ordering::Relaxed) + 1;
            async move { calls.to_string() }
        })
}

fn add(args: &Add) -> Result<Json<Sum>, Stop> {
    let sum = args.a + args.b;
    // Whole numbers are written as such, as far as they are exact.
    let whole = (sum.fract() == 0.0 && sum.abs() < 9e15).then(|| Number::from(sum as i64));
    let sum = whole.or_else(|| Number::from_f64(sum));
    Ok(Json(Sum { sum: sum.ok_or_else(|| Stop::failed("the sum is too large"))? }))
}

/// Tells on stderr that its work was given up, so that whoever cancels a call can see that it arrived.
struct Unfinished;

impl Drop for Unfinished {
    fn drop(&mut self) {
        tell("cancelled");
    }
}

async fn slow(args: Slow, cx: Cx) -> &'static str {
    let unfinished = Unfinished;
    for step in 1..=args.steps {
        tokio::time::sleep(Duration::from_millis(args.delay_ms)).await;
        let message = format!("step {step} of {}", args.steps);
        cx.progress(f64::from(step), Some(f64::from(args.steps)), Some(&message));
    }
    std::mem::forget(unfinished);
    "done"
}

async fn big(args: Big) -> Result<String, Stop> {
    if args.bytes > MAX_BIG_BYTES {
        return Err(Stop::failed(format_args!(
            "{} bytes are too many; ask for at most {MAX_BIG_BYTES}",
            args.bytes
        )));
    }
    Ok("0123456789abcdef".chars().cycle().take(args.bytes).collect())
}

async fn note(args: Note, cx: Cx) -> &'static str {
    cx.log(args.level, Some("demo"), &args.message);
    "noted"
}

/// The eight levels of syslog.
fn levels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": LogLevel::ALL.map(LogLevel::name) })
}

fn three() -> u32 {
    3
}

fn hundred() -> u64 {
    100
}
