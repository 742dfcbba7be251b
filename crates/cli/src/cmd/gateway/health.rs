//! How a gateway stands: each server, and all of them together.

use cardan_endpoint::{Options, Visitor};
use cardan_gateway::fleet::{Fleet, Standing};
use cardan_replicas::Replicas;

use crate::cmd::health::{self, Ready};
use crate::cmd::servers::row::Row;

/// Adds the pages.
pub(super) fn pages(options: Options, fleet: Fleet, replicas: Option<Replicas>) -> Options {
    health::pages(options, move |visit| {
        if visit.visitor == Visitor::Stranger {
            // What servers offer is not even looked at: anyone may ask, and often.
            let statuses: Vec<_> = fleet.upstreams().iter().map(|upstream| upstream.status()).collect();
            return ready(Standing::of(&statuses)).page(visit, |_| ());
        }
        // The word for all is that of the rows: both are of one moment.
        let rows = Row::all(&fleet);
        ready(Standing::of(rows.iter().map(Row::status))).page(visit, |said| {
            said["servers"] = rows.iter().map(Row::health).collect();
            // Without the store modern calls are served all the same, so it is told and does not count.
            if let Some(replicas) = &replicas {
                said["replicas"] = super::replicas::health(replicas);
            }
        })
    })
}

fn ready(standing: Standing) -> Ready {
    Ready { word: standing.word(), serves: standing.serves() }
}
