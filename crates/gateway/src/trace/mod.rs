//! Calls as parts of traces, for those who follow one call through many programs: OpenTelemetry, by its conventions for MCP.
//!
//! ```text
//!   client's span ──_meta──▶ server span: the call, as it came to us
//!                             └─ client span: the same call, at one upstream ──_meta──▶ the upstream's span
//! ```
//!
//! * Whoever records a call puts itself into the context that goes on; whoever does not passes it on untouched.
//! * Ended spans wait in a bounded queue (`export`). A call never waits for them: what finds no room is counted.
//! * Arguments, results, error messages, tokens and session ids are in no span.

mod context;
mod export;
mod otlp;
mod sampler;
mod settings;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cardan_dial::HttpError;
use cardan_proto::era::{Era, Revision};
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::service::Handler;

use self::context::{Onward, Remote, State};
use self::export::Exporter;
pub use self::export::Tally;
use self::sampler::Verdict;
pub use self::settings::{Settings, WrongSettings};
pub(crate) use self::span::Recording;
use self::span::{Kind, Span};
use crate::fleet::Ending;

/// Makes spans of calls, and exports them.
#[derive(Debug)]
pub struct Tracer {
    sampler: sampler::Sampler,
    ids: Ids,
    exporter: Exporter,
}

impl Tracer {
    /// Begins to export. `tell` gets what is wrong with it, each trouble once. Needs a tokio runtime.
    pub fn start(settings: Settings, tell: impl Fn(&str) + Send + 'static) -> Result<Arc<Self>, HttpError> {
        let sampler = settings.sampler;
        let exporter = Exporter::start(settings, tell)?;
        Ok(Arc::new(Self { sampler, ids: Ids::new(), exporter }))
    }

    /// What became of spans so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.exporter.tally()
    }

    /// Exports what there is, for a moment. What comes later is not exported.
    pub async fn close(&self) {
        self.exporter.close().await;
    }

    /// A call comes in.
    pub(crate) fn incoming(self: &Arc<Self>, called: &Called, session: &SessionName) -> Incoming {
        let remote = Remote::of(&called.call.params);
        let trace = remote.as_ref().map_or_else(|| self.ids.trace(), |remote| remote.at.trace);
        let verdict = self.sampler.judge(&trace, remote.as_ref().map(|remote| remote.at));
        let at = self.ids.within(trace, verdict);
        match (verdict, remote) {
            (Verdict::Pass, Some(_)) => Incoming { onward: Onward::AsItCame, recording: None },
            (Verdict::Pass, None) => Incoming { onward: Onward::Unrecorded(at), recording: None },
            (Verdict::Record, remote) => {
                let parent = remote.as_ref().map(|remote| remote.at.span);
                let state = State::of(remote.as_ref());
                let mut span = Span::begin(Kind::Server, at, parent, state.told(), &called.call.method);
                span.set("jsonrpc.request.id", called.call.id.to_string().trim_matches('"'));
                span.set("mcp.protocol.version", called.revision.date());
                if called.revision.era() == Era::Legacy {
                    span.set("mcp.session.id", &session.name(&self.ids));
                }
                let recording = Recording::new(Arc::clone(self), span);
                Incoming { onward: Onward::Recorded(at, state), recording: Some(recording) }
            }
        }
    }

    /// A call goes to an upstream, as part of what the task at hand is answering.
    pub(crate) fn outgoing(
        self: &Arc<Self>,
        called: Called,
        to: &To<'_>,
        limits: &Limits,
    ) -> (Called, Option<Recording>) {
        let onward = CURRENT.try_with(Clone::clone).unwrap_or(Onward::AsItCame);
        self.outgoing_from(&onward, called, to, limits)
    }

    fn outgoing_from(
        self: &Arc<Self>,
        onward: &Onward,
        mut called: Called,
        to: &To<'_>,
        limits: &Limits,
    ) -> (Called, Option<Recording>) {
        let (at, recording) = match onward {
            Onward::AsItCame => return (called, None),
            Onward::Unrecorded(at) => (*at, None),
            Onward::Recorded(by, state) => {
                let at = self.ids.within(by.trace, Verdict::Record);
                let mut span =
                    Span::begin(Kind::Client, at, Some(by.span), state.told(), &called.call.method);
                to.describe(&mut span);
                if let (Some(kind), Some(name)) = (named(&called.call.method), to.target) {
                    span.target(kind, name);
                }
                (at, Some(Recording::new(Arc::clone(self), span)))
            }
        };
        called.call.params = context::put(&called.call.params, at, onward.state(), limits);
        (called, recording)
    }

    fn ended(&self, span: Span) {
        self.exporter.put(span);
    }
}

/// A call that came in, while it is answered.
pub(crate) struct Incoming {
    onward: Onward,
    recording: Option<Recording>,
}

impl Incoming {
    /// What it is about is known by this name.
    pub(crate) fn is_about(&mut self, method: &Method, name: &str) {
        if let (Some(recording), Some(kind)) = (&mut self.recording, named(method)) {
            recording.span_mut().target(kind, name);
        }
    }

    /// Answers it, so that calls to upstreams are parts of it.
    pub(crate) async fn answer(&self, answering: Handler<Answer>) -> Answer {
        CURRENT.scope(self.onward.clone(), answering).await
    }

    /// It has ended so.
    pub(crate) fn end(self, answer: &Answer) {
        if let Some(recording) = self.recording {
            recording.end(answer);
        }
    }
}

/// Where a call goes.
#[derive(Debug, Default)]
pub(crate) struct To<'a> {
    /// The upstream, as it is configured; none: the only one.
    pub(crate) upstream: Option<&'a str>,
    /// What is spoken there.
    pub(crate) revision: Option<Revision>,
    /// By which kind of way.
    pub(crate) kind: Option<&'static str>,
    /// What is called there, if it is no invention of the client's.
    pub(crate) target: Option<&'a str>,
}

impl To<'_> {
    fn describe(&self, span: &mut Span) {
        if let Some(upstream) = self.upstream {
            span.set("cardan.upstream", upstream);
        }
        if let Some(revision) = self.revision {
            span.set("mcp.protocol.version", revision.date());
        }
        match self.kind {
            Some("stdio") => span.set("network.transport", "pipe"),
            Some("unix") => span.set("network.transport", "unix"),
            Some(_) => span.set("network.transport", "tcp"),
            None => {}
        }
    }
}

/// Passes a call on to the only upstream there is, as two spans: as it came, and as it goes on.
pub(crate) fn relayed(
    tracer: &Arc<Tracer>,
    session: &SessionName,
    limits: &Limits,
    called: Called,
    pass: impl FnOnce(Called) -> Handler<Answer>,
) -> Handler<Answer> {
    if !is_recorded(&called.call.method) {
        return pass(called);
    }
    let mut incoming = tracer.incoming(&called, session);
    let name = match called.call.method {
        Method::ToolsCall | Method::PromptsGet => called.call.params.text(Param::Name),
        // Nobody knows here which resources there are, and an address that a client makes up may say anything.
        _ => None,
    };
    let name = name.map(|name| Box::<str>::from(&*name));
    if let Some(name) = &name {
        incoming.is_about(&called.call.method, name);
    }
    let to = To { target: name.as_deref(), ..To::default() };
    let (called, recording) = tracer.outgoing_from(&incoming.onward, called, &to, limits);
    let passing = pass(called);
    Box::pin(async move {
        let answer = passing.await;
        if let Some(recording) = recording {
            recording.end(&answer);
        }
        incoming.end(&answer);
        answer
    })
}

/// Is such a call one that comes to an end by itself? A listen may last for days.
pub(crate) fn is_recorded(method: &Method) -> bool {
    *method != Method::SubscriptionsListen
}

/// How an attribute is called that names what a call is about.
fn named(method: &Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall => Some(span::TOOL),
        Method::PromptsGet => Some(span::PROMPT),
        Method::ResourcesRead => Some(span::RESOURCE),
        _ => None,
    }
}

impl Recording {
    /// A call at an upstream has ended so.
    pub(crate) fn end_at(self, answered: &Result<Answer, Fault>) {
        match (Ending::of(answered), answered) {
            // No error came: there was no answer.
            (ending @ (Ending::Lost | Ending::Unreachable), _) => self.fail(ending.word()),
            (Ending::TimedOut, _) => self.fail("timeout"),
            (_, Ok(answer)) => self.end(answer),
            (_, Err(fault)) => self.fail(&fault.code.to_string()),
        }
    }
}

tokio::task_local! {
    /// What the call that the task at hand answers is part of.
    static CURRENT: Onward;
}

/// Our own name of a client's session. Its real one is as good as a key there, and so in no span.
#[derive(Debug, Default)]
pub(crate) struct SessionName(std::sync::OnceLock<u64>);

impl SessionName {
    fn name(&self, ids: &Ids) -> String {
        format!("{:016x}", self.0.get_or_init(|| ids.next()))
    }
}

/// Names of traces and spans: different from all others in the world, though not secret.
#[derive(Debug)]
struct Ids {
    seed: u64,
    minted: AtomicU64,
}

impl Ids {
    fn new() -> Self {
        let mut seed = [0; 8];
        // Without a random source, names are those of other programs without one; nothing else depends on it.
        let _ = getrandom::fill(&mut seed);
        Self { seed: u64::from_le_bytes(seed), minted: AtomicU64::new(0) }
    }

    /// A number that looks like none before it (splitmix64), and is not zero.
    fn next(&self) -> u64 {
        let minted = self.minted.fetch_add(1, Relaxed);
        let mut z = self.seed.wrapping_add(minted.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).max(1)
    }

    fn trace(&self) -> [u8; 16] {
        ((u128::from(self.next()) << 64) | u128::from(self.next())).to_be_bytes()
    }

    /// A new place in a trace.
    fn within(&self, trace: [u8; 16], verdict: Verdict) -> context::TraceParent {
        let flags = match verdict {
            Verdict::Record => context::TraceParent::SAMPLED,
            Verdict::Pass => 0,
        };
        context::TraceParent { trace, span: self.next().to_be_bytes(), flags }
    }
}
