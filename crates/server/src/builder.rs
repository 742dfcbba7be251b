//! Describing a server, step by step.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::dialect::Dialect;
use cardan_proto::era::Revisions;
use cardan_proto::finding::Strictness;
use cardan_proto::limits::Limits;
use cardan_proto::model::resource::ResourceContents;
use cardan_proto::model::skill;
use cardan_proto::model::task;
use cardan_proto::model::tool::{TaskSupport, ToolExecution};
use cardan_proto::model::uri_template::UriTemplate;
use cardan_proto::model::{Implementation, Prompt, PromptMessage, Resource, ResourceTemplate, Tool};
use cardan_proto::secret::Redactor;
use cardan_proto::session::config::{CacheHint, CacheScope, Config, Role};
use cardan_proto::session::event::Event;
use serde_json::{Value, json};

use crate::access::{Access, Action, Decide};
use crate::cx::Cx;
use crate::registry::Registry;
use crate::seal::Sealer;
use crate::server::{Observer, Parts, Server};
use crate::skill::Skill;
use crate::stop::Stop;
use crate::tasks::Support;
use crate::tools::{Registered, RunTool, ToolFn};

/// How many entries a page of a list has, unless told otherwise.
const PAGE_SIZE: usize = 50;

/// What a server may offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tools.
    Tools,
    /// Resources and their templates.
    Resources,
    /// Prompts.
    Prompts,
    /// Calls of tools that run as tasks.
    Tasks,
}

/// A server in the making.
#[must_use = "call build to get the server"]
pub struct Builder {
    identity: Implementation,
    instructions: Option<String>,
    registry: Registry,
    declared: Vec<Kind>,
    logging: bool,
    page_size: usize,
    seal_key: Option<[u8; 32]>,
    once: bool,
    observer: Option<Observer>,
    access: Option<Decide>,
    revisions: Revisions,
    strictness: Strictness,
    dialect: Dialect,
    cache: CacheHint,
    limits: Limits,
    secrets: Redactor,
}

impl Builder {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self {
            identity: Implementation::new(name, version),
            instructions: None,
            registry: Registry::default(),
            declared: Vec::new(),
            logging: false,
            page_size: PAGE_SIZE,
            seal_key: None,
            once: false,
            observer: None,
            access: None,
            revisions: Revisions::ALL,
            strictness: Strictness::Standard,
            dialect: Dialect::Standard,
            cache: CacheHint::default(),
            limits: Limits::DEFAULT,
            secrets: Redactor::default(),
        }
    }

    /// More about the server: title, icons, website.
    pub fn identity(mut self, identity: Implementation) -> Self {
        self.identity = identity;
        self
    }

    /// How to use the server, for the model.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// A tool from an async function: of nothing, of arguments, of [`Cx`], or of both. What it
    /// takes and returns is described by the types.
    pub fn tool<F, Shape>(mut self, name: &str, description: &str, function: F) -> Self
    where
        F: ToolFn<Shape>,
        Shape: 'static,
    {
        self.registry.tools.put(name, Registered::typed(name, description, function));
        self
    }

    /// A tool with a description of your own, running on raw arguments.
    pub fn raw_tool(mut self, tool: Tool, run: Arc<dyn RunTool>) -> Self {
        let name = tool.name.clone();
        self.registry.tools.put(&name, Registered::new(tool, run));
        self
    }

    /// A tool described by schemas: arguments are checked before the function runs, structured output
    /// after it. Fails when a schema cannot be used.
    #[cfg(feature = "schema")]
    pub fn dynamic_tool<F, Fut>(mut self, tool: Tool, function: F) -> Result<Self, cardan_schema::SchemaError>
    where
        F: Fn(Value, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: crate::output::ToolOutput> + Send + 'static,
    {
        let name = tool.name.clone();
        self.registry.tools.put(&name, Registered::dynamic(tool, function)?);
        Ok(self)
    }

    /// Whether calls of a tool that was added before may, must or cannot run as tasks: then they are
    /// answered at once, and the result is fetched later. Without this, they cannot.
    ///
    /// # Panics
    ///
    /// If there is no such tool: a mistake in the program.
    pub fn task_support(mut self, tool: &str, support: TaskSupport) -> Self {
        let registered = self.registry.tools.get(tool).expect("the tool is added before");
        let mut changed = registered.clone();
        let mut described = (*changed.tool).clone();
        described.execution = Some(ToolExecution { task_support: Some(support) });
        changed.tool = Arc::new(described);
        self.registry.tools.put(tool, changed);
        self
    }

    /// A resource, read by an async function.
    pub fn resource<F, Fut>(mut self, resource: Resource, read: F) -> Self
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<ResourceContents>, Stop>> + Send + 'static,
    {
        let uri = resource.uri.clone();
        self.registry.resources.put(&uri, (resource, Arc::new(read)));
        self
    }

    /// Resources that a template describes: the function gets the address and the template's variables.
    ///
    /// # Panics
    ///
    /// If the template is malformed: a mistake in the program.
    pub fn template<F, Fut>(mut self, template: ResourceTemplate, read: F) -> Self
    where
        F: Fn(String, BTreeMap<String, String>, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<ResourceContents>, Stop>> + Send + 'static,
    {
        let text = template.uri_template.clone();
        let parsed = UriTemplate::parse(&text).expect("the template is written by the server's author");
        self.registry.templates.put(&text, (template, Arc::new(parsed), Arc::new(read)));
        self
    }

    /// A skill and its files. Clients of the modern era find it by its list; its files are resources for all.
    ///
    /// # Panics
    ///
    /// If its name or a path is malformed, or there is too much of it: a mistake in the program.
    pub fn skill(mut self, skill: Skill) -> Self {
        skill
            .put_into(&mut self.registry, &self.limits)
            .expect("the skill is written by the server's author");
        self
    }

    /// A prompt, filled in by an async function.
    pub fn prompt<F, Fut>(mut self, prompt: Prompt, fill: F) -> Self
    where
        F: Fn(BTreeMap<String, String>, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<PromptMessage>, Stop>> + Send + 'static,
    {
        let name = prompt.name.clone();
        self.registry.prompts.put(&name, (prompt, Arc::new(fill)));
        self
    }

    /// Completion of one argument of a prompt (by name) or variable of a template (by its text).
    pub fn complete<F>(mut self, target: &str, argument: &str, complete: F) -> Self
    where
        F: Fn(&str, &BTreeMap<String, String>) -> Vec<String> + Send + Sync + 'static,
    {
        self.registry.completions.insert((target.to_owned(), argument.to_owned()), Arc::new(complete));
        self
    }

    /// Declares a kind of thing although none is there yet, because some will be added while it runs. What
    /// is not declared when the server is built cannot be announced later.
    pub fn declare(mut self, kind: Kind) -> Self {
        self.declared.push(kind);
        self
    }

    /// The server sends log notes.
    pub fn logging(mut self) -> Self {
        self.logging = true;
        self
    }

    /// How many entries a page of a list has.
    pub fn page_size(mut self, entries: usize) -> Self {
        self.page_size = entries.max(1);
        self
    }

    /// The key that seals request state, shared by all replicas. Without one, state is good for this
    /// process only.
    pub fn seal_key(mut self, key: [u8; 32]) -> Self {
        self.seal_key = Some(key);
        self
    }

    /// Request state is good for one use: who sends the same answers twice is refused, and what follows
    /// the last ask is done at most once per call. Costs a memory of `limits.states_redeemed` entries
    /// in this process; replicas that share a key do not share it, so keep a client at one of them.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Sees everything that happens on every link: states, findings, notes. Must not block.
    pub fn observe(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Decides who may do what, for the principal that [`Server::serve_as`] was given. It is asked before
    /// every call and for every entry of a list: what is denied is neither listed nor done, and looks
    /// as if it did not exist. What depends on who asks is not for others to keep, so clients
    /// are told to keep everything to themselves. Must not block, nor change the server.
    pub fn access(
        mut self,
        decide: impl Fn(Option<&str>, Action<'_>) -> Access + Send + Sync + 'static,
    ) -> Self {
        self.access = Some(Box::new(decide));
        self
    }

    /// The revisions to speak; all, unless told otherwise.
    pub fn revisions(mut self, revisions: Revisions) -> Self {
        self.revisions = revisions;
        self
    }

    /// How much deviation of clients is accepted.
    pub fn strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// The foreign wire form to speak.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// How long lists may be kept by clients.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = hint;
        self
    }

    /// Every bound.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What findings about clients do not show.
    pub fn secrets(mut self, secrets: Redactor) -> Self {
        self.secrets = secrets;
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        let identity = Bytes::from(json!(self.identity).to_string());
        let scope = if self.access.is_some() { CacheScope::Private } else { self.cache.scope };
        let capabilities = self.capabilities();
        let anonymous = self.offers_tasks().then(|| {
            let mut capabilities = capabilities.clone();
            capabilities["tasks"].as_object_mut().map(|tasks| tasks.remove("list"));
            Bytes::from(capabilities.to_string())
        });
        let capabilities = Bytes::from(capabilities.to_string());
        let config = Config {
            instructions: self.instructions.map(|text| Bytes::from(json!(text).to_string())),
            revisions: self.revisions,
            strictness: self.strictness,
            dialect: self.dialect,
            cache: CacheHint { scope, ..self.cache },
            limits: self.limits,
            secrets: self.secrets,
            ..Config::new(Role::Server, identity, capabilities)
        };
        let ttl = config.limits.request_state_ttl;
        let sealer = self.seal_key.map_or_else(|| Sealer::random(ttl), |key| Sealer::with_key(&key, ttl));
        let sealer = if self.once { sealer.once(config.limits.states_redeemed) } else { sealer };
        let anonymous = anonymous.map(|capabilities| Config { capabilities, ..config.clone() });
        Server::new(Parts {
            config,
            anonymous,
            registry: self.registry,
            sealer,
            page_size: self.page_size,
            observer: self.observer,
            access: self.access,
        })
    }

    /// What is registered is what is advertised.
    fn capabilities(&self) -> Value {
        let mut capabilities = json!({});
        if self.declared.contains(&Kind::Tools) || !self.registry.tools.is_empty() {
            capabilities["tools"] = json!({ "listChanged": true });
        }
        let resources = !self.registry.resources.is_empty() || !self.registry.templates.is_empty();
        if self.declared.contains(&Kind::Resources) || resources {
            capabilities["resources"] = json!({ "subscribe": true, "listChanged": true });
        }
        if self.declared.contains(&Kind::Prompts) || !self.registry.prompts.is_empty() {
            capabilities["prompts"] = json!({ "listChanged": true });
        }
        if !self.registry.completions.is_empty() {
            capabilities["completions"] = json!({});
        }
        if self.logging {
            capabilities["logging"] = json!({});
        }
        if !self.registry.skills.is_empty() {
            capabilities["extensions"][skill::EXTENSION] = json!({ "directoryRead": true });
        }
        if self.offers_tasks() {
            let requests = json!({ "tools": { "call": {} } });
            capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": requests });
            capabilities["extensions"][task::EXTENSION] = json!({});
        }
        capabilities
    }

    fn offers_tasks(&self) -> bool {
        let supports = |tool: &Registered| tool.support() != Support::Forbidden;
        self.declared.contains(&Kind::Tasks) || self.registry.tools.iter().any(supports)
    }
}
