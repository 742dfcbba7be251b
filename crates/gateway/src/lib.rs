//! Many servers as one: kept alive, listed at once, called by name.
//!
//! * [`audit`]: who called what, and how it went.
//! * [`configured`]: from a configuration to the servers of a fleet.
//! * [`reach`]: from a configured server to the way that leads there.
//! * [`fleet`]: the supervised set of upstreams.
//! * [`catalog`]: what one server offers, as it told it.
//! * [`cache`]: catalogs on disk, so that tools are there before their servers are.
//! * [`reload`]: a configuration that is followed while it is in force.
//! * [`rules`]: what of that is shown.
//! * [`pin`]: tools that have changed since they were approved.
//! * [`policy`]: what of that a principal may see and use.
//! * [`relay`]: one server behind another link, whatever era either side speaks.
//! * [`front`]: all servers of a fleet as one, and each alone.
//! * [`keys`]: tokens in front, and whom they stand for.
//! * [`merge`]: many catalogs as one, and where each name leads.
//! * [`meter`]: how much each principal may ask for.
//! * [`metrics`]: how much of all that happens, in numbers.
//! * [`trace`]: calls as parts of traces that others follow.
//! * [`warm`]: servers as they are, kept running for those who come again.

pub mod audit;
pub mod cache;
pub mod catalog;
pub mod configured;
pub mod eras;
pub mod fleet;
pub mod front;
pub mod keys;
mod latest;
pub mod merge;
pub mod meter;
pub mod metrics;
pub mod pin;
pub mod policy;
pub mod reach;
pub mod relay;
pub mod reload;
pub mod rules;
pub mod templates;
pub mod trace;
pub mod warm;
