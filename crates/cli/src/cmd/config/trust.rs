//! `cardan config trust`: what files that came with a project would do, and leave to do it.

use cardan_config::server::Way;
use cardan_config::text::Grammar;
use cardan_config::trust::{Standing, Trusted};
use cardan_config::{Config, Search, Server, Text, show};

use super::args::TrustArgs;
use super::{failure, short};
use crate::failure::Failure;
use crate::output::{self, clean, tell};

pub(super) fn run(args: &TrustArgs, search: &Search) -> Result<(), Failure> {
    let config = Config::load(search);
    let waiting = |server: &&Server| server.origin.standing == Standing::Unseen;
    let servers: Vec<&Server> = match &args.names[..] {
        [] => config.servers.iter().chain(&config.waiting).filter(waiting).collect(),
        names => {
            let found = names.iter().map(|name| match config.waiting.iter().find(|one| one.name == *name) {
                Some(server) => Ok(server),
                None => config.server(name).map_err(|problem| failure(&problem)),
            });
            found.collect::<Result<_, _>>()?
        }
    };
    if servers.is_empty() {
        tell("nothing here waits to be trusted");
        return Ok(());
    }
    if let Some(exposed) = servers.iter().find(|server| server.origin.standing == Standing::Exposed) {
        let message = format!("everyone on this machine can change {}", short(&exposed.origin.file, search));
        return Err(Failure::usage(message)
            .next("take the right to write it away from others first, or name it with `--config FILE`"));
    }
    let shown: Vec<String> = servers.iter().map(|server| what(server, search)).collect();
    output::print(&clean(&shown.join("\n")))?;
    if args.names.is_empty() && !args.all {
        tell("nothing was trusted; name those that you trust, or say --all");
        return Ok(());
    }
    let asked = servers.iter().copied().filter(waiting);
    let remembered = Trusted::add(asked, &config, search);
    remembered.map_err(|error| Failure::usage(format!("it cannot be remembered: {error}")))
}

/// What a server would do.
fn what(server: &Server, search: &Search) -> String {
    let (origin, does) = (&server.origin, show::summary(server));
    let mut out = format!("{}  {}:{}", server.name, short(&origin.file, search), origin.line);
    match &server.way {
        Way::Command(launch) => {
            // All of it, as it is written: whoever is to trust it has to see it.
            let words = std::iter::once(&launch.program).chain(&launch.args);
            let words: Vec<String> = words.map(word).collect();
            out += &format!("\n  runs {}", words.join(" "));
            if let Some(cwd) = &launch.cwd {
                out += &format!("\n  in {}", word(cwd));
            }
            let names: Vec<&str> = launch.env.iter().map(|(name, _)| name.as_str()).collect();
            if !names.is_empty() {
                out += &format!("\n  with {} set", names.join(", "));
            }
        }
        Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => {
            out += &format!("\n  sends values of this machine to {does}");
            if remote.headers_helper.is_some() {
                out += "\n  runs a command for its headers";
            }
        }
        Way::Unix(_) | Way::Pipe(_) | Way::Tcp(_) => out += &format!("\n  connects to {does}"),
    }
    out
}

/// One word of a command line, so that it can be told from its neighbours.
fn word(text: &Text) -> String {
    let spelled = text.spell(Grammar::Cardan).unwrap_or_default();
    let plain =
        !spelled.is_empty() && !spelled.contains(|c: char| c.is_whitespace() || c == '"' || c.is_control());
    if plain { spelled } else { format!("{spelled:?}") }
}
