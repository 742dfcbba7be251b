//! Many servers as one: kept alive, listed at once, called by name.
//!
//! * [`catalog`]: what one server offers, as it told it.
//! * [`cache`]: catalogs on disk, so that tools are there before their servers are.
//! * [`rules`]: what of that is shown.
//! * [`merge`]: many catalogs as one, and where each name leads.

pub mod cache;
pub mod catalog;
pub mod merge;
pub mod rules;
