//! Many servers as one: kept alive, listed at once, called by name.
//!
//! * [`catalog`]: what one server offers, as it told it.
//! * [`cache`]: catalogs on disk, so that tools are there before their servers are.

pub mod cache;
pub mod catalog;
