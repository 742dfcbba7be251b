//! `/metrics`: well-formed, true, and closed to strangers.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use crate::client::{Legacy, modern};
use crate::rig::{Running, SICK, World, demo};

type Labels = BTreeMap<String, String>;

/// What was exposed, read as a scraper would, and strictly.
struct Scrape(Vec<(String, Labels, f64)>);

impl Scrape {
    fn of(running: &Running) -> Self {
        let got = running.get("/metrics", &[]);
        assert_eq!(got.status, 200, "{got:?}");
        assert!(got.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{got:?}");
        Self::parse(&got.body)
    }

    fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "{text}");
        let (mut samples, mut families, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let (mut helped, mut family) = (String::new(), (String::new(), String::new()));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(families.insert(name.to_owned()) && !help.is_empty(), "told twice: {line}");
                helped = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, helped, "help and type belong together");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                family = (name.to_owned(), kind.to_owned());
            } else {
                let (name, labels, value) = sample(line);
                let base = match family.1.as_str() {
                    "histogram" => {
                        ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end))
                    }
                    "counter" => Some(name.as_str()).filter(|name| name.ends_with("_total")),
                    _ => Some(name.as_str()),
                };
                assert_eq!(base, Some(family.0.as_str()), "in the wrong family: {line}");
                assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
                samples.push((name, labels, value));
            }
        }
        let scrape = Self(samples);
        scrape.check_histograms();
        scrape
    }

    fn check_histograms(&self) {
        for (name, labels, count) in self.0.iter().filter(|(name, ..)| name.ends_with("_seconds_count")) {
            let bucket = name.replace("_count", "_bucket");
            let server = &labels["server"];
            let buckets: Vec<_> = self
                .0
                .iter()
                .filter(|(name, labels, _)| *name == bucket && labels["server"] == *server)
                .map(|(_, labels, value)| (labels["le"].as_str(), *value))
                .collect();
            assert_eq!(buckets.last(), Some(&("+Inf", *count)), "{buckets:?}");
            assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "not cumulative: {buckets:?}");
            let bounds: Vec<f64> =
                buckets[..buckets.len() - 1].iter().map(|b| b.0.parse().unwrap()).collect();
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }

    #[track_caller]
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found = self.0.iter().find(|(sample, labels, _)| sample == name && *labels == wanted);
        found.unwrap_or_else(|| panic!("no {name} {wanted:?}")).2
    }

    fn calls(&self, server: &str, outcome: &str) -> f64 {
        self.value("cardan_upstream_calls_total", &[("server", server), ("outcome", outcome)])
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// One line: a name, labels with their escapes undone, a number.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no sample: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let (mut text, mut chars) = (String::new(), after.char_indices());
            rest = loop {
                match chars.next().unwrap() {
                    (at, '"') => break &after[at + 1..],
                    (_, '\\') => text.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('"' | '\\') => c,
                        other => panic!("escaped {other}: {line}"),
                    }),
                    (_, c) => text.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
        }
        rest = &rest[1..];
    }
    (name.to_owned(), labels, rest.trim_start().parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// The numbers are what happened, for each server; what clients make up is counted and never shown.
#[test]
fn what_happens_is_counted() {
    let odd = r#"q"u\o"#;
    let policy = "[policy.'*']\ntools = { deny = ['alpha__echo'] }\n";
    let world = World::new("metrics", &[&demo("alpha"), &demo(&format!("'{odd}'")), SICK, policy].concat());
    let gateway = world.serve(&[]);
    // Those that work are up; the sick one keeps the whole degraded.
    loop {
        let scrape = Scrape::of(&gateway);
        if ["alpha", odd].iter().all(|name| scrape.value("cardan_upstream_up", &[("server", name)]) == 1.0) {
            break;
        }
    }
    let add = json!({ "a": 1, "b": 2 });
    for _ in 0..3 {
        assert_eq!(modern(&gateway, "alpha__add", &add).answer().status, 200);
    }
    modern(&gateway, "alpha__fail", &json!({ "message": "no" })).answer();
    modern(&gateway, "alpha__echo", &json!({ "message": "hidden" })).answer();
    let client = Legacy::open(&gateway);
    let hostile = "evil\"} 1\ncardan_upstream_up{server=\"x";
    assert!(client.call(hostile, &add).rest().contains("unknown tool"));
    assert!(client.call("alpha__no-such", &add).rest().contains("unknown tool"));
    let mut slow = modern(&gateway, "alpha__slow", &json!({ "steps": 100_000, "delay_ms": 100 }));
    slow.until("notifications/progress");

    let scrape = Scrape::of(&gateway);
    assert_eq!((scrape.calls("alpha", "done"), scrape.calls("alpha", "cancelled")), (4.0, 0.0));
    assert_eq!(scrape.value("cardan_upstream_calls_in_flight", &[("server", "alpha")]), 1.0);
    assert_eq!(scrape.value("cardan_upstream_call_seconds_count", &[("server", "alpha")]), 4.0);
    assert_eq!(scrape.calls(odd, "done"), 0.0);
    for (reason, count) in [("unknown", 2.0), ("policy", 1.0), ("pin", 0.0)] {
        assert_eq!(scrape.value("cardan_calls_refused_total", &[("reason", reason)]), count, "{reason}");
    }
    for (state, is) in [("ready", 1.0), ("asleep", 0.0)] {
        let labels = [("server", "alpha"), ("state", state)];
        assert_eq!(scrape.value("cardan_upstream_state", &labels), is);
    }
    assert_eq!(scrape.value("cardan_upstream_up", &[("server", "sick")]), 0.0);
    assert_eq!(scrape.value("cardan_upstream_connects_total", &[("server", "alpha")]), 1.0);
    assert_eq!(scrape.value("cardan_sessions", &[]), 1.0);
    assert!(scrape.value("cardan_upstream_sent_bytes_total", &[("server", "alpha")]) > 0.0);
    assert!(scrape.value("process_start_time_seconds", &[]) > 1e9);
    let servers: HashSet<_> = scrape.0.iter().filter_map(|(_, labels, _)| labels.get("server")).collect();
    assert_eq!(servers.len(), 3, "{servers:?}");

    // A client that goes away cancels its call, which is heard in its own time.
    drop(slow);
    while Scrape::of(&gateway).calls("alpha", "cancelled") != 1.0 {}
    assert_eq!(Scrape::of(&gateway).value("cardan_upstream_calls_in_flight", &[("server", "alpha")]), 0.0);
}

/// T16: numbers are for those with a key.
#[test]
fn t16_strangers_see_no_numbers() {
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("metrics-keys", &[&demo("alpha"), keys].concat());
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    let gateway = Running::of({
        command.env("ADA_TOKEN", "ada-0123456789abcdef");
        command
    });
    let stranger = gateway.get("/metrics", &[]);
    assert_eq!((stranger.status, stranger.body.as_str()), (401, ""));
    let ada = gateway.get("/metrics", &["Authorization: Bearer ada-0123456789abcdef"]);
    assert_eq!(ada.status, 200);
    Scrape::parse(&ada.body);
    assert_eq!(gateway.get("/metrics", &["Host: evil.example"]).status, 403);
}
