//! Cardan's protocol core: the Model Context Protocol as plain values.
//!
//! Nothing here opens a socket, starts a task, reads a clock or draws a random number. Bytes,
//! time and entropy come in as arguments; messages and decisions go out as values. The same
//! types feed the real transports, the simulator, the fuzzers and the tests.
//!
//! Read in this order:
//!
//! * [`limits`]: every bound in the system.
//! * [`codec`]: where one message ends and the next begins.
//! * [`jsonrpc`]: bytes to calls, notes and replies, payloads left raw.
//! * [`method`]: the one table of methods.
//! * [`model`]: what params and results say, one set of types for all revisions.
//! * [`era`]: what a revision changes, and nobody else knows.
//! * [`session`]: the protocol on one link, as one value.
//! * [`upkeep`]: one link after another, as one value.
//! * [`task`]: calls whose answer is fetched later.
//! * [`finding`]: what a peer did wrong, told truthfully.
//! * [`secret`]: what no finding and no error shows.
//! * [`dialect`]: foreign wire forms, translated at the edge.
//! * [`http`]: the rules of the HTTP bindings.
//! * [`socket`]: why WebSockets are closed.

pub mod codec;
pub mod dialect;
pub mod era;
pub mod fast;
pub mod finding;
pub mod http;
pub mod jsonrpc;
pub mod limits;
pub mod method;
pub mod model;
pub mod moment;
pub mod secret;
pub mod session;
pub mod socket;
pub mod task;
pub mod upkeep;
