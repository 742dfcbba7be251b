//! Every example of the specification is read by its type and written again unchanged.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test: helpers fail it and say what is skipped"
)]

mod model_table;

use std::fs;

use model_table::{Entry, entry, same, shared};
use serde_json::Value;

/// BASE-33 aside, nothing is lost: no member and no value.
#[test]
fn examples_read_back_unchanged() {
    let Some(examples) = shared("spec/examples/2026-07-28") else { return };
    let mut failures = Vec::new();
    let mut count = 0;
    for directory in fs::read_dir(examples).unwrap() {
        let directory = directory.unwrap();
        let name = directory.file_name().into_string().unwrap();
        let Some(entry) = entry(&name).filter(|entry| !matches!(entry, Entry::Not(_))) else {
            failures.push(format!("{name}: no type of the model reads it; add it to the table"));
            continue;
        };
        for file in fs::read_dir(directory.path()).unwrap() {
            let path = file.unwrap().path();
            let example: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            count += 1;
            match entry.pass(&example) {
                Ok(written) if same(&written, &example) => {}
                Ok(written) => failures.push(format!("{}: written as {written}", path.display())),
                Err(error) => failures.push(format!("{}: {error}", path.display())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 100, "only {count} examples were found");
}

/// The comparison itself can fail, and the table refuses what is not of the type.
#[test]
fn the_comparison_can_fail() {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert!(same(&json(r#"{"a":1,"b":[2.0]}"#), &json(r#"{"b":[2],"a":1.0}"#)));
    for (a, b) in [("1", "\"1\""), (r#"{"a":1}"#, "{}"), ("[1]", "[1,1]"), ("null", "false")] {
        assert!(!same(&json(a), &json(b)), "{a} {b}");
    }
    assert!(entry("Tool").unwrap().pass(&json(r#"{"name":"t"}"#)).is_err());
    assert!(entry("PingRequest").unwrap().pass(&json(r#"{"method":"pong"}"#)).is_err());
    assert!(entry("NoSuchDefinition").is_none());
}
