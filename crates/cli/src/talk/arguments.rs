//! Arguments that are missing, asked for by the schema of the tool or prompt.

use std::collections::BTreeMap;

use cardan_proto::model::Prompt;
use serde_json::{Map, Value};

use super::console::{Console, Reply, Talk};
use super::field::{self, Entry, calls_a_secret};
use super::form::one_line;
use crate::members::Members;
use crate::schema::{Shape, Times};

/// Asks for what `tool` needs and `object` lacks. Who ends the questions leaves the rest missing.
pub(crate) async fn of_tool(
    console: &Console,
    tool: &str,
    members: &Members<'_>,
    object: &mut Map<String, Value>,
) {
    let missing = members.shape().missing(object);
    if missing.is_empty() {
        return;
    }
    let mut talk = console.talk().await;
    talk.say(&format!("tool {} needs {}; Ctrl-D leaves it", one_line(tool), count(missing.len())));
    for name in missing {
        let Some(value) = of_member(&mut talk, members, &name).await else { return };
        object.insert(name, value);
    }
}

async fn of_member(talk: &mut Talk, members: &Members<'_>, name: &str) -> Option<Value> {
    let shape = members.shape();
    let choices = shape.choices_of(name);
    let kind = match shape.kind(name) {
        _ if !choices.is_empty() => "one of these".to_owned(),
        _ if shape.is_yes_or_no(name) => "yes or no".to_owned(),
        kind => kind,
    };
    talk.part();
    talk.say(&format!("{} ({})", one_line(name), one_line(&kind)));
    if let Some(description) = shape.description_of(name) {
        talk.quote(description);
    }
    for (index, choice) in choices.iter().enumerate() {
        talk.say(&format!("  {}) {}", index + 1, one_line(choice)));
    }
    let default = shape.default_of(name);
    let hidden = calls_a_secret(name, shape.title_of(name)) && choices.is_empty();
    let bracket =
        default.map(|value| if hidden { " [hidden]".to_owned() } else { format!(" [{}]", shown(value)) });
    let bracket = bracket.unwrap_or_default();
    let prompt = format!("{}{bracket}: ", one_line(name));
    loop {
        let reply = if hidden { talk.ask_hidden(&prompt).await } else { talk.ask(&prompt).await };
        let Reply::Line(line) = reply else { return None };
        let value = match (line.as_str(), default) {
            ("", Some(value)) => Ok(value.clone()),
            // Nothing was said yet.
            ("", None) => continue,
            ("\"\"", _) => meant(shape, name, ""),
            (line, _) => meant(shape, name, by_number(&choices, line)),
        };
        let flaws = value.map(|value| (members.check_one(name, &value), value));
        match flaws {
            Ok((flaws, value)) if flaws.is_empty() => return Some(value),
            Ok((flaws, _)) => talk.say(&one_line(&flaws.join("; "))),
            // It says what was typed.
            Err(_) if hidden => {
                talk.say(&format!("/arguments/{}: it is not {}", one_line(name), one_line(&kind)))
            }
            Err(why) => talk.say(&format!("/arguments/{}: {}", one_line(name), one_line(&why))),
        }
    }
}

/// The value that a typed line means.
fn meant(shape: &Shape<'_>, name: &str, line: &str) -> Result<Value, String> {
    match shape.is_yes_or_no(name) {
        true => field::yes_or_no(line, Entry::Typed).map(Value::Bool),
        false => shape.typed(name, line, Times::Once),
    }
}

/// Asks for the texts that `prompt` needs and `given` lacks.
pub(crate) async fn of_prompt(console: &Console, prompt: &Prompt, given: &mut BTreeMap<String, String>) {
    let arguments = prompt.arguments.iter().flatten();
    let missing: Vec<_> = arguments
        .filter(|argument| argument.required == Some(true) && !given.contains_key(&argument.name))
        .collect();
    if missing.is_empty() {
        return;
    }
    let mut talk = console.talk().await;
    talk.say(&format!("prompt {} needs {}; Ctrl-D leaves it", one_line(&prompt.name), count(missing.len())));
    for argument in missing {
        talk.part();
        talk.say(&format!("{} (text)", one_line(argument.title.as_deref().unwrap_or(&argument.name))));
        if let Some(description) = &argument.description {
            talk.quote(description);
        }
        let question = format!("{}: ", one_line(&argument.name));
        let hidden = calls_a_secret(&argument.name, argument.title.as_deref());
        let text = loop {
            let reply = if hidden { talk.ask_hidden(&question).await } else { talk.ask(&question).await };
            match reply {
                Reply::Line(line) if line.is_empty() => {}
                Reply::Line(line) => break line,
                Reply::End => return,
            }
        };
        given.insert(argument.name.clone(), text);
    }
}

fn count(missing: usize) -> String {
    if missing == 1 { "one more argument".to_owned() } else { format!("{missing} more arguments") }
}

/// The choice of that number, unless the line is a choice itself.
fn by_number<'a>(choices: &'a [String], line: &'a str) -> &'a str {
    let number = || choices.get(line.trim().parse::<usize>().ok()?.checked_sub(1)?);
    match choices.iter().any(|choice| choice == line) {
        true => line,
        false => number().map_or(line, String::as_str),
    }
}

fn shown(value: &Value) -> String {
    if let Value::Bool(is) = value {
        return if *is { "yes" } else { "no" }.to_owned();
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
