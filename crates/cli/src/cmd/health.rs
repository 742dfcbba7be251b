//! How a gateway or a bridge stands, for those who watch over it: `/healthz` and `/readyz`.
//!
//! Nothing is asked of a server for it: what is told is what is known at this moment. Strangers learn whether calls may come
//! and nothing else, and it costs little to tell them.

use cardan_endpoint::{Audience, Door, Leaf, Options, Visit, Visitor};
use cardan_gateway::relay::Relay;
use http::StatusCode;
use serde_json::{Value, json};

use crate::output::json_line;

/// Adds the pages.
pub(super) fn pages(options: Options, ready: impl Fn(Visit) -> Leaf + Send + Sync + 'static) -> Options {
    options.page("/healthz", Audience::Everyone, alive).page("/readyz", Audience::Everyone, ready)
}

/// Is it worth sending calls here?
pub(super) struct Ready {
    /// In one word, while the door is open.
    pub(super) word: &'static str,
    pub(super) serves: bool,
}

impl Ready {
    /// The page, with what those are told beside the word who may know it.
    pub(super) fn page(self, visit: Visit, known: impl FnOnce(&mut Value)) -> Leaf {
        let Self { word, serves } = match visit.door {
            Door::Open => self,
            Door::Closing => Self { word: "draining", serves: false },
        };
        let said = match visit.visitor {
            Visitor::Known => {
                let mut said = json!({ "status": word });
                known(&mut said);
                said
            }
            // Whether calls may come, and nothing of why not.
            Visitor::Stranger => json!({ "status": if serves { "ready" } else { "unavailable" } }),
        };
        leaf(if serves { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &said)
    }
}

/// The pages of a bridge. The connection by which the server was met stands for all others.
pub(super) fn of_relay(options: Options, relay: Relay) -> Options {
    pages(options, move |visit| {
        let (health, cause) = relay.standing();
        let up = health.is_up();
        // It was met before anybody was served, so one that is not up is lost.
        let ready = Ready { word: if up { "ready" } else { "down" }, serves: up };
        ready.page(visit, |said| {
            said["server"] = json!({ "state": health.to_string(), "up": up, "cause": cause });
        })
    })
}

/// The process serves, or nobody would answer.
fn alive(visit: Visit) -> Leaf {
    let mut said = json!({ "status": "ok" });
    if visit.visitor == Visitor::Known {
        said["version"] = json!(env!("CARGO_PKG_VERSION"));
    }
    leaf(StatusCode::OK, &said)
}

fn leaf(status: StatusCode, said: &Value) -> Leaf {
    let text = json_line(&said.to_string()).into_owned() + "\n";
    Leaf { status, content_type: "application/json", text }
}
