//! Tools and a prompt that ask in rounds: several things at once, one after the other, or only what the client
//! can answer.

use bytes::Bytes;
use cardan_proto::method::Method;
use cardan_proto::model::elicit::{ElicitResult, ElicitValue};
use cardan_proto::model::form::Field;
use cardan_proto::model::{Form, Prompt, PromptMessage};
use cardan_proto::session::event::Ask;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Stop};
use serde::Serialize;

use crate::asks::{message, sampled};

pub(crate) fn add_to(builder: Builder) -> Builder {
    rounds(single(builder)).prompt(
        Prompt::new("test_input_required_result_prompt").with_description("Asks for context first."),
        async |_, cx| {
            let form = Form::new("What context should the prompt use?").string("context");
            let context = text(&cx.elicit("user_context", &form)?, "context")?;
            Ok(vec![PromptMessage::user(format!("Use this context: {context}").as_str())])
        },
    )
}

/// One round each.
fn single(builder: Builder) -> Builder {
    builder
        .tool("test_input_required_result_elicitation", "Asks for a name.", async |cx: Cx| greet(&cx))
        .tool("test_input_required_result_sampling", "Asks the client's model.", async |cx: Cx| {
            sampled("capital_question", "What is the capital of France?", &cx)
        })
        .tool("test_input_required_result_list_roots", "Asks for the client's roots.", async |cx: Cx| {
            Ok::<_, Stop>(format!("Roots: {}", cx.roots("client_roots")?.len()))
        })
        .tool("test_input_required_result_request_state", "Asks, and holds state.", async |cx: Cx| {
            confirm(&cx)
        })
        .tool("test_input_required_result_tampered_state", "Trusts no changed state.", async |cx: Cx| {
            confirm(&cx)
        })
        .tool("test_input_required_result_capabilities", "Asks for what is declared.", async |cx: Cx| {
            if cx.client().form {
                return greet(&cx);
            }
            sampled("greeting", "Please greet the user.", &cx)
        })
}

/// Several asks in one call.
fn rounds(builder: Builder) -> Builder {
    builder
        .tool(
            "test_input_required_result_multiple_inputs",
            "Asks for three things at once.",
            async |cx: Cx| {
                let (name, greeting) = (name_form(), message("Write a greeting."));
                cx.need_all(vec![
                    ("user_name", ask(Method::ElicitationCreate, &name)?),
                    ("greeting", ask(Method::SamplingCreateMessage, &greeting)?),
                    ("client_roots", Ask { method: Method::RootsList, params: None }),
                ])?;
                let name = text(&cx.elicit("user_name", &name)?, "name")?;
                let greeting = sampled("greeting", "Write a greeting.", &cx)?;
                let roots = cx.roots("client_roots")?.len();
                Ok::<_, Stop>(format!("{greeting} {name}, with {roots} roots"))
            },
        )
        .tool("test_input_required_result_multi_round", "Asks twice.", async |cx: Cx| {
            let name = text(&cx.elicit("step1", &name_form())?, "name")?;
            let form = Form::new("What is your favorite color?").string("color");
            let color = text(&cx.elicit("step2", &form)?, "color")?;
            Ok::<_, Stop>(format!("{name} likes {color}"))
        })
}

fn name_form() -> Form {
    Form::new("What is your name?").string("name")
}

fn greet(cx: &Cx) -> Result<String, Stop> {
    Ok(format!("Hello, {}!", text(&cx.elicit("user_name", &name_form())?, "name")?))
}

fn confirm(cx: &Cx) -> Result<String, Stop> {
    let form = Form::new("Please confirm to continue.").required("ok", Field::boolean());
    cx.elicit("confirm", &form)?;
    Ok("state-ok: the state came back as it was".to_owned())
}

fn ask(method: Method, params: &impl Serialize) -> Result<Ask, Stop> {
    Ok(Ask { method, params: Some(Bytes::from(serde_json::to_vec(params)?)) })
}

/// What the person filled in.
pub(crate) fn text(result: &ElicitResult, field: &str) -> Result<String, Stop> {
    match result.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::Text(text)) => Ok(text.clone()),
        _ => Err(Stop::failed(format_args!("{field} was not filled in"))),
    }
}
