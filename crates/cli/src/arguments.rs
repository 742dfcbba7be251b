//! `key=value` words and what they mean for a tool or a prompt.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};

use cardan_config::closest::closest;
use cardan_proto::limits::Limits;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::function::Function;
use crate::home::at_home;
use crate::misread::meant_or;
use crate::schema::{Shape, Times};
use crate::spelled::{Spelled, compact};
use crate::talk::console::stdin_is_data;

/// Arguments as they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    /// From `--args`, and as it is written there.
    base: Map<String, Value>,
    text: String,
    given: Vec<(String, Given)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Given {
    /// `key=value`: to be typed by the schema.
    Text(String),
    /// `key:=json`.
    Json { value: Value, text: String },
}

impl Arguments {
    pub(crate) fn parse(words: &[String], args: Option<&str>) -> Result<Self, Failure> {
        let (text, base) = match args {
            None => Default::default(),
            Some(text) => json_object(text, "--args")?,
        };
        let given = words.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
        Ok(Self { base, text, given })
    }

    /// What is called with which arguments: its name and then words, or both as in `name(key: value)`.
    pub(crate) fn of_call(
        word: &str,
        words: &[String],
        args: Option<&str>,
    ) -> Result<(String, Self), Failure> {
        let mut arguments = Self::parse(words, args)?;
        let Some(function) = Function::parse(word)? else { return Ok((word.to_owned(), arguments)) };
        arguments.given.splice(0..0, function.arguments);
        Ok((function.name, arguments))
    }

    /// As they are written.
    pub(crate) fn spelled(&self) -> Spelled {
        let mut spelled = Spelled::default();
        for (key, raw) in written(&self.text).iter().filter(|(key, _)| !self.is_given(key)) {
            spelled.add(key, raw.get());
        }
        for (key, given) in &self.given {
            let (Given::Text(text) | Given::Json { text, .. }) = given;
            spelled.add(key, text);
        }
        spelled
    }

    fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| given == key)
    }

    /// How often a word gives this key.
    fn times(&self, key: &str) -> Times {
        match self.given.iter().filter(|(given, _)| given == key).nth(1) {
            Some(_) => Times::Several,
            None => Times::Once,
        }
    }

    /// Typed by the tool's schema; unknown and wrong ones are told.
    pub(crate) fn typed_for(self, tool: &str, shape: &Shape<'_>) -> Result<Map<String, Value>, Failure> {
        self.know_all(shape, tool)?;
        self.typed(shape)
    }

    /// Checked by the tool's schema: missing and wrong ones are told before anything is sent.
    pub(crate) fn checked(
        tool: &str,
        shape: &Shape<'_>,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let missing: Vec<String> = shape.missing(&object);
        if !missing.is_empty() {
            let places: Vec<String> =
                missing.iter().map(|name| format!("/arguments/{name} ({})", shape.kind(name))).collect();
            let hints: Vec<String> =
                missing.iter().map(|name| format!("{name}=<{}>", shape.kind(name))).collect();
            let message = format!("tool {tool} needs {}", places.join(", "));
            return Err(Failure::usage(message).next(format!("add {}", hints.join(" "))));
        }
        Self::refused(tool, &shape.check(&Value::Object(object.clone())))?;
        Ok(object)
    }

    /// What does not fit, if anything, is told and not sent.
    pub(crate) fn refused(tool: &str, flaws: &[String]) -> Result<(), Failure> {
        if flaws.is_empty() {
            return Ok(());
        }
        let message = format!("tool {tool} does not take this: {}", flaws.join("; "));
        Err(Failure::usage(message).next("correct it, or send it all the same with --no-check"))
    }

    /// Typed as well as can be, and sent whatever the schema says.
    pub(crate) fn unchecked(self, schema: &Value) -> Result<Map<String, Value>, Failure> {
        let shape = Shape::of(schema);
        let mut object = self.unreplaced();
        for (key, given) in &self.given {
            let value = match given {
                Given::Json { value, .. } => value.clone(),
                Given::Text(text) => {
                    shape.typed(key, text, self.times(key)).unwrap_or_else(|_| Value::String(text.clone()))
                }
            };
            put(&mut object, &shape, key.clone(), value)?;
        }
        Ok(object)
    }

    /// Text is typed by it, and only it says whether what is given twice is a list.
    pub(crate) fn need_schema(&self) -> bool {
        self.given.iter().any(|(_, given)| matches!(given, Given::Text(_)))
            || twice(self.given.iter().map(|(key, _)| key)).is_some()
    }

    /// For prompts, where everything is text.
    pub(crate) fn texts(self) -> Result<BTreeMap<String, String>, Failure> {
        let text = |given| match given {
            Given::Text(text) | Given::Json { value: Value::String(text), .. } => text,
            Given::Json { text, .. } => compact(&text),
        };
        if let Some(key) = twice(self.given.iter().map(|(key, _)| key)) {
            return Err(Failure::usage(format!("/arguments/{key}: it is given twice")).next("give it once"));
        }
        let raw = written(&self.text);
        let base = self.base.into_iter().map(|(key, value)| {
            let text = raw.get(&key).map_or_else(|| value.to_string(), |raw| raw.get().to_owned());
            (key, Given::Json { value, text })
        });
        Ok(base.chain(self.given).map(|(key, given)| (key, text(given))).collect())
    }

    fn know_all(&self, shape: &Shape<'_>, tool: &str) -> Result<(), Failure> {
        if let Some(name) = shape.contradicted() {
            let message = format!(
                "tool {tool} needs /arguments/{name}, and its schema does not allow it: nothing fits"
            );
            return Err(Failure::usage(message)
                .next("report it to the server's author, or call it all the same with --no-check"));
        }
        let Some(known) = shape.closed_names() else { return Ok(()) };
        let keys = self.base.keys().chain(self.given.iter().map(|(key, _)| key));
        for key in keys {
            if known.contains(&key.as_str()) {
                continue;
            }
            let failure = unknown("argument", key, &format!("tool {tool}"), &known);
            let next = failure.next_step().unwrap_or_default();
            let next = format!(
                "{next}{} --no-check sends it all the same",
                if next.ends_with('?') { "" } else { ";" }
            );
            return Err(failure.next(next));
        }
        Ok(())
    }

    /// What `--args` gives and no word does: a word says all of its key.
    fn unreplaced(&self) -> Map<String, Value> {
        let mut object = self.base.clone();
        object.retain(|key, _| !self.is_given(key));
        object
    }

    fn typed(self, shape: &Shape<'_>) -> Result<Map<String, Value>, Failure> {
        let mut object = self.unreplaced();
        for (key, given) in &self.given {
            let value = match given {
                Given::Json { value, .. } => value.clone(),
                Given::Text(text) => shape.typed(key, text, self.times(key)).map_err(|why| {
                    Failure::usage(format!("/arguments/{key}: {why}"))
                        .next(format!("write it as {}", shape.example(key)))
                })?,
            };
            put(&mut object, shape, key.clone(), value)?;
        }
        Ok(object)
    }
}

/// The first key that is there again.
pub(crate) fn twice<'a>(keys: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    keys.map(String::as_str).find(|key| !seen.insert(*key))
}

/// The members of an object as they are written; none where there is no object.
fn written(text: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Something that is not there, with what may have been meant.
pub(crate) fn unknown(what: &str, name: &str, owner: &str, known: &[&str]) -> Failure {
    let failure = Failure::usage(format!("{owner} has no {what} `{name}`"));
    match (closest(name, known.iter().copied()), known) {
        (Some(near), _) => failure.next(format!("did you mean `{near}`?")),
        (None, []) => failure.next(format!("{owner} takes no {what}s")),
        (None, known) if known.len() > MAX_KNOWN => {
            let (some, more) = (known[..MAX_KNOWN].join(", "), known.len() - MAX_KNOWN);
            failure.next(format!("known: {some} and {more} more"))
        }
        (None, known) => failure.next(format!("known: {}", known.join(", "))),
    }
}

/// More names would bury what is said.
const MAX_KNOWN: usize = 20;

/// A list grows by repeating its key; of anything else, only one can be meant.
fn put(object: &mut Map<String, Value>, shape: &Shape<'_>, key: String, value: Value) -> Result<(), Failure> {
    match (object.get_mut(&key), value) {
        (Some(Value::Array(list)), Value::Array(more)) if shape.is_list(&key) => list.extend(more),
        (Some(_), _) => {
            return Err(Failure::usage(format!("/arguments/{key}: it is given twice"))
                .next("give it once; only a list grows by repeating its key"));
        }
        (None, value) => {
            object.insert(key, value);
        }
    }
    Ok(())
}

fn pair(word: &str) -> Result<(String, Given), Failure> {
    let Some((key, value)) = word.split_once('=') else {
        let failure = Failure::usage(format!("`{word}` is not an argument"));
        let next = match word.starts_with('{') {
            true => "put --args before it: all arguments as one JSON object",
            false => "write it as key=value",
        };
        return Err(failure.next(meant_or(next)));
    };
    let (key, is_json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err(Failure::usage(format!("`{word}` has no key")).next("write it as key=value"));
    }
    let text = contents(value)?;
    if !is_json {
        return Ok((key.to_owned(), Given::Text(text)));
    }
    let value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{key} is not JSON: {error}")).next("for plain text write key=value")
    })?;
    Ok((key.to_owned(), Given::Json { value, text }))
}

/// Where the text of a value stands.
enum Place<'a> {
    Here(&'a str),
    Stdin,
    File(&'a str),
}

impl<'a> Place<'a> {
    fn of(value: &'a str) -> Self {
        match value.strip_prefix('@') {
            None if value == "-" => Self::Stdin,
            None => Self::Here(value),
            Some(text) if text.starts_with('@') => Self::Here(text),
            Some("-") => Self::Stdin,
            Some(path) => Self::File(path),
        }
    }
}

/// Is all of `key=value` in the word itself, so that nothing is read for it?
pub(crate) fn is_whole(word: &str) -> bool {
    word.split_once('=').is_none_or(|(_, value)| matches!(Place::of(value), Place::Here(_)))
}

/// The text itself, or that of a file.
fn contents(value: &str) -> Result<String, Failure> {
    match Place::of(value) {
        Place::Here(text) => Ok(text.to_owned()),
        Place::Stdin => stdin(),
        Place::File(path) => match file(path) {
            // One that is there was meant.
            Err(failure) if !fs::exists(at_home(path)).unwrap_or(false) => {
                Err(failure.next("for a plain @ write @@"))
            }
            read => read,
        },
    }
}

fn file(path: &str) -> Result<String, Failure> {
    let text = fs::File::open(at_home(path)).and_then(bounded);
    text.map_err(|error| Failure::usage(format!("cannot read `{path}`: {error}")))
}

/// All there is to read, unless that is more than could be sent.
fn bounded(source: impl io::Read) -> io::Result<String> {
    let max = Limits::DEFAULT.frame_bytes as u64;
    let mut bytes = Vec::new();
    source.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::other(format!("it is longer than a message may be ({max} bytes)")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text (UTF-8)"))
}

/// A JSON object as it is spelled: the text itself, a file or stdin. `what` is said of one that is none.
pub(crate) fn json_object(text: &str, what: &str) -> Result<(String, Map<String, Value>), Failure> {
    // No object begins with one, so a file is meant.
    let text = match text.strip_prefix('@') {
        Some(path) if path != "-" => file(path)?,
        _ => contents(text)?,
    };
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok((text, object)),
        Ok(_) => Err(Failure::usage(format!("{what} is not a JSON object"))),
        Err(error) => Err(Failure::usage(format!("{what} is not JSON: {error}"))),
    }
}

fn stdin() -> Result<String, Failure> {
    if stdin_is_data() {
        return Err(
            Failure::usage("stdin can be read only once").next("put the other text into a file: key=@file")
        );
    }
    bounded(io::stdin().lock()).map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fit(words: &[&str], schema: &Value) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let arguments = Arguments::parse(&words, None).map_err(|failure| format!("{failure:?}"))?;
        let shape = Shape::of(schema);
        let fitted =
            arguments.typed_for("t", &shape).and_then(|object| Arguments::checked("t", &shape, object));
        fitted.map(Value::Object).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn words_are_typed_by_the_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
                "b": {"type": "boolean"}, "l": {"type": "array", "items": {"type": "integer"}},
                "o": {"type": "object"}, "m": {"type": ["string", "null"]}, "e": {"$ref": "#/$defs/E"},
                "x": {}
            },
            "required": ["s"],
            "$defs": {"E": {"enum": ["up", "down"]}}
        });
        let words =
            ["s=5", "i=-5", "n=1.5", "b=true", "l=1", "l=2", "o={\"k\":1}", "m=null", "e=up", "x=@@at"];
        let want = json!({
            "s": "5", "i": -5, "n": 1.5, "b": true, "l": [1, 2], "o": {"k": 1}, "m": null, "e": "up", "x": "@at"
        });
        assert_eq!(fit(&words, &schema).unwrap(), want);
        assert_eq!(fit(&["s=a=b", "l:=[3]"], &schema).unwrap(), json!({"s": "a=b", "l": [3]}));
        for (words, told) in [
            (vec!["s=x", "i=1.5"], "/arguments/i"),
            (vec!["s=x", "b=yes"], "true or false"),
            (vec!["s=x", "e=upp"], "up, down"),
            (vec!["s=x", "l:=[\"a\"]"], "/arguments/l/0"),
            (vec!["i=1"], "/arguments/s (string)"),
            (vec!["s=x", "nn=1"], "has no argument `nn`"),
            (vec!["s=x", "s=y"], "/arguments/s: it is given twice"),
            (vec!["s=x", "l=a"], "l=<integer>, again for each"),
            (vec!["word"], "key=value"),
            (vec!["s:={"], "not JSON"),
        ] {
            let failure = fit(&words, &schema).unwrap_err();
            assert!(failure.contains(told), "{words:?}: {failure}");
        }
    }

    #[test]
    fn open_schemas_take_any_key() {
        assert_eq!(fit(&["a=1"], &json!({"type": "object"})).unwrap(), json!({"a": 1}));
        let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
        assert_eq!(fit(&["a=text"], &open).unwrap(), json!({"a": "text"}));
        assert!(fit(&["a=1"], &json!({"type": "object", "additionalProperties": false})).is_err());
    }

    /// CLI-47: who follows the advice comes further, also where a schema needs what it describes nowhere.
    #[test]
    fn cli_47_advice_leads_on() {
        let mut schema = json!({"type": "object", "properties": {"aim": {}}, "required": ["b"]});
        assert!(fit(&[], &schema).unwrap_err().contains("add b=<any>"));
        assert_eq!(fit(&["b=x"], &schema).unwrap(), json!({"b": "x"}));
        let told = fit(&["b=x", "aims=1"], &schema).unwrap_err();
        assert!(told.contains("did you mean `aim`? --no-check sends it all the same"), "{told}");
        let told = fit(&["zzz=1"], &schema).unwrap_err();
        assert!(told.contains("known: aim, b; --no-check sends it all the same"), "{told}");
        schema["additionalProperties"] = json!(false);
        for words in [&["b=x"][..], &["aim=x"]] {
            let told = fit(words, &schema).unwrap_err();
            assert!(told.contains("nothing fits") && told.contains("--no-check"), "{told}");
        }
    }
}
