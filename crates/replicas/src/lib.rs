//! Several replicas of one gateway share legacy sessions: any of them takes any request.
//!
//! * [`lease`]: the rules of ownership, without I/O;
//! * [`Record`]: what is written down of a session, sealed, under a name that tells nothing (`keys`);
//! * `store`, `resp`, `script`: Redis, with a deadline for every call;
//! * [`Replicas`]: the replica's own lease, kept by one task, and what can be done with sessions while it lasts;
//! * [`Carry`]: the way to another replica; `pass`: what a forwarded request shows there.
//!
//! No call of a session waits for the store at the replica that owns it: it is asked when a session begins, is looked for,
//! changes or ends.

mod carry;
mod count;
mod keys;
pub mod lease;
mod owners;
mod pass;
mod place;
mod recent;
mod record;
mod replicas;
mod resp;
mod script;
mod store;

pub use carry::{Answer, Carry, Carrying, Uncarried};
pub use count::Counts;
pub use keys::SHORTEST;
pub use pass::{Errand, Pass};
pub use place::{BadPlace, Place};
pub use recent::Recent;
pub use record::Record;
pub use replicas::{Found, Hold, Replicas, Settings, Standing, Still, Trace, Unkept};
pub use store::{Away, Open, Opening, Stream};
