//! The world of one run: two sessions, the link between them, and time that passes when we say so.
//!
//! A step goes to the next moment at which anything happens, and lets it happen. All choices come
//! from one source, so a run can be had again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use cardan_proto::codec::Line;
use cardan_proto::era::Era;
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::envelope::{Envelope, Violation};
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    AskKey, CallKey, Cause, Command, Event, Input, LaneId, Outgoing, Output, Turn,
};
use cardan_proto::session::state::State;

use crate::fault::{Ending, Plan, millis};
use crate::net::{Arrived, End, Pipe, Wrote};
use crate::oracle::{Oracle, Tally};
use crate::rng::Rng;
use crate::show;
use crate::workload::{self, Act, Workload, nonce_in};

/// A run that takes more steps than this does not come to rest.
const STEPS_MAX: u64 = 20_000;

/// When even patient users no longer wait for the session to open.
const PATIENCE_MS: u64 = 40_000;

/// How many of the last events a trace keeps.
const TRACE_MAX: usize = 400;

/// One run.
#[derive(Debug)]
pub struct World {
    plan: Plan,
    rng: Rng,
    now: Moment,
    client: Side,
    server: Side,
    up: Pipe,
    down: Pipe,
    agenda: BTreeMap<(Moment, u64), Task>,
    scheduled: u64,
    workload: Workload,
    oracle: Oracle,
    /// How often each call was asked for input, by nonce.
    rounds: BTreeMap<u64, usize>,
    /// What every running call and open ask belongs to.
    nonces: BTreeMap<CallKey, Option<u64>>,
    asked: BTreeMap<AskKey, Option<u64>>,
    commands: u64,
    digest: u64,
    steps: u64,
    trace: Option<VecDeque<String>>,
}

/// One session and what its driver knows.
#[derive(Debug)]
struct Side {
    session: Session,
    link: Link,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Link {
    Up,
    /// The session has closed it; the driver has yet to tell that it is gone.
    Closing(Cause),
    Gone,
}

/// Something to be done later.
#[derive(Debug, Clone)]
enum Task {
    Command,
    Handler { key: CallKey, act: Act },
    Person { ask: AskKey },
    Gone { who: Role, cause: Cause },
}

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

/// Whether events are kept for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracing {
    /// They are.
    On,
    /// They are not: twice as fast.
    Off,
}

/// One run from beginning to end.
#[must_use]
pub fn run(mut rng: Rng, tracing: Tracing) -> Report {
    let plan = Plan::draw(&mut rng);
    let mut world = World::new(plan, rng, tracing);
    world.open();
    while world.oracle.failure().is_none() && world.step() {}
    world.finish();
    Report {
        digest: world.digest,
        steps: world.steps,
        tally: world.oracle.tally,
        failure: world.oracle.failure().map(str::to_owned),
        trace: world.trace.into_iter().flatten().collect(),
    }
}

impl World {
    fn new(plan: Plan, rng: Rng, tracing: Tracing) -> Self {
        let side = |config| Side { session: Session::new(config, Moment::ZERO), link: Link::Up };
        Self {
            rng,
            now: Moment::ZERO,
            client: side(plan.client.clone()),
            server: side(plan.server.clone()),
            up: Pipe::new(Role::Client, plan.up.clone(), plan.server.limits.frame_bytes),
            down: Pipe::new(Role::Server, plan.down.clone(), plan.client.limits.frame_bytes),
            agenda: BTreeMap::new(),
            scheduled: 0,
            workload: Workload::default(),
            oracle: Oracle::default(),
            rounds: BTreeMap::new(),
            nonces: BTreeMap::new(),
            asked: BTreeMap::new(),
            commands: 0,
            digest: 0,
            steps: 0,
            trace: (tracing == Tracing::On).then(VecDeque::new),
            plan,
        }
    }

    fn open(&mut self) {
        self.note("plan", |this| {
            let mut text = String::new();
            let _ = write!(text, "{:?} {:?} | ", this.plan.client.era, this.plan.client.revisions);
            let _ = write!(text, "{:?} | up {:?} | ", this.plan.server.revisions, this.plan.up);
            let _ = write!(text, "down {:?} | {:?}", this.plan.down, this.plan.ending);
            text
        });
        self.command(Role::Server, Command::Open);
        self.command(Role::Client, Command::Open);
        // Most users wait until the session is open, some do not.
        let first = if self.rng.percent(80) { PATIENCE_MS } else { self.rng.below(400) };
        self.later(millis(first), Task::Command);
    }

    /// Goes on to whatever happens next; `false` when nothing does.
    fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.oracle.fail(|| "the run does not come to rest".into());
        }
        let Some(next) = self.next_at() else { return false };
        self.now = self.now.max(next);
        self.move_bytes();
        for who in [Role::Client, Role::Server] {
            self.tick(who);
        }
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= self.now
        {
            let task = entry.remove();
            self.perform(task);
        }
        self.oracle.check_deadlines(self.now, self.plan.tick_late);
        true
    }

    fn next_at(&self) -> Option<Moment> {
        let tick = |side: &Side| side.session.deadline().map(|at| at + self.plan.tick_late);
        let task = self.agenda.first_key_value().map(|((at, _), _)| *at);
        [tick(&self.client), tick(&self.server), self.up.next_at(), self.down.next_at(), task]
            .into_iter()
            .flatten()
            .min()
    }

    fn tick(&mut self, who: Role) {
        let due = self.side(who).session.deadline().is_some_and(|at| at + self.plan.tick_late <= self.now);
        if !due {
            return;
        }
        self.feed(who, Input::Tick);
        let now = self.now;
        if self.side(who).session.deadline().is_some_and(|at| at <= now) {
            self.oracle.fail(|| format!("{who:?} wants a tick at once after a tick"));
        }
    }

    /// Writes, then reads, both ways.
    fn move_bytes(&mut self) {
        for who in [Role::Client, Role::Server] {
            if self.write(who) == Wrote::Cut {
                self.cut();
            }
            let departed = self.pipe(who).departed();
            self.side(who).session.departed(departed);
        }
        for who in [Role::Client, Role::Server] {
            let now = self.now;
            while let Some(arrived) = self.pipe(other(who)).read(now) {
                self.arrive(who, arrived);
            }
        }
    }

    /// The link breaks, for both sides. What was on its way may be lost with it.
    fn cut(&mut self) {
        let causes = [Cause::ClosedByPeer, Cause::Io("reset".into()), Cause::Stalled];
        for who in [Role::Client, Role::Server] {
            if self.rng.percent(30) {
                self.pipe(who).lose_flight();
            }
            let now = self.now;
            self.pipe(who).end(End::Whole, now);
            let cause = self.rng.pick(&causes);
            let wait = millis(self.rng.pick(&[0, 1, 400]));
            self.later(wait, Task::Gone { who, cause });
        }
    }

    fn arrive(&mut self, who: Role, arrived: Arrived) {
        let lane = LaneId::MAIN;
        let broken = |rule, excerpt: &str| Input::Broken {
            lane,
            violation: Violation::of(rule),
            excerpt: excerpt.into(),
        };
        let input = match arrived {
            Arrived::Line(Line::Frame(bytes)) => Input::Frame { lane, bytes },
            Arrived::Line(Line::Oversize { .. }) => broken(Rule::Oversize, "too long"),
            // F4: a fragment is told of, and never taken for a message.
            Arrived::Line(Line::Unterminated(_)) => broken(Rule::Unterminated, "half a line"),
            Arrived::Eof(end) => return self.eof(who, end),
        };
        if let Input::Frame { bytes, .. } = &input {
            self.oracle.arrives(who, bytes, self.now);
        }
        self.feed(who, input);
    }

    /// The peer sends nothing more. A driver may see only that, or the end of the whole link.
    fn eof(&mut self, who: Role, end: End) {
        if end == End::Half || self.rng.percent(50) {
            self.feed(who, Input::ReadClosed);
        }
        if end == End::Whole {
            let wait = millis(self.rng.pick(&[0, 5, 600]));
            self.later(wait, Task::Gone { who, cause: Cause::ClosedByPeer });
        }
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Command => self.next_command(),
            Task::Handler { key, act } => {
                let nonce = self.nonces.get(&key).copied().flatten();
                let command = workload::act(act, key, nonce, self.steps, &mut self.rng);
                self.command(Role::Server, command);
            }
            Task::Person { ask } => {
                let nonce = self.asked.get(&ask).copied().flatten();
                let command = workload::answer_ask(ask, nonce, &mut self.rng);
                self.command(Role::Client, command);
            }
            Task::Gone { who, cause } => self.gone(who, cause),
        }
    }

    fn next_command(&mut self) {
        let (who, command) = self.workload.command(&mut self.rng);
        self.command(who, command);
        // Of a dead session little is to be learnt.
        self.commands += if self.client.link == Link::Up { 1 } else { 8 };
        let pause = millis(self.rng.below(self.plan.pause_ms + 1));
        if self.commands < self.plan.commands && !self.rng.is_spent() {
            self.later(pause, Task::Command);
        }
    }

    fn command(&mut self, who: Role, command: Command) {
        let config = self.config(who);
        self.oracle.commanded(who, &command, &config, self.now);
        self.feed(who, Input::Local(command));
    }

    /// The driver of one side learns that the link is gone.
    fn gone(&mut self, who: Role, cause: Cause) {
        if self.side(who).link == Link::Gone {
            return;
        }
        // What the driver closed itself, it calls by the cause that it was given.
        let cause = match &self.side(who).link {
            Link::Closing(cause) => cause.clone(),
            Link::Up | Link::Gone => cause,
        };
        self.feed(who, Input::Closed { cause });
        self.side(who).link = Link::Gone;
        let now = self.now;
        self.pipe(who).end(End::Whole, now);
    }

    /// Tells a session something, and does what it wants done.
    fn feed(&mut self, who: Role, input: Input) {
        let delivers = !matches!(input, Input::Local(_) | Input::Tick);
        if delivers && self.side(who).link == Link::Gone {
            return;
        }
        self.note("in", |_| format!("{who:?} {}", show::input(&input)));
        let now = self.now;
        let session = &mut self.side(who).session;
        session.handle(now, input);
        let mut outputs = Vec::new();
        while let Some(output) = session.poll() {
            outputs.push(output);
        }
        let count = outputs.len();
        for output in outputs {
            self.put(who, output);
        }
        let config = self.config(who);
        let side = match who {
            Role::Client => &self.client,
            Role::Server => &self.server,
        };
        self.oracle.stepped(who, &side.session, count, &config);
    }

    fn put(&mut self, who: Role, output: Output) {
        self.note("out", |_| format!("{who:?} {}", show::output(&output)));
        let config = self.config(who);
        let tainted = match &output {
            Output::Send { message: Outgoing::One(Envelope::Reply(reply)), .. } => {
                let id = reply.id.as_ref().and_then(|id| id.as_number());
                id.is_some_and(|id| self.pipe(other(who)).is_tainted(id))
            }
            _ => false,
        };
        self.oracle.output(who, &output, self.now, &config, tainted);
        match output {
            Output::Send { message, frame, turn, .. } => {
                self.mix_message(&message);
                self.send(who, (frame, turn), &message, config.limits.outbox_bytes);
            }
            Output::Retract { frame } => {
                self.mix_two(10, frame);
                self.pipe(who).retract(frame);
            }
            Output::Close { cause } => {
                self.mix(1);
                let side = self.side(who);
                if side.link == Link::Up {
                    side.link = Link::Closing(cause.clone());
                }
                let wait = millis(self.rng.pick(&[0, 0, 10, 200]));
                self.later(wait, Task::Gone { who, cause });
            }
            Output::EndLane { .. } | Output::Release { .. } => {}
            Output::Event(event) => self.react(who, event),
        }
    }

    /// Our side hears of something, and will do something about it.
    fn react(&mut self, who: Role, event: Event) {
        match event {
            Event::Called(called) => {
                let nonce = called.call.params.raw().and_then(|raw| nonce_in(raw));
                self.mix_two(2, called.key.0);
                self.nonces.insert(called.key, nonce);
                let round = self.rounds.entry(nonce.unwrap_or(0)).or_default();
                *round += usize::from(called.answers.is_some());
                let round = *round;
                for (wait, act) in self.workload.handle(called.key, round, &mut self.rng) {
                    self.later(wait, Task::Handler { key: called.key, act });
                }
            }
            Event::Asked { ask, what, .. } => {
                self.mix_two(3, ask.0);
                self.asked.insert(ask, what.params.as_ref().and_then(|raw| nonce_in(raw)));
                if let Some(wait) = self.workload.asked(ask, &mut self.rng) {
                    self.later(wait, Task::Person { ask });
                }
            }
            Event::Settled { ticket, outcome } => {
                self.mix_two(4, ticket.0);
                self.mix(outcome.may_have_executed().into());
            }
            Event::State(change) => {
                self.mix_two(5, change.to as u64);
                if who == Role::Client && change.to == State::Ready && self.commands == 0 {
                    self.agenda.retain(|_, task| !matches!(task, Task::Command));
                    self.later(millis(0), Task::Command);
                }
            }
            Event::Withdrawn { key, .. } => self.mix_two(6, key.0),
            Event::Found(finding) => self.mix_two(7, finding.rule as u64),
            Event::Progressed { ticket, .. } => self.mix_two(8, ticket.0),
            _ => self.mix_two(9, u64::from(who == Role::Client)),
        }
    }

    /// Everything is at rest: what must be so now, and after the end.
    fn finish(&mut self) {
        if self.oracle.failure().is_some() {
            return;
        }
        self.check_opening();
        if self.plan.is_honest() && self.client.link == Link::Up && self.server.link == Link::Up {
            self.oracle.check_rest(&self.client.session, &self.server.session);
        }
        if self.plan.is_honest() {
            self.oracle.check_repeats();
        }
        let reason = || "the end".into();
        match self.plan.ending {
            Ending::Client => self.command(Role::Client, Command::Close { reason: reason() }),
            Ending::Server => self.command(Role::Server, Command::Close { reason: reason() }),
            Ending::Cut => self.cut(),
        }
        while self.oracle.failure().is_none() && self.step() {}
        for who in [Role::Client, Role::Server] {
            self.gone(who, Cause::ClosedByPeer);
        }
        self.oracle.check_end(Role::Client, &self.client.session);
        self.oracle.check_end(Role::Server, &self.server.session);
    }

    /// On a calm link, two sides that have a revision in common find it.
    fn check_opening(&mut self) {
        if !self.plan.is_calm() || self.client.link != Link::Up || self.server.link != Link::Up {
            return;
        }
        let found = self.client.session.revision().map(|revision| revision.era());
        let common: Option<Era> = self.plan.common_era();
        if found != common || (common.is_some() && self.client.session.state() != State::Ready) {
            let state = self.client.session.state();
            self.oracle
                .fail(|| format!("the client settled on {found:?} and is {state:?}, {common:?} is common"));
        }
    }

    fn later(&mut self, wait: std::time::Duration, task: Task) {
        self.scheduled += 1;
        self.agenda.insert((self.now + wait, self.scheduled), task);
    }

    fn side(&mut self, who: Role) -> &mut Side {
        match who {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }

    fn config(&self, who: Role) -> Arc<Config> {
        match who {
            Role::Client => self.plan.client.clone(),
            Role::Server => self.plan.server.clone(),
        }
    }

    /// The pipe that `who` writes into.
    fn pipe(&mut self, who: Role) -> &mut Pipe {
        match who {
            Role::Client => &mut self.up,
            Role::Server => &mut self.down,
        }
    }

    fn write(&mut self, who: Role) -> Wrote {
        match who {
            Role::Client => self.up.write(self.now, &mut self.rng),
            Role::Server => self.down.write(self.now, &mut self.rng),
        }
    }

    fn send(&mut self, who: Role, place: (u64, Turn), message: &Outgoing, max_bytes: usize) {
        match who {
            Role::Client => self.up.send(place, message, max_bytes, self.now, &mut self.rng),
            Role::Server => self.down.send(place, message, max_bytes, self.now, &mut self.rng),
        }
    }

    fn note(&mut self, what: &str, text: impl FnOnce(&Self) -> String) {
        if self.trace.is_none() {
            return;
        }
        let line = format!("{:>10?} {what:<4} {}", self.now, text(self));
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(line);
        }
    }

    fn mix_message(&mut self, message: &Outgoing) {
        let mut bytes = Vec::with_capacity(128);
        message.write(&mut bytes);
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(word);
        }
    }

    fn mix_two(&mut self, kind: u64, detail: u64) {
        self.mix(kind << 48 ^ detail);
    }

    fn mix(&mut self, word: u64) {
        let moment = self.now.elapsed().as_micros() as u64;
        self.digest = (self.digest.rotate_left(7) ^ word ^ moment << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

fn other(who: Role) -> Role {
    match who {
        Role::Client => Role::Server,
        Role::Server => Role::Client,
    }
}
