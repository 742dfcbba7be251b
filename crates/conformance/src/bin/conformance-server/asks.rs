//! Tools that ask the client once, written for both eras as every tool is.

use cardan_proto::model::elicit::ElicitResult;
use cardan_proto::model::form::{Field, StringFormat};
use cardan_proto::model::sampling::{CreateMessageParams, SamplingMessage};
use cardan_proto::model::{Content, Form};
use cardan_server::builder::Builder;
use cardan_server::{Cx, Stop};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to ask the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// What to tell the person.
    message: String,
}

pub(crate) fn add_to(builder: Builder) -> Builder {
    builder
        .tool("test_sampling", "Asks the client's model.", async |args: Sampling, cx: Cx| {
            Ok::<_, Stop>(format!("LLM response: {}", sampled("sampling", &args.prompt, &cx)?))
        })
        .tool("test_elicitation", "Asks the person.", async |args: Elicitation, cx: Cx| {
            let form = Form::new(args.message)
                .required("username", Field::string().description("User's response"))
                .required("email", Field::string().format(StringFormat::Email).description("User's address"));
            Ok::<_, Stop>(format!("User response: {}", shown(&cx.elicit("elicitation", &form)?)))
        })
        .tool("test_elicitation_sep1034_defaults", "Asks with defaults of every type.", async |cx: Cx| {
            Ok::<_, Stop>(format!("Elicitation completed: {}", shown(&cx.elicit("defaults", &defaults())?)))
        })
        .tool("test_elicitation_sep1330_enums", "Asks with choices of every form.", async |cx: Cx| {
            Ok::<_, Stop>(format!("Elicitation completed: {}", shown(&cx.elicit("enums", &choices())?)))
        })
        .tool("test_streaming_elicitation", "Asks, and never on the stream.", async |cx: Cx| {
            let form = Form::new("Please confirm.").boolean("confirmed");
            Ok::<_, Stop>(format!("Confirmed: {}", shown(&cx.elicit("confirmation", &form)?)))
        })
        .tool("test_missing_capability", "Cannot do without sampling.", async |cx: Cx| {
            sampled("needed", "Are you there?", &cx)
        })
}

/// What the client's model says.
pub(crate) fn sampled(name: &str, prompt: &str, cx: &Cx) -> Result<String, Stop> {
    let result = cx.sample(name, &message(prompt))?;
    let texts: Vec<&str> = result.content.blocks().iter().filter_map(Content::as_text).collect();
    Ok(texts.join("\n"))
}

pub(crate) fn message(prompt: &str) -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::user(Content::text(prompt))], 100)
}

fn shown(result: &ElicitResult) -> String {
    json!(result).to_string()
}

fn defaults() -> Form {
    Form::new("Please look over the values filled in for you.")
        .optional("name", Field::string().description("User name").default("John Doe"))
        .optional("age", Field::integer().description("User age").default(30))
        .optional("score", Field::number().description("User score").default(95.5))
        .optional("status", Field::choice(["active", "inactive", "pending"]).default("active"))
        .optional("verified", Field::boolean().description("Verification status").default(true))
}

fn choices() -> Form {
    let plain = ["option1", "option2", "option3"];
    let titled = |value: &'static str, title: &'static str| (value, title);
    let mut legacy = Field::choice(["opt1", "opt2", "opt3"]);
    legacy.enum_names = Some(["Option One", "Option Two", "Option Three"].map(str::to_owned).into());
    let ranked = [
        titled("value1", "First Option"),
        titled("value2", "Second Option"),
        titled("value3", "Third Option"),
    ];
    Form::new("Please choose.")
        .optional("untitledSingle", Field::choice(plain))
        .optional("titledSingle", Field::titled_choice(ranked))
        .optional("legacyEnum", legacy)
        .optional("untitledMulti", Field::choices(plain))
        .optional("titledMulti", Field::titled_choices(ranked))
}
