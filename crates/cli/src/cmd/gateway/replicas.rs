//! Several gateways that share legacy sessions, as `[replicas]` says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cardan_config::Config;
use cardan_config::replicas::Shared;
use cardan_dial::{Carrier, Http};
use cardan_gateway::metrics::{Exposition, Kind};
use cardan_proto::limits::Limits;
use cardan_proto::limits::replicas::{CONNECT, WAYS};
use cardan_proto::session::event::Delivery;
use cardan_proxy::Proxies;
use cardan_replicas::{
    Answer, Carry, Carrying, Open, Place, Replicas, SHORTEST, Settings, Stream, Uncarried,
};
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::cmd::config::variable;
use crate::failure::Failure;
use crate::log::Log;

/// What a configuration says of it, checked; nothing: sessions are not shared.
pub(super) fn shared(config: &Config) -> Result<Option<(Shared, Place)>, Failure> {
    let wrong = |why: String| {
        Failure::usage(why).next("see `Several replicas` in docs/gateway.md for what [replicas] has to say")
    };
    let Some(shared) = config.replicas.expand(&variable).map_err(wrong)? else { return Ok(None) };
    let place = Place::parse(shared.store.expose());
    let place = place.map_err(|error| wrong(format!("`store` of [replicas]: {error}")))?;
    if shared.key.expose().len() < SHORTEST {
        return Err(wrong(format!("`key` of [replicas] has fewer than {SHORTEST} characters")));
    }
    if let Err(error) = Http::new(&shared.address) {
        return Err(wrong(format!("`address` of [replicas]: {error}")));
    }
    Ok(Some((shared, place)))
}

/// Joins the others. A store that is away may come later.
pub(super) async fn join(
    (shared, place): &(Shared, Place),
    limits: &Limits,
    log: Log,
) -> Result<Replicas, Failure> {
    let settings = Settings {
        store: place.clone(),
        open: place.secure.then(secure),
        prefix: shared.prefix.clone(),
        address: shared.address.clone(),
        secret: shared.key.expose().to_owned(),
        lease: shared.lease,
        // Twice as long as it may be idle at its owner, who ends it before.
        life: 2 * limits.session_idle_timeout,
        carry: Arc::new(Ways { limits: reaching(limits), known: Mutex::default() }),
    };
    let failed = |error| Failure::usage(format!("this replica cannot be given a name: {error}"));
    let replicas = Replicas::start(settings).await.map_err(failed)?;
    if let Some(away) = replicas.trouble() {
        let what = "modern clients are served, legacy ones wait until it is there";
        log.warn("replicas", &format!("the store {place} is away, {what}: {away}"));
    }
    Ok(replicas)
}

/// What is told of it at `/readyz`.
pub(super) fn health(replicas: &Replicas) -> Value {
    let status = if replicas.holds() { "ready" } else { "away" };
    let mut said = json!({ "store": replicas.store().to_string(), "status": status });
    if let Some(away) = replicas.trouble() {
        said["problem"] = json!(away.to_string());
    }
    said
}

/// What is counted of it, for `/metrics`.
pub(super) fn metrics(replicas: &Replicas, out: &mut Exposition) {
    let counts = replicas.counts();
    for (name, help, count) in [
        (
            "cardan_replica_forwards_total",
            "Requests brought to the replica that has their session.",
            counts.forwards,
        ),
        (
            "cardan_replica_takeovers_total",
            "Sessions taken over from a replica that was gone.",
            counts.takeovers,
        ),
        (
            "cardan_replica_stale_writes_total",
            "Writes that the store refused: the session had gone on elsewhere, or ended.",
            counts.stale,
        ),
        (
            "cardan_replica_unreadable_records_total",
            "What the store had in the place of a session, and no replica had written.",
            counts.unreadable,
        ),
        ("cardan_replica_store_failures_total", "Calls of the store that failed.", counts.store_failures),
    ] {
        out.single(name, Kind::Counter, help, count);
    }
    let held = u64::from(replicas.holds());
    out.single("cardan_replica_lease", Kind::Gauge, "Whether sessions here are ours for sure.", held);
}

/// The store by TLS.
fn secure() -> Open {
    Arc::new(|place: &Place| {
        let host = if place.host.contains(':') { format!("[{}]", place.host) } else { place.host.clone() };
        let http = Http::new(&format!("https://{host}:{}/", place.port));
        Box::pin(async move {
            let http = http.map_err(std::io::Error::other)?.proxies(Proxies::Direct);
            Ok(Box::new(http.stream().await?) as Box<dyn Stream>)
        })
    })
}

/// The ways to the other replicas.
struct Ways {
    limits: Limits,
    known: Mutex<HashMap<String, Arc<Carrier>>>,
}

/// Whoever is not there is not waited for.
fn reaching(limits: &Limits) -> Limits {
    Limits { connect_timeout: CONNECT, ..limits.clone() }
}

impl Ways {
    fn to(&self, address: &str) -> Option<Arc<Carrier>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(carrier) = known.get(address) {
            return Some(Arc::clone(carrier));
        }
        let http = Http::new(address).ok()?.proxies(Proxies::Direct).limits(&self.limits);
        let carrier = Arc::new(http.carrier().ok()?);
        if known.len() >= WAYS {
            known.clear();
        }
        known.insert(address.to_owned(), Arc::clone(&carrier));
        Some(carrier)
    }
}

impl Carry for Ways {
    fn carry(&self, address: &str, request: Request<Bytes>) -> Carrying {
        let carrier = self.to(address);
        Box::pin(async move {
            let carrier = carrier.ok_or(Uncarried::NotSent)?;
            let carried = carrier.carry(request).await;
            let response = carried.map_err(|(_, delivery)| match delivery {
                Delivery::NotSent => Uncarried::NotSent,
                _ => Uncarried::Unknown,
            })?;
            // Whoever reads the answer keeps the way to it open.
            Ok(response.map(|body| {
                Box::pin(body.map_err(move |error| {
                    let _ = &carrier;
                    error.into()
                })) as Answer
            }))
        })
    }
}
