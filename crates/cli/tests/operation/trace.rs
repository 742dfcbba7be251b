//! Traces of a gateway in operation: where they come from, where they go, and what is counted of them.

use std::time::Instant;

use serde_json::json;

use crate::client::{Legacy, modern, modern_with};
use crate::collecting::{Collector, Span, spans};
use crate::rig::{LONG, Running, World, demo};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A gateway that exports as this variable says.
fn serve(world: &World, vars: &[(&str, &str)]) -> Running {
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    Running::of({
        command.envs(vars.iter().copied());
        command
    })
}

/// Asks it to stop; all that it exported until it had.
fn all(gateway: Running, collector: &Collector) -> Vec<Span> {
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
    collector.rest().iter().flat_map(|request| spans(&request.body).1).collect()
}

/// META-6: a call that names no trace is part of that of its HTTP request; what is left at the end is exported then.
#[test]
fn a_header_is_a_parent_and_the_end_loses_nothing() {
    let collector = Collector::open();
    let world = World::new("trace-header", &demo("alpha"));
    let vars = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary%204711"),
        ("OTEL_SERVICE_NAME", "gate"),
    ];
    let gateway = serve(&world, &vars);
    let add = json!({ "a": 1, "b": 2 });
    assert_eq!(modern_with(&gateway, &[PARENT], "alpha__add", &add).answer().status, 200);
    let request = collector.next();
    assert!(request.head.contains("x-key: canary 4711\r\n"), "{}", request.head);
    let (resource, first) = spans(&request.body);
    assert_eq!(resource["service.name"], "gate");
    assert!(first.iter().all(|span| span.trace == TRACE), "{first:?}");
    let ours = first.iter().find(|span| span.kind == 2).unwrap();
    assert_eq!(ours.parent, "b7ad6b7169203331");
    let begun = Instant::now();
    let scrape = loop {
        let scrape = gateway.get("/metrics", &[]).body;
        if scrape.contains("cardan_spans_exported_total 2\n") {
            break scrape;
        }
        assert!(begun.elapsed() < LONG, "never exported: {scrape}");
    };
    assert!(scrape.contains("cardan_spans_dropped_total{reason=\"crowded\"} 0\n"), "{scrape}");
    // A legacy client's session is one in its spans, and not the one that it is known by.
    let client = Legacy::open(&gateway);
    for _ in 0..2 {
        client.call("alpha__add", &add).rest();
    }
    let session = client.session.clone();
    let rest = all(gateway, &collector);
    let sessions: Vec<_> = rest.iter().filter_map(|span| span.of("mcp.session.id")).collect();
    assert_eq!(sessions.len(), 2, "{rest:?}");
    // T10: what a session is known by opens it.
    assert!(sessions[0] == sessions[1] && !format!("{rest:?}").contains(&session), "{rest:?}");
}

/// The command line goes before the configuration, and that before the environment. What is wrong is told at the start.
#[test]
fn where_spans_go_is_said_in_three_places() {
    let collector = Collector::open();
    let away = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let telemetry = format!("[telemetry]\notlp = \"{}\"\n", collector.url);
    let world = World::new("trace-places", &[&telemetry, &*demo("alpha")].concat());
    let gateway = serve(&world, &[away]);
    modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer();
    assert_eq!(all(gateway, &collector).len(), 2);
    let gateway = world.serve(&["--otlp", "off"]);
    modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer();
    assert!(!gateway.get("/metrics", &[]).body.contains("cardan_spans"), "nothing is exported");
    assert_eq!(all(gateway, &collector).len(), 0);
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    let wrong = command.env("OTEL_TRACES_SAMPLER", "sometimes").output().unwrap();
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(1) && told.contains("OTEL_TRACES_SAMPLER"), "{told}");
    let demo = world
        .command(&["serve", "--listen", "127.0.0.1:0", "--otlp", "http://127.0.0.1:9"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&demo.stderr).into_owned();
    assert!(demo.status.code() == Some(1) && told.contains("--otlp is for configured servers"), "{told}");
}

/// A collector that is away is told of, and its spans are counted; calls do not notice.
#[test]
fn a_collector_that_is_away_is_told_of() {
    let world = World::new("trace-away", &demo("alpha"));
    let gateway = world.serve(&["--otlp", "http://127.0.0.1:9/canary"]);
    assert_eq!(modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer().status, 200);
    let told = gateway.hears("spans cannot be exported");
    // T27: what is behind the host may be a key.
    assert!(told.contains("http://127.0.0.1:9:") && !told.contains("canary"), "{told}");
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
}
