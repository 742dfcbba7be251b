//! A client: starts the server given on the command line, lists its tools and calls one.
//!
//! ```text
//! cargo build -p cardan --examples
//! target/debug/examples/client target/debug/examples/echo
//! ```

use std::error::Error;

use cardan::prelude::*;
use cardan::proto::limits::Limits;
use cardan::transport::spawn::Spawn;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or("usage: client <server command>")?;
    let server = Spawn::new(program).args(words);

    // Links are made on demand: a legacy server that dies of the probe is started a second time.
    let client = Client::builder("example", "1.0").connect(async || server.spawn(&Limits::DEFAULT)).await?;
    eprintln!("connected, revision {}", client.settled().revision);
    for tool in client.all_tools().await? {
        eprintln!("tool {}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let result = client.call_tool("echo", &serde_json::json!({ "text": "hello" }))?.await?;
    for text in result.content.iter().filter_map(Content::as_text) {
        eprintln!("it says: {text}");
    }
    client.close("done").await;
    Ok(())
}
