//! The server: what it is called, what it offers, and the links it serves.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use cardan_proto::http::param::Mirrors;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::limits::Limits;
use cardan_proto::model::{Prompt, PromptMessage, Resource, ResourceContents};
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Cause, Change, Event, LogLevel};
use cardan_runtime::driver::Driver;
use cardan_runtime::link::Link;
use cardan_runtime::links::Links;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::Host;
use serde::Serialize;
use serde_json::json;

use crate::access::{Access, Action, Decide};
use crate::builder::Builder;
use crate::cx::{Cx, shown};
use crate::registry::Registry;
use crate::router::Router;
use crate::seal::Sealer;
use crate::stop::Stop;
use crate::tasks::Desk;
use crate::tools::{Registered, ToolFn};

/// A server. Cheap to clone; serves any number of links at once.
///
/// ```
/// use cardan_server::{Server, serde, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Echo {
///     text: String,
/// }
///
/// let server = Server::builder("echo", "1.0").tool("echo", "says it back", async |args: Echo| args.text).build();
/// # let _ = server;
/// ```
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    config: Arc<Config>,
    registry: RwLock<Registry>,
    /// The same for those who come without a principal, where that makes a difference.
    anonymous: Arc<Config>,
    /// The tasks, if calls can be tasks.
    desk: Option<Desk>,
    /// Who is served, by principal.
    links: Links<Option<Arc<str>>>,
    sealer: Sealer,
    page_size: usize,
    observer: Option<Observer>,
    access: Option<Decide>,
    has_resources: bool,
}

/// What the builder made.
pub(crate) struct Parts {
    pub(crate) config: Config,
    /// The same for those who come without a principal, where that makes a difference.
    pub(crate) anonymous: Option<Config>,
    pub(crate) registry: Registry,
    pub(crate) sealer: Sealer,
    pub(crate) page_size: usize,
    pub(crate) observer: Option<Observer>,
    pub(crate) access: Option<Decide>,
}

/// Sees everything that happens on every link. Must not block.
pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

impl Server {
    /// Starts to describe a server.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name.into(), version.into())
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { config, anonymous, registry, sealer, page_size, observer, access } = parts;
        // Only a server that offers tasks has something to hide from strangers.
        let desk = anonymous.as_ref().map(|config| Desk::new(&config.limits));
        let has_resources = config.server_caps().resources.is_some();
        let config = Arc::new(config);
        Self(Arc::new(Inner {
            anonymous: anonymous.map_or_else(|| Arc::clone(&config), Arc::new),
            config,
            registry: RwLock::new(registry),
            links: Links::default(),
            desk,
            sealer,
            page_size,
            observer,
            access,
            has_resources,
        }))
    }

    /// Serves one link to its end, and tells why it ended.
    pub async fn serve<L: Link + Unpin>(&self, link: L) -> Cause {
        self.serve_as(link, None).await
    }

    /// The same for a known principal: what it is asked and what it holds, its tasks included, is bound to
    /// it. Tasks of those without a principal are found by whoever knows their names, and not listed.
    pub async fn serve_as<L: Link + Unpin>(&self, link: L, principal: Option<Arc<str>>) -> Cause {
        let (service, config) = (self.service(principal.as_ref()), self.config(principal.as_ref()));
        let (driver, peer) = Driver::new(link, service, config);
        self.joined(peer, principal.as_ref());
        driver.await
    }

    /// Adds or replaces a tool, and tells those who listen.
    pub fn add_tool<F, Shape>(&self, name: &str, description: &str, function: F)
    where
        F: ToolFn<Shape>,
        Shape: 'static,
    {
        let registered = Registered::typed(name, description, function);
        self.change_registry(|registry| registry.tools.put(name, registered));
        self.changed(&Change::Tools);
    }

    /// Adds or replaces a tool described by schemas, and tells those who listen. Fails when a schema
    /// cannot be used.
    #[cfg(feature = "schema")]
    pub fn add_dynamic_tool<F, Fut>(
        &self,
        tool: cardan_proto::model::Tool,
        function: F,
    ) -> Result<(), cardan_schema::SchemaError>
    where
        F: Fn(serde_json::Value, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: crate::output::ToolOutput> + Send + 'static,
    {
        let name = tool.name.clone();
        let registered = Registered::dynamic(tool, function)?;
        self.change_registry(|registry| registry.tools.put(&name, registered));
        self.changed(&Change::Tools);
        Ok(())
    }

    /// Takes a tool away, and tells those who listen. False: there was none.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self.change_registry(|registry| registry.tools.remove(name));
        if removed {
            self.changed(&Change::Tools);
        }
        removed
    }

    /// Adds or replaces a resource, and tells those who listen.
    pub fn add_resource<F, Fut>(&self, resource: Resource, read: F)
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<ResourceContents>, Stop>> + Send + 'static,
    {
        let uri = resource.uri.clone();
        self.change_registry(|registry| registry.resources.put(&uri, (resource, Arc::new(read))));
        self.changed(&Change::Resources);
    }

    /// Takes a resource away, and tells those who listen. False: there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.change_registry(|registry| registry.resources.remove(uri));
        if removed {
            self.changed(&Change::Resources);
        }
        removed
    }

    /// Adds or replaces a prompt, and tells those who listen.
    pub fn add_prompt<F, Fut>(&self, prompt: Prompt, fill: F)
    where
        F: Fn(BTreeMap<String, String>, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<PromptMessage>, Stop>> + Send + 'static,
    {
        let name = prompt.name.clone();
        self.change_registry(|registry| registry.prompts.put(&name, (prompt, Arc::new(fill))));
        self.changed(&Change::Prompts);
    }

    /// Takes a prompt away, and tells those who listen. False: there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.change_registry(|registry| registry.prompts.remove(name));
        if removed {
            self.changed(&Change::Prompts);
        }
        removed
    }

    /// Tells those who listen, on every link, that something changed. Of a resource only those hear
    /// who may read it.
    pub fn changed(&self, change: &Change) {
        for (peer, principal) in self.0.links.live() {
            let hidden = matches!(change, Change::Resource(uri) if !self.grants(principal.as_deref(), Action::Read(uri)));
            if !hidden {
                peer.change(change.clone());
            }
        }
    }

    /// Sends a log note outside any call to every legacy client that wants it.
    pub fn log(&self, level: LogLevel, data: &impl Serialize) {
        let params = Bytes::from(json!({ "level": level.name(), "data": shown(data) }).to_string());
        for (peer, _) in self.0.links.live() {
            peer.log(level, params.clone());
        }
    }

    /// Ends every link when what runs there is done, and stops all tasks. Links that are made later end at once.
    pub fn close(&self, reason: &'static str) {
        if let Some(desk) = &self.0.desk {
            desk.close();
        }
        self.0.links.close(reason);
    }

    /// Stops all tasks and waits until their handlers are gone.
    pub async fn stop_tasks(&self) {
        if let Some(desk) = &self.0.desk {
            desk.close();
            desk.closed().await;
        }
    }

    /// The bounds it was built with.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.config.limits
    }

    /// May this principal do that? Without a function that decides, everyone may do everything.
    pub(crate) fn grants(&self, principal: Option<&str>, action: Action<'_>) -> bool {
        self.0.access.as_ref().is_none_or(|decide| decide(principal, action) == Access::Granted)
    }

    /// Did it declare resources?
    pub(crate) fn has_resources(&self) -> bool {
        self.0.has_resources
    }

    pub(crate) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.0.sealer
    }

    pub(crate) fn page_size(&self) -> usize {
        self.0.page_size
    }

    pub(crate) fn noted(&self, note: &Note) {
        self.observe(&Event::Noted(note.clone()));
    }

    pub(crate) fn observe(&self, event: &Event) {
        if let Some(observer) = &self.0.observer {
            observer(event);
        }
    }

    fn change_registry<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        change(&mut self.0.registry.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn offers_tasks(&self) -> bool {
        self.0.desk.is_some()
    }

    pub(crate) fn desk(&self) -> &Desk {
        self.0.desk.as_ref().expect("only calls of a server that offers tasks come here")
    }

    /// Tells those of one principal, on every link, that something changed.
    pub(crate) fn tell(&self, whom: &Option<Arc<str>>, change: &Change) {
        for (peer, _) in self.0.links.live().iter().filter(|(_, principal)| principal == whom) {
            peer.change(change.clone());
        }
    }
}

impl Host for Server {
    type Service = Router;

    fn config(&self, principal: Option<&Arc<str>>) -> Arc<Config> {
        Arc::clone(if principal.is_some() { &self.0.config } else { &self.0.anonymous })
    }

    fn service(&self, principal: Option<&Arc<str>>) -> Arc<Router> {
        Arc::new(Router::new(self.clone(), principal.cloned()))
    }

    fn joined(&self, peer: Peer, principal: Option<&Arc<str>>) {
        self.0.links.join(peer, principal.cloned());
    }

    fn close(&self, reason: &'static str) {
        Self::close(self, reason);
    }

    fn mirrors(&self, tool: &str, _principal: Option<&Arc<str>>) -> Option<Arc<Mirrors>> {
        self.registry().tools.get(tool).and_then(|tool| tool.mirrors.clone())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = String::from_utf8_lossy(&self.0.config.identity);
        f.debug_struct("Server").field("identity", &identity).finish_non_exhaustive()
    }
}
