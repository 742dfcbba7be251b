//! `name(key: value, ...)`: a tool with its arguments in one word, as calls are written elsewhere.

use serde_json::{Deserializer, Value};

use crate::arguments::Given;
use crate::failure::Failure;

/// A name with arguments.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Given)>,
}

impl Function {
    /// Nothing: the word has no parentheses, so it is a name and nothing else.
    pub(crate) fn parse(word: &str) -> Result<Option<Self>, Failure> {
        let Some((name, rest)) = word.split_once('(') else { return Ok(None) };
        let wrong = |why: String| Failure::usage(format!("`{word}`: {why}")).next(HOW);
        let Some(inside) = rest.trim_end().strip_suffix(')') else {
            return Err(wrong("there is no `)` at its end".to_owned()));
        };
        if name.trim().is_empty() {
            return Err(wrong("there is no name before `(`".to_owned()));
        }
        let arguments = arguments(inside.trim()).map_err(wrong)?;
        Ok(Some(Self { name: name.trim().to_owned(), arguments }))
    }
}

const HOW: &str = "write it as 'name(key: \"text\", other: 1)', or as name key=text other=1";

fn arguments(mut rest: &str) -> Result<Vec<(String, Given)>, String> {
    let mut arguments = Vec::new();
    while !rest.is_empty() {
        let (key, behind) = key(rest)?;
        let (value, behind) = value(behind.trim_start()).map_err(|why| format!("{key}: {why}"))?;
        arguments.push((key, value));
        rest = match behind.trim_start() {
            "" => "",
            behind => {
                behind.strip_prefix(',').ok_or_else(|| format!("no comma before `{behind}`"))?.trim_start()
            }
        };
    }
    Ok(arguments)
}

fn key(rest: &str) -> Result<(String, &str), String> {
    let quoted = match rest.strip_prefix('\'') {
        Some(inside) => Some(single(inside).map(|(key, _, behind)| (key, behind))?),
        None if rest.starts_with('"') => Some(json(rest)?),
        None => None,
    };
    if let Some((key, behind)) = quoted {
        let behind = behind.trim_start().strip_prefix(':');
        return match (key, behind) {
            (Value::String(key), Some(behind)) => Ok((key, behind)),
            _ => Err(format!("no `key:` in `{rest}`")),
        };
    }
    match rest.split_once(':') {
        Some((key, behind)) if !key.trim().is_empty() && !key.contains([',', '(', ')', '"']) => {
            Ok((key.trim().to_owned(), behind))
        }
        _ => Err(format!("no `key:` in `{rest}`")),
    }
}

/// JSON, text in single quotes, or a bare word up to the next comma, which the schema types.
fn value(rest: &str) -> Result<(Given, &str), String> {
    if let Some(inside) = rest.strip_prefix('\'') {
        let (value, text, behind) = single(inside)?;
        return Ok((Given::Json { value, text }, behind));
    }
    if rest.starts_with(['"', '[', '{']) {
        return json(rest).map(|(value, behind)| {
            let text = rest[..rest.len() - behind.len()].to_owned();
            (Given::Json { value, text }, behind)
        });
    }
    let (word, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
    match word.trim() {
        "" => Err("has no value".to_owned()),
        word => Ok((Given::Text(word.to_owned()), behind)),
    }
}

/// Text up to the next single quote, the same as JSON writes it, and what is behind. A backslash means what it means there.
fn single(inside: &str) -> Result<(Value, String, &str), String> {
    let mut text = String::from('"');
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                text.push('"');
                let value = json(&text)?.0;
                return Ok((value, text, &inside[at + 1..]));
            }
            '\\' => match chars.next() {
                Some((_, '\'')) => text.push('\''),
                escaped => text.extend(['\\'].into_iter().chain(escaped.map(|(_, c)| c))),
            },
            '"' => text.push_str("\\\""),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    Err("there is no `'` at its end".to_owned())
}

fn json(rest: &str) -> Result<(Value, &str), String> {
    let mut values = Deserializer::from_str(rest).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Ok((value, &rest[values.byte_offset()..])),
        Some(Err(error)) => Err(format!("is not JSON: {error}")),
        None => Err("has no value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str) -> String {
        match Function::parse(word) {
            Ok(Some(function)) => format!("{} {:?}", function.name, function.arguments),
            Ok(None) => "a name".to_owned(),
            Err(failure) => format!("{failure:?}"),
        }
    }

    /// CLI-46: arguments in the form of a function call.
    #[test]
    fn cli_46_calls_are_read() {
        assert_eq!(read("echo"), "a name");
        assert_eq!(read("now()"), "now []");
        assert_eq!(
            read(r#"echo(message: "a, b) (", n: -1, "odd key": [1, {"x": 2}],) "#),
            concat!(
                r#"echo [("message", Json { value: String("a, b) ("), text: "\"a, b) (\"" }), ("n", Text("-1")), "#,
                r#"("odd key", Json { value: Array [Number(1), Object {"x": Number(2)}], text: "[1, {\"x\": 2}]" })]"#
            )
        );
        assert_eq!(
            read("f(when: 12:30, who: Ada L)"),
            r#"f [("when", Text("12:30")), ("who", Text("Ada L"))]"#
        );
        for (single, double) in [
            (
                r#"f('odd, key': 'a, "b") \' \\ \u00e9 (', n: 1)"#,
                r#"f("odd, key": "a, \"b\") ' \\ \u00e9 (", n: 1)"#,
            ),
            ("f(a: 'x\ty', b: '')", r#"f(a: "x\u0009y", b: "")"#),
        ] {
            assert_eq!(read(single), read(double));
        }
        assert_eq!(read("f(a: it's)"), r#"f [("a", Text("it's"))]"#);
        for (wrong, told) in [
            ("f(a: 'x)", "no `'`"),
            ("f(a: '\\x')", "not JSON"),
            ("f(a: 'x\\')", "no `'`"),
            ("f(a: 'x' 1)", "no comma"),
            ("f(a: 1", "no `)`"),
            ("(a: 1)", "no name"),
            ("f(a)", "no `key:`"),
            ("f(a: )", "has no value"),
            ("f(a: \"x)", "not JSON"),
            ("f(a: \"x\" b: 1)", "no comma"),
        ] {
            assert!(read(wrong).contains(told), "{wrong}: {}", read(wrong));
        }
    }
}
