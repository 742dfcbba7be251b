//! `cardan config trust`: what files that came with a project would do, and leave to do it.

use cardan_config::server::Way;
use cardan_config::trust::{Standing, Trusted};
use cardan_config::{Config, Launch, Remote, Search, Server, Text};

use super::args::TrustArgs;
use super::short;
use crate::failure::Failure;
use crate::look::Surface;
use crate::look::text::Line;
use crate::named::found;
use crate::output::{self, tell};

pub(super) fn run(args: &TrustArgs, search: &Search) -> Result<(), Failure> {
    let config = Config::load(search);
    let waiting = |server: &&Server| server.origin.standing == Standing::Unseen;
    let servers: Vec<&Server> = match &args.names[..] {
        [] => config.servers.iter().chain(&config.waiting).filter(waiting).collect(),
        names => {
            let found = names.iter().map(|name| match config.waiting.iter().find(|one| one.name == *name) {
                Some(server) => Ok(server),
                None => found(name, &config),
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
    output::show(&in_rows(&shown.join("\n")))?;
    if args.names.is_empty() && !args.all {
        tell("nothing was trusted; name those that you trust, or say --all");
        return Ok(());
    }
    let asked = servers.iter().copied().filter(waiting);
    let remembered = Trusted::add(asked, &config, search);
    remembered.map_err(|error| Failure::usage(format!("it cannot be remembered: {error}")))
}

/// Whoever wrote the file chose the words: those that take several rows begin none of them.
fn in_rows(text: &str) -> Vec<Line> {
    let columns = Surface::stdout().columns();
    let lines = text.lines().map(Line::from);
    match columns {
        Some(columns) => lines.flat_map(|line| line.wrapped(columns, 6)).collect(),
        None => lines.collect(),
    }
}

/// What a server would do: all that its file says of it, as it is written, because whoever is to trust it has to see it.
fn what(server: &Server, search: &Search) -> String {
    let origin = &server.origin;
    let mut out = format!("{}  {}:{}", server.name, short(&origin.file, search), origin.line);
    let lines = match &server.way {
        Way::Command(launch) => started(launch),
        Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => reached(remote),
        Way::Unix(address) | Way::Pipe(address) | Way::Tcp(address) => {
            vec![format!("connects to {}://{}", server.way.kind(), word(address))]
        }
    };
    for line in lines {
        out += &format!("\n  {line}");
    }
    out
}

fn started(launch: &Launch) -> Vec<String> {
    let words: Vec<String> = std::iter::once(&launch.program).chain(&launch.args).map(word).collect();
    let mut lines = vec![format!("runs {}", words.join(" "))];
    lines.extend(launch.cwd.iter().map(|cwd| format!("in {}", word(cwd))));
    lines.extend(launch.env.iter().map(|(name, value)| match value {
        Some(value) => format!("with {}={}", quoted(name), word(value)),
        None => format!("without {}", quoted(name)),
    }));
    lines.extend(launch.env_files.iter().map(|file| format!("with the variables in {}", word(file))));
    lines.extend(launch.pass.iter().map(|name| format!("with {} of this machine", quoted(name))));
    lines
}

fn reached(remote: &Remote) -> Vec<String> {
    let mut lines = vec![format!("connects to {}", word(&remote.url))];
    lines.extend(
        remote.headers.iter().map(|(name, value)| format!("sends {}: {}", quoted(name), word(value))),
    );
    lines.extend(
        remote.bearer_env.iter().map(|name| format!("sends {} of this machine as its token", quoted(name))),
    );
    lines.extend(
        remote.headers_helper.iter().map(|line| format!("runs for its headers, in a shell: {}", word(line))),
    );
    lines.extend(remote.ca.iter().map(|ca| format!("believes the certificates in {}", word(ca))));
    lines
}

fn word(text: &Text) -> String {
    quoted(&text.expose())
}

/// One word of a line, so that it can be told from its neighbours.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '"' || c.is_control());
    if plain { word.to_owned() } else { format!("{word:?}") }
}
