//! The client: typed methods over one link, the same in both eras.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::complete::{CompleteParams, CompleteResult};
use cardan_proto::model::content::keep_sound_icons;
use cardan_proto::model::prompt::{GetPromptParams, GetPromptResult};
use cardan_proto::model::raw::{Raw, RawObject};
use cardan_proto::model::resource::{ReadResourceParams, ReadResourceResult};
use cardan_proto::model::tool::{CallToolParams, CallToolResult};
use cardan_proto::model::uri;
use cardan_proto::model::{
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Ask, CallOptions, Cause, Interest, LogLevel, Pushes};
use cardan_proto::session::state::State;
use cardan_runtime::peer::Peer;
use cardan_runtime::witness::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::asks::Answerers;
use crate::cache::Cache;
use crate::call::{Call, Listen};
use crate::connect::{Connector, News};
use crate::driving::Driving;
use crate::error::{CallError, Settled, result_of};
use crate::pages::{Page, Pages};

/// A client with one live session. Dropping it ends the link at once; [`Client::close`] does so politely.
#[derive(Debug)]
pub struct Client {
    peer: Peer,
    driving: Driving,
    settled: Settled,
    cache: Arc<Cache>,
    config: Arc<Config>,
    answerers: Answerers,
    news: watch::Receiver<News>,
    #[cfg(feature = "schema")]
    schemas: crate::schemas::Schemas,
}

impl Client {
    /// Starts to describe a client.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Connector {
        Connector::new(name.into(), version.into())
    }

    pub(crate) fn new(
        peer: Peer,
        driving: Driving,
        settled: Settled,
        cache: Arc<Cache>,
        config: Arc<Config>,
        answerers: Answerers,
        news: watch::Receiver<News>,
    ) -> Self {
        Self {
            peer,
            driving,
            settled,
            cache,
            #[cfg(feature = "schema")]
            schemas: crate::schemas::Schemas::new(config.limits.tools_remembered),
            config,
            answerers,
            news,
        }
    }

    /// What the session settled on.
    #[must_use]
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// What the server says of itself.
    #[must_use]
    pub fn server(&self) -> ServerInfo {
        ServerInfo::read(self.settled.greeting.as_ref())
    }

    /// Where the session is.
    #[must_use]
    pub fn state(&self) -> State {
        self.news.borrow().state
    }

    /// Whether the server can send what belongs to no call, right now. A legacy session over HTTP may be open
    /// while its push lane is not.
    #[must_use]
    pub fn pushes(&self) -> Pushes {
        self.news.borrow().pushes
    }

    /// Why the session ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<Cause> {
        self.news.borrow().ended.as_ref().map(|(_, cause)| cause.clone())
    }

    /// What is known of the server's process, if it is a child of ours: its last words, and how it ended. A call
    /// that timed out is often explained by them.
    #[must_use]
    pub fn report(&self) -> Report {
        self.peer.report()
    }

    /// The handle below, for methods that have no name here.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Calls any method and brings the raw result. `params` must serialise to an object.
    pub async fn raw(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        if let Some(kept) = self.cache.get(&method, params.as_ref()) {
            return Ok(kept);
        }
        let asked = self.cache.generation();
        let outcome = self.peer.call(method.clone(), params.clone(), options).await;
        let result = result_of(outcome, || self.peer.report());
        if let Ok(result) = &result {
            self.cache.put(&method, params.as_ref(), result, asked);
            #[cfg(feature = "schema")]
            if method == Method::ToolsList {
                self.schemas.learn(params.as_ref(), result);
            }
        }
        result
    }

    /// Starts any call and leaves its result raw. The handle can be awaited, watched and cancelled.
    pub fn start(&self, method: Method, params: Option<Bytes>, options: CallOptions) -> Call<Raw> {
        Call::new(self.peer.call(method, params, options))
    }

    /// Calls a tool. The handle can be awaited, watched and cancelled. `arguments` must serialise to an object.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &impl Serialize,
    ) -> Result<Call<CallToolResult>, CallError> {
        self.call_tool_with(name, arguments, CallOptions::default())
    }

    /// The same, with deadlines and progress as wanted.
    pub fn call_tool_with(
        &self,
        name: &str,
        arguments: &impl Serialize,
        options: CallOptions,
    ) -> Result<Call<CallToolResult>, CallError> {
        let raw = Raw::of(arguments).map_err(|error| CallError::Shape(error.to_string()))?;
        let object =
            RawObject::try_from(raw).map_err(|flaw| CallError::Shape(format!("arguments: {flaw}")))?;
        let params = encode(&CallToolParams::new(name, Some(object)))?;
        Ok(Call::new(self.peer.call(Method::ToolsCall, Some(params), options)))
    }

    /// Reads a resource. Its address comes from the server or from further away, so it is looked at before it
    /// is used; lenient clients pass on what servers list.
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult, CallError> {
        if self.config.strictness != Strictness::Lenient {
            uri::check(uri).map_err(CallError::Address)?;
        }
        let params = ReadResourceParams {
            uri: uri.to_owned(),
            input_responses: None,
            request_state: None,
            meta: None,
        };
        self.typed(Method::ResourcesRead, Some(encode(&params)?)).await
    }

    /// Fills in a prompt.
    pub async fn prompt(&self, params: &GetPromptParams) -> Result<GetPromptResult, CallError> {
        self.typed(Method::PromptsGet, Some(encode(params)?)).await
    }

    /// Completes an argument.
    pub async fn complete(&self, params: &CompleteParams) -> Result<CompleteResult, CallError> {
        self.typed(Method::CompletionComplete, Some(encode(params)?)).await
    }

    /// Pages of any list, read as `P`.
    #[must_use]
    pub fn pages<P: Page>(&self, list: Method) -> Pages<'_, P> {
        Pages::new(self, list)
    }

    /// Pages of tools.
    #[must_use]
    pub fn tools(&self) -> Pages<'_, ListToolsResult> {
        self.pages(Method::ToolsList)
    }

    /// All tools of all pages.
    pub async fn all_tools(&self) -> Result<Vec<Tool>, CallError> {
        self.tools().all().await
    }

    /// All resources of all pages.
    pub async fn all_resources(&self) -> Result<Vec<Resource>, CallError> {
        self.pages::<ListResourcesResult>(Method::ResourcesList).all().await
    }

    /// All templates of all pages.
    pub async fn all_templates(&self) -> Result<Vec<ResourceTemplate>, CallError> {
        self.pages::<ListResourceTemplatesResult>(Method::ResourcesTemplatesList).all().await
    }

    /// All prompts of all pages.
    pub async fn all_prompts(&self) -> Result<Vec<Prompt>, CallError> {
        self.pages::<ListPromptsResult>(Method::PromptsList).all().await
    }

    /// Does the server live? Modern servers have no ping; they are asked what they can do.
    pub async fn ping(&self) -> Result<(), CallError> {
        let method = match self.settled.revision.era() {
            Era::Legacy => Method::Ping,
            Era::Modern => Method::Discover,
        };
        let outcome = self.peer.call(method, None, CallOptions::default()).await;
        result_of(outcome, || self.peer.report()).map(drop)
    }

    /// Takes a standing interest in changes.
    pub fn listen(&self, interest: Interest) -> Listen {
        Listen::new(self.peer.listen(interest))
    }

    /// Log notes of this level and above, from now on.
    pub fn set_level(&self, level: LogLevel) {
        self.peer.set_level(level);
    }

    /// Tells a legacy server that our roots changed. Modern ones ask each time.
    pub fn roots_changed(&self) {
        self.peer.note(Method::RootsListChanged, None);
    }

    /// Ends the session politely and tells how the link ended.
    pub async fn close(mut self, reason: &'static str) -> Cause {
        self.peer.close(reason);
        self.driving.ended().await
    }

    /// Waits until the link has ended, by whomever.
    pub async fn closed(&mut self) -> Cause {
        self.driving.ended().await
    }

    #[cfg(feature = "schema")]
    pub(crate) fn schemas(&self) -> &crate::schemas::Schemas {
        &self.schemas
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// What we declare.
    pub(crate) fn declared(&self) -> serde_json::Value {
        serde_json::from_slice(&self.config.capabilities).unwrap_or_default()
    }

    /// Our answer to an ask that came in another way than by the session.
    pub(crate) async fn answer(&self, ask: Ask) -> Result<Bytes, Fault> {
        self.answerers.answer(&ask, &self.config.limits).await
    }

    pub(crate) fn max_pages(&self) -> usize {
        self.config.limits.pages
    }

    pub(crate) fn forget_list(&self, list: &Method) {
        self.cache.forget(list);
    }

    async fn typed<T: DeserializeOwned>(
        &self,
        method: Method,
        params: Option<Bytes>,
    ) -> Result<T, CallError> {
        let raw = self.raw(method, params, CallOptions::default()).await?;
        decode(&raw)
    }
}

pub(crate) fn decode<T: DeserializeOwned>(raw: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(raw).map_err(|error| CallError::Shape(error.to_string()))
}

pub(crate) fn encode(value: &impl Serialize) -> Result<Bytes, CallError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| CallError::Shape(error.to_string()))
}

/// Without addresses that nobody should follow.
fn vetted(mut implementation: Implementation) -> Implementation {
    keep_sound_icons(&mut implementation.icons);
    implementation.website_url.take_if(|url| uri::web(url).is_err());
    implementation
}

/// What a server says of itself, wherever its era puts it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerInfo {
    /// Name and version, if told.
    pub implementation: Option<Implementation>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// How to use it.
    pub instructions: Option<String>,
    /// The revisions it speaks, as far as it told.
    pub versions: Vec<String>,
}

impl ServerInfo {
    fn read(greeting: Option<&Bytes>) -> Self {
        use serde_json::Value;
        let Some(value) = greeting.and_then(|raw| serde_json::from_slice::<Value>(raw).ok()) else {
            return Self::default();
        };
        let identity =
            value.get("serverInfo").or_else(|| value.pointer("/_meta/io.modelcontextprotocol~1serverInfo"));
        let versions = value.get("supportedVersions").or_else(|| value.get("protocolVersion"));
        let versions = match versions {
            Some(Value::Array(dates)) => {
                dates.iter().filter_map(|date| date.as_str().map(str::to_owned)).collect()
            }
            Some(Value::String(date)) => vec![date.clone()],
            _ => Vec::new(),
        };
        Self {
            implementation: identity.and_then(|raw| serde_json::from_value(raw.clone()).ok()).map(vetted),
            capabilities: value
                .get("capabilities")
                .and_then(|raw| serde_json::from_value(raw.clone()).ok())
                .unwrap_or_default(),
            instructions: value.get("instructions").and_then(Value::as_str).map(str::to_owned),
            versions,
        }
    }
}
