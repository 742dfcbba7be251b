//! What may be asked on a line to the upstream: by it, lines are told apart.

use cardan_proto::era::caps::ClientCaps;
use cardan_proto::model::task;
use serde_json::{Value, json};

/// The capabilities that the upstream is told of, equal for equal clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Askable {
    form: bool,
    url: bool,
    sampling: bool,
    sampling_context: bool,
    sampling_tools: bool,
    roots: bool,
    /// Not asked, but followed: who hears of tasks must have declared them.
    tasks: bool,
}

impl Askable {
    /// Nothing at all.
    pub(super) const NOTHING: Self = Self {
        form: false,
        url: false,
        sampling: false,
        sampling_context: false,
        sampling_tools: false,
        roots: false,
        tasks: false,
    };

    /// Nothing, but tasks can be followed.
    pub(super) const TASKS: Self = Self { tasks: true, ..Self::NOTHING };

    /// What a legacy upstream may ask of a client that declared `capabilities`.
    pub(crate) fn of(capabilities: &[u8]) -> Self {
        let caps = ClientCaps::read(capabilities);
        Self {
            form: caps.form,
            url: caps.url,
            sampling: caps.sampling,
            sampling_context: caps.sampling_context,
            sampling_tools: caps.sampling_tools,
            roots: caps.roots,
            tasks: false,
        }
    }

    /// The same as a capabilities object.
    pub(super) fn capabilities(self) -> Value {
        let mut capabilities = if self.tasks { task::required() } else { json!({}) };
        if self.form || self.url {
            capabilities["elicitation"] = members([("form", self.form), ("url", self.url)]);
        }
        if self.sampling {
            capabilities["sampling"] =
                members([("context", self.sampling_context), ("tools", self.sampling_tools)]);
        }
        if self.roots {
            capabilities["roots"] = json!({});
        }
        capabilities
    }
}

fn members(members: [(&str, bool); 2]) -> Value {
    let there = members.into_iter().filter(|(_, there)| *there);
    Value::Object(there.map(|(name, _)| (name.to_owned(), json!({}))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_clients_can_be_asked_the_same() {
        let one = Askable::of(br#"{"elicitation":{},"extensions":{"a/b":{}},"roots":{"listChanged":true}}"#);
        assert_eq!(one, Askable::of(br#"{"roots":{},"elicitation":{"form":{"x":1}}}"#));
        assert_eq!(one.capabilities(), json!({"elicitation": {"form": {}}, "roots": {}}));
        assert_eq!(Askable::of(b"{}"), Askable::NOTHING);
        assert_eq!(Askable::NOTHING.capabilities(), json!({}));
        assert_eq!(Askable::TASKS.capabilities(), task::required());
        let sampling = Askable::of(br#"{"sampling":{"tools":{}}}"#);
        assert_eq!(sampling.capabilities(), json!({"sampling": {"tools": {}}}));
    }
}
