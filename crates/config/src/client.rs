//! The table `[client]` of `cardan.toml`: how whoever calls configured servers answers them.

use crate::problem::{Problem, Scene};
use crate::read::unknown_key;
use crate::tree::Node;

/// How servers are answered that are called by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answering {
    /// The line for the shell that answers for the model.
    pub sampling_command: Option<String>,
}

const KEYS: [&str; 1] = ["sampling_command"];

impl Answering {
    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self { sampling_command: self.sampling_command.or_else(|| other.sampling_command.clone()) }
    }

    pub(crate) fn read(scene: Scene<'_>, table: &Node) -> (Self, Vec<Problem>) {
        let (mut answering, mut problems) = (Self::default(), Vec::new());
        if !table.is_table() {
            let message = format!("this is {}, not a table", table.value.kind());
            problems.push(scene.problem(&table.span, Some("client"), message));
        }
        for entry in table.entries() {
            match (entry.key.as_str(), entry.node.as_text()) {
                ("sampling_command", Some(line)) if !line.trim().is_empty() => {
                    answering.sampling_command = Some(line.to_owned());
                }
                ("sampling_command", _) => {
                    let message = "this is no line for the shell";
                    let problem = scene.problem(&entry.node.span, Some("sampling_command"), message);
                    problems.push(problem.next("write it like \"my-model --quiet\""));
                }
                _ => problems.push(unknown_key(scene, entry, KEYS)),
            }
        }
        (answering, problems)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::File;

    #[test]
    fn what_is_said_is_read_and_slips_are_found() {
        let file = |text: &str| File::parse(Path::new("cardan.toml"), text, None).unwrap();
        let said = file("[client]\nsampling_command = \"my-model\"\n");
        assert_eq!((said.problems, said.client.sampling_command.as_deref()), (Vec::new(), Some("my-model")));
        for (text, told) in [
            (
                "[client]\nsampling_command = [\"a\"]\n",
                "cardan.toml:2:20: `sampling_command`: this is no line",
            ),
            ("[client]\nsampling_comand = \"a\"\n", "did you mean `sampling_command`?"),
            ("client = 1\n", "not a table"),
        ] {
            let problems = file(text).problems;
            assert!(problems[0].to_string().contains(told), "{problems:?}");
        }
    }
}
