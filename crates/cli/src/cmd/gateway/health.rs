//! How a gateway stands, for those who watch over it: `/healthz` and `/readyz`.
//!
//! Nothing is asked of a server for it: what is told is what is known at this moment. Strangers learn whether calls may come
//! and nothing else, and it costs little to tell them.

use cardan_endpoint::{Audience, Door, Leaf, Options, Visit, Visitor};
use cardan_gateway::fleet::{Fleet, Standing};
use cardan_replicas::Replicas;
use http::StatusCode;
use serde_json::{Value, json};

use crate::cmd::servers::row::Row;
use crate::output::json_line;

/// Adds the pages.
pub(super) fn pages(options: Options, fleet: Fleet, replicas: Option<Replicas>) -> Options {
    options
        .page("/healthz", Audience::Everyone, alive)
        .page("/readyz", Audience::Everyone, move |visit| ready(visit, &fleet, replicas.as_ref()))
}

/// The process serves, or nobody would answer.
fn alive(visit: Visit) -> Leaf {
    let mut said = json!({ "status": "ok" });
    if visit.visitor == Visitor::Known {
        said["version"] = json!(env!("CARGO_PKG_VERSION"));
    }
    leaf(StatusCode::OK, &said)
}

/// Is it worth sending calls here?
fn ready(visit: Visit, fleet: &Fleet, replicas: Option<&Replicas>) -> Leaf {
    // The word for all is that of the rows: both are of one moment.
    let rows = Row::all(fleet);
    let standing = Standing::of(rows.iter().map(Row::status));
    let (word, serves) = match visit.door {
        Door::Open => (standing.word(), standing.serves()),
        Door::Closing => ("draining", false),
    };
    let said = match visit.visitor {
        Visitor::Known => {
            let rows: Value = rows.iter().map(Row::health).collect();
            let mut said = json!({ "status": word, "servers": rows });
            // Without the store modern calls are served all the same, so it is told and does not count.
            if let Some(replicas) = replicas {
                said["replicas"] = super::replicas::health(replicas);
            }
            said
        }
        // Whether calls may come, and nothing of why not.
        Visitor::Stranger => json!({ "status": if serves { "ready" } else { "unavailable" } }),
    };
    leaf(if serves { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &said)
}

fn leaf(status: StatusCode, said: &Value) -> Leaf {
    let text = json_line(&said.to_string()).into_owned() + "\n";
    Leaf { status, content_type: "application/json", text }
}
