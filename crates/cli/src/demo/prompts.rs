//! Prompts: one with an argument that completes, and enough others for a second page.

use cardan_proto::model::{Prompt, PromptMessage};
use cardan_server::builder::Builder;

/// Whom to greet.
const NAMES: [&str; 12] = [
    "Ada",
    "Alan",
    "Barbara",
    "Claude",
    "Donald",
    "Edsger",
    "Frances",
    "Grace",
    "Hedy",
    "John",
    "Katherine",
    "Margaret",
];

/// What else can be asked of a model, by name.
const OTHERS: [(&str, &str); 11] = [
    ("explain", "Explain it to a child."),
    ("summarise", "Say it in one sentence."),
    ("translate", "Say it in another language."),
    ("review", "Say what could be better."),
    ("question", "Ask what was left unsaid."),
    ("contrast", "Say what speaks against it."),
    ("outline", "Say it as a list of points."),
    ("rhyme", "Say it in verse."),
    ("shorten", "Say it with half the words."),
    ("title", "Give it a title."),
    ("test", "Say how to find out whether it is true."),
];

pub(super) fn add_to(builder: Builder) -> Builder {
    let greet = Prompt::new("greet").with_description("Greets somebody.").required("name", "Whom to greet.");
    let mut builder = builder
        .prompt(greet, async |arguments, _| {
            let name = arguments.get("name").map(String::as_str).unwrap_or_default();
            Ok(vec![PromptMessage::user(format!("Please greet {name} warmly, in one sentence.").as_str())])
        })
        .complete("greet", "name", |typed, _| {
            let typed = typed.to_lowercase();
            let fitting = NAMES.iter().filter(|name| name.to_lowercase().starts_with(&typed));
            fitting.map(|name| (*name).to_owned()).collect()
        });
    for (name, text) in OTHERS {
        let prompt = Prompt::new(name).with_description(text);
        builder = builder.prompt(prompt, move |_, _| async move { Ok(vec![PromptMessage::user(text)]) });
    }
    builder
}
