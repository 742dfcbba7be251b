//! What a peer declared it can do, read once from its capabilities object.
//!
//! The object itself stays open: unknown members are nobody's business here.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::gates::{Elicitation, Gates, Tasks, gates};
use super::revision::{Era, Revision};
use crate::jsonrpc::object::Object;
use crate::jsonrpc::splice::{Edit, member_of, splice};
use crate::method::Method;
use crate::model::capability::{settings, untrusted};
use crate::model::{skill, task};
use crate::session::event::Ask;

/// What a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCaps {
    /// Tools.
    pub tools: Option<ListCap>,
    /// Prompts.
    pub prompts: Option<ListCap>,
    /// Resources.
    pub resources: Option<ListCap>,
    /// Completion of arguments.
    pub completions: bool,
    /// Log notes.
    pub logging: bool,
    /// Tasks, in either design.
    pub tasks: bool,
    /// Skills.
    pub skills: bool,
    /// Skills, and their directories can be read.
    pub directories: bool,
}

/// How far one of the lists goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListCap {
    /// Changes of the list are announced.
    pub list_changed: bool,
    /// Changes of an entry can be listened to (resources).
    pub subscribe: bool,
}

/// What a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCaps {
    /// Roots.
    pub roots: bool,
    /// Sampling.
    pub sampling: bool,
    /// Sampling with tools.
    pub sampling_tools: bool,
    /// Sampling with context of servers.
    pub sampling_context: bool,
    /// Forms.
    pub form: bool,
    /// Addresses to visit.
    pub url: bool,
    /// Any extension.
    pub extensions: bool,
    /// Tasks as an extension: a call may be answered with one.
    pub tasks: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireServer {
    tools: Option<ListCap>,
    prompts: Option<ListCap>,
    resources: Option<ListCap>,
    completions: Option<IgnoredAny>,
    logging: Option<IgnoredAny>,
    tasks: Option<IgnoredAny>,
    #[serde(deserialize_with = "untrusted")]
    extensions: Option<Map<String, Value>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireClient {
    roots: Option<IgnoredAny>,
    sampling: Option<WireSampling>,
    elicitation: Option<WireElicitation>,
    #[serde(deserialize_with = "untrusted")]
    extensions: Option<Map<String, Value>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSampling {
    context: Option<IgnoredAny>,
    tools: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireElicitation {
    form: Option<IgnoredAny>,
    url: Option<IgnoredAny>,
}

impl ServerCaps {
    /// From a capabilities object; one that cannot be read declares nothing.
    #[must_use]
    pub fn read(object: &[u8]) -> Self {
        let Object(wire) = serde_json::from_slice::<Object<WireServer>>(object).unwrap_or_default();
        let extensions = wire.extensions.unwrap_or_default();
        let skills = settings(&extensions, skill::EXTENSION);
        Self {
            tools: wire.tools,
            prompts: wire.prompts,
            resources: wire.resources,
            completions: wire.completions.is_some(),
            logging: wire.logging.is_some(),
            tasks: wire.tasks.is_some() || settings(&extensions, task::EXTENSION).is_some(),
            skills: skills.is_some(),
            directories: skills.is_some_and(|skills| skills.get("directoryRead") == Some(&Value::Bool(true))),
        }
    }

    /// The capability that `method` needs and that is not there.
    #[must_use]
    pub fn lacks(&self, method: &Method) -> Option<&'static str> {
        let (name, there) = match method {
            Method::ToolsList | Method::ToolsCall => ("tools", self.tools.is_some()),
            Method::PromptsList | Method::PromptsGet => ("prompts", self.prompts.is_some()),
            Method::ResourcesList | Method::ResourcesTemplatesList | Method::ResourcesRead => {
                ("resources", self.resources.is_some())
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                ("resources.subscribe", self.resources.is_some_and(|cap| cap.subscribe))
            }
            Method::CompletionComplete => ("completions", self.completions),
            Method::LoggingSetLevel => ("logging", self.logging),
            Method::SubscriptionsListen => ("listChanged or subscribe", self.can_listen()),
            Method::TasksGet
            | Method::TasksCancel
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksUpdate => ("tasks", self.tasks),
            Method::SkillsList | Method::SkillsGet => ("skills", self.skills),
            Method::DirectoryRead => ("skills.directoryRead", self.directories),
            _ => return None,
        };
        (!there).then_some(name)
    }

    /// Is there anything to listen to?
    #[must_use]
    pub fn can_listen(&self) -> bool {
        let lists = [self.tools, self.prompts, self.resources];
        lists.into_iter().flatten().any(|cap| cap.list_changed || cap.subscribe)
    }
}

impl ClientCaps {
    /// From a capabilities object; one that cannot be read declares nothing.
    #[must_use]
    pub fn read(object: &[u8]) -> Self {
        // Modern clients say it with every call, and most have nothing to say.
        if matches!(object, b"{}" | b"") {
            return Self::default();
        }
        let Object(wire) = serde_json::from_slice::<Object<WireClient>>(object).unwrap_or_default();
        let extensions = wire.extensions.unwrap_or_default();
        let elicitation = wire.elicitation;
        let url = elicitation.as_ref().is_some_and(|e| e.url.is_some());
        Self {
            roots: wire.roots.is_some(),
            sampling: wire.sampling.is_some(),
            sampling_tools: wire.sampling.as_ref().is_some_and(|s| s.tools.is_some()),
            sampling_context: wire.sampling.is_some_and(|s| s.context.is_some()),
            // An empty object means forms: that is how the first revision with elicitation said it.
            form: elicitation.as_ref().is_some_and(|e| e.form.is_some() || !url),
            url,
            extensions: extensions.keys().any(|id| settings(&extensions, id).is_some()),
            tasks: settings(&extensions, task::EXTENSION).is_some(),
        }
    }

    /// The capabilities object that `ask` needs and that this client, in this revision, does not have.
    #[must_use]
    pub fn lacks(&self, ask: &Ask, revision: Revision) -> Option<Value> {
        use serde_json::json;
        let gates = gates(revision);
        match ask.method {
            Method::RootsList => (!self.roots).then(|| json!({"roots": {}})),
            Method::SamplingCreateMessage => {
                let tools = AskShape::read(ask).tools.is_some();
                if tools && !(self.sampling_tools && gates.sampling_tools) {
                    return Some(json!({"sampling": {"tools": {}}}));
                }
                (!self.sampling).then(|| json!({"sampling": {}}))
            }
            Method::ElicitationCreate if AskShape::read(ask).is_url() => {
                let able = self.url && gates.elicitation == Elicitation::FormAndUrl;
                (!able).then(|| json!({"elicitation": {"url": {}}}))
            }
            Method::ElicitationCreate => {
                let able = self.form && gates.elicitation >= Elicitation::Form;
                (!able).then(|| json!({"elicitation": {"form": {}}}))
            }
            _ => Some(json!({})),
        }
    }

    /// The same for who is about to send it: context that was not offered is not wished for either. A
    /// client lets such a wish pass, since it is free to ignore it.
    #[must_use]
    pub fn lacks_to_send(&self, ask: &Ask, revision: Revision) -> Option<Value> {
        let lacking = self.lacks(ask, revision);
        // The capability came with tools; before it, any client could be asked for context.
        let gated = ask.method == Method::SamplingCreateMessage && gates(revision).sampling_tools;
        if lacking.is_none() && gated && !self.sampling_context && AskShape::read(ask).wishes_context() {
            return Some(serde_json::json!({"sampling": {"context": {}}}));
        }
        lacking
    }
}

/// What a legacy client declared, without what its revision does not have: nobody could ask for it, so nobody is told
/// of it. Context for sampling stays, since it could always be wished for; and so does whatever is not known here.
pub(crate) fn declared_in(revision: Revision, capabilities: Bytes) -> Bytes {
    if revision.era() == Era::Modern {
        return capabilities;
    }
    let gates = gates(revision);
    let without = |name, dropped| {
        let object = member_of(&capabilities, name).ok().flatten()?;
        let left = splice(&object, &[Edit::Drop(dropped)]).ok()?;
        (left != object).then_some(left)
    };
    let mut edits = Vec::new();
    if gates.tasks != Tasks::Core {
        edits.push(Edit::Drop("tasks"));
    }
    // No legacy revision has tasks as an extension.
    let extensions = without("extensions", task::EXTENSION);
    edits.extend(extensions.as_ref().map(|left| Edit::Set("extensions", left)));
    let sampling = without("sampling", "tools").filter(|_| !gates.sampling_tools);
    edits.extend(sampling.as_ref().map(|left| Edit::Set("sampling", left)));
    let elicitation = without("elicitation", "url");
    edits.extend(elicits(gates, &capabilities, elicitation.as_ref()));
    splice(&capabilities, &edits).unwrap_or(capabilities)
}

/// What becomes of `elicitation`, of which this is left without addresses.
fn elicits<'a>(gates: &Gates, capabilities: &[u8], left: Option<&'a Bytes>) -> Option<Edit<'a>> {
    match gates.elicitation {
        Elicitation::Absent => Some(Edit::Drop("elicitation")),
        // What is left of who takes nothing but addresses would mean forms.
        Elicitation::Form if !ClientCaps::read(capabilities).form => Some(Edit::Drop("elicitation")),
        Elicitation::Form => left.map(|left| Edit::Set("elicitation", left)),
        Elicitation::FormAndUrl => None,
    }
}

/// The members of an ask that decide which capability it needs.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AskShape {
    mode: Option<String>,
    tools: Option<IgnoredAny>,
    include_context: Option<String>,
}

impl AskShape {
    fn read(ask: &Ask) -> Self {
        ask.params.as_ref().and_then(|params| serde_json::from_slice(params).ok()).unwrap_or_default()
    }

    /// ELI-4: a missing mode means a form.
    fn is_url(&self) -> bool {
        self.mode.as_deref() == Some("url")
    }

    fn wishes_context(&self) -> bool {
        self.include_context.as_deref().is_some_and(|context| context != "none")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elicit(params: &'static str) -> Ask {
        Ask { method: Method::ElicitationCreate, params: Some(Bytes::from_static(params.as_bytes())) }
    }

    /// BASE-33: unknown capabilities and settings are tolerated.
    #[test]
    fn capability_objects_are_open() {
        let caps = ServerCaps::read(br#"{"tools":{"listChanged":true,"new":1},"future":{"x":[1]}}"#);
        assert!(caps.tools.unwrap().list_changed);
        assert_eq!(ServerCaps::read(b"[]"), ServerCaps::default());
    }

    /// EXT-6: an extension counts when it is declared soundly; a malformed one spoils nothing beside it.
    #[test]
    fn extension_members_are_not_trusted() {
        for (odd, sound) in [
            ("5", false),
            ("[]", false),
            ("null", false),
            (r#"{"io.modelcontextprotocol/tasks":5}"#, false),
            (r#"{"tasks":{}}"#, false),
            (r#"{"io.modelcontextprotocol/tasks":{}}"#, true),
        ] {
            let server = ServerCaps::read(format!(r#"{{"tools":{{}},"extensions":{odd}}}"#).as_bytes());
            assert_eq!((server.tools.is_some(), server.tasks), (true, sound), "{odd}");
            let client = ClientCaps::read(format!(r#"{{"roots":{{}},"extensions":{odd}}}"#).as_bytes());
            assert_eq!((client.roots, client.extensions), (true, sound), "{odd}");
        }
    }

    /// ELI-2, ELI-4: `{}` means forms only, and so does an ask without mode.
    #[test]
    fn empty_elicitation_means_forms() {
        let caps = ClientCaps::read(br#"{"elicitation":{}}"#);
        assert!(caps.form && !caps.url);
        assert_eq!(caps.lacks(&elicit("{}"), Revision::LATEST_MODERN), None);
        let url_only = ClientCaps::read(br#"{"elicitation":{"url":{}}}"#);
        assert!(!url_only.form && url_only.url);
    }

    /// ELI-3, MRTR-6: no mode that was not declared, whatever the revision.
    #[test]
    fn undeclared_modes_are_missed() {
        let caps = ClientCaps::read(br#"{"elicitation":{},"sampling":{}}"#);
        let url = elicit(r#"{"mode":"url"}"#);
        assert!(caps.lacks(&url, Revision::LATEST_MODERN).is_some());
        let all = ClientCaps::read(br#"{"elicitation":{"form":{},"url":{}}}"#);
        assert!(all.lacks(&url, Revision::LATEST_LEGACY).is_none());
        assert!(all.lacks(&url, Revision::V2025_06_18).is_some());
        assert!(all.lacks(&elicit("{}"), Revision::V2025_03_26).is_some());
        let tools = Ask {
            method: Method::SamplingCreateMessage,
            params: Some(Bytes::from_static(br#"{"tools":[]}"#)),
        };
        assert!(caps.lacks(&tools, Revision::LATEST_MODERN).is_some());
    }

    /// SAM-3: context is wished for only where it was offered; clients ignore the wish.
    #[test]
    fn undeclared_context_is_not_wished_for() {
        let sample = |context: &str| Ask {
            method: Method::SamplingCreateMessage,
            params: Some(Bytes::from(format!(r#"{{"includeContext":"{context}"}}"#))),
        };
        let (plain, able) =
            (ClientCaps::read(br#"{"sampling":{}}"#), ClientCaps::read(br#"{"sampling":{"context":{}}}"#));
        for revision in [Revision::LATEST_LEGACY, Revision::LATEST_MODERN] {
            for context in ["thisServer", "allServers"] {
                let lacking = plain.lacks_to_send(&sample(context), revision);
                assert_eq!(lacking, Some(serde_json::json!({"sampling": {"context": {}}})), "{revision}");
                assert_eq!(able.lacks_to_send(&sample(context), revision), None);
                assert_eq!(plain.lacks(&sample(context), revision), None);
            }
            assert_eq!(plain.lacks_to_send(&sample("none"), revision), None);
        }
        assert_eq!(plain.lacks_to_send(&sample("thisServer"), Revision::V2025_06_18), None);
        let none = ClientCaps::default().lacks_to_send(&sample("thisServer"), Revision::LATEST_MODERN);
        assert_eq!(none, Some(serde_json::json!({"sampling": {}})));
    }

    /// ELI-1, MRTR-6: what a revision does not have cannot be declared in it. Everything else stays as it came.
    #[test]
    fn nothing_is_declared_that_the_revision_does_not_have() {
        let all = r#"{"x": 1.50,"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#;
        let bare =
            r#"{"x": 1.50,"roots":{"listChanged":true},"sampling":{"context":{}},"extensions":{"a/b":{}}}"#;
        let form = r#"{"x": 1.50,"roots":{"listChanged":true},"sampling":{"context":{}},"elicitation":{"form":{}},"extensions":{"a/b":{}}}"#;
        let most = r#"{"x": 1.50,"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"extensions":{"a/b":{}}}"#;
        for (revision, declared, left) in [
            (Revision::V2024_11_05, all, bare),
            (Revision::V2025_03_26, all, bare),
            (Revision::V2025_06_18, all, form),
            (Revision::V2025_11_25, all, most),
            (Revision::V2026_07_28, all, all),
            (Revision::V2025_06_18, r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (Revision::V2025_06_18, r#"{"elicitation":{"url":{}}}"#, "{}"),
            (Revision::V2025_03_26, r#"{"elicitation":7,"sampling":7}"#, r#"{"sampling":7}"#),
            (Revision::V2025_03_26, "[]", "[]"),
        ] {
            let given = Bytes::copy_from_slice(declared.as_bytes());
            assert_eq!(declared_in(revision, given), left, "{revision} {declared}");
        }
    }

    /// TSKE-19: only the extension's own id declares it.
    #[test]
    fn the_older_task_capability_declares_no_extension() {
        assert!(!ClientCaps::read(br#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#).tasks);
        assert!(!ClientCaps::read(br#"{"extensions":{"com.example/tasks":{}}}"#).tasks);
        assert!(ClientCaps::read(br#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":7}"#).tasks);
    }

    /// BASE-29: the capability a method stands behind.
    #[test]
    fn methods_stand_behind_capabilities() {
        let caps = ServerCaps::read(br#"{"resources":{}}"#);
        assert_eq!(caps.lacks(&Method::ResourcesRead), None);
        assert_eq!(caps.lacks(&Method::ResourcesSubscribe), Some("resources.subscribe"));
        assert_eq!(caps.lacks(&Method::ToolsCall), Some("tools"));
        assert_eq!(caps.lacks(&Method::Ping), None);
    }
}
