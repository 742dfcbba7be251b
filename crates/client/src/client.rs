//! The client with one link: typed methods over it, while it lasts.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::model::content::keep_sound_icons;
use cardan_proto::model::uri;
use cardan_proto::model::{Implementation, ServerCapabilities};
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Cause, Pushes};
use cardan_proto::session::state::State;
use cardan_runtime::peer::Peer;
use tokio::sync::watch;

use crate::asks::Answerers;
use crate::cache::Cache;
use crate::caller::{Caller, Reach};
use crate::connect::{Connector, News};
use crate::driving::Driving;
use crate::error::Settled;

/// A client with one live session. Dropping it ends the link at once; [`Client::close`] does so politely.
///
/// What it can call is said by [`Caller`].
#[derive(Debug)]
pub struct Client {
    caller: Caller,
    peer: Peer,
    driving: Driving,
    news: watch::Receiver<News>,
}

impl Client {
    /// Starts to describe a client.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Connector {
        Connector::new(name.into(), version.into())
    }

    pub(crate) fn new(
        peer: Peer,
        driving: Driving,
        cache: Arc<Cache>,
        config: Arc<Config>,
        answerers: Answerers,
        news: watch::Receiver<News>,
    ) -> Self {
        let caller = Caller::new(Reach::Link(peer.clone(), news.clone()), cache, config, answerers);
        Self { caller, peer, driving, news }
    }

    /// What the session settled on: the newest, where a server forgot one and was greeted anew.
    #[must_use]
    pub fn settled(&self) -> Settled {
        News::settled(&self.news)
    }

    /// What the server says of itself, and said last.
    #[must_use]
    pub fn server(&self) -> ServerInfo {
        ServerInfo::of(&self.settled())
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

    /// Waits until the session has ended, and tells why. The link may still be on its way out.
    pub async fn until_ended(&self) -> Cause {
        let mut news = self.news.clone();
        let ended = news.wait_for(|news| news.ended.is_some()).await;
        // Whoever tells the news tells the end, unless it panics.
        ended.ok().and_then(|news| news.ended.clone()).map_or(Cause::Panicked, |(_, cause)| cause)
    }

    /// The handle below, for methods that have no name here.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
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
}

impl Deref for Client {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
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
    /// As told when the session was opened.
    #[must_use]
    pub fn of(settled: &Settled) -> Self {
        Self::read(settled.greeting.as_ref())
    }

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
