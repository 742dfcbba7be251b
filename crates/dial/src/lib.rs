//! Cardan's client side of HTTP.
//!
//! [`Http`] says where a server is and how it is reached; [`Http::link`] gives a link that a client
//! connects over:
//!
//! ```no_run
//! use cardan_client::Client;
//! use cardan_dial::Http;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let http = Http::new("https://example.com/mcp")?.bearer("token")?;
//! let client = Client::builder("me", "1.0").connect(async || http.link()).await?;
//! # Ok(()) }
//! ```
//!
//! One link speaks Streamable HTTP of both eras and falls back to the older HTTP+SSE where a server has
//! nothing newer. Every message is a POST of its own. All exchanges of a link are polled by its driver; only
//! the connections below have tasks, which the link owns and ends.

mod answer;
mod body;
mod build;
mod carrier;
mod exchange;
mod fetch;
mod head;
mod held;
mod lane;
mod link;
mod mirrors;
mod net;
mod pool;
mod refresh;
mod steps;
mod stream;

pub use build::{Http, HttpError, Kind};
pub use carrier::Carrier;
pub use fetch::FetchError;
pub use link::HttpLink;
pub use net::{Dial, Dialing, Stream};
