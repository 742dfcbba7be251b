//! JSON as it was written. What is checked is a value, whose numbers may have been rounded to fit one; what is sent or told has
//! each of them as it came.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What was written for each member of an object, in the order of writing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spelled(BTreeMap<String, Vec<String>>);

impl Spelled {
    pub(crate) fn add(&mut self, key: &str, text: &str) {
        self.0.entry(key.to_owned()).or_default().push(text.to_owned());
    }

    /// The object, each member as it was written where that means the same.
    pub(crate) fn object(&self, object: &Map<String, Value>) -> String {
        let members = object.iter().map(|(key, value)| {
            let written = self.member(key, value).unwrap_or_else(|| value.to_string());
            format!("{}:{written}", Value::from(key.as_str()))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    fn member(&self, key: &str, value: &Value) -> Option<String> {
        let written = self.0.get(key)?;
        // One that is written alone may be meant as a list of one, and several are a list.
        let list = format!("[{}]", written.join(","));
        let one = written.first().filter(|_| written.len() == 1).cloned();
        let means_it = |text: &String| serde_json::from_str::<Value>(text).is_ok_and(|read| read == *value);
        one.into_iter().chain([list]).find(means_it).map(|text| compact(&text))
    }
}

/// JSON without the space between its parts.
pub(crate) fn compact(json: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if quoted || !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_space_between_parts_is_left_out() {
        let pretty = "{\n  \"a b\" : [ 1.10 , \"x \\\" y\\\\\" ],\t\"c\": 1e2\r\n}";
        assert_eq!(compact(pretty), r#"{"a b":[1.10,"x \" y\\"],"c":1e2}"#);
    }

    #[test]
    fn members_are_as_they_were_written_where_that_is_what_they_mean() {
        let mut spelled = Spelled::default();
        let long = "123456789012345678901234567890";
        for (key, text) in [("n", long), ("l", long), ("l", "2"), ("one", "1.0"), ("s", "5"), ("t", "word")] {
            spelled.add(key, text);
        }
        let number: Value = serde_json::from_str(long).unwrap();
        let object =
            json!({ "n": number, "l": [number, 2], "one": [1.0], "s": "5", "t": "word", "other": 7 });
        let Value::Object(object) = object else { unreachable!() };
        let sent = format!(r#"{{"l":[{long},2],"n":{long},"one":[1.0],"other":7,"s":"5","t":"word"}}"#);
        assert_eq!(spelled.object(&object), sent);
    }
}
