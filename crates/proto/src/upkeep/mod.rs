//! Keeping a connection: when to dial, how long to wait, when to look after a silent peer, when to stop.
//!
//! An [`Upkeep`] is a value like a session: [`Upkeep::handle`] takes in what happened, [`Upkeep::poll`] gives out
//! what to do, [`Upkeep::deadline`] says when to come back. It sees no link and no message, only that links open,
//! fail and are lost; so it is the same for a child, a socket and an HTTP server. Time comes in as monotonic
//! moments, so no clock on a wall can confuse it; jitter comes from a seed.
//!
//! * [`condition`]: how a connection stands, and the table of transitions.
//! * [`policy`]: every number.

use std::borrow::Cow;
use std::collections::VecDeque;

pub mod condition;
pub mod policy;

use self::condition::{Condition, Transition};
use self::policy::{Dice, Policy};
use crate::moment::Moment;
use crate::session::event::Cause;
use crate::session::state::State;

/// One link of a connection, counted from one. What is said of an earlier one is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LinkNumber(pub u64);

/// What happens to a connection.
#[derive(Debug, Clone)]
pub enum Input {
    /// Someone wants a new link now, whatever happened before. Also how it all begins.
    Connect,
    /// Someone wants what has no link to be tried now, whatever happened before. One that is up is left alone.
    Retry,
    /// Someone has use for a link. A suspended connection makes one attempt for it, a trial, though no more often than
    /// after the longest wait of its backoff; what failed before counts on.
    Wanted,
    /// We want no link any more.
    Close {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// The session of a link came further.
    Session {
        /// Which link.
        link: LinkNumber,
        /// Where it is.
        state: State,
        /// Why, where there is more to say.
        cause: Option<Cause>,
    },
    /// An attempt brought a link with an open session.
    Opened {
        /// Which link.
        link: LinkNumber,
    },
    /// An attempt brought nothing, or was abandoned, and nothing of it is left.
    Failed {
        /// Which link.
        link: LinkNumber,
        /// Why.
        cause: Cause,
    },
    /// A link that was open has ended, and nothing of it is left.
    Lost {
        /// Which link.
        link: LinkNumber,
        /// Why.
        cause: Cause,
    },
    /// Something failed on a link that otherwise lives.
    Doubted {
        /// Which link.
        link: LinkNumber,
    },
    /// What came of looking after the peer.
    Probed {
        /// Which link.
        link: LinkNumber,
        /// Nothing: it lives.
        trouble: Option<Cause>,
    },
    /// The peer was not asked: it is at work, and there was no reason but the time.
    Spared {
        /// Which link.
        link: LinkNumber,
    },
    /// A listen is not in force although the link lives.
    Deaf {
        /// Which link.
        link: LinkNumber,
    },
    /// All listens are in force.
    Hearing {
        /// Which link.
        link: LinkNumber,
    },
    /// Other numbers hold from now on. Whoever changes them knows something: one that waits for its next attempt makes
    /// it now, and what failed before does not count.
    Policy(Policy),
    /// Time passed.
    Tick,
}

/// What upkeep wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Tell whoever watches.
    Transition(Transition),
    /// Make a link and open a session. Answered by `Opened` or `Failed`.
    Dial {
        /// Its number.
        link: LinkNumber,
        /// Which attempt it is since the connection was last stable; the first of all is zero.
        attempt: u32,
    },
    /// Give up the attempt that is under way. Answered by `Failed`.
    Abandon,
    /// Finish what runs, then end the link. Answered by `Lost`.
    Drain {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// End the link at once. Answered by `Lost`.
    End {
        /// Why.
        cause: Cause,
    },
    /// Ask the peer whether it lives. Answered by `Probed`, or by `Spared` where it is only time.
    Probe {
        /// On which link.
        link: LinkNumber,
        /// What for.
        why: Why,
    },
    /// Try again to bring all listens in force. Answered by `Deaf` or `Hearing`.
    Relisten,
}

/// Why a peer is asked whether it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was not for a while.
    Time,
    /// Something failed.
    Doubt,
}

/// The upkeep of one connection.
#[derive(Debug)]
pub struct Upkeep {
    policy: Policy,
    dice: Dice,
    condition: Condition,
    phase: Phase,
    link: LinkNumber,
    /// Attempts of the backoff since the connection was last stable.
    attempts: u32,
    /// Rounds of the quiet schedule since then.
    rounds: u32,
    /// When links were made anew, as far as it matters for a burst.
    restarts: VecDeque<Moment>,
    /// When someone's use last led to a trial.
    tried: Option<Moment>,
    /// The last attempt was a trial: unless its link becomes stable, nothing but the suspension follows it.
    on_trial: bool,
    care: Care,
    /// Why we close, until it is told: the session may be past every state in which it could be.
    untold: Option<Cause>,
    outputs: VecDeque<Output>,
}

/// What there is to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// A moment, or a wish.
    Idle,
    /// The attempt that is under way.
    Opening,
    /// The end of a link that is up.
    Up { since: Moment },
    /// The end of a link that is to be replaced at once.
    Replacing,
    /// The end of a link that is to be the last.
    Closing,
    /// Nothing any more.
    Over,
}

/// Looking after a link that is up.
#[derive(Debug, Default)]
struct Care {
    /// When to look after the peer; none: not at all, or it is under way.
    probe_at: Option<Moment>,
    probing: bool,
    /// Someone doubts the link since the question that is under way was asked.
    doubted: bool,
    /// When to try the listens again.
    relisten_at: Option<Moment>,
    /// Since when all listens are in force.
    hearing_since: Option<Moment>,
    /// Failed tries since hearing was last stable.
    relistens: u32,
}

impl Upkeep {
    /// Upkeep that has not begun. `seed` fixes the jitter.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            dice: Dice::new(seed),
            condition: Condition::DISCONNECTED,
            phase: Phase::Idle,
            link: LinkNumber(0),
            attempts: 0,
            rounds: 0,
            restarts: VecDeque::new(),
            tried: None,
            on_trial: false,
            care: Care::default(),
            untold: None,
            outputs: VecDeque::new(),
        }
    }

    /// How the connection stands.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// The link that there is, was last, or is being made.
    #[must_use]
    pub fn link(&self) -> LinkNumber {
        self.link
    }

    /// Was it closed by us, or is it about to be?
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Over)
    }

    /// What to do next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to come back at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Idle => match self.condition {
                Condition::Reconnecting { until, .. } => Some(until),
                Condition::Suspended { until } => until,
                _ => None,
            },
            Phase::Up { .. } => [self.care.probe_at, self.care.relisten_at].into_iter().flatten().min(),
            _ => None,
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Moment, input: Input) {
        match input {
            Input::Connect => self.connect(now),
            Input::Retry if matches!(self.phase, Phase::Idle | Phase::Opening) => self.connect(now),
            Input::Wanted => self.wanted(now),
            Input::Close { reason } => self.close(now, reason),
            Input::Session { link, state, cause } if link == self.link => self.session(now, state, cause),
            Input::Opened { link } if link == self.link && self.phase == Phase::Opening => self.opened(now),
            Input::Failed { link, cause } | Input::Lost { link, cause } if link == self.link => {
                self.ended(now, cause);
            }
            Input::Policy(policy) => self.adopt(now, policy),
            Input::Tick => self.tick(now),
            Input::Doubted { link }
            | Input::Probed { link, .. }
            | Input::Spared { link }
            | Input::Deaf { link }
            | Input::Hearing { link }
                if link == self.link && matches!(self.phase, Phase::Up { .. }) =>
            {
                self.look_after(now, input);
            }
            // Of a link that is no more, or is ending anyway.
            _ => {}
        }
    }

    fn connect(&mut self, now: Moment) {
        // Who asks by hand knows something that we do not: what failed before does not count.
        (self.attempts, self.rounds) = (0, 0);
        self.restarts.clear();
        (self.tried, self.on_trial) = (None, false);
        match self.phase {
            Phase::Idle => self.dial(now),
            Phase::Up { .. } => {
                self.phase = Phase::Replacing;
                self.outputs
                    .push_back(Output::End { cause: Cause::ClosedByUs("a new link is wanted".into()) });
            }
            Phase::Opening | Phase::Replacing | Phase::Closing | Phase::Over => {}
        }
    }

    /// F14: callers come as often as they like, so they clear nothing, or each would buy a new round of attempts.
    fn wanted(&mut self, now: Moment) {
        let soon = self.tried.is_some_and(|tried| now.since(tried) < self.policy.backoff.max);
        if soon || !matches!(self.condition, Condition::Suspended { .. }) {
            return;
        }
        (self.tried, self.on_trial) = (Some(now), true);
        self.restarted(now);
        self.dial(now);
    }

    fn adopt(&mut self, now: Moment, policy: Policy) {
        if self.policy == policy {
            return;
        }
        self.policy = policy;
        match self.phase {
            // What has not begun waits for its beginning.
            Phase::Idle if self.link != LinkNumber::default() => self.connect(now),
            Phase::Up { .. } if !self.care.probing => {
                self.care.probe_at = self.policy.probe.every.map(|every| now + every);
            }
            _ => {}
        }
    }

    fn close(&mut self, now: Moment, reason: Cow<'static, str>) {
        let cause = Cause::ClosedByUs(reason.clone());
        match self.phase {
            Phase::Idle => {
                self.phase = Phase::Over;
                return self.become_condition(now, Condition::CLOSED, Some(cause));
            }
            Phase::Opening => self.outputs.push_back(Output::Abandon),
            Phase::Up { .. } => self.outputs.push_back(Output::Drain { reason }),
            // It ends already, and is not to come back.
            Phase::Replacing => {}
            Phase::Closing | Phase::Over => return,
        }
        self.untold = Some(cause);
        self.phase = Phase::Closing;
        let draining = Condition::Session(State::Draining);
        let next = if self.condition.may_become(draining) {
            draining
        } else {
            Condition::Session(State::Disconnecting)
        };
        self.become_condition(now, next, None);
    }

    /// The session's own states show through, as far as they say something new: that calls flow is
    /// told when our side is ready for them too, and that all is over only when nothing is left.
    fn session(&mut self, now: Moment, state: State, cause: Option<Cause>) {
        let next = match (&self.phase, state) {
            (Phase::Opening, State::Ready) | (Phase::Closing | Phase::Idle | Phase::Over, State::Closed) => {
                return;
            }
            (Phase::Closing, State::Disconnected) | (Phase::Idle | Phase::Over, _) => return,
            (_, State::Closed) => State::Disconnected,
            (_, state) => state,
        };
        self.become_condition(now, Condition::Session(next), cause);
        // A new session does not bring a broken listen in force.
        let deaf = matches!(self.phase, Phase::Up { .. }) && self.care.hearing_since.is_none();
        if deaf && self.condition == Condition::READY {
            self.become_condition(now, Condition::Degraded, None);
        }
    }

    fn opened(&mut self, now: Moment) {
        self.phase = Phase::Up { since: now };
        self.care = Care {
            probe_at: self.policy.probe.every.map(|every| now + every),
            hearing_since: Some(now),
            ..Care::default()
        };
        self.become_condition(now, Condition::READY, None);
    }

    /// There is no link and no attempt any more.
    fn ended(&mut self, now: Moment, cause: Cause) {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        match phase {
            Phase::Idle | Phase::Over => {
                self.phase = phase;
                return;
            }
            Phase::Closing => {
                self.phase = Phase::Over;
                self.become_condition(now, Condition::Session(State::Disconnecting), None);
                return self.become_condition(now, Condition::CLOSED, None);
            }
            Phase::Opening | Phase::Replacing => {}
            Phase::Up { since } => {
                if now.since(since) >= self.policy.stable_after {
                    (self.attempts, self.rounds) = (0, 0);
                    self.on_trial = false;
                }
            }
        }
        let suspends = std::mem::take(&mut self.on_trial) || is_lasting(&cause);
        self.become_condition(now, Condition::DISCONNECTED, Some(cause.clone()));
        if phase == Phase::Replacing {
            return self.dial(now);
        }
        let next = if suspends { self.suspended(now) } else { self.reconnecting(now) };
        self.become_condition(now, next, Some(cause));
    }

    fn reconnecting(&mut self, now: Moment) -> Condition {
        if self.attempts >= self.policy.backoff.attempts {
            return self.suspended(now);
        }
        let until = now + self.dice.full(self.policy.backoff.longest(self.attempts));
        let burst = self.policy.burst;
        self.restarts.retain(|restart| until.since(*restart) < burst.within);
        if self.restarts.len() >= usize::try_from(burst.restarts).unwrap_or(usize::MAX) {
            return self.suspended(now);
        }
        Condition::Reconnecting { attempt: self.attempts + 1, until }
    }

    fn suspended(&mut self, now: Moment) -> Condition {
        let wait = self.policy.quiet.map(|quiet| self.dice.half(quiet.longest(self.rounds)));
        Condition::Suspended { until: wait.map(|wait| now + wait) }
    }

    fn dial(&mut self, now: Moment) {
        self.link.0 += 1;
        self.phase = Phase::Opening;
        self.become_condition(now, Condition::CONNECTING, None);
        self.outputs.push_back(Output::Dial { link: self.link, attempt: self.attempts });
    }

    fn tick(&mut self, now: Moment) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        match self.condition {
            // An attempt counts when it begins.
            Condition::Reconnecting { .. } => self.attempts += 1,
            Condition::Suspended { .. } => self.rounds += 1,
            _ => return self.care_now(now),
        }
        self.restarted(now);
        self.dial(now);
    }

    fn restarted(&mut self, now: Moment) {
        self.restarts.push_back(now);
        // More than a burst need not be remembered.
        if self.restarts.len() > usize::try_from(self.policy.burst.restarts).unwrap_or(usize::MAX) {
            self.restarts.pop_front();
        }
    }

    fn care_now(&mut self, now: Moment) {
        if self.care.probe_at.is_some_and(|at| at <= now) {
            self.probe(Why::Time);
        }
        if self.care.relisten_at.take_if(|at| *at <= now).is_some() {
            self.outputs.push_back(Output::Relisten);
        }
    }

    fn probe(&mut self, why: Why) {
        self.care.probe_at = None;
        if self.care.probing {
            self.care.doubted |= why == Why::Doubt;
        } else {
            (self.care.probing, self.care.doubted) = (true, false);
            self.outputs.push_back(Output::Probe { link: self.link, why });
        }
    }

    /// The question that was under way is settled; the next one comes in its time.
    fn probed(&mut self, now: Moment) {
        self.care.probing = false;
        self.care.probe_at = self.policy.probe.every.map(|every| now + every);
    }

    fn look_after(&mut self, now: Moment, input: Input) {
        match input {
            Input::Doubted { .. } => self.probe(Why::Doubt),
            Input::Probed { trouble: None, .. } => self.probed(now),
            Input::Spared { .. } => {
                self.probed(now);
                if self.care.doubted {
                    self.probe(Why::Doubt);
                }
            }
            Input::Probed { trouble: Some(cause), .. } => self.outputs.push_back(Output::End { cause }),
            Input::Hearing { .. } => {
                self.care.relisten_at = None;
                self.care.hearing_since.get_or_insert(now);
                if self.condition == Condition::Degraded {
                    self.become_condition(now, Condition::READY, None);
                }
            }
            Input::Deaf { .. } => {
                let heard = self.care.hearing_since.take();
                if heard.is_some_and(|since| now.since(since) >= self.policy.stable_after) {
                    self.care.relistens = 0;
                }
                let most = self.policy.backoff.longest(self.care.relistens);
                self.care.relistens = self.care.relistens.saturating_add(1);
                let wait = self.dice.half(most);
                self.care.relisten_at.get_or_insert(now + wait);
                if self.condition == Condition::READY {
                    self.become_condition(now, Condition::Degraded, None);
                }
                // What broke the listen may have broken more.
                self.probe(Why::Doubt);
            }
            _ => {}
        }
    }

    /// Only what the table allows happens; what is so already is no news.
    fn become_condition(&mut self, now: Moment, next: Condition, cause: Option<Cause>) {
        if !self.condition.may_become(next) {
            return;
        }
        let from = std::mem::replace(&mut self.condition, next);
        let (attempt, cause) = (self.attempts, cause.or_else(|| self.untold.take()));
        let transition = Transition { from, to: next, cause, attempt, at: now };
        self.outputs.push_back(Output::Transition(transition));
    }
}

/// Will trying again soon bring the same? Then quiet attempts are enough.
fn is_lasting(cause: &Cause) -> bool {
    match cause {
        Cause::NoCommonRevision { .. } => true,
        Cause::Http(failure) => failure.is_auth(),
        _ => false,
    }
}
