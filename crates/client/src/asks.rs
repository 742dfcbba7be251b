//! The user's answers to what servers ask: forms, addresses, sampling, roots.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::Flaw;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult};
use cardan_proto::model::roots::{ListRootsResult, Root};
use cardan_proto::model::sampling::{CreateMessageParams, CreateMessageResult};
use cardan_proto::model::uri;
use cardan_proto::session::event::Ask;
use cardan_runtime::cx::AskCx;
use cardan_runtime::service::Handler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Answering<P, R> = Arc<dyn Fn(P) -> Handler<Result<R, Fault>> + Send + Sync>;

/// What a client can answer. What is set is what it declares.
#[derive(Default, Clone)]
pub struct Answerers {
    elicit: Option<Answering<ElicitParams, ElicitResult>>,
    urls: bool,
    sample: Option<Answering<CreateMessageParams, CreateMessageResult>>,
    roots: Option<Arc<RwLock<Vec<Root>>>>,
    relayed: Option<Relayed>,
    refused: Option<Refused>,
}

/// Who is told what was refused unread, and why.
type Refused = Arc<dyn Fn(&Method, &Fault) + Send + Sync>;

/// Someone else's capabilities, and who brings its answers.
#[derive(Clone)]
struct Relayed {
    capabilities: Value,
    answer: Arc<OnAsk>,
}

type OnAsk = dyn Fn(Option<AskCx>, Ask) -> Handler<Result<Bytes, Fault>> + Send + Sync;

impl Answerers {
    /// Passes every ask on to someone else, unread, who declared `capabilities`. Nothing of the rest counts. What a task asks has no
    /// context: it is taken back with the task.
    #[must_use]
    pub fn relayed<F>(capabilities: Value, answer: F) -> Self
    where
        F: Fn(Option<AskCx>, Ask) -> Handler<Result<Bytes, Fault>> + Send + Sync + 'static,
    {
        let relayed = Some(Relayed { capabilities, answer: Arc::new(answer) });
        Self { relayed, ..Self::default() }
    }

    /// Answers forms, and addresses too when `urls` says so.
    #[must_use]
    pub fn elicit<F, Fut>(mut self, urls: Urls, answer: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, Fault>> + Send + 'static,
    {
        self.elicit = Some(Arc::new(move |params| Box::pin(answer(params))));
        self.urls = urls == Urls::Offered;
        self
    }

    /// Answers sampling.
    #[must_use]
    pub fn sample<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, Fault>> + Send + 'static,
    {
        self.sample = Some(Arc::new(move |params| Box::pin(answer(params))));
        self
    }

    /// Tells these roots. They may change later, in place.
    #[must_use]
    pub fn roots(mut self, roots: Arc<RwLock<Vec<Root>>>) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Tells of asks that are malformed, and so refused before anyone could answer them.
    #[must_use]
    pub fn on_refused(mut self, refused: impl Fn(&Method, &Fault) + Send + Sync + 'static) -> Self {
        self.refused = Some(Arc::new(refused));
        self
    }

    /// The capabilities that follow.
    pub(crate) fn capabilities(&self) -> Value {
        if let Some(relayed) = &self.relayed {
            return relayed.capabilities.clone();
        }
        let mut capabilities = json!({});
        if self.elicit.is_some() {
            capabilities["elicitation"] =
                if self.urls { json!({ "form": {}, "url": {} }) } else { json!({ "form": {} }) };
        }
        if self.sample.is_some() {
            capabilities["sampling"] = json!({ "tools": {} });
        }
        if self.roots.is_some() {
            capabilities["roots"] = json!({ "listChanged": true });
        }
        capabilities
    }

    pub(crate) fn answer(
        &self,
        cx: Option<AskCx>,
        ask: &Ask,
        limits: &Limits,
    ) -> Handler<Result<Bytes, Fault>> {
        if let Some(relayed) = &self.relayed {
            return (relayed.answer)(cx, ask.clone());
        }
        let answered = match (&ask.method, &self.elicit, &self.sample, &self.roots) {
            (Method::ElicitationCreate, Some(elicit), ..) => {
                answer_with(ask, elicit, readable, ElicitParams::check, check_elicited)
            }
            (Method::SamplingCreateMessage, _, Some(sample), _) => {
                let admit = |params: &CreateMessageParams| {
                    params.check().into_iter().chain(params.check_turns(limits.tool_turns)).collect()
                };
                answer_with(ask, sample, std::convert::identity, admit, |_, _| None)
            }
            (Method::RootsList, .., Some(roots)) => {
                let roots = roots.read().unwrap_or_else(PoisonError::into_inner).clone();
                list(ListRootsResult { roots, ..Default::default() }).map(|raw| ready(Ok(raw)))
            }
            (other, ..) => Err(Fault::method_not_found(other.name())),
        };
        answered.unwrap_or_else(|fault| {
            if let Some(refused) = self.refused.as_ref().filter(|_| fault.code == code::INVALID_PARAMS) {
                refused(&ask.method, &fault);
            }
            ready(Err(fault))
        })
    }
}

impl fmt::Debug for Answerers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answerers").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}

/// Whether a person can be sent to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urls {
    /// Yes.
    Offered,
    /// No: forms only.
    NotOffered,
}

type Answered = Result<Handler<Result<Bytes, Fault>>, Fault>;

/// What is wrong with an address only in how it is written need not keep a person from it.
fn readable(mut params: ElicitParams) -> ElicitParams {
    if let ElicitParams::Url(ask) = &mut params {
        ask.url = uri::encoded(&ask.url).into_owned();
    }
    params
}

/// `mend` writes the ask as it is meant, `admit` finds what is wrong with it, `check` what is wrong with the answer.
fn answer_with<P, R>(
    ask: &Ask,
    answering: &Answering<P, R>,
    mend: fn(P) -> P,
    admit: impl Fn(&P) -> Vec<Flaw>,
    check: fn(&P, &R) -> Option<Fault>,
) -> Answered
where
    P: DeserializeOwned + Clone + Send + Sync + 'static,
    R: Serialize + Send + 'static,
{
    let raw = ask.params.as_deref().unwrap_or(b"{}");
    let params: P = serde_json::from_slice(raw)
        .map(mend)
        .map_err(|error| Fault::invalid_params(format!("params: {error}")))?;
    if let Some(flaw) = admit(&params).first() {
        return Err(Fault::invalid_params(format!("params{flaw}")));
    }
    let answering = answering(params.clone());
    Ok(Box::pin(async move {
        let answer = answering.await?;
        match check(&params, &answer) {
            Some(fault) => Err(fault),
            None => encode(&answer),
        }
    }))
}

/// What our side filled in must fit the form before it goes out.
fn check_elicited(params: &ElicitParams, result: &ElicitResult) -> Option<Fault> {
    let flaws = params.check_answer(result);
    flaws.first().map(|flaw| Fault::internal(format!("the answer does not fit the form: {flaw}")))
}

/// Roots are files, and nothing else leaves.
fn list(result: ListRootsResult) -> Result<Bytes, Fault> {
    match result.check().first() {
        Some(flaw) => Err(Fault::internal(format!("a root of this client is malformed: {flaw}"))),
        None => encode(&result),
    }
}

fn encode(value: &impl Serialize) -> Result<Bytes, Fault> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|_| Fault::internal("the answer cannot be written"))
}

fn ready(outcome: Result<Bytes, Fault>) -> Handler<Result<Bytes, Fault>> {
    Box::pin(std::future::ready(outcome))
}
