//! Our server behind `cardan bridge` or `cardan serve`, and the suite in front. Both answer as the server would, so the score is
//! that of the server; what cannot be so stands in a table here, with the reason.

use std::{fmt::Write as _, path::Path};

use anyhow::{Result, bail};

use super::{
    fixture,
    score::{Named, Run, STREAMS, Status},
    suite,
};
use crate::interop::process::Serving;

/// How the bridge reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Stdio,
    Http,
}

/// What the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    /// Both eras; the bridge chooses.
    Both,
    Legacy,
    Modern,
}

/// What stands before the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Bridge,
    /// A gateway, where the server is alone at its path.
    Path,
    /// A gateway, where it is one of all.
    All,
}

/// How the server stands behind the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind {
    before: Before,
    way: Way,
    speaks: Speaks,
}

const fn behind(way: Way, speaks: Speaks) -> Behind {
    Behind { before: Before::Bridge, way, speaks }
}

const fn served(before: Before, way: Way, speaks: Speaks) -> Behind {
    Behind { before, way, speaks }
}

/// All that are run: behind bridges, and behind gateways.
const ALL: [Behind; 13] = [
    behind(Way::Stdio, Speaks::Both),
    behind(Way::Http, Speaks::Both),
    behind(Way::Stdio, Speaks::Legacy),
    behind(Way::Http, Speaks::Legacy),
    behind(Way::Stdio, Speaks::Modern),
    behind(Way::Http, Speaks::Modern),
    served(Before::Path, Way::Stdio, Speaks::Both),
    served(Before::Path, Way::Http, Speaks::Legacy),
    served(Before::Path, Way::Http, Speaks::Modern),
    served(Before::All, Way::Http, Speaks::Legacy),
    served(Before::All, Way::Http, Speaks::Both),
    served(Before::All, Way::Stdio, Speaks::Both),
    served(Before::All, Way::Stdio, Speaks::Modern),
];

/// The reduced form: each way and each era once, every scenario of the modern era and its extensions before one of them, and a gateway
/// once.
pub(super) fn quick(newest: &str) -> [(Behind, &str); 3] {
    [
        (behind(Way::Stdio, Speaks::Both), suite::ALL),
        (behind(Way::Http, Speaks::Legacy), newest),
        (served(Before::All, Way::Http, Speaks::Both), newest),
    ]
}

/// Those that are wanted, by name; all without one.
pub(super) fn chosen(name: Option<&str>) -> Result<Vec<Behind>> {
    let takes = |behind: &Behind| name.is_none_or(|name| behind.name() == format!("through-{name}"));
    let chosen: Vec<Behind> = ALL.into_iter().filter(takes).collect();
    if chosen.is_empty() {
        let names: Vec<String> =
            ALL.iter().map(|behind| behind.name().trim_start_matches("through-").to_owned()).collect();
        bail!("`--behind` takes one of {}", names.join(", "));
    }
    Ok(chosen)
}

/// A bridge or a gateway, and the server behind it if that is not started by the bridge itself.
pub(super) struct Bridge {
    bridge: Serving,
    path: &'static str,
    _server: Option<Serving>,
}

impl Bridge {
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.bridge.address, self.path)
    }
}

impl Behind {
    /// For tables and for the score.
    pub(super) fn name(self) -> String {
        let era = match self.speaks {
            Speaks::Both => "",
            Speaks::Legacy => "legacy-",
            Speaks::Modern => "modern-",
        };
        let way = match self.way {
            Way::Stdio => "stdio",
            Way::Http => "http",
        };
        let before = match self.before {
            Before::Bridge => "",
            Before::Path => "serve-",
            Before::All => "serve-all-",
        };
        format!("through-{before}{era}{way}")
    }

    /// Starts the server, if need be, and the bridge.
    pub(super) fn start(self, root: &Path) -> Result<Bridge> {
        let text = |binary: &str| fixture::path(root, binary).to_string_lossy().into_owned();
        let mut server = vec![text("conformance-server")];
        server.extend((self.way == Way::Stdio).then(|| "stdio".to_owned()));
        server.extend(match self.speaks {
            Speaks::Both => None,
            Speaks::Legacy => Some("legacy".to_owned()),
            Speaks::Modern => Some("modern".to_owned()),
        });
        let remote = match self.way {
            Way::Stdio => None,
            Way::Http => Some(Serving::start(&server)?),
        };
        let url = remote.as_ref().map(|server| format!("http://{}/mcp", server.address));
        let (verb, path) = match self.before {
            Before::Bridge => ("bridge", "/mcp"),
            Before::Path => ("serve", "/servers/conformance/mcp"),
            Before::All => ("serve", "/mcp"),
        };
        let mut words: Vec<String> =
            [&text("cardan"), verb, "--listen", "127.0.0.1:0"].map(str::to_owned).into();
        match (self.before, url) {
            (Before::Bridge, Some(url)) => words.push(url),
            (Before::Bridge, None) => {
                words.push("--".to_owned());
                words.extend(server);
            }
            (_, url) => {
                words.push("--config".to_owned());
                words.push(self.configured(root, &server, url.as_deref())?);
            }
        }
        Ok(Bridge { bridge: Serving::start(&words)?, path, _server: remote })
    }

    /// A gateway's configuration with the server alone in it, under its own names.
    fn configured(self, root: &Path, server: &[String], url: Option<&str>) -> Result<String> {
        let reached = match (url, server) {
            (None, [command, args @ ..]) => format!("command = '{command}'\nargs = {args:?}\n"),
            (url, _) => format!("url = '{}'\n", url.unwrap_or_default()),
        };
        let file = root.join("target").join(format!("{}.toml", self.name()));
        std::fs::write(&file, format!("[gateway]\nnaming = 'never'\n[servers.conformance]\n{reached}"))?;
        Ok(file.to_string_lossy().into_owned())
    }

    /// Accepts what cannot be otherwise here.
    pub(super) fn grant(self, run: Run) -> Run {
        let granted =
            GRANTED.iter().filter(|granted| granted.before.is_none_or(|speaks| speaks == self.speaks));
        granted.fold(run, |run, granted| run.grant(granted.check, granted.status))
    }

    /// Extensions belong to the modern era: a legacy server has none to show.
    pub(super) fn has_extensions(self) -> bool {
        self.speaks != Speaks::Legacy
    }
}

/// A check that ends otherwise than before the server itself, and must end so.
struct Granted {
    check: Named,
    status: Status,
    /// Servers of which it holds; nothing: of all.
    before: Option<Speaks>,
    why: &'static str,
}

const GRANTED: [Granted; 4] = [
    Granted {
        check: STREAMS,
        status: Status::NotExercised,
        before: None,
        why: "how replies are sent is up to the bridge's own door, and that answers with one message where it can",
    },
    Granted {
        check: ("server-sse-polling", "server-sse-content-type"),
        status: Status::NotExercised,
        before: None,
        why: "the server lets its caller go, and that is the bridge: no message says so, the client simply waits",
    },
    Granted {
        check: ("input-required-result-basic-elicitation", "sep-2322-elicitation-incomplete"),
        status: Status::Failed,
        before: Some(Speaks::Legacy),
        why: "asks of a legacy server have no names, and the check wants a certain one",
    },
    Granted {
        check: ("input-required-result-ignore-extra-params", "sep-2322-ignore-unexpected-params"),
        status: Status::Warned,
        before: Some(Speaks::Legacy),
        why: "the answer is given by name before the server has asked, and its asks have no names",
    },
];

/// The table of what is accepted.
pub(super) fn granted() -> String {
    let mut out = String::from("\nthrough a bridge these cannot end as they do at the server itself:\n");
    for Granted { check: (scenario, check), status, before, why } in &GRANTED {
        let before = if before.is_some() { "before a legacy server" } else { "always" };
        let _ = writeln!(out, "  {scenario} {check}, {before}: {}: {why}", status.name());
    }
    out.push_str(
        "  extensions (tasks, skills), before a legacy server: not run: no legacy revision has them\n",
    );
    out
}
