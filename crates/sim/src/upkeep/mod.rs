//! One kept connection and its peer, with virtual time and all choices drawn from one seed.
//!
//! [`plan`] draws the policy, the moods of the peer and the whims of users; the world here does what a keeper
//! does, and [`oracle`] watches every step. When the moods are over, the connection must come back by itself,
//! and then it is closed, for good.

pub mod oracle;
pub mod plan;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use cardan_proto::moment::Moment;
use cardan_proto::session::event::Cause;
use cardan_proto::session::state::State;
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::AtWork;
use cardan_proto::upkeep::{Input, LinkNumber, Output, Upkeep, Why};

use self::oracle::{Oracle, Tally};
use self::plan::{Mood, Plan};
use crate::fault::millis;
use crate::rng::Rng;
use crate::world::Tracing;

/// A run that takes more steps than this does not come to rest.
const STEPS_MAX: u64 = 20_000;

/// How many of the last events a trace keeps.
const TRACE_MAX: usize = 400;

/// How long nobody greets until an attempt is given up.
const OPEN_TIMEOUT_MS: u64 = 30_000;

/// In calm, everything heals within this: what still dies does so within 200 s, and no wait is longer than 300 s.
const HEALS_WITHIN: Duration = Duration::from_secs(700);

/// How a run went.
#[derive(Debug, Clone)]
pub struct Report {
    /// A digest of everything that happened.
    pub digest: u64,
    /// Steps taken.
    pub steps: u64,
    /// What happened how often.
    pub tally: Tally,
    /// The rule that was broken, if one was.
    pub failure: Option<String>,
    /// The last events, if they were asked for.
    pub trace: Vec<String>,
}

/// Something to be done later. What belongs to a link is done only while there is that link.
#[derive(Debug, Clone)]
enum Task {
    Show(State, Option<Cause>),
    Open,
    Fail(Cause),
    /// The link ends; whether its session says so before.
    Die(Cause, Told),
    FallSilent,
    AnswerProbe,
    MissProbe(Duration),
    Spare,
    Doubt,
    Close,
    Deafen,
    Relistened,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    First,
    Never,
}

/// What the keeper has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Nothing,
    Dialling,
    Up { silent: bool },
}

struct World {
    plan: Plan,
    rng: Rng,
    now: Moment,
    upkeep: Upkeep,
    line: Line,
    link: LinkNumber,
    agenda: BTreeMap<(Moment, u64), (LinkNumber, Task)>,
    scheduled: u64,
    /// When a user does something next.
    whim_at: Option<Moment>,
    oracle: Oracle,
    digest: u64,
    steps: u64,
    trace: Option<VecDeque<String>>,
}

/// One run from beginning to end.
#[must_use]
pub fn run(mut rng: Rng, tracing: Tracing) -> Report {
    let plan = Plan::draw(&mut rng);
    let mut world = World {
        upkeep: Upkeep::new(plan.policy, plan.dice),
        oracle: Oracle::new(&plan),
        whim_at: (plan.whims > 0).then(|| Moment::after(millis(rng.below(plan.pause_ms)))),
        plan,
        rng,
        now: Moment::ZERO,
        line: Line::Nothing,
        link: LinkNumber(0),
        agenda: BTreeMap::new(),
        scheduled: 0,
        digest: 0,
        steps: 0,
        trace: (tracing == Tracing::On).then(VecDeque::new),
    };
    world.live();
    Report {
        digest: world.digest,
        steps: world.steps,
        tally: world.oracle.tally,
        failure: world.oracle.failure().map(str::to_owned),
        trace: world.trace.into_iter().flatten().collect(),
    }
}

impl World {
    fn live(&mut self) {
        self.note(|this| format!("plan {:?}", this.plan));
        self.feed(Input::Connect);
        let calm = Moment::after(self.plan.lasts());
        self.pass(calm);
        self.whim_at = None;
        self.settle();
        if self.oracle.failure().is_some() {
            return;
        }
        self.feed(Input::Close { reason: "the end".into() });
        self.pass(self.now + HEALS_WITHIN);
        if self.oracle.failure().is_some() {
            return;
        }
        // Whoever comes too late changes nothing.
        for input in [Input::Connect, Input::Retry, Input::Wanted, Input::Tick] {
            self.stale(input);
        }
        self.stale(Input::Close { reason: "again".into() });
        let over = self.upkeep.condition() == Condition::CLOSED && self.line == Line::Nothing;
        if !over || self.upkeep.deadline().is_some() {
            self.oracle.fail(|| "closed, and yet not over".into());
        }
    }

    /// Everything is well with the peer: so it is with the connection soon, by itself or when someone wants it.
    fn settle(&mut self) {
        if self.line == (Line::Up { silent: true }) {
            self.feed(Input::Doubted { link: self.link });
        }
        self.heal();
        if self.upkeep.is_closing() {
            return;
        }
        if self.upkeep.condition() == (Condition::Suspended { until: None }) {
            self.feed(Input::Wanted);
            self.heal();
        }
        if !self.oracle.is_up() {
            let condition = self.upkeep.condition();
            self.oracle.fail(|| format!("the peer is well, and the connection is {condition}"));
        }
    }

    /// Lets time pass until the connection is up and nothing is about to happen to it, or should long be so.
    fn heal(&mut self) {
        let end = self.now + HEALS_WITHIN;
        while self.now < end && self.oracle.failure().is_none() {
            if self.oracle.is_up() && self.agenda.is_empty() {
                return;
            }
            self.pass((self.now + millis(20_000)).min(end));
        }
    }

    /// Lets time pass up to `end`, and everything happen that happens until then.
    fn pass(&mut self, end: Moment) {
        while self.oracle.failure().is_none() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.oracle.fail(|| "the run does not come to rest".into());
            }
            let late = self.plan.tick_late;
            let tick = self.upkeep.deadline().map(|at| at + late);
            let task = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = [tick, task, self.whim_at].into_iter().flatten().min().filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
            self.oracle.check_silence(self.now);
            if task.is_some_and(|at| at <= self.now) {
                if let Some((_, (link, task))) = self.agenda.pop_first() {
                    self.perform(link, task);
                }
            } else if tick.is_some_and(|at| at <= self.now) {
                self.feed(Input::Tick);
            } else {
                self.whim();
            }
        }
        self.now = self.now.max(end);
    }

    /// What users do, and what is said of links that are no more.
    fn whim(&mut self) {
        let link = self.link;
        match self.rng.below(10) {
            0 if self.plan.closes => self.feed(Input::Close { reason: "enough".into() }),
            0 | 1 => self.feed(Input::Connect),
            2 | 3 if self.line != Line::Dialling => self.feed(Input::Doubted { link }),
            4 => self.feed(Input::Tick),
            5 | 6 => self.feed(Input::Wanted),
            7 => self.feed(Input::Retry),
            drawn => {
                let link = LinkNumber(link.0.wrapping_sub(1 + drawn % 2));
                let (cause, trouble) = (Cause::ClosedByPeer, Some(Cause::Stalled));
                let input = match self.rng.below(6) {
                    0 => Input::Opened { link },
                    1 => Input::Failed { link, cause },
                    2 => Input::Lost { link, cause },
                    3 => Input::Probed { link, trouble },
                    4 if drawn == 9 => Input::Spared { link },
                    4 => Input::Deaf { link },
                    _ => Input::Session { link, state: State::Disconnected, cause: Some(cause) },
                };
                self.stale(input);
            }
        }
        let pause = millis(1 + self.rng.below(self.plan.pause_ms));
        self.plan.whims -= 1;
        self.whim_at = self.whim_at.map(|at| at + pause).filter(|_| self.plan.whims > 0);
    }

    /// What must change nothing.
    fn stale(&mut self, input: Input) {
        let (before, due) = ((self.upkeep.condition(), self.upkeep.deadline()), self.now);
        self.note(|_| format!("late {input:?}"));
        self.upkeep.handle(due, input.clone());
        let wanted = self.upkeep.poll();
        if wanted.is_some() || before != (self.upkeep.condition(), self.upkeep.deadline()) {
            self.oracle.fail(|| format!("{input:?} comes too late and leads to {wanted:?}"));
        }
    }

    fn perform(&mut self, link: LinkNumber, task: Task) {
        if link != self.link || self.line == Line::Nothing {
            return;
        }
        let up = matches!(self.line, Line::Up { .. });
        let silent = self.line == (Line::Up { silent: true });
        match task {
            Task::Show(state, cause) => self.feed(Input::Session { link, state, cause }),
            Task::Open if !up => {
                self.line = Line::Up { silent: false };
                self.feed(Input::Opened { link });
                if !self.upkeep.is_closing() {
                    self.destine();
                }
            }
            Task::Fail(cause) if !up => {
                self.line = Line::Nothing;
                self.feed(Input::Failed { link, cause });
            }
            Task::Die(cause, told) => {
                if told == Told::First {
                    // The session is over at once; what carried it, a child perhaps, takes its time.
                    let wait = millis(self.rng.pick(&[0, 0, 300, 5_000]));
                    self.later(wait, Task::Die(cause.clone(), Told::Never));
                    let (state, cause) = (State::Disconnected, Some(cause));
                    return self.feed(Input::Session { link, state, cause });
                }
                self.line = Line::Nothing;
                self.feed(Input::Lost { link, cause });
            }
            Task::FallSilent if up && !silent => {
                self.line = Line::Up { silent: true };
                self.oracle.silenced(self.now);
            }
            Task::AnswerProbe if silent => {
                let bound = self.plan.policy.probe.within;
                self.later(bound, Task::MissProbe(bound));
            }
            Task::Spare => self.feed(Input::Spared { link }),
            Task::AnswerProbe => self.feed(Input::Probed { link, trouble: None }),
            Task::MissProbe(bound) => {
                self.feed(Input::Probed { link, trouble: Some(Cause::Silent(bound)) });
            }
            Task::Close => self.feed(Input::Close { reason: "changed our mind".into() }),
            Task::Doubt if up => self.feed(Input::Doubted { link }),
            Task::Deafen if up && !silent => self.feed(Input::Deaf { link }),
            Task::Relistened if up && !silent => self.feed(Input::Hearing { link }),
            _ => {}
        }
    }

    /// What becomes of a link that has just opened.
    fn destine(&mut self) {
        let mood = self.mood();
        match mood {
            Mood::Slams => {
                let (wait, told) = (millis(self.rng.below(500)), self.told());
                self.later(wait, Task::Die(Cause::ClosedByPeer, told));
            }
            Mood::FallsSilent => {
                let wait = millis(self.rng.below(40_000));
                self.later(wait, Task::FallSilent);
            }
            Mood::Expires => {
                // The link is well, and a new handshake replaces the session.
                let wait = millis(self.rng.below(20_000));
                self.later(wait, Task::Show(State::Initializing, None));
                if self.rng.percent(30) {
                    // The server turned modern, and refuses the handshake.
                    self.later(wait + millis(20), Task::Show(State::Probing, None));
                }
                self.later(wait + millis(40), Task::Show(State::Ready, None));
            }
            Mood::Well => self.live_on(),
            _ => {}
        }
    }

    fn live_on(&mut self) {
        let wait = millis(self.rng.below(200_000));
        let told = self.told();
        match self.rng.below(8) {
            0..=2 => self.later(wait, Task::Die(Cause::ClosedByPeer, told)),
            3 => self.later(wait, Task::Doubt),
            4 | 5 => self.later(wait, Task::Deafen),
            6 => self.later(wait, Task::FallSilent),
            _ => {}
        }
    }

    fn told(&mut self) -> Told {
        self.rng.pick(&[Told::First, Told::Never])
    }

    fn mood(&self) -> Mood {
        self.plan.mood_at(self.now.elapsed())
    }

    /// Tells upkeep something, and does what it wants done.
    fn feed(&mut self, input: Input) {
        self.note(|_| format!("in   {input:?}"));
        let now = self.now;
        let due = self.upkeep.deadline().is_some_and(|at| at <= now);
        let silent = self.line == (Line::Up { silent: true });
        self.oracle.input(now, &input, due, silent);
        self.upkeep.handle(now, input);
        while let Some(output) = self.upkeep.poll() {
            self.note(|_| format!("out  {output:?}"));
            self.oracle.output(now, &output);
            self.obey(output);
        }
        self.oracle.stepped(now, &self.upkeep);
    }

    fn obey(&mut self, output: Output) {
        let kind = match output {
            Output::Dial { link, attempt } => {
                (self.link, self.line) = (link, Line::Dialling);
                self.agenda.clear();
                self.dial();
                u64::from(attempt) << 8
            }
            Output::Abandon => {
                // It ends by itself; or it had succeeded in the very moment.
                self.agenda.clear();
                let by_us = Cause::ClosedByUs("no longer wanted".into());
                let wait = millis(self.rng.pick(&[0, 10, 3_000]));
                if self.rng.percent(25) {
                    self.later(wait, Task::Open);
                    self.later(wait, Task::Die(by_us, Told::First));
                } else {
                    self.later(wait, Task::Fail(by_us));
                }
                1
            }
            Output::Drain { reason } => {
                let wait = millis(self.rng.pick(&[0, 100, 5_000]));
                self.end(wait, Cause::ClosedByUs(reason));
                2
            }
            Output::End { cause } => {
                let wait = millis(self.rng.pick(&[0, 5, 5_000]));
                self.end(wait, cause);
                3
            }
            Output::Probe { why, .. } => {
                self.probe(why);
                4
            }
            Output::Relisten => {
                let wait = millis(self.rng.within(1, 300));
                let task = self.rng.pick(&[Task::Relistened, Task::Relistened, Task::Deafen]);
                self.later(wait, task);
                5
            }
            Output::Transition(told) => 6 + told.to.projected() as u64,
        };
        let moment = self.now.elapsed().as_micros() as u64;
        self.digest = (self.digest.rotate_left(7) ^ kind ^ moment << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn dial(&mut self) {
        let mood = self.mood();
        let mut wait = millis(self.rng.within(1, 400));
        self.later(wait / 4, Task::Show(State::Connecting, None));
        if self.rng.percent(70) {
            self.later(wait / 3, Task::Show(State::Probing, None));
            self.later(wait / 2, Task::Show(State::Initializing, None));
        }
        if self.plan.closes && mood != Mood::Calm && self.rng.percent(10) {
            // Someone changes their mind while it is under way.
            let moment = self.rng.below(400);
            self.later(millis(moment), Task::Close);
        }
        let greets = mood == Mood::Expires && self.rng.percent(60);
        match plan::failure(mood).filter(|_| !greets) {
            None => {
                self.later(wait, Task::Show(State::Ready, None));
                self.later(wait, Task::Open);
            }
            Some(cause) => {
                if mood == Mood::Mute {
                    wait = millis(OPEN_TIMEOUT_MS);
                }
                if self.rng.percent(50) {
                    self.later(wait, Task::Show(State::Disconnected, Some(cause.clone())));
                }
                self.later(wait, Task::Fail(cause));
            }
        }
    }

    /// The link ends from our side: the session says so step by step, or the peer is faster.
    fn end(&mut self, wait: Duration, cause: Cause) {
        if self.rng.percent(70) {
            self.later(wait / 4, Task::Show(State::Disconnecting, None));
            let state = self.rng.pick(&[State::Closed, State::Disconnected]);
            self.later(wait / 2, Task::Show(state, Some(cause.clone())));
        }
        self.later(wait, Task::Die(cause, Told::Never));
    }

    fn probe(&mut self, why: Why) {
        let probe = self.plan.policy.probe;
        let spared = (why, probe.at_work) == (Why::Time, AtWork::Left);
        if spared && self.line == (Line::Up { silent: false }) && self.rng.percent(30) {
            // It is found to be at work, or was when the answer came due and it had given none.
            let wait = self.rng.pick(&[Duration::ZERO, probe.within]);
            return self.later(wait, Task::Spare);
        }
        let bound = self.rng.pick(&[probe.within, probe.busy_within]);
        if self.line == (Line::Up { silent: true }) {
            return self.later(bound, Task::MissProbe(bound));
        }
        let wait = millis(self.rng.below(40)).min(probe.within);
        self.later(wait, Task::AnswerProbe);
    }

    fn later(&mut self, wait: Duration, task: Task) {
        self.scheduled += 1;
        self.agenda.insert((self.now + wait, self.scheduled), (self.link, task));
    }

    fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.trace.is_none() {
            return;
        }
        let line = format!("{:>10?} {}", self.now, text(self));
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(line);
        }
    }
}
