//! Cardan's protocol core: the Model Context Protocol as plain values.
//!
//! Nothing here opens a socket, starts a task, reads a clock or draws a random number. Bytes,
//! time and entropy come in as arguments; messages and decisions go out as values. The same
//! types feed the real transports, the simulator, the fuzzers and the tests.
//!
//! Read in this order:
//!
//! * [`limits`]: every bound in the system.

pub mod dialect;
pub mod era;
pub mod finding;
pub mod jsonrpc;
pub mod limits;
pub mod method;
pub mod moment;
pub mod session;
