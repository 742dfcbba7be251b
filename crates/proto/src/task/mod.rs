//! Tasks: calls whose answer is fetched later, as plain values for whoever receives them.
//!
//! * [`Life`]: one task and the edges along which it may move, in either [`Design`].
//! * [`Store`]: the tasks of one receiver, bounded, each bound to its principal.
//! * [`cross`]: a task of one design in the words of the other.
//!
//! What runs the work, and what is said on the wire, lives elsewhere.

pub mod cross;
#[cfg(test)]
mod cross_tests;
mod life;
#[cfg(test)]
mod life_tests;
mod store;
#[cfg(test)]
mod store_tests;

pub use life::{Design, Detail, Life, Misasked};
pub use store::{Full, Held, Place, Principal, Store};
