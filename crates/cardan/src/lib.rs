//! Cardan for library users: the universal joint for the Model Context Protocol.
//!
//! A server is a few functions:
//!
//! ```no_run
//! use cardan::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Echo {
//!     text: String,
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let server = Server::builder("echo", "1.0").tool("echo", "says it back", async |args: Echo| args.text);
//!     cardan::serve_stdio(&server.build()).await;
//! }
//! ```
//!
//! A client connects to anything that can be reached by a link and does not care for the era:
//! see [`client::Client`]. With the feature `http` such a link comes from a URL: `dial::Http`.

pub use cardan_client as client;
#[cfg(feature = "dial")]
pub use cardan_dial as dial;
#[cfg(feature = "http")]
pub use cardan_endpoint as endpoint;
pub use cardan_proto as proto;
#[cfg(feature = "dial")]
pub use cardan_proxy as proxy;
#[cfg(feature = "http")]
pub use cardan_replicas as replicas;
pub use cardan_runtime as runtime;
pub use cardan_server as server;
#[cfg(any(feature = "dial", feature = "tls"))]
pub use cardan_tls as tls;
pub use cardan_transport as transport;

use cardan_proto::session::event::Cause;
use cardan_server::Server;

/// Serves whoever started this process, over stdin and stdout, until stdin ends. Tells why it ended.
///
/// Needs a tokio runtime with I/O and time. Print nothing to stdout meanwhile: it belongs to the protocol.
pub async fn serve_stdio(server: &Server) -> Cause {
    match cardan_transport::stdio::open(server.limits()) {
        Ok(link) => server.serve(link).await,
        Err(error) => Cause::Io(error.to_string().into()),
    }
}

/// Serves every client on a port of this machine, until `stop` is done: Streamable HTTP at `/mcp`, old
/// HTTP+SSE at `/sse`. Only loopback addresses: beyond them, say who may call, with
/// [`endpoint::Options`].
#[cfg(feature = "http")]
pub async fn serve_http(
    server: &Server,
    address: std::net::SocketAddr,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    use cardan_endpoint::{Endpoint, Options, listener::Listener};
    use cardan_proto::http::origin::{Allow, Ports};
    let nobody: [&str; 0] = [];
    let allow = Allow::bound(address.ip(), Ports::Any, &nobody, &nobody).map_err(std::io::Error::other)?;
    let listener = Listener::bind(address).await?;
    listener.serve(Endpoint::new(server.clone(), Options::new(allow)), stop).await;
    Ok(())
}

/// What most programs need.
pub mod prelude {
    pub use cardan_client::{Answerers, CallError, Client, Urls};
    pub use cardan_proto::model::{
        CallToolResult, Content, Form, Prompt, PromptMessage, Resource, ResourceTemplate,
    };
    pub use cardan_server::schemars::{self, JsonSchema};
    pub use cardan_server::serde::{self, Deserialize, Serialize};
    pub use cardan_server::{Cx, Json, Server, Stop};
}
