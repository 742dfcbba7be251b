//! Numbers for whoever watches: the text format of Prometheus, version 0.0.4.
//!
//! Labels are names of servers, which come from the configuration, and words of our own. Nothing that a client or a server
//! says becomes one: there would be no end of them.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use crate::fleet::{BUCKETS, Ending, Status, Upstream};
use crate::front::{Front, Refused};

/// What kind of text it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the numbers of a family mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow.
    Counter,
    /// They grow and shrink.
    Gauge,
    /// How many there were up to each bound.
    Histogram,
}

/// A text in the making.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family. Its samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One number, with its labels.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if place == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one number.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The whole text.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }
}

/// Writes what a gateway counts: of each server, and of what never reached one.
pub fn write(front: &Front, out: &mut Exposition) {
    let upstreams = front.fleet().upstreams();
    let statuses: Vec<Status> = upstreams.iter().map(|upstream| upstream.status()).collect();
    states(&statuses, out);
    links(&statuses, out);
    calls(&upstreams, out);
    let (refused, parked) = (front.refused(), front.parked());
    let name = "cardan_calls_refused_total";
    out.family(name, Kind::Counter, "Calls that no server was asked for, by reason.");
    for (reason, count) in Refused::ALL.into_iter().zip(refused) {
        out.sample(name, &[("reason", reason.word())], count);
    }
    out.single("cardan_parked_calls", Kind::Gauge, "Calls that wait for their client's answers.", parked);
    if let Some(spans) = front.traced() {
        let (exported, dropped) = ("cardan_spans_exported_total", "cardan_spans_dropped_total");
        out.single(exported, Kind::Counter, "Spans of calls that were exported.", spans.exported);
        out.family(dropped, Kind::Counter, "Spans of calls that were not, by reason.");
        out.sample(dropped, &[("reason", "crowded")], spans.crowded);
        out.sample(dropped, &[("reason", "refused")], spans.refused);
    }
}

fn states(statuses: &[Status], out: &mut Exposition) {
    let name = "cardan_upstream_up";
    out.family(name, Kind::Gauge, "Whether calls flow.");
    for status in statuses {
        out.sample(name, &[("server", &status.name)], u8::from(status.health.is_up()));
    }
    let name = "cardan_upstream_state";
    out.family(name, Kind::Gauge, "How the server stands: 1 for its state, 0 for all others.");
    for status in statuses {
        let now = status.health.word();
        for state in crate::fleet::Health::WORDS {
            out.sample(name, &[("server", &status.name), ("state", state)], u8::from(state == now));
        }
    }
}

fn links(statuses: &[Status], out: &mut Exposition) {
    let name = "cardan_upstream_connects_total";
    out.family(name, Kind::Counter, "Links that came up.");
    for status in statuses {
        out.sample(name, &[("server", &status.name)], status.connects);
    }
    let name = "cardan_upstream_restarts_total";
    out.family(name, Kind::Counter, "Attempts that followed a failure or a loss.");
    for status in statuses {
        out.sample(name, &[("server", &status.name)], status.restarts);
    }
}

fn calls(upstreams: &[std::sync::Arc<Upstream>], out: &mut Exposition) {
    let all: Vec<_> = upstreams.iter().map(|upstream| (upstream.name(), upstream.counts())).collect();
    let name = "cardan_upstream_calls_total";
    out.family(name, Kind::Counter, "Calls to the server that have ended, by outcome.");
    for (server, counts) in &all {
        for (ending, count) in Ending::ALL.into_iter().zip(counts.ended) {
            out.sample(name, &[("server", server), ("outcome", ending.word())], count);
        }
    }
    let name = "cardan_upstream_calls_in_flight";
    out.family(
        name,
        Kind::Gauge,
        "Calls to the server that run, or wait for a place or for their client's answers.",
    );
    for (server, counts) in &all {
        out.sample(name, &[("server", server)], counts.running);
    }
    let name = "cardan_upstream_call_seconds";
    out.family(name, Kind::Histogram, "How long calls to the server took.");
    for (server, counts) in &all {
        let mut so_far = 0;
        let bounds = BUCKETS.iter().map(|bound| bound.as_secs_f64().to_string());
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts.took) {
            so_far += count;
            out.sample(&[name, "_bucket"].concat(), &[("server", server), ("le", &bound)], so_far);
        }
        out.sample(&[name, "_sum"].concat(), &[("server", server)], seconds(counts.total));
        out.sample(&[name, "_count"].concat(), &[("server", server)], so_far);
    }
    for (name, help, of) in [
        ("cardan_upstream_sent_bytes_total", "Bytes of params of calls to the server.", 0),
        ("cardan_upstream_received_bytes_total", "Bytes of results of the server.", 1),
    ] {
        out.family(name, Kind::Counter, help);
        for (server, counts) in &all {
            out.sample(name, &[("server", server)], [counts.sent, counts.received][of]);
        }
    }
}

/// A time in seconds, exactly.
fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        out.single("a_total", Kind::Counter, "What it is.", 3);
        out.family("b", Kind::Gauge, "Another.");
        out.sample("b", &[("server", "a\"b\\c\nd"), ("state", "up")], 1);
        let wanted = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\n# HELP b Another.\n# TYPE b gauge\n\
                      b{server=\"a\\\"b\\\\c\\nd\",state=\"up\"} 1\n";
        assert_eq!(out.text(), wanted);
    }
}
