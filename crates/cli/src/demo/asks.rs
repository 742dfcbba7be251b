//! Tools that need the client: a form, an address, a model, its roots.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use cardan_proto::model::elicit::{ElicitAction, ElicitResult, ElicitValue};
use cardan_proto::model::form::Field;
use cardan_proto::model::sampling::{CreateMessageParams, SamplingMessage};
use cardan_proto::model::{Content, Form, UrlAsk};
use cardan_server::builder::Builder;
use cardan_server::{Cx, Stop};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Ask {
    /// What to ask the person.
    question: String,
}

#[derive(Deserialize, JsonSchema)]
struct Visit {
    /// Where to send the person.
    url: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sample {
    /// What to ask the model.
    prompt: String,
}

/// Enough for a paragraph.
const MAX_TOKENS: i64 = 500;

pub(super) fn add_to(builder: Builder) -> Builder {
    builder
        .tool("ask", "Asks the person with a form of one field.", async |args: Ask, cx: Cx| ask(&args, &cx))
        .tool("visit", "Sends the person to an address.", async |args: Visit, cx: Cx| visit(args, &cx))
        .tool("sample", "Asks the client's model.", async |args: Sample, cx: Cx| sample(args, &cx))
        .tool("roots", "Lists the client's roots.", async |cx: Cx| roots(&cx))
}

fn ask(args: &Ask, cx: &Cx) -> Result<String, Stop> {
    let form = Form::new(&args.question).required("answer", Field::string().title("Answer"));
    let result = cx.elicit("answer", &form)?;
    Ok(match result.content.as_ref().and_then(|content| content.get("answer")) {
        Some(ElicitValue::Text(answer)) => answer.clone(),
        _ => outcome(&result).to_owned(),
    })
}

fn visit(args: Visit, cx: &Cx) -> Result<String, Stop> {
    let ask = UrlAsk::new("Please visit this address.", args.url).with_id(random_name());
    Ok(outcome(&cx.visit("visit", &ask)?).to_owned())
}

fn outcome(result: &ElicitResult) -> &'static str {
    match result.action {
        ElicitAction::Accept => "accepted",
        ElicitAction::Decline => "declined",
        ElicitAction::Cancel => "cancelled",
    }
}

fn sample(args: Sample, cx: &Cx) -> Result<String, Stop> {
    let messages = vec![SamplingMessage::user(Content::text(args.prompt))];
    let result = cx.sample("sample", &CreateMessageParams::new(messages, MAX_TOKENS))?;
    let texts: Vec<&str> = result.content.blocks().iter().filter_map(Content::as_text).collect();
    Ok(texts.join("\n"))
}

fn roots(cx: &Cx) -> Result<String, Stop> {
    let roots = cx.roots("roots")?;
    if roots.is_empty() {
        return Ok("no roots".to_owned());
    }
    let lines = roots.into_iter().map(|root| match root.name {
        Some(name) => format!("{} ({name})", root.uri),
        None => root.uri,
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Unlike any other, which is all that a visit's name must be: it opens nothing.
fn random_name() -> String {
    let half = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", half(), half())
}
