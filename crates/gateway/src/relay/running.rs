//! A call in progress upstream, by a line that is shared or held alone.

use std::sync::Arc;
use std::time::Duration;

use cardan_client::{Call, CallError, Managed};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::Raw;
use cardan_proto::session::event::{Answer, Answers, Ask, Asks, Called, LogLevel, Outcome, Rounds};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Beside;
use cardan_runtime::unfinished::One;

use super::askable::Askable;
use super::explain::Found;
use super::held::Held;
use super::names::{Tasks, concern};
use super::park::Bound;
use super::pool::{Lease, Need};
use super::reserve::Ticket;
use super::tasks::Owner;
use super::voice::{Asking, Holder};
use super::who::given_up;
use super::{Behind, Core, Isolation, detour, terms};

/// How a call is to be made by lines that are shared.
pub(super) struct Plan {
    /// What the upstream may ask on its line.
    pub(super) askable: Askable,
    /// May it be asked something that comes outside of its result?
    pub(super) asks: bool,
    /// The log notes that it wants.
    pub(super) logs: Option<LogLevel>,
    /// Who answers a modern upstream that asks.
    pub(super) rounds: Rounds,
    /// In whose words the result is.
    pub(super) words: Words,
    /// The session of its client, where that has one.
    pub(super) session: u64,
}

/// In whose words a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// The client's.
    Clients,
    /// The upstream's, as it came.
    Upstreams,
}

/// A call in progress upstream.
pub(super) struct Running {
    call: Call<Raw>,
    method: Method,
    /// What a legacy upstream may ask for it; none: nothing.
    asking: Option<Arc<Asking>>,
    /// What is found on its line while it runs, where its failure is to be explained.
    found: Option<Found>,
    upstream: Era,
    /// Who answers a modern upstream that asks.
    rounds: Rounds,
    /// None: it has ended, and needs no line any more.
    lease: Option<Lease>,
    /// May its result name a task?
    tasks: Tasks,
    words: Words,
    session: u64,
    /// How its log notes come.
    notes: Notes,
    /// What the call occupies elsewhere, for as long as it runs.
    held: Held,
    /// It may be asked, and come back then: whoever replaces the relay waits for it.
    _pending: Option<One>,
}

/// How the log notes of a call come, seen from its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    /// Before it, or nobody wants them.
    Before,
    /// Perhaps by a stream of their own, and so after it.
    Beside,
}

/// How long a reply waits for notes that were sent before it.
const SETTLING: Duration = Duration::from_millis(500);

/// For how many round trips it waits. Servers hand what they push to a stream that is written in a turn of its own: such a note
/// comes about when the first ping is answered, before or after it.
const ROUND_TRIPS: usize = 2;

/// What happened to a call.
enum Step {
    Ended(Outcome),
    Asked(Vec<(Box<str>, Ask)>),
}

impl Running {
    /// Makes a call upstream, and answers it.
    pub(super) async fn begin(
        core: &Core,
        plan: Plan,
        principal: Option<Arc<str>>,
        cx: &CallCx,
        called: Called,
        held: Held,
    ) -> Result<Answer, Fault> {
        // From the beginning: it may be asked after the relay was replaced as well.
        let pending = comes_back(core, &plan, &called).then(|| core.pending.begin());
        let need = match core.options.isolation {
            Isolation::Call => Need::Fresh,
            _ if plan.asks || plan.logs.is_some() => Need::Alone,
            _ => Need::Any,
        };
        let mut lease = match kept_for(core, principal.as_ref(), &called) {
            Some(lease) => lease,
            None => core.pool(principal.as_ref()).take(plan.askable, need).await?,
        };
        // A line that is kept for a retry is held as it was: one that is shared brings other calls' notes, too.
        let need = lease.need;
        let plan = Plan { logs: plan.logs.filter(|_| need != Need::Any), ..plan };
        let line = &lease.shared.line;
        let ready = line.ready(core.options.opening, core.options.grace()).await;
        let upstream = ready.map_err(|error| unreached(core, error))?;
        lease.shared.heard().await;
        let asking = voiced(core, &lease, &plan, cx, &called);
        if let (Some(level), Era::Legacy) = (plan.logs, upstream) {
            line.take_level(level).await;
        }
        let logs = match (called.revision.era(), need) {
            // A modern upstream logs nothing unless asked; this is what a legacy one does by itself.
            (Era::Legacy, Need::Alone | Need::Fresh) => plan.logs.or(Some(LogLevel::Info)),
            _ => plan.logs,
        };
        let params = core.names.inward(&called.call, terms::params(&called, upstream, logs));
        let method = called.call.method.clone();
        let options =
            terms::options(called.progress, plan.rounds, core.options.call_timeout, core.options.grace);
        // Right before it leaves: from here on nothing is waited for.
        let leave = core.vet(line, &called, &held.bar).await;
        let options = match leave {
            Ok(leave) => leave.options(options),
            Err(fault) => {
                lease.hush();
                lease.landed();
                return Err(fault);
            }
        };
        let found = core.options.explain.as_ref().map(|_| Found::begin(&line.managed, &core.found));
        let beside = Beside { strays: terms::strays(&called, upstream), onward: Some(cx.clone()) };
        let call = line.managed.start_beside(method.clone(), params, options, beside);
        let running = Self {
            found,
            call,
            method,
            asking: asking.filter(|_| plan.asks),
            upstream,
            rounds: plan.rounds,
            lease: Some(lease),
            tasks: match plan.words {
                Words::Clients => concern(&called, core.design()),
                Words::Upstreams => Tasks::No,
            },
            words: plan.words,
            session: plan.session,
            notes: match (plan.logs, called.revision.era(), upstream, core.options.behind) {
                (Some(_), Era::Modern, Era::Legacy, Behind::One) => Notes::Beside,
                _ => Notes::Before,
            },
            held,
            _pending: pending,
        };
        running.run(core, principal, &called).await
    }

    /// The client is back, with these answers.
    pub(super) fn resume(&mut self, cx: &CallCx, answers: Option<Answers>) {
        self.held.resume();
        self.call.lead(Some(cx.clone()));
        if let Some(asking) = &self.asking {
            asking.resume(cx.clone(), answers);
        }
    }

    /// Waits for what becomes of it. What it says before is passed on where it comes in.
    pub(super) async fn run(
        mut self,
        core: &Core,
        principal: Option<Arc<str>>,
        called: &Called,
    ) -> Result<Answer, Fault> {
        let outcome = match self.step().await {
            Step::Ended(outcome) => outcome,
            Step::Asked(entries) => {
                let state = self.park(core, principal.as_ref(), called).map_err(given_up)?;
                return Ok(Answer::Ask(Asks { entries, state: Some(state) }));
            }
        };
        self.settle().await;
        self.held.bar.ended(&outcome);
        let found = self.found.take().map(|mut found| found.take());
        let failure = found.and_then(|found| Some((self.call.failure(&outcome)?, found)));
        self.release(core, principal.clone(), &outcome);
        if let (Era::Modern, Method::ToolsList, Outcome::Done(page)) =
            (called.revision.era(), &self.method, &outcome)
        {
            core.mirrored.learn(page);
        }
        let outcome = match self.tasks {
            Tasks::No => outcome,
            Tasks::Maybe => {
                let owner = Owner { session: self.session, ..Owner::of(principal.as_ref()) };
                let outcome = core.tasks.remember(&called.call, &owner, outcome);
                core.names.outward(self.tasks, &self.method, outcome)
            }
        };
        let (method, upstream) = (&self.method, self.upstream);
        let client = match self.words {
            Words::Clients => called.revision.era(),
            Words::Upstreams => upstream,
        };
        let answer = terms::answer(outcome, method, client, upstream, &core.who);
        let answer = match (client, upstream) {
            (Era::Modern, Era::Legacy) => detour::answer(core, principal.as_ref(), called, answer)?,
            _ => answer,
        };
        Ok(match &core.options.explain {
            Some(explain) => explain.answer(answer, failure, &core.options.secrets),
            None => answer,
        })
    }

    /// It goes on while its client answers. Where it cannot wait for that, it is given up.
    fn park(mut self, core: &Core, principal: Option<&Arc<str>>, called: &Called) -> Result<Box<str>, Fault> {
        let bound = Bound::of(&called.call, principal)?;
        // What it tells meanwhile is for the retry.
        self.call.lead(None);
        self.held.park();
        core.park.put(self, bound)
    }

    /// Waits for its end, whatever becomes known before.
    pub(super) async fn ended(&mut self) -> Outcome {
        let outcome = self.call.outcome().await;
        self.settle().await;
        outcome
    }

    /// It has ended: what its server logged before has arrived after this.
    async fn settle(&self) {
        if let (Notes::Beside, Some(lease)) = (self.notes, &self.lease) {
            settle(lease.shared.line.managed.clone()).await;
        }
    }

    /// It has ended so: whatever it occupies is free for others, but for the line by which it was asked.
    fn release(&mut self, core: &Core, principal: Option<Arc<str>>, outcome: &Outcome) {
        let visit = std::mem::take(&mut self.held).into_visit();
        let Some(mut lease) = self.lease.take() else { return };
        lease.ended(outcome);
        if let Outcome::Done(result) = outcome
            && reserves(core, self.rounds, self.upstream, &self.method)
        {
            core.reserve.keep(principal, result, (lease, visit));
        }
    }

    /// It has ended so while nobody waited: whatever it occupies is free for others.
    pub(super) fn abandon(&mut self, outcome: &Outcome) {
        self.held = Held::default();
        if let Some(mut lease) = self.lease.take() {
            lease.ended(outcome);
        }
    }

    async fn step(&mut self) -> Step {
        match &self.asking {
            None => Step::Ended(self.call.outcome().await),
            Some(asking) => tokio::select! {
                biased;
                outcome = self.call.outcome() => Step::Ended(outcome),
                entries = asking.next() => Step::Asked(entries),
            },
        }
    }
}

/// The call is told what comes by its line from now on, where that is its own; how, where it may be asked by its result.
fn voiced(core: &Core, lease: &Lease, plan: &Plan, cx: &CallCx, called: &Called) -> Option<Arc<Asking>> {
    match called.revision.era() {
        Era::Modern if lease.need != Need::Any => {
            let asking = Asking::new(cx.clone(), core.park.ttl(), plan.logs);
            lease.voice(Holder::Parks(Arc::clone(&asking)));
            Some(asking)
        }
        Era::Modern => None,
        Era::Legacy => {
            lease.voice(Holder::Waits(cx.clone(), core.names.clone()));
            None
        }
    }
}

/// Does its client call again once it is asked something?
fn comes_back(core: &Core, plan: &Plan, called: &Called) -> bool {
    let asked = plan.asks || reserves(core, plan.rounds, core.era(), &called.call.method);
    called.revision.era() == Era::Modern && asked
}

/// Is a line kept for the retry where the result of such a call asks?
fn reserves(core: &Core, rounds: Rounds, upstream: Era, method: &Method) -> bool {
    rounds == Rounds::Callers
        && upstream == Era::Modern
        && core.options.behind == Behind::Many
        && method.may_ask()
}

/// A modern client hears nothing of a call after its reply. So the reply waits for more round trips: what the upstream
/// said before the reply, by whichever way, has arrived then.
async fn settle(upstream: Managed) {
    let trips = async {
        for _ in 0..ROUND_TRIPS {
            if upstream.ping().await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(SETTLING, trips).await;
}

/// No call can be made: as the client is told it.
fn unreached(core: &Core, error: CallError) -> Fault {
    let fault = core.who.unreachable(&error);
    match &core.options.explain {
        Some(explain) => explain.fault(fault, error, Vec::new(), &core.options.secrets),
        None => fault,
    }
}

/// The line by which a call was asked what it answers now.
fn kept_for(core: &Core, principal: Option<&Arc<str>>, called: &Called) -> Option<Lease> {
    core.reserve.take(&Ticket::of(called, principal)?)
}
