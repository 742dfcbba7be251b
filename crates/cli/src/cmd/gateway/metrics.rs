//! What a gateway counts, at `/metrics`.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use cardan_endpoint::{Audience, Leaf, Options, Present, Sites};
use cardan_gateway::front::Front;
use cardan_gateway::metrics::{self, CONTENT_TYPE, Exposition, Kind};
use cardan_replicas::Replicas;
use http::StatusCode;

/// Counts who is here, once it is known where.
#[derive(Clone, Default)]
pub(super) struct Counting(Arc<OnceLock<Box<dyn Fn() -> Present + Send + Sync>>>);

impl Counting {
    /// The page is made before the sites that it tells of.
    pub(super) fn of(&self, sites: &Sites<Front>) {
        // Once: a gateway has one port.
        let _ = self.0.set(Box::new(sites.counting()));
    }
}

/// Adds the page.
pub(super) fn page(options: Options, front: &Front, replicas: Option<Replicas>) -> (Options, Counting) {
    let (front, counting, started) = (front.clone(), Counting::default(), SystemTime::now());
    let present = counting.clone();
    let options = options.page("/metrics", Audience::Known, move |_| {
        let mut out = Exposition::default();
        metrics::write(&front, &mut out);
        people(present.0.get().map(|present| present()).unwrap_or_default(), &mut out);
        if let Some(replicas) = &replicas {
            super::replicas::metrics(replicas, &mut out);
        }
        process(started, &mut out);
        Leaf { status: StatusCode::OK, content_type: CONTENT_TYPE, text: out.text() }
    });
    (options, counting)
}

fn people(present: Present, out: &mut Exposition) {
    out.single("cardan_sessions", Kind::Gauge, "Legacy sessions over HTTP.", present.sessions);
    out.single("cardan_streams", Kind::Gauge, "Streams of the old HTTP+SSE.", present.streams);
    out.single("cardan_sockets", Kind::Gauge, "WebSockets.", present.sockets);
}

fn process(started: SystemTime, out: &mut Exposition) {
    out.family("cardan_build_info", Kind::Gauge, "The version that runs.");
    out.sample("cardan_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = "process_start_time_seconds";
    out.single(name, Kind::Gauge, "When it was started, in seconds since 1970.", started.as_secs());
    if let Some(bytes) = resident() {
        out.single("process_resident_memory_bytes", Kind::Gauge, "Memory that it holds.", bytes);
    }
    // Nothing of this waits for a disk: the system makes it up when it is read.
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        out.single("process_open_fds", Kind::Gauge, "Files and sockets that it has open.", open.count());
    }
}

/// Where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
