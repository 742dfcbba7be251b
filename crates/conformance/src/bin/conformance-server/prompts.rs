//! Prompts with content of every kind, and completion.

use cardan_proto::model::{Prompt, PromptMessage};
use cardan_server::builder::Builder;

use crate::content::{embedded, picture};

const WITH_ARGUMENTS: &str = "test_prompt_with_arguments";

/// Enough for a completion to find something.
const COMPLETIONS: [&str; 3] = ["test", "testing", "tested"];

pub(crate) fn add_to(builder: Builder) -> Builder {
    let simple = Prompt::new("test_simple_prompt").with_description("Text alone.");
    let with_arguments = Prompt::new(WITH_ARGUMENTS)
        .with_description("Text with two arguments in it.")
        .required("arg1", "The first argument.")
        .required("arg2", "The second argument.");
    let with_resource = Prompt::new("test_prompt_with_embedded_resource")
        .with_description("A resource and text.")
        .required("resourceUri", "The address of the resource.");
    let with_image = Prompt::new("test_prompt_with_image").with_description("A picture and text.");
    builder
        .prompt(simple, async |_, _| Ok(vec![PromptMessage::user("This is a simple prompt for testing.")]))
        .prompt(with_arguments, async |arguments, _| {
            let text =
                format!("Prompt with arguments: arg1='{}', arg2='{}'", arguments["arg1"], arguments["arg2"]);
            Ok(vec![PromptMessage::user(text.as_str())])
        })
        .prompt(with_resource, async |arguments, _| {
            let resource =
                embedded(&arguments["resourceUri"], "text/plain", "Embedded resource content for testing.");
            let text = "Please process the embedded resource above.";
            Ok(vec![PromptMessage::user(resource), PromptMessage::user(text)])
        })
        .prompt(with_image, async |_, _| {
            Ok(vec![PromptMessage::user(picture()), PromptMessage::user("Please analyze the image above.")])
        })
        .complete(WITH_ARGUMENTS, "arg1", |typed, _| {
            let fitting = COMPLETIONS.iter().filter(|value| value.starts_with(typed));
            fitting.map(|value| (*value).to_owned()).collect()
        })
}
