//! `--jsonl`: everything that happens as one line of JSON on stdout, in its order, each with a `type`.
//!
//! `progress`, `log`, `note`, `finding`, `refused` and `change` come as they happen; `result` or `error` is the last, and in a rehearsal `frame`.

use cardan_proto::finding::Finding;
use cardan_proto::model::Raw;
use cardan_proto::model::logging::LogParams;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Change, Event, Progress};
use serde_json::{Value, json};

use crate::look::{Tagging, tagging};
use crate::output::{json_line, write};

/// Tells an event, where everything is told and there is something to tell.
pub(crate) fn event(event: &Event, secrets: &Redactor) {
    if tagging() != Tagging::Lines {
        return;
    }
    let line = match event {
        Event::Progressed { progress, .. } => progressed(progress),
        Event::Logged { params } => logged(params),
        Event::Found(finding) => found(finding),
        Event::Changed { change, .. } => changed(change),
        Event::Noted(note) => {
            let params = note.params.raw().and_then(|params| serde_json::from_slice(params).ok());
            line("note", &json!({ "method": note.method.name(), "params": params.unwrap_or(Value::Null) }))
        }
        _ => return,
    };
    put(&hidden(line, secrets));
}

/// Tells what the server asked for and did not get, and why.
pub(crate) fn refused(method: &str, key: Option<&str>, why: &str, secrets: &Redactor) {
    if tagging() != Tagging::Lines {
        return;
    }
    let mut members = json!({ "method": method, "why": why });
    if let Some(key) = key {
        members["key"] = json!(key);
    }
    put(&hidden(line("refused", &members), secrets));
}

/// Writes one of our lines. Whoever closed the pipe has read enough, which the result finds out too.
pub(crate) fn put(line: &str) {
    let _ = write(&json_line(line));
}

/// An object as a line, its type first.
pub(crate) fn line(kind: &str, members: &Value) -> String {
    line_of(kind, &members.to_string())
}

/// The same of members as they are spelled.
pub(crate) fn line_of(kind: &str, members: &str) -> String {
    match members.strip_prefix('{') {
        Some("}") | None => format!("{{\"type\":\"{kind}\"}}"),
        Some(rest) => format!("{{\"type\":\"{kind}\",{rest}"),
    }
}

/// A message that was not sent, as it is spelled.
pub(crate) fn frame(raw: &str) -> String {
    format!("{{\"type\":\"frame\",\"frame\":{raw}}}")
}

/// The result, as it came.
pub(crate) fn result(raw: &str) -> String {
    format!("{{\"type\":\"result\",\"result\":{raw}}}")
}

/// Something has changed on the server.
pub(crate) fn changed(change: &Change) -> String {
    line(
        "change",
        &match change {
            Change::Tools => json!({ "changed": "tools" }),
            Change::Prompts => json!({ "changed": "prompts" }),
            Change::Resources => json!({ "changed": "resources" }),
            Change::Resource(uri) => json!({ "changed": "resource", "uri": &**uri }),
            Change::Task { id, .. } => json!({ "changed": "task", "uri": id }),
        },
    )
}

fn progressed(progress: &Progress) -> String {
    let mut members = json!({ "progress": progress.progress });
    if let Some(total) = progress.total {
        members["total"] = json!(total);
    }
    if let Some(message) = &progress.message {
        members["message"] = json!(message);
    }
    line("progress", &members)
}

fn logged(params: &[u8]) -> String {
    let Ok(note) = serde_json::from_slice::<LogParams>(params) else {
        return line("log", &json!({ "data": String::from_utf8_lossy(params) }));
    };
    let mut members = json!({ "level": note.level, "data": Raw::value(&note.data) });
    if let Some(logger) = note.logger {
        members["logger"] = json!(logger);
    }
    line("log", &members)
}

fn found(finding: &Finding) -> String {
    let mut members = json!({
        "rule": finding.rule.id(),
        "detail": finding.detail,
        "clause": finding.rule.clause(),
    });
    if finding.frame > 0 {
        members["frame"] = json!(finding.frame);
    }
    if !finding.bytes.is_empty() {
        members["bytes"] = json!(finding.bytes);
    }
    if let Some(call) = &finding.call {
        members["call"] = json!(call.to_string());
    }
    line("finding", &members)
}

/// Without secrets, and still JSON.
fn hidden(line: String, secrets: &Redactor) -> String {
    let told = secrets.redact(&line);
    match serde_json::from_str::<serde::de::IgnoredAny>(&told) {
        Ok(_) => told.into_owned(),
        Err(_) => self::line("hidden", &json!({ "text": told })),
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::secret::Secret;

    use super::*;

    /// S1-C5: no line shows a secret, and every line stays JSON.
    #[test]
    fn secrets_are_hidden() {
        let secrets = Redactor::new([Secret::new("s3cret-\"quoted\"-value")]);
        let told = logged(br#"{"level":"info","data":{"key":"s3cret-\"quoted\"-value"}}"#);
        let line = hidden(told, &secrets);
        assert!(!line.contains("s3cret"), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["type"], "log");
    }

    #[test]
    fn a_line_begins_with_its_type() {
        assert_eq!(line("x", &json!({ "a": 1 })), r#"{"type":"x","a":1}"#);
        assert_eq!(line("x", &json!({})), r#"{"type":"x"}"#);
        assert_eq!(result("{}"), r#"{"type":"result","result":{}}"#);
    }
}
