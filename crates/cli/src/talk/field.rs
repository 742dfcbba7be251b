//! One field of a form: what it wants in words, and what a typed line means for it.

use cardan_proto::model::elicit::ElicitValue;
use cardan_proto::model::form::{Field, FieldType, StringFormat};

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// From the command line: exactly as the form has it.
    Given,
    /// Typed by someone who sees the choices with their numbers and titles.
    Typed,
}

/// The value that `text` means, if it fits.
pub(crate) fn value(field: &Field, text: &str, entry: Entry) -> Result<ElicitValue, String> {
    let value = match field.r#type {
        FieldType::Boolean => ElicitValue::Boolean(yes_or_no(text, entry)?),
        FieldType::Integer | FieldType::Number => {
            ElicitValue::Number(serde_json::from_str(text.trim()).map_err(|_| "is not a number".to_owned())?)
        }
        FieldType::Array => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            ElicitValue::List(items.map(|item| choice(field, item, entry).to_owned()).collect())
        }
        _ => ElicitValue::Text(choice(field, text, entry).to_owned()),
    };
    match field.check_value(&value) {
        Some(why) => Err(why),
        None => Ok(value),
    }
}

/// What a text says to what can be true or false.
pub(super) fn yes_or_no(text: &str, entry: Entry) -> Result<bool, String> {
    match (text.trim().to_lowercase().as_str(), entry) {
        ("true", _) | ("y" | "yes", Entry::Typed) => Ok(true),
        ("false", _) | ("n" | "no", Entry::Typed) => Ok(false),
        (_, Entry::Typed) => Err("is neither yes nor no".to_owned()),
        (_, Entry::Given) => Err("is not true or false".to_owned()),
    }
}

/// The choice that is meant: by its value, and for who sees them also by title or number. What is no choice stays.
fn choice<'a>(field: &'a Field, text: &'a str, entry: Entry) -> &'a str {
    let choices = choices(field);
    let typed = text.trim();
    if choices.is_empty() || entry == Entry::Given || choices.iter().any(|(value, _)| *value == typed) {
        return text;
    }
    let titled = choices.iter().find(|(_, title)| title.eq_ignore_ascii_case(typed));
    let numbered = || choices.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
    titled.or_else(numbered).map_or(typed, |(value, _)| value)
}

/// What can be chosen, each with how it is shown.
pub(crate) fn choices(field: &Field) -> Vec<(&str, &str)> {
    let titled = field.one_of.as_ref().or_else(|| field.items.as_ref()?.any_of.as_ref());
    if let Some(titled) = titled {
        return titled.iter().map(|choice| (choice.r#const.as_str(), choice.title.as_str())).collect();
    }
    let values = field.values().unwrap_or_default();
    let names = field.enum_names.as_deref().unwrap_or_default();
    let named = |(index, value)| (value, names.get(index).map_or(value, String::as_str));
    values.into_iter().enumerate().map(named).collect()
}

/// What it takes, in words.
pub(crate) fn kind(field: &Field) -> String {
    let choices = field.values().is_some();
    match field.r#type {
        FieldType::Boolean => "yes or no".to_owned(),
        FieldType::Array => match bounded("", field.min_items, field.max_items) {
            bounds if bounds.is_empty() => "any of these, with commas".to_owned(),
            bounds => format!("any of these, with commas, count{bounds}"),
        },
        FieldType::Integer => bounded("whole number", field.minimum.as_ref(), field.maximum.as_ref()),
        FieldType::Number => bounded("number", field.minimum.as_ref(), field.maximum.as_ref()),
        _ if choices => "one of these".to_owned(),
        _ => match &field.format {
            Some(StringFormat::Email) => "mail address".to_owned(),
            Some(StringFormat::Uri) => "URI".to_owned(),
            Some(StringFormat::Date) => "date such as 2025-01-31".to_owned(),
            Some(StringFormat::DateTime) => "time such as 2025-01-31T12:00:00Z".to_owned(),
            _ => match bounded("", field.min_length, field.max_length) {
                bounds if bounds.is_empty() => "text".to_owned(),
                bounds => format!("text, length{bounds}"),
            },
        },
    }
}

fn bounded(what: &str, least: Option<impl ToString>, most: Option<impl ToString>) -> String {
    match (least.map(|least| least.to_string()), most.map(|most| most.to_string())) {
        (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
        (Some(least), None) => format!("{what} from {least}"),
        (None, Some(most)) => format!("{what} up to {most}"),
        (None, None) => what.to_owned(),
    }
}

/// A value as it would be typed.
pub(crate) fn shown(value: &ElicitValue) -> String {
    match value {
        ElicitValue::Boolean(true) => "yes".to_owned(),
        ElicitValue::Boolean(false) => "no".to_owned(),
        ElicitValue::Number(number) => number.to_string(),
        ElicitValue::Text(text) => text.clone(),
        ElicitValue::List(list) => list.join(","),
    }
}

/// Does it ask for what forms must not ask for? Servers send people to an address for that.
pub(crate) fn is_secret(name: &str, field: &Field) -> bool {
    field.r#type == FieldType::String
        && field.values().is_none()
        && calls_a_secret(name, field.title.as_deref())
}

/// Does either of the names that something has, its own and the one for people, name a secret?
pub(super) fn calls_a_secret(name: &str, title: Option<&str>) -> bool {
    [Some(name), title].into_iter().flatten().any(names_a_secret)
}

/// Words that stand for a secret by themselves, also at the end of a longer word.
const SECRETS: [&str; 9] =
    ["password", "passwd", "passphrase", "passcode", "secret", "token", "credential", "apikey", "cvv"];

/// Words that do only where they stand alone.
const ALONE: [&str; 4] = ["pin", "otp", "pwd", "credentials"];

/// Pairs of words that do.
const PAIRS: [(&str, &str); 5] =
    [("api", "key"), ("private", "key"), ("access", "key"), ("card", "number"), ("security", "code")];

/// Is this the name of something that nobody else should read?
pub(crate) fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let pairs = words.iter().zip(words.iter().skip(1));
    words
        .iter()
        .any(|word| SECRETS.iter().any(|secret| word.ends_with(secret)) || ALONE.contains(&word.as_str()))
        || pairs.into_iter().any(|(one, other)| PAIRS.contains(&(one.as_str(), other.as_str())))
}

/// `apiKey`, `api_key` and `API key` are two words each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_is_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is always one").extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_means_what_is_shown() {
        let text = |text: &str| Ok(ElicitValue::from(text));
        let colour = Field::titled_choice([("r", "Red"), ("2", "Two"), ("g", "Green")]);
        for (typed, want) in [("r", "r"), ("red", "r"), ("2", "2"), ("3", "g"), (" 1 ", "r")] {
            assert_eq!(value(&colour, typed, Entry::Typed), text(want), "{typed}");
        }
        assert_eq!(value(&colour, "4", Entry::Typed), Err("is not one of r, 2, g".to_owned()));
        assert!(value(&colour, "Red", Entry::Given).is_err());
        let several = Field::choices(["a", "b", "c"]).count(Some(1), Some(2));
        assert_eq!(
            value(&several, "1, c", Entry::Typed),
            Ok(ElicitValue::List(vec!["a".into(), "c".into()]))
        );
        assert!(value(&several, "", Entry::Typed).is_err());
        assert!(value(&several, "a,b,c", Entry::Typed).unwrap_err().contains("more than 2"));
        assert_eq!(value(&Field::boolean(), "Y", Entry::Typed), Ok(true.into()));
        assert!(value(&Field::boolean(), "y", Entry::Given).is_err());
        let age = Field::integer().minimum(1).maximum(9);
        assert_eq!(value(&age, "5", Entry::Typed), Ok(5.into()));
        for wrong in ["five", "1.5", "10"] {
            assert!(value(&age, wrong, Entry::Typed).is_err(), "{wrong}");
        }
        assert_eq!(kind(&age), "whole number from 1 to 9");
        assert_eq!(kind(&Field::string().length(Some(2), None)), "text, length from 2");
    }

    /// ELI-8: servers must not ask for these in a form; whoever does is found out by the name.
    #[test]
    fn secrets_are_known_by_their_names() {
        for name in
            ["password", "dbPassword", "API key", "api_key", "access-token", "PIN", "clientSecret", "apikey"]
        {
            assert!(is_secret(name, &Field::string()), "{name}");
        }
        for name in ["name", "max_tokens", "pinned", "keyboard", "secretary", "card"] {
            assert!(!is_secret(name, &Field::string()), "{name}");
        }
        assert!(is_secret("x", &Field::string().title("Your password")));
        assert!(!is_secret("token", &Field::integer()));
    }
}
