//! Servers that others have written.

use std::fs::File;

use crate::common::pty::{Pty, Seat};
use crate::common::{Scratch, peer};

/// The command line of a peer's server.
fn server(name: &str, script: &str) -> Option<Vec<String>> {
    let command = peer(name, script)?;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    Some(words.map(|word| word.to_str().unwrap().to_owned()).collect())
}

/// Someone calls it; the result goes to a file.
fn start(words: &[&str], server: &[String], result: &str) -> Seat {
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    Pty::new(100).stdout(File::create(result).unwrap()).start(&[words, &["--"], &server].concat())
}

/// The file has all of these.
#[track_caller]
fn has(result: &str, texts: &[&str]) {
    let result = std::fs::read_to_string(result).unwrap();
    for text in texts {
        assert!(result.contains(text), "{text:?} is not there: {result}");
    }
}

/// CLI-14, CLI-16: the reference server's form, with every kind of field, and its question for a model.
#[test]
fn the_reference_server_is_answered() {
    let Some(everything) = server("node-everything", "start.mjs") else { return };
    let scratch = Scratch::new("reference");
    let result = scratch.file("result");
    let mut seat = start(&["call", "trigger-elicitation-request"], &everything, &result);
    seat.sees("\"mcp-servers/everything\") asks:")
        .sees("| Your full, legal name")
        .sees("name: ")
        .types("Ada\r");
    seat.sees("check [y/n]: ").types("yes\r").sees("stormy night.]: ").types("\r");
    seat.sees("email: ").types("ada@\r").sees("email is not a mail address").sees("email: ").types("\r");
    seat.sees("homepage: ").types("\r").sees("birthdate: ").types("1815-12-10\r");
    seat.sees("integer [42]: ").types("7\r").sees("number [3.14]: ").types("\r");
    seat.sees("6) Phoebe").sees("untitledSingleSelectEnum [Monica]: ").types("6\r");
    seat.sees("untitledMultipleSelectEnum [Guitar]: ").types("2,Bass\r");
    seat.sees("2) Green Lantern (hero-2)").sees("titledSingleSelectEnum [hero-1]: ").types("green lantern\r");
    seat.sees("titledMultipleSelectEnum [fish-1]: ")
        .types("\r")
        .sees("legacyTitledEnum [pet-1]: ")
        .types("3\r");
    seat.sees("This goes to").sees("Send it?").types("\r");
    seat.end().exits(0);
    has(
        &result,
        &["\"birthdate\": \"1815-12-10\"", "\"check\": true", "\"integer\": 7", "\"Phoebe\"", "\"Bass\""],
    );
    has(&result, &["\"legacyTitledEnum\": \"pet-3\"", "\"titledSingleSelectEnum\": \"hero-2\""]);

    let mut seat = start(&["call", "trigger-sampling-request", "prompt=Why?"], &everything, &result);
    seat.sees("| You are a helpful test server.").sees("Why?").sees("Answer in its place?").types("y\r");
    seat.sees("> ").types("Because.\r").sees("> ").types("\r").sees("Send it?").types("\r");
    seat.end().exits(0);
    has(&result, &["\"text\": \"Because.\""]);

    for more in ["errorPath=false", "errorPath=true"] {
        let words = ["call", "trigger-url-elicitation", "url=https://example.com/go", more];
        let mut seat = start(&words, &everything, &result);
        seat.sees("host: ").sees("[c]ancel: ").types("n\r");
        seat.end().exits(14);
    }
}

/// CLI-14, CLI-16: the Python SDK's server of the modern era, and the same in the legacy one.
#[test]
fn the_python_server_is_answered_in_both_eras() {
    let Some(python) = server("python-v2", "server.py") else { return };
    let scratch = Scratch::new("python");
    let result = scratch.file("result");
    for era in ["legacy", "modern"] {
        let mut seat = start(&["call", "ask", "question=Who?", "--era", era], &python, &result);
        seat.sees("\"peer-python-v2\") asks:").sees("| Who?").sees("answer: ").types("Ada\r");
        seat.sees("Send it?").types("\r");
        seat.end().exits(0);
        has(&result, &["Ada"]);
        let mut seat = start(&["call", "sample", "prompt=Why?", "--era", era], &python, &result);
        seat.sees("asks your model").sees("| Why?").sees("Answer in its place?").types("y\r");
        seat.sees("> ").types("Because.\r").sees("> ").types("\r").sees("Send it?").types("\r");
        seat.end().exits(0);
        has(&result, &["Because."]);
    }
}
