//! The built-in server: every feature of the protocol in a form that can be looked at.
//!
//! Tools, resources, a template, prompts, completion, asks, progress, log notes, changes, tasks and a skill. It is
//! what the examples in the help talk to, and what tests and benchmarks call.

mod asks;
mod change;
mod clock;
mod media;
mod prompts;
mod resources;
mod skills;
mod tools;

use cardan_proto::limits::Limits;
use cardan_server::Server;

/// Small, so that every list has a second page.
const PAGE_SIZE: usize = 10;

const INSTRUCTIONS: &str = "A server to try things with. Call echo or add for a result, slow for progress, \
job for a task, ask for a form, fail and panic for errors; read demo://clock; fill in the prompt greet.";

/// The server.
pub(crate) fn server(limits: Limits) -> Server {
    let builder = Server::builder("cardan-demo", env!("CARGO_PKG_VERSION"))
        .instructions(INSTRUCTIONS)
        .logging()
        .limits(limits)
        .page_size(PAGE_SIZE);
    let builder = tools::add_to(builder);
    let builder = asks::add_to(builder);
    let builder = media::add_to(builder);
    let builder = change::add_to(builder);
    let builder = resources::add_to(builder);
    let builder = skills::add_to(builder);
    prompts::add_to(builder).build()
}
