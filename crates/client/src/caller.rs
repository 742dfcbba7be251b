//! Typed methods, the same in both eras, over one link or over one link after another.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::complete::{CompleteParams, CompleteResult};
use cardan_proto::model::prompt::{GetPromptParams, GetPromptResult};
use cardan_proto::model::raw::{Raw, RawObject};
use cardan_proto::model::resource::{ReadResourceParams, ReadResourceResult};
use cardan_proto::model::tool::{CallToolParams, CallToolResult};
use cardan_proto::model::uri;
use cardan_proto::model::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt, Resource,
    ResourceTemplate, Tool,
};
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Ask, CallOptions, Interest, LogLevel};
use cardan_runtime::peer::{Beside, Peer};
use cardan_runtime::witness::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::asks::Answerers;
use crate::cache::Cache;
use crate::call::{Call, Flight, Listen};
use crate::connect::News;
use crate::error::{CallError, Settled, result_of};
use crate::managed::kept::Kept;
use crate::pages::{Page, Pages};

/// Who calls a server: the methods of a [`Client`](crate::Client), which has one link, and of a
/// [`Managed`](crate::Managed) connection, which has one after another.
#[derive(Debug)]
pub struct Caller {
    reach: Reach,
    cache: Arc<Cache>,
    config: Arc<Config>,
    answerers: Answerers,
    #[cfg(feature = "schema")]
    schemas: crate::schemas::Schemas,
}

/// How the server is reached.
#[derive(Debug)]
pub(crate) enum Reach {
    /// By this link, while it lasts.
    Link(Peer, watch::Receiver<News>),
    /// By whatever link there is.
    Kept(Arc<Kept>),
}

impl Caller {
    pub(crate) fn new(reach: Reach, cache: Arc<Cache>, config: Arc<Config>, answerers: Answerers) -> Self {
        Self {
            reach,
            cache,
            #[cfg(feature = "schema")]
            schemas: crate::schemas::Schemas::new(config.limits.tools_remembered),
            config,
            answerers,
        }
    }

    /// What is known of the server's process, if it is a child of ours: its last words, and how it ended. A call
    /// that timed out is often explained by them.
    #[must_use]
    pub fn report(&self) -> Report {
        match &self.reach {
            Reach::Link(peer, _) => peer.report(),
            Reach::Kept(kept) => kept.report(),
        }
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
        let outcome = self.flight(method.clone(), params.clone(), options).await;
        let result = result_of(outcome, || self.report());
        if let Ok(result) = &result {
            self.cache.put(&method, params.as_ref(), result, asked);
            self.learn(&method, params.as_ref(), result);
        }
        result
    }

    /// Starts any call and leaves its result raw. The handle can be awaited, watched and cancelled.
    pub fn start(&self, method: Method, params: Option<Bytes>, options: CallOptions) -> Call<Raw> {
        Call::new(self.flight(method, params, options))
    }

    /// The same for a call that is passed on: what came beside it over HTTP goes beside it over HTTP, in the modern era,
    /// and its steps go on to the call that it is made for.
    pub fn start_beside(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
        beside: Beside,
    ) -> Call<Raw> {
        Call::new(self.flight_beside(method, params, options, beside))
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
        Ok(Call::new(self.flight(Method::ToolsCall, Some(params), options)))
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
        let method = ping(self.session().await?.revision.era());
        let outcome = self.flight(method, None, CallOptions::default()).await;
        result_of(outcome, || self.report()).map(drop)
    }

    /// Takes a standing interest in changes.
    pub fn listen(&self, interest: Interest) -> Listen {
        match &self.reach {
            Reach::Link(peer, _) => Listen::once(peer.listen(interest)),
            Reach::Kept(kept) => Listen::kept(kept.listen(interest)),
        }
    }

    /// Log notes of this level and above, from now on.
    pub fn set_level(&self, level: LogLevel) {
        match &self.reach {
            Reach::Link(peer, _) => peer.set_level(level),
            Reach::Kept(kept) => kept.set_level(level),
        }
    }

    /// Tells a legacy server that our roots changed. Modern ones ask each time.
    pub fn roots_changed(&self) {
        self.note(Method::RootsListChanged, None);
    }

    /// Tells the server something, if it is there. What its revision does not have is not sent.
    pub fn note(&self, method: Method, params: Option<Bytes>) {
        let peer = match &self.reach {
            Reach::Link(peer, _) => Some(peer.clone()),
            // A server that is not there will ask when it is.
            Reach::Kept(kept) => kept.current().map(|(peer, _)| peer),
        };
        if let Some(peer) = peer {
            peer.note(method, params);
        }
    }

    /// What the session settled on; waits for one where connections are kept.
    pub(crate) async fn session(&self) -> Result<Settled, CallError> {
        match &self.reach {
            Reach::Link(_, news) => Ok(News::settled(news)),
            Reach::Kept(kept) => kept.session().await,
        }
    }

    fn flight(&self, method: Method, params: Option<Bytes>, options: CallOptions) -> Flight {
        self.flight_beside(method, params, options, Beside::default())
    }

    fn flight_beside(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
        beside: Beside,
    ) -> Flight {
        match &self.reach {
            Reach::Link(peer, _) => Flight::Once(peer.call_beside(method, params, options, beside)),
            Reach::Kept(kept) => Flight::Kept(Kept::call(kept, method, params, options, beside)),
        }
    }

    /// Lists tell more than whoever asked wants to know.
    fn learn(&self, method: &Method, params: Option<&Bytes>, result: &[u8]) {
        #[cfg(feature = "schema")]
        if *method == Method::ToolsList {
            self.schemas.learn(params, result);
        }
        if let Reach::Kept(kept) = &self.reach {
            kept.learn(method, params, result);
        }
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
        self.answerers.answer(None, &ask, &self.config.limits).await
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

/// What every server answers that lives.
pub(crate) fn ping(era: Era) -> Method {
    match era {
        Era::Legacy => Method::Ping,
        Era::Modern => Method::Discover,
    }
}

pub(crate) fn decode<T: DeserializeOwned>(raw: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(raw).map_err(|error| CallError::Shape(error.to_string()))
}

pub(crate) fn encode(value: &impl Serialize) -> Result<Bytes, CallError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| CallError::Shape(error.to_string()))
}
