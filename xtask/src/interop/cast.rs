//! Who takes part: clients and servers, by which ways they can be reached, and how they are started.

use std::path::Path;

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Way {
    Stdio,
    Http,
    /// The older HTTP+SSE.
    Events,
    Socket,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Events => "sse",
            Self::Socket => "ws",
        }
    }

    /// Where a server that listens at `address` is reached this way.
    pub(super) fn url(self, address: &str) -> String {
        match self {
            Self::Stdio | Self::Http => format!("http://{address}/mcp"),
            Self::Events => format!("http://{address}/sse"),
            Self::Socket => format!("ws://{address}/ws"),
        }
    }
}

/// A family of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Who wrote it, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kit {
    Everything,
    Node1,
    Node2,
    Python1,
    Python2,
    Rmcp,
    Ours,
}

impl Kit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Everything => "server-everything",
            Self::Node1 => "TypeScript 1",
            Self::Node2 => "TypeScript 2",
            Self::Python1 => "Python 1",
            Self::Python2 => "Python 2",
            Self::Rmcp => "rmcp",
            Self::Ours => "Cardan",
        }
    }

    /// What it is called on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Everything => "node-everything",
            Self::Node1 => "node-v1",
            Self::Node2 => "node-v2",
            Self::Python1 => "python-v1",
            Self::Python2 => "python-v2",
            Self::Rmcp => "rmcp",
            Self::Ours => "cardan",
        }
    }

    fn interpreted(self, root: &Path, file: &str) -> Vec<String> {
        let script = root.join("peers").join(self.word());
        match self {
            Self::Python1 | Self::Python2 => {
                let python = root.join("target/peers").join(self.word()).join("bin/python");
                vec![text(&python), text(&script.join(format!("{file}.py")))]
            }
            _ => vec![
                "node".into(),
                "--experimental-websocket".into(),
                text(&script.join(format!("{file}.mjs"))),
            ],
        }
    }

    /// The command of its client; the server follows after `--`.
    pub(super) fn client(self, root: &Path, era: Era) -> Vec<String> {
        let mut words = match self {
            Self::Ours => vec![text(&root.join("target/debug/interop-client"))],
            Self::Rmcp => vec![text(&root.join("target/peers/rmcp/debug/rmcp-client"))],
            _ => self.interpreted(root, "client"),
        };
        words.extend(["--era".into(), era.name().into(), "--".into()]);
        words
    }

    /// The command of its server.
    pub(super) fn server(self, root: &Path, way: Way) -> Vec<String> {
        let cardan = text(&root.join("target/debug/cardan"));
        let mut words = match (self, way) {
            (Self::Ours, Way::Stdio) => return vec![cardan, "demo".into()],
            (Self::Ours, _) => {
                return [&cardan, "serve", "--listen", "127.0.0.1:0"].map(str::to_owned).into();
            }
            (Self::Rmcp, _) => vec![text(&root.join("target/peers/rmcp/debug/rmcp-server"))],
            (Self::Everything, _) => self.interpreted(root, "start"),
            _ => self.interpreted(root, "server"),
        };
        match way {
            Way::Stdio => {}
            Way::Http => words.push("--http".into()),
            Way::Events => words.push("--sse".into()),
            Way::Socket => words.push("--ws".into()),
        }
        words
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// One side of a cell: who, in which era, by which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Side {
    pub(super) kit: Kit,
    pub(super) era: Era,
    pub(super) way: Way,
}

impl Side {
    /// For one line.
    pub(super) fn label(self) -> String {
        format!("{}, {}, {}", self.kit.name(), self.era.name(), self.way.name())
    }

    /// For the command line.
    pub(super) fn word(self) -> String {
        format!("{}:{}:{}", self.kit.word(), self.era.name(), self.way.name())
    }

    /// Whether it is meant by `wanted`, the beginning of a word.
    pub(super) fn is(self, wanted: &str) -> bool {
        self.word() == wanted || self.word().starts_with(&format!("{wanted}:"))
    }
}

const ALL: [Way; 4] = [Way::Stdio, Way::Http, Way::Events, Way::Socket];
const OLD: [Way; 3] = [Way::Stdio, Way::Http, Way::Events];
const NEW: [Way; 2] = [Way::Stdio, Way::Http];
const OURS: [Way; 3] = [Way::Stdio, Way::Http, Way::Socket];

type Cast = [(Kit, Era, &'static [Way])];

/// Every client, by every way that it has.
pub(super) fn clients() -> Vec<Side> {
    let cast: &Cast = &[
        (Kit::Node1, Era::Legacy, &ALL),
        (Kit::Node2, Era::Legacy, &OLD),
        (Kit::Node2, Era::Modern, &NEW),
        (Kit::Python1, Era::Legacy, &ALL),
        (Kit::Python2, Era::Legacy, &OLD),
        (Kit::Python2, Era::Modern, &NEW),
        (Kit::Rmcp, Era::Legacy, &NEW),
        (Kit::Rmcp, Era::Modern, &NEW),
        (Kit::Ours, Era::Legacy, &ALL),
        (Kit::Ours, Era::Modern, &OURS),
    ];
    sides(cast)
}

/// Every server, by every way that it has.
pub(super) fn servers() -> Vec<Side> {
    let cast: &Cast = &[
        (Kit::Everything, Era::Legacy, &OLD),
        (Kit::Node1, Era::Legacy, &OLD),
        (Kit::Node2, Era::Legacy, &NEW),
        (Kit::Node2, Era::Modern, &NEW),
        (Kit::Python1, Era::Legacy, &ALL),
        (Kit::Python2, Era::Legacy, &OLD),
        (Kit::Python2, Era::Modern, &NEW),
        (Kit::Rmcp, Era::Legacy, &NEW),
        (Kit::Rmcp, Era::Modern, &NEW),
        (Kit::Ours, Era::Legacy, &ALL),
        (Kit::Ours, Era::Modern, &OURS),
    ];
    sides(cast)
}

fn sides(cast: &Cast) -> Vec<Side> {
    let each = cast.iter().flat_map(|(kit, era, ways)| ways.iter().map(|way| (*kit, *era, *way)));
    each.map(|(kit, era, way)| Side { kit, era, way }).collect()
}
