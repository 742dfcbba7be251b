//! The table `[gateway]` of `cardan.toml`: how many servers are shown as one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::allowance::{self, Allowance};
use crate::keys::Unit;
use crate::problem::{Problem, Scene, choice};
use crate::read::{time, unknown_key};
use crate::token::{self, Key};
use crate::tree::Node;

/// How many servers are shown as one. What is not said is left to the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gateway {
    /// How names of several servers are kept apart.
    pub naming: Option<Naming>,
    /// What stands between the name of a server and that of its tool.
    pub separator: Option<String>,
    /// What becomes of a tool that has changed since it was first seen.
    pub pin: Option<Pin>,
    /// Whose tokens are good; none: no token is asked for.
    pub keys: Option<Vec<Key>>,
    /// The file where calls are written down.
    pub audit: Option<PathBuf>,
    /// How long what runs may go on when the gateway is asked to stop.
    pub grace: Option<Duration>,
    /// How long the first lists wait for servers of which nothing is known yet.
    pub window: Option<Duration>,
    /// How much each principal may ask for.
    pub allowance: Allowance,
}

/// What becomes of a tool that has changed since it was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// Nothing.
    Off,
    /// It is told.
    Warn,
    /// It is held back until it is approved.
    Block,
}

/// How names of several servers are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Every name has that of its server before it.
    Prefix,
    /// No name has; of two that are equal the first is shown.
    Never,
    /// Only those have that are taken already.
    Priority,
}

const KEYS: [&str; 10] =
    ["naming", "separator", "pin", "keys", "audit", "grace", "window", "rate", "burst", "concurrency"];
const PINS: [(&str, Pin); 3] = [("warn", Pin::Warn), ("block", Pin::Block), ("off", Pin::Off)];
const NAMINGS: [(&str, Naming); 3] =
    [("prefix", Naming::Prefix), ("never", Naming::Never), ("priority", Naming::Priority)];

impl Gateway {
    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            naming: self.naming.or(other.naming),
            separator: self.separator.or_else(|| other.separator.clone()),
            pin: self.pin.or(other.pin),
            keys: self.keys.or_else(|| other.keys.clone()),
            audit: self.audit.or_else(|| other.audit.clone()),
            grace: self.grace.or(other.grace),
            window: self.window.or(other.window),
            allowance: self.allowance.or(other.allowance),
        }
    }

    pub(crate) fn read(scene: Scene<'_>, table: &Node) -> (Self, Vec<Problem>) {
        let (mut gateway, mut problems) = (Self::default(), Vec::new());
        if !table.is_table() {
            let message = format!("this is {}, not a table", table.value.kind());
            problems.push(scene.problem(&table.span, Some("gateway"), message));
        }
        for entry in table.entries() {
            let text = entry.node.as_text();
            let wrong = |message: String| scene.problem(&entry.node.span, Some(&entry.key), message);
            match (entry.key.as_str(), text) {
                ("naming", text) => {
                    gateway.naming =
                        NAMINGS.iter().find(|(word, _)| Some(*word) == text).map(|(_, naming)| *naming);
                    if gateway.naming.is_none() {
                        let accepted = choice(NAMINGS.iter().map(|(word, _)| *word));
                        problems.push(wrong(format!("this is none of {accepted}")));
                    }
                }
                ("separator", Some(text)) if fits(text) => gateway.separator = Some(text.to_owned()),
                ("separator", _) => {
                    let message = "write one to eight of letters, digits, _, - and .: models' interfaces take no others";
                    problems.push(wrong(message.to_owned()));
                }
                ("pin", text) => {
                    let said = PINS.iter().find(|(word, _)| Some(*word) == text).map(|(_, pin)| *pin);
                    if said.is_none() {
                        let accepted = choice(PINS.iter().map(|(word, _)| *word));
                        problems.push(wrong(format!("this is none of {accepted}")));
                    }
                    // Whoever says something of it wants it guarded.
                    gateway.pin = Some(said.unwrap_or(Pin::Block));
                }
                ("audit", Some(path)) if !path.is_empty() => {
                    // What is not absolute lies beside the file that says so.
                    let folder = scene.file.parent().unwrap_or_else(|| Path::new(""));
                    gateway.audit = Some(folder.join(path));
                }
                ("audit", _) => problems.push(wrong("the path of a file is expected".to_owned())),
                ("grace", _) => match time(scene, &entry.key, &entry.node, Unit::Any) {
                    Ok(grace) => gateway.grace = Some(grace),
                    Err(problem) => problems.push(problem),
                },
                ("window", _) => match time(scene, &entry.key, &entry.node, Unit::Any) {
                    Ok(window) => gateway.window = Some(window),
                    Err(problem) => problems.push(problem),
                },
                (key, _) if allowance::KEYS.contains(&key) => {
                    problems.extend(gateway.allowance.read(scene, entry).err());
                }
                ("keys", _) => {
                    let (keys, wrong) = token::read(scene, &entry.node);
                    gateway.keys = Some(keys);
                    problems.extend(wrong);
                }
                _ => problems.push(unknown_key(scene, entry, KEYS)),
            }
        }
        (gateway, problems)
    }
}

fn fits(separator: &str) -> bool {
    (1..=8).contains(&separator.len())
        && separator.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn file(text: &str) -> File {
        File::parse(Path::new("cardan.toml"), text, None).unwrap()
    }

    #[test]
    fn what_is_said_is_read_and_slips_are_found() {
        let said = file(
            "[gateway]\nnaming = \"priority\"\nseparator = \".\"\npin = \"off\"\ngrace = \"2m\"\nwindow = \"1s\"\n",
        );
        assert_eq!(said.problems, []);
        let wanted = Gateway {
            naming: Some(Naming::Priority),
            separator: Some(".".to_owned()),
            pin: Some(Pin::Off),
            keys: None,
            audit: None,
            grace: Some(Duration::from_secs(120)),
            window: Some(Duration::from_secs(1)),
            allowance: Allowance::default(),
        };
        assert_eq!(said.gateway, wanted);
        for (text, told) in [
            (
                "[gateway]\nnaming = \"always\"\n",
                "cardan.toml:2:10: `naming`: this is none of prefix, never or priority",
            ),
            ("[gateway]\nseparator = \" \"\n", "`separator`: write one to eight"),
            ("[gateway]\nseperator = \"_\"\n", "did you mean `separator`?"),
            ("[gateway]\npin = \"on\"\n", "`pin`: this is none of warn, block or off"),
            ("[gateway]\naudit = 1\n", "`audit`: the path of a file is expected"),
            ("[gateway]\ngrace = \"soon\"\n", "`grace`: this is not a time"),
            ("[gateway]\nwindow = \"soon\"\n", "`window`: this is not a time"),
            ("gateway = 1\n", "not a table"),
        ] {
            let problems = file(text).problems;
            assert!(problems[0].to_string().contains(told), "{problems:?}");
        }
    }

    #[test]
    fn the_nearer_file_wins() {
        let near = Gateway { naming: Some(Naming::Never), ..Gateway::default() };
        let far = Gateway {
            naming: Some(Naming::Prefix),
            separator: Some("-".to_owned()),
            pin: Some(Pin::Warn),
            keys: Some(Vec::new()),
            audit: Some("audit.jsonl".into()),
            grace: Some(Duration::ZERO),
            window: Some(Duration::ZERO),
            allowance: Allowance { concurrency: Some(3), ..Allowance::default() },
        };
        let both = Gateway { naming: Some(Naming::Never), ..far.clone() };
        assert_eq!(near.or(&far), both);
    }
}
