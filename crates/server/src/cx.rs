//! What a handler of ours holds: progress, log notes, and answers to its asks.

use std::sync::Arc;
use std::task::Poll;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::era::{Era, Revision};
use cardan_proto::jsonrpc::envelope::{Call, MetaKey, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult, UrlAsk};
use cardan_proto::model::roots::{ListRootsResult, Root};
use cardan_proto::model::sampling::{CreateMessageParams, CreateMessageResult};
use cardan_proto::model::{CallToolResult, Flaw, Form, Meta};
use cardan_proto::session::event::{Answer, Answers, Ask, Asks, Called, Change, LogLevel, Progress};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::seal::Held;
use crate::server::Server;
use crate::stop::Stop;
use crate::tasks::{Seat, related};

/// The context of one running call. Cheap to clone.
///
/// Asks work the same in both eras: a handler that needs input says so and stops with `?`; when the
/// answer is there it runs again from the start, finds the answer and goes on. So do nothing that
/// must not be done twice before the last ask.
#[derive(Debug, Clone)]
pub struct Cx {
    run: CallCx,
    server: Server,
    call: Call,
    principal: Option<Arc<str>>,
    /// What the client declared, unread.
    capabilities: Bytes,
    /// Answers of all rounds so far, and how many rounds there were.
    answers: Option<Arc<Answers>>,
    rounds: usize,
    /// There when the call is, or may become, a task.
    seat: Option<Arc<Seat>>,
}

/// How work that failed is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// As a result that the model reads: tools.
    IsResult,
    /// As a fault: everything else.
    IsFault,
}

impl Cx {
    pub(crate) fn new(
        run: CallCx,
        server: Server,
        called: Called,
        principal: Option<Arc<str>>,
    ) -> Result<Self, Fault> {
        let Called { call, answers, capabilities, .. } = called;
        let (answers_so_far, rounds, seat) = (None, 0, None);
        let mut cx =
            Self { run, server, call, principal, capabilities, answers: answers_so_far, rounds, seat };
        if let Some(answers) = answers {
            cx.take_answers(answers)?;
        }
        Ok(cx)
    }

    /// Answers of this round, and of those before it that come back sealed.
    fn take_answers(&mut self, mut answers: Answers) -> Result<(), Fault> {
        if let Some(state) = self.call.params.text(Param::RequestState) {
            let held = self.server.sealer().open(&state, &self.call, self.principal())?;
            // Extra answers are ignored, missing ones are asked for again.
            answers.retain(|(name, _)| held.asked.iter().any(|asked| **asked == **name));
            let earlier =
                held.answers.into_iter().filter(|(name, _)| !answers.iter().any(|(new, _)| **new == **name));
            let earlier: Answers =
                earlier.map(|(name, value)| (name.into(), Ok(Bytes::from(value.to_string())))).collect();
            answers.extend(earlier);
            self.rounds = held.rounds;
        }
        self.answers = Some(Arc::new(answers));
        Ok(())
    }

    /// What goes back to the session.
    pub(crate) fn answer(&self, result: Result<Bytes, Stop>, failure: Failure) -> Answer {
        match (result, failure) {
            (Ok(result), _) => Answer::Done(result),
            (Err(Stop::Fault(fault)), _) => Answer::Fault(fault),
            (Err(Stop::Failed(why)), Failure::IsFault) => Answer::Fault(Fault::internal(why)),
            (Err(Stop::Failed(why)), Failure::IsResult) => {
                match serde_json::to_vec(&CallToolResult::error(why)) {
                    Ok(result) => Answer::Done(Bytes::from(result)),
                    Err(_) => Answer::Fault(Fault::internal("the failure cannot be written")),
                }
            }
            (Err(Stop::Ask(asks)), _) => match self.seal(asks) {
                Ok(asks) => Answer::Ask(asks),
                Err(fault) => Answer::Fault(fault),
            },
        }
    }

    /// The modern era keeps nothing here between two rounds: what is known so far goes along, sealed.
    fn seal(&self, mut asks: Asks) -> Result<Asks, Fault> {
        // A task is asked where it stands: nothing has to be carried.
        if self.revision().era() == Era::Legacy || self.is_task() {
            return Ok(asks);
        }
        if self.rounds >= self.server.limits().ask_rounds {
            return Err(Fault::internal("the call asked for input too often"));
        }
        let known = self.answers.iter().flat_map(|answers| answers.iter());
        let answers = known
            .filter_map(|(name, answer)| {
                Some((name.to_string(), serde_json::from_slice(answer.as_ref().ok()?).ok()?))
            })
            .collect();
        let asked = asks.entries.iter().map(|(name, _)| name.to_string()).collect();
        let held = Held { answers, asked, rounds: self.rounds + 1 };
        asks.state = Some(self.server.sealer().seal(held, &self.call, self.principal())?);
        Ok(asks)
    }

    /// For a call that may become a task.
    pub(crate) fn seated(mut self) -> Self {
        self.seat = Some(Arc::default());
        self
    }

    pub(crate) fn become_task(&self, id: &str) {
        if let Some(seat) = &self.seat {
            seat.take(id);
        }
    }

    /// The same with more answers, after one more round.
    pub(crate) fn answered(&self, answers: Answers) -> Self {
        let mut all = self.answers.as_deref().cloned().unwrap_or_default();
        all.extend(answers);
        Self { answers: Some(Arc::new(all)), rounds: self.rounds + 1, ..self.clone() }
    }

    /// May the client of this call be asked this, once more?
    pub(crate) fn may_ask(&self, asks: &Asks) -> Result<(), Fault> {
        let limits = self.server.limits();
        if self.rounds >= limits.ask_rounds || asks.entries.len() > limits.asks_per_round {
            return Err(Fault::internal("the task asked for input too often"));
        }
        let client = self.client();
        let lacking = asks.entries.iter().find_map(|(_, ask)| client.lacks_to_send(ask, self.revision()));
        lacking.map_or(Ok(()), |required| Err(Fault::missing_capability(&required)))
    }

    pub(crate) fn peer(&self) -> Peer {
        self.run.peer()
    }

    pub(crate) fn principal_owned(&self) -> Option<Arc<str>> {
        self.principal.clone()
    }

    fn task(&self) -> Option<&str> {
        self.seat.as_ref()?.task()
    }

    /// Does the work run as a task, with its caller answered already?
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.task().is_some()
    }

    /// From here on the work runs as a task, if the tool supports tasks and the caller can have one. What is
    /// asked before is asked before the task begins; what is asked after is asked by the task. Without
    /// this, a call becomes a task where it first has to wait.
    pub async fn begin_task(&self) {
        // Whoever polls a call that may become a task makes it one when it waits, and polls again.
        std::future::poll_fn(|_| match &self.seat {
            Some(seat) if seat.task().is_none() => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }

    /// Who embeds resources declares them: a client may not know what to do with one otherwise.
    pub(crate) fn may_embed(&self, embeds: bool) -> Result<(), Stop> {
        if !embeds || self.server.has_resources() {
            return Ok(());
        }
        Err(Stop::Fault(Fault::internal(
            "the result embeds a resource, but the server declares none; declare them when it is built",
        )))
    }

    fn principal(&self) -> &str {
        self.principal.as_deref().unwrap_or_default()
    }

    /// The revision of this call.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.run.revision()
    }

    /// The server that runs the call.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What the client of this call can be asked. Asking for more fails the call, so look here first
    /// when the work can be done without.
    #[must_use]
    pub fn client(&self) -> ClientCaps {
        ClientCaps::read(&self.capabilities)
    }

    /// The call's metadata, trace context included.
    #[must_use]
    pub fn meta(&self) -> Meta {
        let raw = self.call.params.get(Param::Meta);
        raw.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or_default()
    }

    /// Tells the caller how far the work is. Must increase. A task says the message when it is looked at.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        match self.task() {
            None => self.run.progress(progress, total, message),
            Some(task) => self.progress_of_task(task, Progress { progress, total, message: None }, message),
        }
    }

    fn progress_of_task(&self, task: &str, progress: Progress, message: Option<&str>) {
        if let Some(message) = message {
            self.server.desk().with(|store, now| {
                if let Some(held) = store.own(task) {
                    held.life.say(message, now);
                }
            });
        }
        // TSKE-16: a modern task is looked at, and tells nothing by itself. A legacy one keeps its token.
        let token = self.call.params.meta(MetaKey::ProgressToken);
        let token = token.and_then(|raw| serde_json::from_slice::<serde_json::Value>(&raw).ok());
        if let (Era::Legacy, Some(token)) = (self.revision().era(), token) {
            let mut params = json!({ "progressToken": token, "progress": progress.progress });
            if let Some(total) = progress.total {
                params["total"] = json!(total);
            }
            if let Some(message) = message {
                params["message"] = json!(message);
            }
            self.run.peer().note(Method::Progress, Some(tied(params, task)));
        }
    }

    /// Lets the caller go: it comes back for the answer after `retry`, and nothing is lost meanwhile. For long
    /// work over HTTP in 2025-11-25, whose connections need not be held open; elsewhere the caller stays.
    pub fn release(&self, retry: std::time::Duration) {
        self.run.release(retry);
    }

    /// Sends a log note with this call, if the caller wants one of this level.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: &impl Serialize) {
        let mut params = json!({ "level": level.name(), "data": shown(data) });
        if let Some(logger) = logger {
            params["logger"] = json!(logger);
        }
        match (self.task(), self.revision().era()) {
            (None, _) => self.run.log(level, Bytes::from(params.to_string())),
            (Some(task), Era::Legacy) => self.run.peer().log(level, tied(params, task)),
            (Some(_), Era::Modern) => {}
        }
    }

    /// Tells those who listen that something changed.
    pub fn changed(&self, change: &Change) {
        self.server.changed(change);
    }

    /// Asks a person to fill in a form.
    pub fn elicit(&self, name: &str, form: &Form) -> Result<ElicitResult, Stop> {
        let params = sound(ElicitParams::from(form.clone()), ElicitParams::check)?;
        let result: ElicitResult = self.need(name, Method::ElicitationCreate, Some(&params))?;
        let flaws = params.check_answer(&result);
        if let Some(flaw) = flaws.first() {
            return Err(Stop::Fault(Fault::invalid_params(format!("inputResponses/{name}{flaw}"))));
        }
        Ok(result)
    }

    /// Asks a person to visit an address.
    pub fn visit(&self, name: &str, url: &UrlAsk) -> Result<ElicitResult, Stop> {
        let mut url = url.clone();
        if self.revision().era() == Era::Legacy && url.elicitation_id.is_none() {
            url.elicitation_id = Some(unguessable()?);
        }
        let params = sound(ElicitParams::from(url), ElicitParams::check)?;
        self.need(name, Method::ElicitationCreate, Some(&params))
    }

    /// Tells the client of this call, and no other, that the visit with this id has ended. Good after
    /// the call too. Only one revision has this note; clients of others are told nothing.
    pub fn elicitation_complete(&self, id: &str) {
        let params = Bytes::from(json!({ "elicitationId": id }).to_string());
        self.run.peer().note(Method::ElicitationComplete, Some(params));
    }

    /// Asks the client's model.
    pub fn sample(&self, name: &str, params: &CreateMessageParams) -> Result<CreateMessageResult, Stop> {
        let turns = params.check_turns(self.server.limits().tool_turns);
        let params = sound(params, |params| params.check().into_iter().chain(turns).collect())?;
        self.need(name, Method::SamplingCreateMessage, Some(params))
    }

    /// Asks for the client's roots.
    pub fn roots(&self, name: &str) -> Result<Vec<Root>, Stop> {
        self.need::<(), ListRootsResult>(name, Method::RootsList, None).map(|result| result.roots)
    }

    /// Asks several things at once: stops unless all are answered.
    pub fn need_all(&self, asks: Vec<(&str, Ask)>) -> Result<(), Stop> {
        let missing = asks.into_iter().filter(|(name, _)| self.given(name).is_none());
        let entries: Vec<_> = missing.map(|(name, ask)| (Box::from(name), ask)).collect();
        if entries.is_empty() { Ok(()) } else { Err(Stop::Ask(Asks { entries, state: None })) }
    }

    fn need<P: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        method: Method,
        params: Option<&P>,
    ) -> Result<T, Stop> {
        match self.given(name) {
            Some(Ok(raw)) => serde_json::from_slice(raw).map_err(|error| {
                Stop::Fault(Fault::invalid_params(format!("inputResponses/{name}: {error}")))
            }),
            Some(Err(fault)) => Err(Stop::failed(format_args!("the client did not answer {name}: {fault}"))),
            None => {
                let params = params.map(serde_json::to_vec).transpose()?.map(Bytes::from);
                let entries = vec![(Box::from(name), Ask { method, params })];
                Err(Stop::Ask(Asks { entries, state: None }))
            }
        }
    }

    fn given(&self, name: &str) -> Option<Result<&Bytes, &Fault>> {
        self.answers.as_ref()?.iter().find(|(given, _)| **given == *name).map(|(_, answer)| answer.as_ref())
    }
}

/// What is asked must be sound before it goes out: the client could only refuse it.
fn sound<P>(params: P, check: impl FnOnce(&P) -> Vec<Flaw>) -> Result<P, Stop> {
    match check(&params).first() {
        Some(flaw) => Err(Stop::Fault(Fault::internal(format!("the ask is malformed: {flaw}")))),
        None => Ok(params),
    }
}

/// A name that nobody can guess: 128 random bits.
pub(crate) fn unguessable() -> Result<String, orion::errors::UnknownCryptoError> {
    let mut id = [0; 16];
    orion::util::secure_rand_bytes(&mut id)?;
    Ok(URL_SAFE_NO_PAD.encode(id))
}

/// Params of a note that belongs to a task.
fn tied(mut params: serde_json::Value, task: &str) -> Bytes {
    let (key, value) = related(task);
    params["_meta"] = json!({ key: value });
    Bytes::from(params.to_string())
}

/// Data for a log note. What cannot be written is said to be so, instead of ending its call.
pub(crate) fn shown(data: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(data).unwrap_or_else(|error| json!(format!("data that cannot be written: {error}")))
}
