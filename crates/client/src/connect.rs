//! From a way to reach a server to a client that is ready: make the link, settle the era.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cardan_proto::dialect::Dialect;
use cardan_proto::era::{Era, Revisions};
use cardan_proto::finding::{Finding, Strictness};
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::model::Implementation;
use cardan_proto::secret::Redactor;
use cardan_proto::session::config::{Attribution, Config, EraChoice, Role, Shapes};
use cardan_proto::session::event::{Ask, Cause, Event, Pushes};
use cardan_proto::session::state::State;
use cardan_runtime::cx::AskCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::link::Link;
use cardan_runtime::service::{Handler, Service};
use cardan_runtime::tap::{Tap, Tapped};
use cardan_runtime::witness::Report;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::asks::Answerers;
use crate::cache::Cache;
use crate::client::Client;
use crate::driving::Driving;
use crate::eras::Eras;
use crate::error::{ConnectError, Settled};

/// A client in the making.
#[must_use = "call connect to get a client"]
#[derive(Clone)]
pub struct Connector {
    identity: Implementation,
    answerers: Answerers,
    observer: Option<Observer>,
    logs: Logs,
    tap: Option<Arc<dyn Tap>>,
    memory: Option<(Arc<Eras>, Box<str>)>,
    era: EraChoice,
    greeting: Option<Bytes>,
    revisions: Revisions,
    strictness: Strictness,
    attribution: Attribution,
    shapes: Shapes,
    dialect: Dialect,
    limits: Limits,
    secrets: Redactor,
    /// What is kept from one link to the next; nothing: each begins anew.
    cache: Option<Arc<Cache>>,
    /// Becomes true when nobody wants the connection any more that is being made.
    abandoned: Option<watch::Receiver<bool>>,
}

/// What becomes of log notes that come by a kept connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// The last ones are kept.
    Kept,
    /// Whoever observes has them where they come in, and nobody later.
    Observed,
}

/// Sees everything that happens on the link. Must not block.
pub(crate) type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

impl Connector {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self {
            identity: Implementation::new(name, version),
            answerers: Answerers::default(),
            observer: None,
            logs: Logs::Kept,
            tap: None,
            memory: None,
            era: EraChoice::Auto,
            greeting: None,
            revisions: Revisions::ALL,
            strictness: Strictness::Standard,
            attribution: Attribution::ById,
            shapes: Shapes::Trusted,
            dialect: Dialect::Standard,
            limits: Limits::DEFAULT,
            secrets: Redactor::default(),
            cache: None,
            abandoned: None,
        }
    }

    /// Says that it is someone else: whoever is relayed.
    pub fn named(mut self, identity: Implementation) -> Self {
        self.identity = identity;
        self
    }

    /// What the client answers when it is asked. Nothing is declared that is not set.
    pub fn answer(mut self, answerers: Answerers) -> Self {
        self.answerers = answerers;
        self
    }

    /// Sees everything that happens on the link, in its order: states, findings, logs, progress, changes. Must not block.
    pub fn observe(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Whether a kept connection keeps the last log notes for whoever comes late; it does, unless told otherwise.
    pub fn logs(mut self, logs: Logs) -> Self {
        self.logs = logs;
        self
    }

    /// Sees every message as it passes the link, in both directions, and may keep ours from passing.
    pub fn tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Remembers the era of the server called `server`.
    pub fn remember(mut self, eras: Arc<Eras>, server: &str) -> Self {
        self.memory = Some((eras, server.into()));
        self
    }

    /// How the era is settled; by probing, unless told otherwise.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.era = era;
        self
    }

    /// What the server answers to `server/discover`, where somebody has asked it already: a modern one is not asked again.
    pub fn greeted(mut self, greeting: Bytes) -> Self {
        self.greeting = Some(greeting);
        self
    }

    /// The revisions to offer; all, unless told otherwise.
    pub fn revisions(mut self, revisions: Revisions) -> Self {
        self.revisions = revisions;
        self
    }

    /// How much deviation of servers is accepted.
    pub fn strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// What becomes of an answer that does not say whose it is; it ends no call, unless told otherwise.
    pub fn attribution(mut self, attribution: Attribution) -> Self {
        self.attribution = attribution;
        self
    }

    /// Whether results are compared with the shape of their method; they are not, unless told otherwise.
    pub fn shapes(mut self, shapes: Shapes) -> Self {
        self.shapes = shapes;
        self
    }

    /// The foreign wire form to speak.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Every bound.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What findings about the server do not show: of a child, what
    /// `cardan_transport::spawn::Spawn::redactor` knows.
    pub fn secrets(mut self, secrets: Redactor) -> Self {
        self.secrets = secrets;
        self
    }

    /// Connects over links that `dial` makes. Some legacy servers die of the probe; those get a second
    /// link and no probe.
    pub async fn connect<L, E, D>(&self, mut dial: D) -> Result<Client, ConnectError<E>>
    where
        L: Link + Unpin,
        D: AsyncFnMut() -> Result<L, E>,
    {
        let begun = Instant::now();
        match self.first(self.dialled(dial()).await?, begun).await? {
            ControlFlow::Break(client) => Ok(client),
            ControlFlow::Continue(again) => {
                let link = self.dialled(dial()).await?;
                self.since(begun).open(link, again).await.map_err(Into::into)
            }
        }
    }

    /// The same for a `dial` whose futures borrow nothing, so that the whole can be sent between threads.
    pub(crate) async fn connect_owned<L, E, F>(self, dial: impl Fn() -> F) -> Result<Client, ConnectError<E>>
    where
        L: Link + Unpin,
        F: Future<Output = Result<L, E>>,
    {
        let begun = Instant::now();
        match self.first(self.dialled(dial()).await?, begun).await? {
            ControlFlow::Break(client) => Ok(client),
            ControlFlow::Continue(again) => {
                let link = self.dialled(dial()).await?;
                self.since(begun).open(link, again).await.map_err(Into::into)
            }
        }
    }

    /// Opens a session over the first link, or tells how to open one over a second.
    async fn first<L: Link + Unpin>(
        &self,
        link: L,
        begun: Instant,
    ) -> Result<ControlFlow<Client, EraChoice>, Failure> {
        let choice = self.remembered();
        match self.open(link, choice).await {
            Ok(client) => Ok(ControlFlow::Break(client)),
            Err(failure) => match self.second(choice, &failure) {
                Some(again) if begun.elapsed() < self.limits.open_timeout => Ok(ControlFlow::Continue(again)),
                _ => Err(failure),
            },
        }
    }

    /// With what is left of the time for opening: a second link has no more of it than the first.
    fn since(&self, begun: Instant) -> Self {
        let mut left = self.clone();
        left.limits.open_timeout = self.limits.open_timeout.saturating_sub(begun.elapsed());
        left
    }

    /// Makes a link, unless nobody wants it any more.
    async fn dialled<L, E>(&self, dial: impl Future<Output = Result<L, E>>) -> Result<L, ConnectError<E>> {
        tokio::select! {
            link = dial => link.map_err(ConnectError::Link),
            cause = self.given_up() => {
                let (findings, report) = (Vec::new(), Report::default());
                Err(ConnectError::Opening { cause, findings, report })
            }
        }
    }

    /// Waits until nobody wants the connection any more.
    async fn given_up(&self) -> Cause {
        let Some(mut abandoned) = self.abandoned.clone() else { return std::future::pending().await };
        if abandoned.wait_for(|abandoned| *abandoned).await.is_err() {
            // Whoever could tell is gone, and drops this with it.
            std::future::pending::<()>().await;
        }
        Cause::ClosedByUs("no longer wanted".into())
    }

    /// Whether a second link may fare better, and how it is opened.
    fn second(&self, choice: EraChoice, failure: &Failure) -> Option<EraChoice> {
        if self.abandoned.as_ref().is_some_and(|abandoned| *abandoned.borrow()) {
            return None;
        }
        let again = match (choice, failure.state) {
            // It died while it was probed.
            (EraChoice::Auto, State::Probing) if is_death(&failure.cause) => EraChoice::Legacy,
            // What we remembered is not true any more.
            (EraChoice::Legacy, _) if self.era == EraChoice::Auto => EraChoice::Auto,
            _ => return None,
        };
        self.forget();
        Some(again)
    }

    /// Connects over one link that is there already.
    pub async fn connect_link<L: Link + Unpin>(
        &self,
        link: L,
    ) -> Result<Client, ConnectError<std::convert::Infallible>> {
        self.open(link, self.era).await.map_err(Into::into)
    }

    async fn open<L: Link + Unpin>(&self, link: L, era: EraChoice) -> Result<Client, Failure> {
        let cache = self.cache.clone().unwrap_or_else(|| Arc::new(Cache::new(self.limits.cache_entries)));
        let (told, mut news) = watch::channel(News::default());
        let service = Arc::new(Side {
            answerers: self.answerers.clone(),
            observer: self.observer.clone(),
            cache,
            told,
            findings: Mutex::new(Vec::new()),
            limits: self.limits.clone(),
        });
        let config = Arc::new(self.config(era));
        let (driver, peer) =
            Driver::new(Tapped::new(link, self.tap.clone()), Arc::clone(&service), Arc::clone(&config));
        let mut driving = Driving::of(driver.gathering());
        let settled = loop {
            {
                let now = news.borrow_and_update();
                if let Some(settled) = now.settled.clone().filter(|_| now.state == State::Ready) {
                    break Ok(settled);
                }
                if let Some((state, cause)) = now.ended.clone() {
                    break Err((state, cause));
                }
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    break Err((State::Connecting, driving.ended().await));
                },
                cause = self.given_up() => {
                    peer.end(cause.clone());
                    break Err((State::Connecting, cause));
                }
            }
        };
        let settled = match settled {
            Ok(settled) => settled,
            Err((state, cause)) => {
                // The old link is gone before anyone dials again, and what became of it is known.
                driving.ended().await;
                return Err(Failure { state, cause, findings: service.findings(), report: peer.report() });
            }
        };
        self.note_era(settled.revision.era());
        let (cache, answerers) = (Arc::clone(&service.cache), self.answerers.clone());
        Ok(Client::new(peer, driving, cache, config, answerers, news))
    }

    /// The same, seen by one more observer, with results that outlive the link, until it is abandoned.
    pub(crate) fn kept(
        &self,
        cache: Arc<Cache>,
        observer: impl Fn(&Event) + Send + Sync + 'static,
        abandoned: watch::Receiver<bool>,
    ) -> Self {
        let first = self.observer.clone();
        let both = move |event: &Event| {
            observer(event);
            if let Some(first) = &first {
                first(event);
            }
        };
        Self {
            observer: Some(Arc::new(both)),
            cache: Some(cache),
            abandoned: Some(abandoned),
            ..self.clone()
        }
    }

    /// The same, remembering the era from one link to the next if nobody else does.
    pub(crate) fn with_memory(mut self) -> Self {
        self.memory.get_or_insert_with(|| (Arc::default(), "this one".into()));
        self
    }

    /// What does not come from a link.
    pub(crate) fn parts(&self) -> (Arc<Config>, Answerers, Option<Observer>, Logs) {
        (Arc::new(self.config(self.era)), self.answerers.clone(), self.observer.clone(), self.logs)
    }

    fn config(&self, era: EraChoice) -> Config {
        let identity = Bytes::from(json!(self.identity).to_string());
        let capabilities = Bytes::from(self.answerers.capabilities().to_string());
        Config {
            era,
            greeting: self.greeting.clone(),
            revisions: self.revisions,
            strictness: self.strictness,
            attribution: self.attribution,
            shapes: self.shapes,
            dialect: self.dialect,
            limits: self.limits.clone(),
            secrets: self.secrets.clone(),
            ..Config::new(Role::Client, identity, capabilities)
        }
    }

    fn remembered(&self) -> EraChoice {
        let known = self.memory.as_ref().and_then(|(eras, server)| eras.get(server));
        match (self.era, known) {
            (EraChoice::Auto, Some(Era::Legacy)) => EraChoice::Legacy,
            (choice, _) => choice,
        }
    }

    fn note_era(&self, era: Era) {
        if let Some((eras, server)) = &self.memory {
            eras.put(server, era);
        }
    }

    fn forget(&self) {
        if let Some((eras, server)) = &self.memory {
            eras.forget(server);
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The server is gone, rather than unwilling.
fn is_death(cause: &Cause) -> bool {
    matches!(cause, Cause::Exited { .. } | Cause::ClosedByPeer | Cause::Closed { .. } | Cause::Io(_))
}

/// Why opening failed, and how far it had come.
struct Failure {
    state: State,
    cause: Cause,
    findings: Vec<Finding>,
    report: Report,
}

impl<E> From<Failure> for ConnectError<E> {
    fn from(failure: Failure) -> Self {
        Self::Opening { cause: failure.cause, findings: failure.findings, report: failure.report }
    }
}

/// What is known about the link right now.
#[derive(Debug, Clone)]
pub(crate) struct News {
    pub(crate) state: State,
    pub(crate) settled: Option<Settled>,
    /// Whether the server can send what belongs to no call.
    pub(crate) pushes: Pushes,
    /// The state in which it ended, and why.
    pub(crate) ended: Option<(State, Cause)>,
}

impl News {
    /// What the newest session of a client settled on.
    pub(crate) fn settled(news: &watch::Receiver<Self>) -> Settled {
        news.borrow().settled.clone().expect("a client is there once its session has settled")
    }
}

impl Default for News {
    fn default() -> Self {
        Self { state: State::Disconnected, settled: None, pushes: Pushes::Carried, ended: None }
    }
}

/// Our side of the conversation.
struct Side {
    answerers: Answerers,
    observer: Option<Observer>,
    cache: Arc<Cache>,
    told: watch::Sender<News>,
    findings: Mutex<Vec<Finding>>,
    limits: Limits,
}

impl Side {
    fn findings(&self) -> Vec<Finding> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, finding: &Finding) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if findings.len() < self.limits.findings {
            findings.push(finding.clone());
        }
    }
}

impl Service for Side {
    fn ask(&self, cx: AskCx, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        self.answerers.answer(Some(cx), &ask, &self.limits)
    }

    fn note(&self, note: Note) {
        if let Some(observer) = &self.observer {
            observer(&Event::Noted(note));
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::Opened { revision, greeting } => self.told.send_modify(|news| {
                news.settled = Some(Settled { revision: *revision, greeting: greeting.clone() });
            }),
            Event::State(change) => self.told.send_modify(|news| {
                // A session that is being replaced has a cause too, and lives on.
                let ends = change.to != State::Initializing;
                if let (Some(cause), None, true) = (&change.cause, &news.ended, ends) {
                    news.ended = Some((change.from, cause.clone()));
                }
                news.state = change.to;
            }),
            Event::Changed { change, .. } => self.cache.changed(change),
            Event::Pushes(pushes) => self.told.send_modify(|news| news.pushes = *pushes),
            Event::Found(finding) => self.keep(finding),
            _ => {}
        }
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}
