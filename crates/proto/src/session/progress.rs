//! Progress, both directions: only upwards, no faster than the limit, the newest value held, not lost.
//!
//! What is passed on from one session to another is none of our own: each note goes as it came, and where a value does
//! not grow, that is recorded. How much of it may wait is bounded where it waits.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::Session;
use super::event::{CallKey, Event, LaneId, Progress, Steps, Wanted};
use super::tables::{Grave, Pending, Purpose};
use crate::era::{Revision, gates};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{MetaKey, Param, Params};
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::scan::Syntax;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::write;
use crate::method::Method;
use crate::moment::Moment;

/// The progress of one call.
#[derive(Debug, Default)]
pub(super) struct Pace {
    greatest: Option<f64>,
    window: Moment,
    passed: u32,
    held: Option<Progress>,
}

/// What becomes of a value.
enum Step {
    /// It goes on.
    Pass(Progress),
    /// It waits until then, unless a newer one takes its place.
    Hold(Moment),
}

/// Log notes of one link. What is too much is dropped: unlike progress, no note stands for the others.
#[derive(Debug, Default)]
pub(super) struct LogPace {
    quota: Quota,
    dropped: u64,
}

/// So many in a period, and then no more until the next one begins.
#[derive(Debug, Default)]
pub(super) struct Quota {
    window: Moment,
    passed: u32,
}

impl Quota {
    /// May `count` more pass now? They do together or not at all.
    pub(super) fn admits(&mut self, count: u32, now: Moment, max: u32, period: Duration) -> bool {
        if now.since(self.window) >= period {
            (self.window, self.passed) = (now, 0);
        }
        let admits = self.passed.saturating_add(count) <= max;
        if admits {
            self.passed += count;
        }
        admits
    }
}

impl LogPace {
    /// May one more go out now?
    pub(super) fn admits(&mut self, now: Moment, max: u32) -> bool {
        let admits = self.quota.admits(1, now, max, SECOND);
        if !admits {
            self.dropped += 1;
        }
        admits
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

const SECOND: Duration = Duration::from_secs(1);

impl Pace {
    /// Was there any?
    pub(super) fn is_known(&self) -> bool {
        self.greatest.is_some()
    }

    fn grows(&self, progress: &Progress) -> bool {
        self.greatest.is_none_or(|greatest| progress.progress > greatest)
    }

    fn reach(&mut self, value: f64) {
        self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
    }

    fn take(&mut self, progress: Progress, now: Moment, max: u32) -> Step {
        self.reach(progress.progress);
        if now.since(self.window) >= SECOND {
            (self.window, self.passed) = (now, 0);
        }
        if self.passed >= max {
            self.held = Some(progress);
            return Step::Hold(self.window + SECOND);
        }
        self.passed += 1;
        self.held = None;
        Step::Pass(progress)
    }

    /// When the held value may go on.
    fn due(&self) -> Option<Moment> {
        self.held.as_ref().map(|_| self.window + SECOND)
    }

    fn release_if_due(&mut self, now: Moment) -> Option<Progress> {
        if self.due().is_some_and(|due| due <= now) { self.release(now) } else { None }
    }

    fn release(&mut self, now: Moment) -> Option<Progress> {
        let held = self.held.take()?;
        (self.window, self.passed) = (now, 1);
        Some(held)
    }
}

/// The progress token of a call: a string or a number, anything else is none.
pub(super) fn token_of(params: &Params) -> Option<Bytes> {
    params
        .meta(MetaKey::ProgressToken)
        .filter(|token| matches!(token.first(), Some(b'"' | b'-' | b'0'..=b'9')))
}

/// The params of a progress note, for whoever is meant by this token in this revision.
pub(super) fn addressed(params: &[u8], token: &[u8], revision: Revision) -> Result<Bytes, Syntax> {
    let token = Edit::Set(Param::ProgressToken.name(), token);
    match gates(revision).progress_message {
        true => splice(params, &[token]),
        false => splice(params, &[token, Edit::Drop("message")]),
    }
}

/// Does the caller want progress?
pub(super) fn wanted(params: &Params) -> Wanted {
    if token_of(params).is_some() { Wanted::Yes } else { Wanted::No }
}

/// A progress note: the token as an id (it has the same two types) and how far it is.
fn read(params: &Params) -> Option<(CallId, Progress)> {
    #[derive(Deserialize)]
    struct Wire {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let token = CallId::parse(&params.get(Param::ProgressToken)?, usize::MAX).ok()?;
    let wire: Wire = params.decode().ok()?;
    Some((token, Progress { progress: wire.progress, total: wire.total, message: wire.message }))
}

impl Session {
    /// A handler tells how far it is.
    pub(super) fn progress(&mut self, key: CallKey, progress: Progress) {
        let (now, max) = (self.now, self.config.limits.progress_per_second);
        let Some(running) = self.inbound.get_mut(key) else { return };
        let wanted = token_of(&running.call.params).is_some() && progress.progress.is_finite();
        if !wanted || !running.pace.grows(&progress) {
            return;
        }
        match running.pace.take(progress, now, max) {
            Step::Pass(progress) => self.send_progress(key, &progress),
            Step::Hold(due) => self.ring_by(due),
        }
    }

    fn send_progress(&mut self, key: CallKey, progress: &Progress) {
        let Some(running) = self.inbound.get_mut(key) else { return };
        let Some(token) = token_of(&running.call.params) else { return };
        let (lane, revision) = (running.lane, running.revision);
        let mut params = Vec::with_capacity(96);
        params.extend_from_slice(b"{\"progressToken\":");
        params.extend_from_slice(&token);
        params.extend_from_slice(b",\"progress\":");
        number(progress.progress, &mut params);
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            params.extend_from_slice(b",\"total\":");
            number(total, &mut params);
        }
        if let Some(message) = progress.message.as_ref().filter(|_| gates(revision).progress_message) {
            params.extend_from_slice(b",\"message\":");
            write::string(message, &mut params);
        }
        params.push(b'}');
        self.send_note(lane, Method::Progress, Some(Bytes::from(params)));
    }

    /// How far a call of the peer has come, in the words of whoever runs it.
    pub(super) fn step(&mut self, key: CallKey, params: &[u8]) {
        let Some(running) = self.inbound.get(key) else { return };
        let Some(token) = token_of(&running.call.params) else { return };
        let (lane, params) = (running.lane, addressed(params, &token, running.revision));
        self.send_step(lane, params);
    }

    /// Whoever hands it in has read it: it is an object.
    pub(super) fn send_step(&mut self, lane: LaneId, params: Result<Bytes, Syntax>) {
        if let Ok(params) = params {
            self.send_note(lane, Method::Progress, Some(params));
        }
    }

    /// The newest progress goes out before the reply does.
    pub(super) fn send_held(&mut self, key: CallKey) {
        let now = self.now;
        let held = self.inbound.get_mut(key).and_then(|running| running.pace.release(now));
        if let Some(held) = held {
            self.send_progress(key, &held);
        }
    }

    /// The peer tells how far a call of ours has come.
    pub(super) fn progressed(&mut self, params: &Params) {
        let Some((token, progress)) = read(params) else {
            return self.find(Rule::ParamsShape, None, Method::Progress.to_string());
        };
        let (now, limits) = (self.now, &self.config.limits);
        let (max, idle) = (limits.progress_per_second, limits.call_idle_timeout);
        let id = token.as_number();
        let pending = id.and_then(|id| self.outbound.get_mut(id));
        let untold = !self.config.dialect.has_progress_tokens();
        // A call that did not ask for progress has no token in use.
        let Some(pending) = pending.filter(|pending| untold || pending.options.progress == Wanted::Yes)
        else {
            // What crossed our cancel is nothing that the peer did wrong.
            return match id.and_then(|id| self.outbound.grave(id)) {
                Some(Grave::GivenUp | Grave::Passed) => {}
                _ => self.find(Rule::ProgressUnknown, None, token.to_string()),
            };
        };
        // Progress puts off the idle deadline, never the total one.
        if pending.idle.is_some() {
            pending.idle = Some(now + pending.options.idle.unwrap_or(idle));
        }
        let stuck = (!pending.pace.grows(&progress)).then_some(progress.progress);
        let purpose = pending.purpose.clone();
        let step = match pending.options.steps {
            Steps::Read => Some(pending.pace.take(progress, now, max)),
            Steps::Whole => {
                pending.pace.reach(progress.progress);
                None
            }
        };
        if let Some(value) = stuck {
            self.find(Rule::ProgressStuck, Some(token), value.to_string());
        }
        let Some(step) = step else { return self.stepped(&purpose, params) };
        match (step, purpose) {
            (Step::Pass(progress), Purpose::Call(ticket)) => {
                self.event(Event::Progressed { ticket, progress })
            }
            (Step::Hold(due), Purpose::Call(_)) => self.ring_by(due),
            _ => {}
        }
    }

    fn stepped(&mut self, purpose: &Purpose, params: &Params) {
        if let (Purpose::Call(ticket), Some(raw)) = (purpose, params.raw()) {
            // A copy: many may wait, and a part of what was read would keep all of it.
            let params = Bytes::copy_from_slice(raw);
            self.event(Event::Stepped { ticket: *ticket, params });
        }
    }

    /// The newest progress is told before the outcome is.
    pub(super) fn tell_held(&mut self, pending: &mut Pending) {
        if let (Purpose::Call(ticket), Some(progress)) = (&pending.purpose, pending.pace.release(self.now)) {
            self.event(Event::Progressed { ticket: *ticket, progress });
        }
    }

    /// Passes on what was held back, its second being over.
    pub(super) fn release_progress(&mut self) {
        let now = self.now;
        for key in self.inbound.keys() {
            let held = self.inbound.get_mut(key).and_then(|running| running.pace.release_if_due(now));
            if let Some(held) = held {
                self.send_progress(key, &held);
            }
        }
        for id in self.outbound.ids() {
            let Some(pending) = self.outbound.get_mut(id) else { continue };
            let (held, purpose) = (pending.pace.release_if_due(now), pending.purpose.clone());
            if let (Some(progress), Purpose::Call(ticket)) = (held, purpose) {
                self.event(Event::Progressed { ticket, progress });
            }
        }
    }

    pub(super) fn earliest_progress(&self) -> Option<Moment> {
        let inbound = self.inbound.iter().filter_map(|running| running.pace.due());
        let outbound = self.outbound.iter().filter_map(|(_, pending)| pending.pace.due());
        inbound.chain(outbound).min()
    }
}

/// A number as JSON: whole ones without a fraction, since some peers read integers only.
fn number(value: f64, out: &mut Vec<u8>) {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        out.extend_from_slice((value as i64).to_string().as_bytes());
    } else {
        out.extend_from_slice(value.to_string().as_bytes());
    }
}
