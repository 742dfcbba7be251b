//! Traces with strangers on every side: a client and a server whose SDK records spans by itself, and a collector that reads
//! ours with OpenTelemetry's own messages.
//!
//! The peer is installed by `cargo xtask test`; without it each test says that it was skipped, and fails where
//! `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Scratch, Serving, peer};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(60);

/// The collector, until it is dropped.
struct Collector {
    child: Child,
    lines: Receiver<Value>,
    url: String,
}

impl Collector {
    fn open() -> Option<Self> {
        let mut command = peer("python-otel", "collector.py")?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let read = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let values = read.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap());
            values.into_iter().all(|line: Value| tell.send(line).is_ok())
        });
        let first = lines.recv_timeout(LONG).unwrap();
        Some(Self { child, lines, url: first["url"].as_str().unwrap().to_owned() })
    }

    /// The spans of a call of a tool, once all of them have come.
    fn call(&self, trace: &str) -> [Value; 5] {
        let mut spans = Vec::new();
        loop {
            let line = self.lines.recv_timeout(LONG).unwrap_or_else(|_| panic!("not all came: {spans:#?}"));
            assert_eq!(line.get("wrong"), None, "the collector cannot read it");
            if line["trace"] == trace {
                spans.push(line);
            }
            if let Some(chain) = chain(&spans) {
                return chain;
            }
        }
    }
}

/// From the client's own work down to the server's span.
fn chain(spans: &[Value]) -> Option<[Value; 5]> {
    let find = |service: &str, kind: &str| {
        let call = |span: &&Value| span["attributes"]["mcp.method.name"] == "tools/call";
        let mut found = spans.iter().filter(call);
        found.find(|span| span["service"] == service && span["kind"] == kind).cloned()
    };
    Some([
        spans.iter().find(|span| span["name"] == "work").cloned()?,
        find("client", "SPAN_KIND_CLIENT")?,
        find("cardan", "SPAN_KIND_SERVER")?,
        find("cardan", "SPAN_KIND_CLIENT")?,
        find("server", "SPAN_KIND_SERVER")?,
    ])
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls a tool as part of a trace; the name of that.
fn call(collector: &Collector, era: &str, address: &str, tool: &str) -> String {
    let mut client = peer("python-otel", "client.py").unwrap();
    client.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let arguments = json!({ "message": "canary-4711" }).to_string();
    let output = client.args(["--era", era, address, tool, &arguments]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let said: Value = serde_json::from_str(said.trim())
        .unwrap_or_else(|_| panic!("{era}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!((&said["text"], &said["failed"]), (&json!("canary-4711"), &json!(false)), "{era}");
    said["trace"].as_str().unwrap().to_owned()
}

/// Each is the child of the one before it.
fn check(chain: &[Value; 5], tool: &str) {
    for pair in chain.windows(2) {
        assert_eq!(pair[1]["parent"], pair[0]["span"], "{pair:#?}");
    }
    let (ours, onward) = (&chain[2], &chain[3]);
    assert_eq!(ours["name"], format!("tools/call {tool}"), "{ours}");
    assert_eq!(onward["attributes"]["gen_ai.tool.name"], "echo", "{onward}");
    // Sampled; the parent is another program's for the one, and ours for the other.
    assert_eq!((&ours["flags"], &onward["flags"]), (&json!(0x301), &json!(0x101)));
    assert_eq!(
        (&ours["status"], &onward["status"]),
        (&json!("STATUS_CODE_UNSET"), &json!("STATUS_CODE_UNSET"))
    );
    assert!(!json!([ours, onward]).to_string().contains("canary"), "T27: arguments are in no span");
}

/// How the server is started.
fn server() -> Command {
    peer("python-otel", "server.py").unwrap()
}

/// META-6: one trace from a stranger's client through a gateway to a stranger's server.
#[test]
fn a_gateway_joins_the_traces_of_strangers() {
    let Some(collector) = Collector::open() else { return };
    let scratch = Scratch::new("interop-traces");
    let file = scratch.file("cardan.toml");
    let (program, script) =
        (server().get_program().to_owned(), server().get_args().next().unwrap().to_owned());
    let config = format!(
        "[telemetry]\notlp = \"{url}\"\n[servers.seer]\ncommand = '{}'\nargs = ['{}']\n\
         env = {{ OTEL_EXPORTER_OTLP_ENDPOINT = \"{url}\" }}\n",
        program.display(),
        script.display(),
        url = collector.url,
    );
    fs::write(&file, config).unwrap();
    let gateway = Serving::start_at(&scratch.file("home"), &["--config", &file]);
    for era in ["legacy", "modern"] {
        let trace = call(&collector, era, &format!("http://{}/mcp", gateway.address), "seer__echo");
        check(&collector.call(&trace), "seer__echo");
    }
    assert_eq!(gateway.stop(), Some(0));
}

/// META-6: the same through a bridge, which is told where to export on its command line.
#[test]
fn a_bridge_joins_the_traces_of_strangers() {
    let Some(collector) = Collector::open() else { return };
    let (program, script) =
        (server().get_program().to_owned(), server().get_args().next().unwrap().to_owned());
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", collector.url);
    let (program, script) = (program.to_str().unwrap(), script.to_str().unwrap());
    let bridge = Serving::bridge(&["--otlp", &collector.url, "--env", &endpoint, "--", program, script]);
    for era in ["legacy", "modern"] {
        let trace = call(&collector, era, &format!("http://{}/mcp", bridge.address), "echo");
        check(&collector.call(&trace), "echo");
    }
    assert_eq!(bridge.stop(), Some(0));
}
