//! The table `[telemetry]` of `cardan.toml`: where traces of calls go.

use crate::problem::{Problem, Scene};
use crate::read::unknown_key;
use crate::tree::Node;

/// Where traces of calls go. What is not said is left to the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// The OTLP endpoint to which spans are exported over HTTP; `off`: none.
    pub otlp: Option<String>,
}

const KEYS: [&str; 1] = ["otlp"];

impl Telemetry {
    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self { otlp: self.otlp.or_else(|| other.otlp.clone()) }
    }

    pub(crate) fn read(scene: Scene<'_>, table: &Node) -> (Self, Vec<Problem>) {
        let (mut telemetry, mut problems) = (Self::default(), Vec::new());
        if !table.is_table() {
            let message = format!("this is {}, not a table", table.value.kind());
            problems.push(scene.problem(&table.span, Some("telemetry"), message));
        }
        for entry in table.entries() {
            match (entry.key.as_str(), entry.node.as_text()) {
                ("otlp", Some(otlp)) if is_endpoint(otlp) => telemetry.otlp = Some(otlp.to_owned()),
                ("otlp", _) => {
                    let problem =
                        scene.problem(&entry.node.span, Some("otlp"), "this is neither an address nor `off`");
                    problems.push(problem.next("write it like `http://127.0.0.1:4318`"));
                }
                _ => problems.push(unknown_key(scene, entry, KEYS)),
            }
        }
        (telemetry, problems)
    }
}

fn is_endpoint(text: &str) -> bool {
    text == "off" || text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::File;

    #[test]
    fn what_is_said_is_read_and_slips_are_found() {
        let file = |text: &str| File::parse(Path::new("cardan.toml"), text, None).unwrap();
        let said = file("[telemetry]\notlp = \"http://127.0.0.1:4318\"\n");
        assert_eq!(
            (said.problems, said.telemetry.otlp.as_deref()),
            (Vec::new(), Some("http://127.0.0.1:4318"))
        );
        for (text, told) in [
            (
                "[telemetry]\notlp = \"localhost\"\n",
                "cardan.toml:2:8: `otlp`: this is neither an address nor `off`",
            ),
            ("[telemetry]\noltp = \"off\"\n", "did you mean `otlp`?"),
            ("telemetry = 1\n", "not a table"),
        ] {
            let problems = file(text).problems;
            assert!(problems[0].to_string().contains(told), "{problems:?}");
        }
    }

    #[test]
    fn the_nearer_file_wins() {
        let of = |otlp: Option<&str>| Telemetry { otlp: otlp.map(str::to_owned) };
        assert_eq!(of(Some("off")).or(&of(Some("http://a"))), of(Some("off")));
        assert_eq!(of(None).or(&of(Some("http://a"))), of(Some("http://a")));
    }
}
