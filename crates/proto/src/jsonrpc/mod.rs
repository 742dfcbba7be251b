//! JSON-RPC 2.0 over bytes: [`scan`] finds where values end, [`envelope`] tells calls, notes and
//! replies apart, [`write`](mod@write) puts them back, [`splice`] edits one object in passing,
//! [`pointer`](mod@pointer) names a place.

pub mod envelope;
pub mod fault;
mod head;
pub mod id;
pub(crate) mod object;
mod params;
mod plain;
pub mod pointer;
pub mod scan;
pub mod splice;
mod walk;
pub mod write;
