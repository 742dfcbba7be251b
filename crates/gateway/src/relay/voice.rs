//! A call that holds a line alone: the asks and log notes that come by it are its own.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_client::Managed;
use cardan_proto::jsonrpc::envelope::{Note, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::limits::fleet::{GATHER, UNHEARD, UNHEARD_BYTES};
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answers, Ask, Change, LogLevel, Outcome, Refusal};
use cardan_runtime::cx::{AskCx, CallCx};
use cardan_runtime::service::Handler;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::line::{Hears, nobody};
use super::names::Names;
use super::shelf::{OnTurn, Shelf, Turned};
use super::tasks::Tended;
use super::who::Who;
use crate::fleet::lock;

/// Who on a shared line is told what comes by it: the call that holds it alone, or nobody.
#[derive(Default)]
pub(super) struct Voice {
    holder: Mutex<Option<Holder>>,
    /// The tasks of modern clients that its server may ask for.
    pub(super) tended: Tended,
    /// The connection that is looked after when the line is lost.
    first: Option<Managed>,
    /// Who wants to know what is offered by the line, and where it stands.
    told: Option<(OnTurn, Shelf)>,
}

/// The call that holds a line alone.
#[derive(Clone)]
pub(super) enum Holder {
    /// A modern one, which is asked by its result.
    Parks(Arc<Asking>),
    /// A legacy one, which is asked while it waits.
    Waits(CallCx, Names),
}

impl Voice {
    /// Of a line that leads where `first` does, and of which someone wants to know what is offered there.
    pub(super) fn beside(first: Option<Managed>, told: Option<(OnTurn, Shelf)>) -> Self {
        Self { first, told, ..Self::default() }
    }

    /// What is offered by the line is not what it was.
    pub(super) fn turn(&self, turned: Turned) {
        if let Some((on_turn, shelf)) = &self.told {
            on_turn(shelf, turned);
        }
    }

    pub(super) fn give(&self, holder: Option<Holder>) {
        *lock(&self.holder) = holder;
    }

    fn holder(&self) -> Option<Holder> {
        lock(&self.holder).clone()
    }
}

impl Hears for Voice {
    fn ask(&self, ours: Option<AskCx>, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        let holder = self.holder();
        if let Some(asking) = self.tended.ask(&ask, holder.is_some()) {
            return asking;
        }
        match holder {
            Some(Holder::Parks(asking)) => asking.ask(ask),
            Some(Holder::Waits(cx, names)) => asked(ask, &names, |ask| cx.ask(ask).passing(ours)),
            None => nobody(),
        }
    }

    fn log(&self, level: LogLevel, params: Bytes) {
        match self.holder() {
            Some(Holder::Parks(asking)) => asking.log(level, &params),
            Some(Holder::Waits(cx, _)) => cx.log(level, params),
            None => {}
        }
    }

    /// Who shares lines hears nothing that belongs to no call and no task.
    fn note(&self, note: &Note) {
        if let (Method::TasksStatus, Some(id)) = (&note.method, note.params.text(Param::TaskId)) {
            self.tended.noted(&id);
        }
    }

    fn changed(&self, change: &Change) {
        self.turn(Turned::Changed(change.clone()));
    }

    fn lost(&self) {
        if let Some(first) = &self.first {
            first.doubt();
        }
        self.turn(Turned::Gone);
    }
}

/// Asks a legacy client what the upstream asks, in the way that `by` is.
pub(super) fn asked<F>(
    mut ask: Ask,
    names: &Names,
    by: impl FnOnce(Ask) -> F,
) -> Handler<Result<Bytes, Fault>>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    ask.params = ask.params.map(|params| identified(&ask.method, names.related(plain(params))));
    let method = ask.method.clone();
    let asking = by(ask);
    Box::pin(async move {
        match asking.await {
            Outcome::Done(answer) => Ok(answer),
            Outcome::Fault(fault) => Err(fault),
            Outcome::Refused(Refusal::Capability(_)) => Err(Fault::method_not_found(method.name())),
            other => Err(Who::client().fault(&other, &method)),
        }
    })
}

/// The params of an ask that wants no task: the upstream was told that clients make none, and could not ask after it.
fn plain(params: Bytes) -> Bytes {
    match member_of(&params, "task") {
        Ok(Some(_)) => splice(&params, &[Edit::Drop("task")]).unwrap_or(params),
        _ => params,
    }
}

/// The params of an ask as a legacy client needs them: visits have an id there, which the modern era does not know. Nobody
/// will announce the end of one that is made up here, and no client may count on that.
fn identified(method: &Method, params: Bytes) -> Bytes {
    let mode = || member_of(&params, "mode").ok().flatten().is_some_and(|mode| mode == "\"url\"");
    if *method != Method::ElicitationCreate || !mode() {
        return params;
    }
    let mut id = [0; 16];
    if orion::util::secure_rand_bytes(&mut id).is_err() {
        return params;
    }
    let id = format!("\"{}\"", URL_SAFE_NO_PAD.encode(id));
    splice(&params, &[Edit::Default("elicitationId", id.as_bytes())]).unwrap_or(params)
}

/// The asks of one call, from round to round.
pub(super) struct Asking {
    inner: Mutex<Inner>,
    /// Something is to be asked.
    news: Notify,
    /// How long an answer may take.
    patience: Duration,
    /// The log notes that its call wants.
    logs: Option<LogLevel>,
}

struct Inner {
    cx: CallCx,
    /// What was logged since the client was asked; none: it is there.
    unheard: Option<Unheard>,
    minted: u64,
    /// To be asked with the next round.
    waiting: Vec<(Box<str>, Ask, Reply)>,
    /// When the first of them came.
    since: Instant,
    /// Asked; the answers come with the retry.
    asked: HashMap<Box<str>, (Ask, Reply)>,
}

impl Inner {
    /// These are to be asked, too.
    fn wait(&mut self, asks: impl IntoIterator<Item = (Box<str>, Ask, Reply)>) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.extend(asks);
    }
}

type Reply = oneshot::Sender<Result<Bytes, Fault>>;

impl Asking {
    pub(super) fn new(cx: CallCx, patience: Duration, logs: Option<LogLevel>) -> Arc<Self> {
        let (waiting, asked) = (Vec::new(), HashMap::new());
        let inner = Inner { cx, unheard: None, minted: 0, waiting, since: Instant::now(), asked };
        Arc::new(Self { inner: Mutex::new(inner), news: Notify::new(), patience, logs })
    }

    /// Told under the lock, so that what waited is told first.
    fn log(&self, level: LogLevel, params: &Bytes) {
        let mut inner = lock(&self.inner);
        match &mut inner.unheard {
            None => inner.cx.log(level, params.clone()),
            Some(unheard) if self.logs.is_some_and(|wanted| level >= wanted) => unheard.keep(level, params),
            Some(_) => {}
        }
    }

    fn ask(&self, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        let (reply, answer) = oneshot::channel();
        {
            let mut inner = lock(&self.inner);
            inner.minted += 1;
            let name = format!("ask-{}", inner.minted).into();
            inner.wait([(name, ask, reply)]);
        }
        self.news.notify_one();
        let patience = self.patience;
        Box::pin(async move {
            match tokio::time::timeout(patience, answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(Fault::internal("the call that this was asked for has ended")),
                Err(_) => Err(Fault::internal("the client did not answer in time")),
            }
        })
    }

    /// Waits until there is something to ask, and takes it: from now on it counts as asked.
    pub(super) async fn next(&self) -> Vec<(Box<str>, Ask)> {
        loop {
            let gathered = {
                let mut inner = lock(&self.inner);
                // What the server does not want to know any more is not asked.
                inner.waiting.retain(|(.., reply)| !reply.is_closed());
                let gathered = inner.since + GATHER;
                if inner.waiting.is_empty() {
                    None
                } else if Instant::now() < gathered {
                    Some(gathered)
                } else {
                    let entries = inner.waiting.iter().map(|(name, ask, _)| (name.clone(), ask.clone()));
                    let entries: Vec<_> = entries.collect();
                    for (name, ask, reply) in std::mem::take(&mut inner.waiting) {
                        inner.asked.insert(name, (ask, reply));
                    }
                    inner.unheard = Some(Unheard::default());
                    return entries;
                }
            };
            match gathered {
                Some(gathered) => tokio::time::sleep_until(gathered).await,
                None => self.news.notified().await,
            }
        }
    }

    /// The client is back, and is told what was logged meanwhile. What it left open is asked again.
    pub(super) fn resume(&self, cx: CallCx, answers: Option<Answers>) {
        let mut inner = lock(&self.inner);
        for (level, params) in inner.unheard.take().unwrap_or_default().notes {
            cx.log(level, params);
        }
        inner.cx = cx;
        for (name, answer) in answers.unwrap_or_default() {
            if let Some((_, reply)) = inner.asked.remove(&name) {
                // A server that no longer waits has withdrawn the ask.
                let _ = reply.send(answer);
            }
        }
        let open: Vec<_> = inner.asked.drain().map(|(name, (ask, reply))| (name, ask, reply)).collect();
        inner.wait(open);
        self.news.notify_one();
    }
}

/// What was logged while nobody could be told, the oldest first.
#[derive(Default)]
struct Unheard {
    notes: VecDeque<(LogLevel, Bytes)>,
    bytes: usize,
}

impl Unheard {
    /// Keeps one more, as far as there is room.
    fn keep(&mut self, level: LogLevel, params: &Bytes) {
        if params.len() > UNHEARD_BYTES {
            return;
        }
        self.bytes += params.len();
        // A copy: what came with it is not to be kept as well.
        self.notes.push_back((level, Bytes::copy_from_slice(params)));
        while self.notes.len() > UNHEARD || self.bytes > UNHEARD_BYTES {
            let Some((_, oldest)) = self.notes.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest make room, by number and by size; one that would need all of it and more is not kept.
    #[test]
    fn what_is_unheard_is_bounded() {
        let mut unheard = Unheard::default();
        for n in 0..UNHEARD + 3 {
            unheard.keep(LogLevel::Info, &Bytes::from(n.to_string()));
        }
        assert_eq!((unheard.notes.len(), &unheard.notes[0].1[..]), (UNHEARD, &b"3"[..]));
        let large = |size: usize| Bytes::from(vec![b'x'; size]);
        unheard.keep(LogLevel::Info, &large(UNHEARD_BYTES + 1));
        assert_eq!(unheard.notes.len(), UNHEARD, "it pushes nobody out");
        for size in [UNHEARD_BYTES / 2, UNHEARD_BYTES / 2, 7] {
            unheard.keep(LogLevel::Info, &large(size));
        }
        let sizes: Vec<_> = unheard.notes.iter().map(|(_, params)| params.len()).collect();
        assert_eq!((sizes, unheard.bytes), (vec![UNHEARD_BYTES / 2, 7], UNHEARD_BYTES / 2 + 7));
    }
}
