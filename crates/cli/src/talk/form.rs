//! A form, filled in field by field.

use std::collections::BTreeMap;

use cardan_proto::model::elicit::{ElicitResult, ElicitValue};
use cardan_proto::model::form::{Field, FieldType, Form};

use super::console::{Reply, Talk};
use super::field::{Entry, choices, is_secret, kind, shown, value};

/// What is filled in so far.
type Content = BTreeMap<String, ElicitValue>;

/// What was given on the command line, by field; and for each that does not fit, why.
pub(crate) struct Given {
    pub(crate) content: Content,
    pub(crate) wrong: Vec<(String, String)>,
}

impl Given {
    pub(crate) fn of(form: &Form, answers: &BTreeMap<String, String>) -> Self {
        let (mut content, mut wrong) = (Content::new(), Vec::new());
        for (name, field) in &form.requested_schema.properties.0 {
            let Some(text) = answers.get(name) else { continue };
            match value(field, text, Entry::Given) {
                Ok(value) => drop(content.insert(name.clone(), value)),
                Err(why) => wrong.push((name.clone(), why)),
            }
        }
        Self { content, wrong }
    }

    /// Is every field given?
    pub(crate) fn covers(&self, form: &Form) -> bool {
        let fields = &form.requested_schema.properties.0;
        !fields.is_empty() && fields.iter().all(|(name, _)| self.content.contains_key(name))
    }
}

/// What a field is filled in with at the start.
pub(crate) fn default(field: &Field) -> Option<ElicitValue> {
    serde_json::from_value(field.default.clone()?).ok()
}

/// Asks for what is not given, shows it all, and sends only what the person then lets go.
pub(crate) async fn fill(talk: &mut Talk, who: &str, form: &Form, given: Given) -> ElicitResult {
    talk.say(&format!("{who} asks:"));
    talk.quote(&form.message);
    if !consent_to_secrets(talk, form).await {
        return ElicitResult::declined();
    }
    for (name, why) in &given.wrong {
        talk.say(&format!("--answer {}: {}", one_line(name), one_line(why)));
    }
    let fields = &form.requested_schema.properties.0;
    if !fields.is_empty() {
        talk.say("(Enter takes what is in brackets, Ctrl-D declines, Ctrl-C cancels the call)");
    }
    let mut content = given.content;
    let mut open: Vec<&(String, Field)> =
        fields.iter().filter(|(name, _)| !content.contains_key(name)).collect();
    loop {
        for (name, field) in open {
            let need = if is_required(form, name) { Need::Required } else { Need::Optional };
            let before = content.remove(name).or_else(|| default(field));
            match ask(talk, name, field, need, before).await {
                Answered::Value(value) => drop(content.insert(name.clone(), value)),
                Answered::Nothing => {}
                Answered::Declined => return ElicitResult::declined(),
            }
        }
        match review(talk, who, form, &content).await {
            Some("yes") => return ElicitResult::filled(content),
            Some("cancel") => return ElicitResult::cancelled(),
            Some("edit") => open = fields.iter().collect(),
            _ => return ElicitResult::declined(),
        }
    }
}

/// Whether a field must be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// What came of a field.
enum Answered {
    Value(ElicitValue),
    Nothing,
    Declined,
}

/// Must the field of this name be filled in?
pub(crate) fn is_required(form: &Form, name: &str) -> bool {
    form.requested_schema.required.iter().flatten().any(|required| required == name)
}

/// Forms must not ask for secrets. One that seems to is answered only by someone who was told.
async fn consent_to_secrets(talk: &mut Talk, form: &Form) -> bool {
    let fields = form.requested_schema.properties.0.iter();
    let secrets: Vec<String> =
        fields.filter(|(name, field)| is_secret(name, field)).map(|(name, _)| one_line(name)).collect();
    if secrets.is_empty() {
        return true;
    }
    talk.say(&format!(
        "WARNING: {} looks like a secret. The protocol forbids servers to ask for secrets in a form: \
         the server and whoever is between sees what you type.",
        secrets.join(", ")
    ));
    talk.choose("Answer all the same? [y/N] ", &[("yes", "yes"), ("no", "")]).await == Some("yes")
}

async fn ask(
    talk: &mut Talk,
    name: &str,
    field: &Field,
    need: Need,
    before: Option<ElicitValue>,
) -> Answered {
    let optional = if need == Need::Optional { ", optional" } else { "" };
    let title = one_line(field.title.as_deref().unwrap_or(name));
    talk.part();
    talk.say(&format!("{title} ({}{optional})", kind(field)));
    if let Some(description) = &field.description {
        talk.quote(description);
    }
    for (index, (value, title)) in choices(field).into_iter().enumerate() {
        let (value, title) = (one_line(value), one_line(title));
        let value = if value == title { String::new() } else { format!(" ({value})") };
        talk.say(&format!("  {}) {title}{value}", index + 1));
    }
    let hidden = is_secret(name, field);
    let bracket = match &before {
        Some(_) if hidden => " [hidden]".to_owned(),
        Some(value) => format!(" [{}]", shown(value)),
        None if field.r#type == FieldType::Boolean => " [y/n]".to_owned(),
        None => String::new(),
    };
    let prompt = format!("{}{bracket}: ", one_line(name));
    loop {
        let reply = if hidden { talk.ask_hidden(&prompt).await } else { talk.ask(&prompt).await };
        let Reply::Line(line) = reply else { return Answered::Declined };
        let meant = match (line.as_str(), &before, need) {
            ("", Some(value), _) => return Answered::Value(value.clone()),
            ("", None, Need::Optional) => return Answered::Nothing,
            ("", None, Need::Required) if field.r#type != FieldType::Array => {
                talk.say(&format!("{} is required; \"\" is the empty text", one_line(name)));
                continue;
            }
            ("\"\"", ..) => "",
            (line, ..) => line,
        };
        match value(field, meant, Entry::Typed) {
            Ok(value) => return Answered::Value(value),
            Err(why) => talk.say(&format!("{} {}", one_line(name), one_line(&why))),
        }
    }
}

/// Shows what would be sent. Who declines or cancels is asked nothing more.
async fn review(talk: &mut Talk, who: &str, form: &Form, content: &Content) -> Option<&'static str> {
    let fields = &form.requested_schema.properties.0;
    if fields.is_empty() {
        let prompt = "Accept? [y]es, [n]o, [c]ancel: ";
        return talk.choose(prompt, &[("yes", "yes"), ("no", "no"), ("cancel", "cancel")]).await;
    }
    talk.part();
    talk.say(&format!("This goes to {who}:"));
    for (name, field) in fields {
        let value = match content.get(name) {
            Some(_) if is_secret(name, field) => "(hidden)".to_owned(),
            // With all its blanks: that is what goes out.
            Some(value) => shown(value),
            None => "(left empty)".to_owned(),
        };
        talk.say(&format!("  {}: {value}", one_line(name)));
    }
    let prompt = "Send it? [Y]es, [n]o, [e]dit, [c]ancel: ";
    talk.choose(prompt, &[("yes", ""), ("no", "no"), ("edit", "edit"), ("cancel", "cancel")]).await
}

/// A foreign word that cannot pass for another line, nor push what follows it into one by blanks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
