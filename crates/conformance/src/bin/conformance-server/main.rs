//! The server that the official conformance suite is run against, on the public API alone.
//!
//! The suite prescribes what is offered: names, texts and behaviour are its own. Run by `cargo xtask
//! conformance`; by hand: `conformance-server [events|short|stdio] [legacy|modern]`. It prints the URL to give to the
//! suite; with `stdio` it serves whoever started it instead. With an era it speaks no other.

mod asks;
mod content;
mod notes;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod skills;
mod tasks;

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;

use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options, Replies};
use cardan_proto::era::Revisions;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_server::Server;
use cardan_transport::stdio;

/// More than there is of anything: the suite reads the first page of a list and no other.
const PAGE_SIZE: usize = 100;

/// Where it serves.
#[derive(Clone, Copy)]
enum Door {
    Port(Replies),
    Stdio,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The suite counts streams only if it is answered with streams, so that is what it gets unless told.
    let (mut door, mut revisions) = (Door::Port(Replies::Events), Revisions::ALL);
    for word in env::args().skip(1) {
        match word.as_str() {
            "events" => door = Door::Port(Replies::Events),
            "short" => door = Door::Port(Replies::Short),
            "stdio" => door = Door::Stdio,
            "legacy" => revisions = Revisions::LEGACY,
            "modern" => revisions = Revisions::MODERN,
            other => {
                return Err(format!("`{other}` is none of events, short, stdio, legacy, modern").into());
            }
        }
    }
    let server = server(revisions)?;
    match door {
        Door::Port(replies) => listen(server, replies).await,
        Door::Stdio => {
            server.serve(stdio::open(server.limits())?).await;
            Ok(())
        }
    }
}

async fn listen(server: Server, replies: Replies) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let address = listener.address()?;
    let nobody: [&str; 0] = [];
    let allow = Allow::bound(address.ip(), Ports::Any, &nobody, &nobody)?;
    let endpoint = Endpoint::new(server, Options::new(allow).replies(replies));
    writeln!(io::stdout(), "http://{address}/mcp")?;
    listener.serve(endpoint, async { drop(tokio::signal::ctrl_c().await) }).await;
    Ok(())
}

fn server(revisions: Revisions) -> Result<Server, Box<dyn Error>> {
    let builder = Server::builder("cardan-conformance", env!("CARGO_PKG_VERSION"))
        .instructions("Offers what the official conformance suite asks for.")
        .logging()
        .revisions(revisions)
        .page_size(PAGE_SIZE);
    // The suite calls the first tool without arguments and wants a result.
    let builder = content::add_to(builder);
    let builder = notes::add_to(builder);
    let builder = asks::add_to(builder);
    let builder = rounds::add_to(builder);
    let builder = schemas::add_to(builder)?;
    let builder = tasks::add_to(builder);
    let builder = resources::add_to(builder);
    let builder = skills::add_to(builder);
    let server = prompts::add_to(builder).build();
    notes::change(&server);
    Ok(server)
}
