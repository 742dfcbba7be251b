//! Full JSON Schema validation that no schema can abuse.
//!
//! A schema comes from whoever wrote the tool, so it is foreign input: nothing is fetched for it,
//! its patterns run in linear time, and what checking a value may cost is bounded before it begins.
//! Dialects: draft 4, 6, 7, 2019-09 and 2020-12, the last one when a schema names none.
//!
//! * [`Validator`]: a compiled schema.
//! * [`SchemaError`]: why a schema is refused.
//! * [`bounds`]: what a schema and a value may cost.

pub mod bounds;
mod error;
mod references;
mod validator;

pub use error::SchemaError;
pub use validator::Validator;
