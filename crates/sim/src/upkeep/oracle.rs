//! What must be so after everything that happens to a kept connection, told from outside: the oracle counts
//! attempts and waits by itself, and compares.

use std::collections::VecDeque;
use std::time::Duration;

use cardan_proto::moment::Moment;
use cardan_proto::session::event::Cause;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::Policy;
use cardan_proto::upkeep::{Input, LinkNumber, Output, Upkeep};

use super::plan::{self, Plan};

/// F14: in so long a time,
const STORM_WITHIN: Duration = Duration::from_secs(600);

/// no more attempts than these, while no link is stable and nobody asks by hand.
const STORM_MAX: usize = 40;

/// What can be seen to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Seen {
    Dialled,
    Opened,
    Lost,
    Reconnecting,
    Suspended,
    Closed,
    Abandoned,
    Replaced,
    Probed,
    Spared,
    FellSilent,
    SilenceNoticed,
    Degraded,
    Relistened,
    Healed,
    Reset,
    Tried,
    Retried,
    Storm,
}

/// What happened how often, in the order of [`Seen`].
pub type Tally = [u64; Seen::Storm as usize + 1];

/// How things stand as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Nothing,
    Dialling,
    Up { since: Moment },
}

/// Watches one upkeep.
#[derive(Debug)]
pub struct Oracle {
    policy: Policy,
    shipped: bool,
    tick_late: Duration,
    condition: Condition,
    line: Line,
    link: LinkNumber,
    attempts: u32,
    rounds: u32,
    /// New links that nobody asked for by hand.
    restarts: VecDeque<Moment>,
    /// Attempts since a link was last stable or someone asked by hand.
    storm: VecDeque<Moment>,
    /// When someone's use last led to a dial.
    tried: Option<Moment>,
    /// The last dial was for someone's use.
    on_trial: bool,
    probing: bool,
    /// When the peer was last known to live.
    heard: Moment,
    /// Since when a listen is broken that nobody has tried again.
    deaf: Option<Moment>,
    /// The peer is silent, and this is when that must be known at the latest.
    notice_by: Option<Moment>,
    closed: bool,
    /// It was told that we did.
    close_told: bool,
    /// A link ends because a new one is wanted.
    replacing: bool,
    /// We were told to end it.
    ending: bool,
    /// What the last input allows.
    due: bool,
    cause: Option<Cause>,
    by_hand: bool,
    /// Someone's use is worth a dial.
    wanted: bool,
    closes: bool,
    /// What happened.
    pub tally: Tally,
    failure: Option<String>,
}

impl Oracle {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            policy: plan.policy,
            shipped: plan.shipped,
            tick_late: plan.tick_late,
            condition: Condition::DISCONNECTED,
            line: Line::Nothing,
            link: LinkNumber(0),
            attempts: 0,
            rounds: 0,
            restarts: VecDeque::new(),
            storm: VecDeque::new(),
            tried: None,
            on_trial: false,
            probing: false,
            heard: Moment::ZERO,
            deaf: None,
            notice_by: None,
            closed: false,
            close_told: false,
            closes: false,
            replacing: false,
            ending: false,
            due: false,
            cause: None,
            by_hand: false,
            wanted: false,
            tally: Default::default(),
            failure: None,
        }
    }

    /// The rule that was broken, if one was.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(what());
        }
    }

    fn saw(&mut self, what: Seen, times: u64) {
        self.tally[what as usize] += times;
    }

    fn demand(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what);
        }
    }

    /// The peer says nothing any more, from now on.
    pub(super) fn silenced(&mut self, now: Moment) {
        self.saw(Seen::FellSilent, 1);
        if self.ending || self.closed {
            // Nobody waits to hear from it.
        } else if let Some(every) = self.policy.probe.every {
            // The probe that is under way is the last that can be answered; then one more period.
            self.notice_by = Some(now + every + self.policy.probe.busy_within + self.tick_late);
        } else if self.probing {
            self.notice_by = Some(now + self.policy.probe.busy_within);
        }
    }

    /// How the listens fare.
    fn listens(&mut self, now: Moment, input: &Input) {
        match input {
            Input::Deaf { link } if *link == self.link => drop(self.deaf.get_or_insert(now)),
            Input::Hearing { link } if *link == self.link => self.deaf = None,
            _ => {}
        }
    }

    /// Something is about to happen; `due`: a deadline has come.
    pub(super) fn input(&mut self, now: Moment, input: &Input, due: bool, silent: bool) {
        self.due = matches!(input, Input::Tick) && due;
        (self.by_hand, self.closes, self.wanted) = (false, false, false);
        self.listens(now, input);
        self.cause = None;
        match input {
            // What is up is left alone, and what is closed stays so.
            Input::Retry if self.closed || matches!(self.line, Line::Up { .. }) => {}
            Input::Connect | Input::Retry => {
                self.by_hand = true;
                (self.attempts, self.rounds) = (0, 0);
                self.restarts.clear();
                self.storm.clear();
                (self.tried, self.on_trial) = (None, false);
                if matches!(input, Input::Retry) && self.line == Line::Nothing {
                    self.saw(Seen::Retried, 1);
                }
                if matches!(self.line, Line::Up { .. }) && !self.closed {
                    self.replacing = true;
                    self.saw(Seen::Replaced, 1);
                }
            }
            // It clears nothing.
            Input::Wanted => {
                let soon = self.tried.is_some_and(|at| now.since(at) < self.policy.backoff.max);
                self.wanted = matches!(self.condition, Condition::Suspended { .. }) && !soon;
            }
            Input::Close { reason } => {
                self.cause = Some(Cause::ClosedByUs(reason.clone()));
                (self.closes, self.closed) = (!self.closed, true);
                self.notice_by = None;
            }
            Input::Opened { link } if *link == self.link => {
                self.line = Line::Up { since: now };
                self.saw(Seen::Opened, u64::from(!self.closed));
                (self.probing, self.heard, self.notice_by) = (false, now, None);
            }
            Input::Failed { link, cause } | Input::Lost { link, cause } if *link == self.link => {
                self.ended(now, cause);
            }
            Input::Session { cause, .. } => self.cause = cause.clone(),
            Input::Doubted { link } | Input::Deaf { link }
                if *link == self.link && silent && !self.closed && !self.ending =>
            {
                let by = now + self.policy.probe.busy_within;
                self.notice_by.get_or_insert(by);
            }
            Input::Probed { link, trouble: None } if *link == self.link => {
                (self.probing, self.heard) = (false, now);
            }
            Input::Spared { link } if *link == self.link => {
                self.saw(Seen::Spared, 1);
                (self.probing, self.heard) = (false, now);
                // One that fell silent while it was at work has one more period.
                if let (Some(_), Some(every)) = (self.notice_by, self.policy.probe.every) {
                    self.notice_by = Some(now + every + self.policy.probe.busy_within + self.tick_late);
                }
            }
            Input::Tick if self.due => match self.condition {
                Condition::Reconnecting { .. } => self.attempts += 1,
                Condition::Suspended { .. } => self.rounds += 1,
                _ => {}
            },
            _ => {}
        }
    }

    fn ended(&mut self, now: Moment, cause: &Cause) {
        self.cause = Some(cause.clone());
        if let Line::Up { since } = self.line
            && !self.closed
        {
            self.saw(Seen::Lost, 1);
            if !self.replacing && now.since(since) >= self.policy.stable_after {
                self.saw(Seen::Reset, u64::from(self.attempts > 0));
                (self.attempts, self.rounds) = (0, 0);
                self.storm.clear();
                self.on_trial = false;
            }
        }
        self.line = Line::Nothing;
        (self.probing, self.notice_by, self.ending, self.deaf) = (false, None, false, None);
    }

    /// What upkeep wants.
    pub(super) fn output(&mut self, now: Moment, output: &Output) {
        match output {
            Output::Transition(transition) => self.transition(now, transition),
            Output::Dial { link, attempt } => self.dial(now, *link, *attempt),
            Output::Abandon => {
                self.saw(Seen::Abandoned, 1);
                let fits = self.line == Line::Dialling && self.closed;
                self.demand(fits, || "an attempt is given up that there is not, or that is wanted".into());
            }
            Output::Drain { .. } => {
                let fits = matches!(self.line, Line::Up { .. }) && self.closed;
                self.demand(fits, || "a link is drained that there is not, or that is wanted".into());
            }
            Output::End { cause } => {
                self.saw(Seen::SilenceNoticed, u64::from(matches!(cause, Cause::Silent(_))));
                (self.notice_by, self.ending) = (None, true);
                let fits = matches!(self.line, Line::Up { .. });
                self.demand(fits, || "a link is ended that there is not".into());
            }
            Output::Probe { link, .. } => {
                self.saw(Seen::Probed, 1);
                let fits = matches!(self.line, Line::Up { .. }) && *link == self.link && !self.probing;
                self.demand(fits, || "a second probe, or one on no link".into());
                self.probing = true;
            }
            Output::Relisten => {
                self.saw(Seen::Relistened, 1);
                self.deaf = None;
                let fits = matches!(self.line, Line::Up { .. });
                self.demand(fits, || "listens are tried again on no link".into());
            }
        }
    }

    /// S2-36, S2-38, S2-46: every change is told once, in order, with its cause, attempt and time, and is legal.
    fn transition(&mut self, now: Moment, told: &Transition) {
        let legal = told.from == self.condition && told.from.may_become(told.to);
        self.demand(legal, || format!("not a transition: {told:?}"));
        self.demand(told.at == now, || format!("told at {now:?}: {told:?}"));
        let attempts = self.attempts;
        self.demand(told.attempt == attempts, || format!("attempts are {attempts}: {told:?}"));
        let was = std::mem::replace(&mut self.condition, told.to);
        let lost = matches!(
            told.to,
            Condition::DISCONNECTED | Condition::Reconnecting { .. } | Condition::Suspended { .. }
        );
        if lost || self.closes {
            let cause = self.cause.clone();
            self.demand(told.cause.is_some() && told.cause == cause, || {
                format!("the cause is {cause:?}: {told:?}")
            });
        }
        self.close_told |= self.closed && matches!(told.cause, Some(Cause::ClosedByUs(_)));
        let open = matches!(self.line, Line::Up { .. });
        self.demand(open || !told.to.is_up(), || format!("calls flow over nothing: {told:?}"));
        match told.to {
            Condition::Reconnecting { attempt, until } => self.waits(now, attempt, until),
            Condition::Suspended { until } => self.suspends(now, until),
            Condition::Degraded => self.saw(Seen::Degraded, 1),
            Condition::CLOSED => {
                self.saw(Seen::Closed, 1);
                let fits = self.closed && self.line == Line::Nothing;
                self.demand(fits, || "over, and something is left of it".into());
                let close_told = self.close_told;
                self.demand(close_told, || "over, and nobody was told that we closed it".into());
            }
            Condition::READY if !matches!(was, Condition::Degraded) => {
                let healed = matches!(self.line, Line::Up { since } if since < now);
                self.saw(Seen::Healed, u64::from(healed));
            }
            _ => {}
        }
    }

    /// S2-42: 1 s doubling up to its cap, anywhere from nothing to that; five times.
    fn waits(&mut self, now: Moment, attempt: u32, until: Moment) {
        self.saw(Seen::Reconnecting, 1);
        let backoff = self.policy.backoff;
        let before = self.attempts;
        let on_trial = self.on_trial;
        self.demand(!on_trial, || "a trial that failed is followed by more".into());
        let counts = attempt == before + 1 && attempt <= backoff.attempts && !self.closed;
        self.demand(counts, || format!("attempt {attempt} after {before}"));
        let most = doubled(backoff.min, backoff.max, before);
        let wait = until.since(now);
        self.demand(until >= now && (wait < most || most.is_zero()), || {
            format!("attempt {attempt} waits {wait:?}")
        });
        let Policy { burst, .. } = self.policy;
        let recent = self.restarts.iter().filter(|at| until.since(**at) < burst.within).count();
        self.demand(recent < burst.restarts as usize, || format!("{recent} new links in a burst"));
    }

    /// Only when attempts are spent, in a crash loop, after a trial, or for a cause that lasts; quiet attempts are far between.
    fn suspends(&mut self, now: Moment, until: Option<Moment>) {
        self.saw(Seen::Suspended, 1);
        let burst = self.policy.burst;
        let recent = self.restarts.iter().filter(|at| now.since(**at) < burst.within).count();
        let spent = self.attempts >= self.policy.backoff.attempts;
        let lasting = self.cause.as_ref().is_some_and(plan::lasts);
        let fits = spent || self.on_trial || recent >= burst.restarts as usize || lasting;
        self.demand(fits && !self.closed, || "suspended without need".into());
        let (quiet, rounds) = (self.policy.quiet, self.rounds);
        self.demand(quiet.is_some() == until.is_some(), || "a quiet schedule that there is not".into());
        if let (Some(quiet), Some(until)) = (quiet, until) {
            let (most, wait) = (doubled(quiet.min, quiet.max, rounds), until.since(now));
            self.demand(wait >= most / 2 && wait <= most, || format!("round {rounds} waits {wait:?}"));
        }
    }

    /// S2-43, S2-46, F14: one at a time, when its time has come or someone asks or wants it, and never after a close.
    fn dial(&mut self, now: Moment, link: LinkNumber, attempt: u32) {
        self.saw(Seen::Dialled, 1);
        let closed = self.closed;
        self.demand(!closed, || "dials although it was closed by us".into());
        let fits = self.line == Line::Nothing && link.0 == self.link.0 + 1 && attempt == self.attempts;
        self.demand(fits, || format!("dials {link:?} as attempt {attempt}"));
        let asked = self.by_hand || std::mem::take(&mut self.replacing);
        let due = self.due || self.wanted;
        self.demand(asked || due, || "dials before its time".into());
        (self.line, self.link) = (Line::Dialling, link);
        self.on_trial = self.wanted;
        if self.wanted {
            self.saw(Seen::Tried, 1);
            self.tried = Some(now);
        }
        if !asked {
            self.restarts.push_back(now);
            let within = self.policy.burst.within;
            self.restarts.retain(|at| now.since(*at) < within);
        }
        self.storm.push_back(now);
        self.storm.retain(|at| now.since(*at) < STORM_WITHIN);
        let count = self.storm.len();
        let begun = self.storm.front().is_some_and(|at| now.since(*at) > STORM_WITHIN / 2);
        self.saw(Seen::Storm, u64::from(begun && count > 7));
        let shipped = self.shipped;
        self.demand(!shipped || count <= STORM_MAX, || format!("{count} attempts in {STORM_WITHIN:?}"));
    }

    /// After everything that happens: there is always something to wait for, and nothing is overdue for ever.
    pub(super) fn stepped(&mut self, now: Moment, upkeep: &Upkeep) {
        let (condition, deadline) = (upkeep.condition(), upkeep.deadline());
        let told = self.condition;
        self.demand(condition == told, || format!("is {condition}, told was {told}"));
        self.demand(upkeep.is_closing() == self.closed, || "is it closed or is it not".into());
        let spins = self.due && deadline.is_some_and(|at| at <= now);
        self.demand(!spins, || format!("wants a tick at once after a tick, {condition}"));
        let asked = self.wanted || self.by_hand && !self.closed;
        let unheard = asked && self.line == Line::Nothing;
        self.demand(!unheard, || "someone wants it, and nothing is tried".into());
        let wanted = match (self.line, condition) {
            (Line::Nothing, Condition::Reconnecting { until, .. }) => Some(until),
            (Line::Nothing, Condition::Suspended { until }) => until,
            (Line::Nothing, Condition::CLOSED) => None,
            (Line::Nothing, condition) => {
                return self.fail(|| format!("no link, and nothing is waited for: {condition}"));
            }
            (Line::Up { .. }, _) => return self.looked_after(deadline),
            (Line::Dialling, _) => None,
        };
        self.demand(deadline == wanted, || format!("waits until {deadline:?}, not {wanted:?}"));
    }

    /// F12: a link that is up is looked after as often as was promised. S0-75: so are listens that broke.
    fn looked_after(&mut self, deadline: Option<Moment>) {
        let ends = self.closed || self.replacing;
        if let Some(since) = self.deaf {
            let by = since + self.policy.backoff.max.max(self.policy.backoff.min);
            let cared = ends || deadline.is_some_and(|at| at <= by);
            self.demand(cared, || format!("the listens should be tried again by {by:?}"));
        }
        let Some(every) = self.policy.probe.every else { return };
        let by = self.heard + every;
        let cared = self.probing || ends || deadline.is_some_and(|at| at <= by);
        self.demand(cared, || format!("the peer should be looked after by {by:?}"));
    }

    /// F12: a peer that fell silent is known to have by then.
    pub(super) fn check_silence(&mut self, now: Moment) {
        let late = self.notice_by.is_some_and(|by| now > by);
        self.demand(!late, || "a silent peer was not noticed in time".into());
    }

    /// Whether a link is up as far as upkeep was told.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.line, Line::Up { .. }) && self.condition.is_up()
    }
}

/// Told apart from the code under test on purpose.
fn doubled(min: Duration, max: Duration, times: u32) -> Duration {
    (0..times).fold(min.min(max), |wait, _| (wait * 2).min(max))
}
