//! How a gateway stands: each server, and all of them together.

use cardan_endpoint::Options;
use cardan_gateway::fleet::{Fleet, Standing};
use cardan_replicas::Replicas;

use crate::cmd::health::{self, Ready};
use crate::cmd::servers::row::Row;

/// Adds the pages.
pub(super) fn pages(options: Options, fleet: Fleet, replicas: Option<Replicas>) -> Options {
    health::pages(options, move |visit| {
        // The word for all is that of the rows: both are of one moment.
        let rows = Row::all(&fleet);
        let standing = Standing::of(rows.iter().map(Row::status));
        let ready = Ready { word: standing.word(), serves: standing.serves() };
        ready.page(visit, |said| {
            said["servers"] = rows.iter().map(Row::health).collect();
            // Without the store modern calls are served all the same, so it is told and does not count.
            if let Some(replicas) = &replicas {
                said["replicas"] = super::replicas::health(replicas);
            }
        })
    })
}
