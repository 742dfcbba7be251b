//! The smallest server on a port: one tool, for every client.

use cardan::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2273".to_owned()).parse()?;
    let server = Server::builder("echo", "1.0").tool("echo", "says it back", async |args: Echo| args.text);
    cardan::serve_http(&server.build(), address, std::future::pending()).await?;
    Ok(())
}
