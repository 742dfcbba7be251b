//! TOML, read into a tree with places, and written.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike};

use crate::json;
use crate::tree::{Entry, Malformed, Node, Value};

/// A table header, `[a.b]`, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) path: Vec<String>,
    pub(crate) span: Range<usize>,
}

/// Reads a file.
pub fn parse(text: &str) -> Result<Node, Malformed> {
    outline(text).map(|(node, _)| node)
}

/// Reads a file, and the headers in it in their order.
pub(crate) fn outline(text: &str) -> Result<(Node, Vec<Header>), Malformed> {
    let document = Document::parse(text).map_err(|error| Malformed {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().trim().replace('\n', "; "),
    })?;
    let mut headers = Vec::new();
    let node = table(document.as_table(), text, &mut Vec::new(), &mut headers);
    headers.sort_by_key(|header| header.span.start);
    Ok((Node { span: 0..text.len(), ..node }, headers))
}

fn table(table: &dyn TableLike, text: &str, path: &mut Vec<String>, headers: &mut Vec<Header>) -> Node {
    let mut entries = Vec::new();
    for (key, value) in table.iter() {
        let key_span = table.key(key).and_then(toml_edit::Key::span).unwrap_or_default();
        path.push(key.to_owned());
        let node = item(value, text, path, headers);
        path.pop();
        entries.push(Entry { key: key.to_owned(), key_span, node });
    }
    Node::new(Value::Table(entries))
}

fn item(item: &Item, text: &str, path: &mut Vec<String>, headers: &mut Vec<Header>) -> Node {
    let span = item.span().unwrap_or_default();
    match item {
        Item::None => Node { value: Value::Null, span },
        Item::Value(value) => Node { span, ..scalar(value, text) },
        Item::Table(inner) => {
            if !inner.is_implicit() && !inner.is_dotted() {
                headers.push(Header { path: path.clone(), span: span.clone() });
            }
            Node { span, ..table(inner, text, path, headers) }
        }
        Item::ArrayOfTables(tables) => {
            let mut items = Vec::new();
            for inner in tables {
                let span = inner.span().unwrap_or_default();
                headers.push(Header { path: path.clone(), span: span.clone() });
                items.push(Node { span, ..table(inner, text, path, headers) });
            }
            Node { value: Value::List(items), span }
        }
    }
}

fn scalar(value: &toml_edit::Value, text: &str) -> Node {
    let span = value.span().unwrap_or_default();
    let spelled = || text.get(span.clone()).unwrap_or_default().to_owned();
    let value = match value {
        toml_edit::Value::String(text) => Value::Text(text.value().clone()),
        toml_edit::Value::Integer(number) => Value::Number(number.value().to_string()),
        toml_edit::Value::Float(number) if !number.value().is_finite() => Value::Text(spelled()),
        toml_edit::Value::Float(number) => {
            let spelled = spelled();
            let plain = serde_json::from_str::<f64>(&spelled).is_ok();
            Value::Number(if plain { spelled } else { number.value().to_string() })
        }
        toml_edit::Value::Boolean(value) => Value::Bool(*value.value()),
        toml_edit::Value::Datetime(_) => Value::Text(spelled()),
        toml_edit::Value::Array(items) => Value::List(items.iter().map(|item| scalar(item, text)).collect()),
        toml_edit::Value::InlineTable(inner) => {
            return Node { span, ..table(inner, text, &mut Vec::new(), &mut Vec::new()) };
        }
    };
    Node { value, span }
}

/// Writes a table with its header, and what is too long for a line as tables of their own below it.
#[must_use]
pub fn section(path: &[&str], node: &Node) -> String {
    let mut out = format!("[{}]\n", path.iter().map(|name| key(name)).collect::<Vec<_>>().join("."));
    let mut below = String::new();
    for entry in node.entries() {
        let line = format!("{} = {}\n", key(&entry.key), inline(&entry.node));
        if entry.node.is_table() && line.len() > LINE_BYTES {
            let path: Vec<&str> = path.iter().copied().chain([entry.key.as_str()]).collect();
            below.push('\n');
            below.push_str(&section(&path, &entry.node));
        } else {
            out.push_str(&line);
        }
    }
    out + &below
}

/// Longer inline tables become tables of their own.
const LINE_BYTES: usize = 90;

/// Writes a value on one line.
#[must_use]
pub fn inline(node: &Node) -> String {
    match &node.value {
        Value::Null => format!("{{ {} = true }}", quote(NULL)),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quote(text),
        Value::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let members =
                entries.iter().map(|entry| format!("{} = {}", key(&entry.key), inline(&entry.node)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// TOML has no null. What another tool's file says with one is kept as a table with this member.
const NULL: &str = "$null";

/// Puts nulls back in their places.
pub(crate) fn with_nulls(node: &Node) -> Node {
    let value = match &node.value {
        Value::Table(entries) if matches!(&entries[..], [only] if only.key == NULL) => Value::Null,
        Value::Table(entries) => {
            let entries =
                entries.iter().map(|entry| Entry { node: with_nulls(&entry.node), ..entry.clone() });
            Value::Table(entries.collect())
        }
        Value::List(items) => Value::List(items.iter().map(with_nulls).collect()),
        value => value.clone(),
    };
    Node { value, span: node.span.clone() }
}

/// A key, quoted where it must be.
#[must_use]
pub fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if bare { name.to_owned() } else { quote(name) }
}

fn quote(text: &str) -> String {
    // JSON escapes are TOML escapes, but for DEL, which JSON leaves as it is.
    json::quote(text).replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_places_and_headers_are_listed() {
        let text = "a = 0x10 # c\n[servers.x]\nb = { c = 'd', e = [1.5, inf] }\n[[l]]\nf = 1979-05-27\n";
        let (node, headers) = outline(text).unwrap();
        assert_eq!(
            json::line(&node),
            r#"{"a": 16, "servers": {"x": {"b": {"c": "d", "e": [1.5, "inf"]}}}, "l": [{"f": "1979-05-27"}]}"#
        );
        let places: Vec<_> = headers.iter().map(|h| (h.path.join("."), &text[h.span.clone()])).collect();
        assert_eq!(places, [("servers.x".to_owned(), "[servers.x]"), ("l".to_owned(), "[[l]]")]);
        assert_eq!(&text[node.at(&["servers", "x", "b", "c"]).unwrap().span.clone()], "'d'");
    }

    #[test]
    fn errors_have_a_place_and_no_contents() {
        let wrong = parse("a = 1\nkey = \"sk-secret\n").unwrap_err();
        assert_eq!(crate::tree::position("a = 1\nkey = \"sk-secret\n", wrong.at).0, 2);
        assert!(!wrong.message.contains("secret"), "{wrong:?}");
    }

    #[test]
    fn what_is_written_reads_back() {
        let json = r#"{"a b": "x\u007f\"\n", "n": null, "l": [1, {"m": null}], "t": {}, "f": 1e5}"#;
        let node = json::parse(json).unwrap();
        let text = section(&["servers", "a.b"], &node);
        assert!(text.starts_with("[servers.\"a.b\"]\n"), "{text}");
        let back = parse(&text).unwrap();
        assert_eq!(with_nulls(back.at(&["servers", "a.b"]).unwrap()), node, "{text}");
    }
}
