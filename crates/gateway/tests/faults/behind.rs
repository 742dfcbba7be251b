//! The wire between a gateway and its server breaks.

use std::sync::Arc;

use cardan_client::{CallError, Client, way};
use cardan_dial::{Http, Kind};
use cardan_gateway::fleet::{self, Fleet, Making, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::merge::Naming;
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_proxy::Proxies;
use cardan_runtime::memory;
use serde_json::Value;

use crate::proxy::{Cut, Fault, Proxy, Seen, Way, places};
use crate::relaying::{choice, plain};
use crate::rig::{Rig, Runs, Shape, count, hasty, within};
use crate::sweep::{IDLE, padded, step};

/// Gateways that are tried beside each other.
const WORKERS: usize = 8;

/// A gateway that reaches its server through a proxy, and a client of it.
struct Bench {
    proxy: Proxy,
    front: Front,
    client: Client,
}

impl Bench {
    async fn before(rig: &Rig, era: Era) -> Self {
        let proxy = Proxy::before(rig.address).await;
        let http = Http::new(&format!("http://{}/mcp", proxy.address)).unwrap();
        let http = http.kind(Kind::Streamable).limits(&hasty()).proxies(Proxies::Direct);
        let connector = Client::builder("gateway", "1").era(choice(era)).limits(hasty());
        let way = way(move || std::future::ready(http.clone().link()));
        let short = hasty().reconnect_wait_min;
        let backoff = Backoff { min: short, max: short, ..Policy::REMOTE.backoff };
        let policy = Policy { backoff, ..Policy::REMOTE };
        let spec = Spec::new("counts", "http", "digest", Making { connector, way, policy });
        let fleet = Fleet::start(vec![spec], fleet::Options::default());
        let front = Front::start(fleet, Options { naming: Naming::Never("__".into()), ..Options::default() });
        front.settled().await;
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let served = front.clone();
        tokio::spawn(async move { served.serve(theirs).await });
        let client = plain().era(choice(Era::Modern)).connect_link(ours).await.unwrap();
        let bench = Self { proxy, front, client };
        within("a first call", bench.call("warm")).await.unwrap();
        bench
    }

    async fn call(&self, name: &str) -> Result<(), CallError> {
        count(&self.client, name, Shape::Events, IDLE).await
    }

    /// What passes for one call when nothing breaks.
    async fn recorded(&self) -> Seen {
        self.proxy.arm(None);
        self.call(&padded("recorded")).await.unwrap();
        self.proxy.seen()
    }

    /// One call whose exchange breaks, and one after it.
    async fn broken(&self, name: &str, cut: Cut, runs: &Runs) {
        self.proxy.arm(Some(cut));
        let outcome = within(name, self.call(name)).await;
        self.proxy.arm(None);
        check(name, &outcome, runs);
        // Whoever comes next may find that the link is gone, and is told so before anything is sent.
        for attempt in 0.. {
            let next = format!("{name}, next {attempt}");
            let outcome = within(&next, self.call(&next)).await;
            check(&next, &outcome, runs);
            if outcome.is_ok() {
                break;
            }
            assert!(attempt < 3, "{next}: {outcome:?}");
        }
    }
}

/// A call ran at most once, and what its client was told is the truth.
#[track_caller]
fn check(name: &str, outcome: &Result<(), CallError>, runs: &Runs) {
    let ran = runs.lock().unwrap().get(name).copied().unwrap_or_default();
    match outcome {
        Ok(()) => assert_eq!(ran, 1, "{name} was answered"),
        Err(CallError::Fault(fault)) => {
            let data: Value = serde_json::from_slice(fault.data.as_deref().unwrap_or_default())
                .unwrap_or_else(|_| panic!("{name}: {fault:?}"));
            match data["mayHaveExecuted"].as_bool() {
                Some(true) => assert!(ran <= 1, "{name} ran {ran} times: {fault:?}"),
                Some(false) => assert_eq!(ran, 0, "{name} was said not to have run: {fault:?}"),
                None => panic!("{name}: {fault:?}"),
            }
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

async fn breaks_anywhere(era: Era) {
    let runs = Runs::default();
    let rig = Arc::new(Rig::counting(Limits::DEFAULT, Arc::clone(&runs)).await);
    let bench = Bench::before(&rig, era).await;
    let seen = bench.recorded().await;
    bench.front.end("done").await;
    let cuts = [Way::Up, Way::Down].into_iter().flat_map(|way| {
        let fault = |after| if after % 5 == 0 { Fault::Close } else { Fault::Reset };
        places(seen.of(way), step(crate::STEP)).into_iter().map(move |after| Cut {
            way,
            after,
            fault: fault(after),
        })
    });
    let cuts: Vec<Cut> = cuts.collect();
    assert!(cuts.len() > 20, "there is something to break");
    let work = cuts.chunks(cuts.len().div_ceil(WORKERS)).map(|cuts| {
        let (rig, runs) = (&rig, &runs);
        async move {
            let bench = Bench::before(rig, era).await;
            for cut in cuts {
                let name = padded(&format!("{era:?} {:?} {} {:?}", cut.way, cut.after, cut.fault));
                bench.broken(&name, *cut, runs).await;
            }
            bench.front.end("done").await;
        }
    });
    futures_util::future::join_all(work).await;
    eprintln!("behind a gateway, {era:?}: broken at {} places", cuts.len());
}

/// F11: where the wire to a legacy server is reset at any byte of a stream, the call is resumed or its client is told truly
/// whether it may have run; it is never run twice, and the gateway goes on.
#[tokio::test]
async fn f11_legacy_streams_break_anywhere_behind_a_gateway() {
    breaks_anywhere(Era::Legacy).await;
}

/// F11: the same before a modern server, where nothing is resumed.
#[tokio::test]
async fn f11_modern_streams_break_anywhere_behind_a_gateway() {
    breaks_anywhere(Era::Modern).await;
}
