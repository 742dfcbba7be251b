//! The smallest server: one tool, over stdin and stdout.

use cardan::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::builder("echo", "1.0").tool("echo", "says it back", async |args: Echo| args.text);
    cardan::serve_stdio(&server.build()).await;
}
