//! Client: from a fresh link to calls that flow. Probe for the modern era, else shake hands.

use bytes::Bytes;

use super::Session;
use super::config::{EraChoice, Role};
use super::event::{CallOptions, Cause, Event, LaneId, Silence};
use super::state::State;
use super::tables::{Grave, Purpose};
use crate::era::caps::ServerCaps;
use crate::era::probe::{Evidence, Next, Probe};
use crate::era::{self, Era, Revision, Revisions};
use crate::finding::Rule;
use crate::http::status::Verdict;
use crate::jsonrpc::envelope::Reply;
use crate::jsonrpc::fault::{Fault, code};
use crate::method::Method;
use crate::moment::Moment;

/// What the opening remembers.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// When the current step is given up.
    pub(super) deadline: Option<Moment>,
    /// When all of it is: the probe has a share of the handshake's time.
    end: Option<Moment>,
    /// The result that opened the session.
    pub(super) greeting: Option<Bytes>,
    /// The wire id of the probe, for an answer that comes late.
    probe: Option<i64>,
    retried: bool,
    reprobed: bool,
}

impl Session {
    pub(super) fn open(&mut self) {
        if self.state != State::Disconnected {
            return;
        }
        self.forget_peer();
        self.become_state(State::Connecting, None);
        let synthetic = self.config.dialect.synthetic_greeting();
        if self.config.role == Role::Server {
            self.become_state(State::Ready, None);
            if synthetic.is_some() {
                // There is no handshake after which a client could have gone on.
                let (revision, capabilities) = (Revision::LATEST_LEGACY, Bytes::from_static(b"{}"));
                self.event(Event::Greeted { revision, capabilities, identity: None });
            }
            return;
        }
        if let Some((greeting, capabilities)) = synthetic {
            self.server = ServerCaps::read(capabilities);
            self.opening.greeting = Some(Bytes::from_static(greeting));
            return self.opened(Revision::LATEST_LEGACY);
        }
        match (self.config.era, self.config.revisions.newest(Era::Modern)) {
            (EraChoice::Auto | EraChoice::Modern, Some(revision)) => match self.met() {
                Some((next, greeting)) => self.proceed(next, Some(&greeting)),
                None => self.probe(revision),
            },
            (EraChoice::Auto | EraChoice::Legacy, _) => self.shake_hands(None),
            (EraChoice::Modern, None) => self.end(Cause::NoCommonRevision { theirs: Vec::new() }),
        }
    }

    /// What is known of a modern server before it is asked; nothing where that does not lead to a session with it.
    fn met(&self) -> Option<(Next, Bytes)> {
        let greeting = self.config.greeting.clone()?;
        let next = self.prober().judge(Evidence::Result(&greeting));
        matches!(next, Next::Modern { .. }).then_some((next, greeting))
    }

    /// A new link is a new peer until it shows otherwise. Only ids and findings go on.
    fn forget_peer(&mut self) {
        self.opening = Opening::default();
        self.carrier = self.carrier.renewed();
        (self.revision, self.shaken) = (None, None);
        self.noise = 0;
        match self.config.role {
            Role::Client => self.server = ServerCaps::default(),
            Role::Server => self.log_level = None,
        }
    }

    fn probe(&mut self, revision: Revision) {
        if self.state != State::Probing {
            self.become_state(State::Probing, None);
        }
        let id = self.start(
            Purpose::Probe,
            Method::Discover,
            None,
            CallOptions::default(),
            Some(revision),
            LaneId::MAIN,
            0,
        );
        self.opening.probe = Some(id);
        let limits = &self.config.limits;
        let end = *self.opening.end.get_or_insert(self.now + limits.open_timeout);
        let patience = match (self.carrier.silence(), self.prober().judge(Evidence::Silence)) {
            // There is nothing to fall back to, so the probe has as long as the handshake would have.
            (Silence::IsFailure, _) | (Silence::IsLegacy, Next::Fail(_)) => limits.open_timeout,
            // Half is left for the handshake, however little there is.
            (Silence::IsLegacy, _) => limits.probe_timeout.min(limits.open_timeout / 2),
        };
        self.opening.deadline = Some((self.now + patience).min(end));
    }

    /// The legacy handshake; `cause`: why it is done again.
    pub(super) fn shake_hands(&mut self, cause: Option<Cause>) {
        let Some(revision) = self.config.revisions.newest(Era::Legacy) else {
            return self.end(Cause::NoCommonRevision { theirs: Vec::new() });
        };
        self.become_state(State::Initializing, cause);
        let params = era::initialize_params(&self.config, revision);
        let options = CallOptions::default();
        self.start(
            Purpose::Handshake,
            Method::Initialize,
            Some(params),
            options,
            Some(revision),
            LaneId::MAIN,
            0,
        );
        // A handshake that is made again, long after the first, has all of the time.
        let end = self.opening.end.take().filter(|end| *end > self.now);
        self.opening.deadline = Some(end.unwrap_or(self.now + self.config.limits.open_timeout));
    }

    pub(super) fn probe_replied(&mut self, outcome: &Result<Bytes, Fault>) {
        let evidence = match outcome {
            Ok(result) => Evidence::Result(result),
            Err(fault) => Evidence::Fault(fault),
        };
        let next = self.prober().judge(evidence);
        self.proceed(next, outcome.as_ref().ok());
    }

    /// No answer.
    fn probe_silent(&mut self) {
        let next = match self.carrier.silence() {
            Silence::IsLegacy => self.prober().judge(Evidence::Silence),
            Silence::IsFailure => Next::Fail(Cause::OpenTimeout),
        };
        self.proceed(next, None);
    }

    /// Nonsense is no modern evidence. Who has no handshake to fall back to is told what it was.
    pub(super) fn probe_broken(&mut self, rule: Rule) {
        let next = match self.prober().judge(Evidence::Silence) {
            Next::Fail(_) => Next::Fail(Cause::Violated(rule)),
            next => next,
        };
        self.proceed(next, None);
    }

    /// What carried the probe failed. Only an answer speaks of the era; silence of the way does not.
    pub(super) fn probe_failed(&mut self, cause: Cause) {
        let verdict = match &cause {
            Cause::Http(failure) => failure.of_probe(),
            _ => Verdict::Failure,
        };
        let next = match verdict {
            Verdict::Legacy => self.prober().judge(Evidence::Silence),
            Verdict::Auth | Verdict::Failure | Verdict::Modern { .. } => Next::Fail(cause.clone()),
        };
        let next = if matches!(next, Next::Fail(_)) { Next::Fail(cause) } else { next };
        self.proceed(next, None);
    }

    fn prober(&self) -> Probe {
        let ours = match self.config.era {
            EraChoice::Modern => self.config.revisions.of(Era::Modern).collect::<Revisions>(),
            EraChoice::Auto | EraChoice::Legacy => self.config.revisions,
        };
        Probe { ours, retried: self.opening.retried }
    }

    fn proceed(&mut self, next: Next, greeting: Option<&Bytes>) {
        self.opening.deadline = None;
        match next {
            Next::Modern { revision, capabilities } => {
                self.opening.greeting = greeting.cloned();
                self.server = ServerCaps::read(&capabilities);
                self.opened(revision);
            }
            Next::Retry(revision) => {
                self.opening.retried = true;
                self.probe(revision);
            }
            Next::Handshake => self.shake_hands(None),
            Next::Fail(cause) => self.end(cause),
        }
    }

    pub(super) fn handshake_replied(&mut self, outcome: Result<Bytes, Fault>) {
        self.opening.deadline = None;
        let result = match outcome {
            Ok(result) => result,
            Err(fault) => return self.handshake_refused(fault),
        };
        let Some((date, capabilities)) = era::read_initialize_result(&result) else {
            self.find(Rule::ResultShape, None, "the answer to initialize lacks protocolVersion".into());
            return self.end(Cause::Violated(Rule::ResultShape));
        };
        let revision =
            Revision::parse(&date).filter(|r| r.era() == Era::Legacy && self.config.revisions.has(*r));
        let Some(revision) = revision else {
            self.find(Rule::RevisionUnknown, None, date.clone());
            return self.end(Cause::NoCommonRevision { theirs: vec![date.into()] });
        };
        self.opening.greeting = Some(result);
        self.server = ServerCaps::read(&capabilities);
        self.opened(revision);
    }

    fn opened(&mut self, revision: Revision) {
        self.revision = Some(revision);
        let greeting = self.opening.greeting.clone();
        // Told first: the link names the revision in the head of whatever follows.
        self.event(Event::Opened { revision, greeting });
        self.opening.end = None;
        if self.state == State::Initializing && revision.era() == Era::Legacy {
            self.send_note(LaneId::MAIN, Method::Initialized, None);
        }
        self.become_state(State::Ready, None);
        if let Some(level) = self.log_level {
            self.set_level(level);
        }
        self.healed();
    }

    /// A server that refuses the handshake by naming revisions is modern after all.
    fn handshake_refused(&mut self, fault: Fault) {
        let modern = self.config.revisions.newest(Era::Modern).filter(|_| self.config.era == EraChoice::Auto);
        match modern {
            Some(_) if fault.code == code::UNSUPPORTED_VERSION && !self.opening.reprobed => {
                self.opening.reprobed = true;
                self.opening.retried = false;
                match self.prober().judge(Evidence::Fault(&fault)) {
                    Next::Retry(revision) => self.probe(revision),
                    _ => self.end(Cause::OpenRefused(fault)),
                }
            }
            _ => self.end(Cause::OpenRefused(fault)),
        }
    }

    /// The probe's answer came after we had given up on it. While the handshake is not answered
    /// either, staying modern is the safe choice: a modern-only server would refuse the handshake.
    pub(super) fn late_probe(&mut self, id: i64, reply: &Reply) -> bool {
        let late = self.opening.probe == Some(id) && self.state == State::Initializing;
        let Ok(result) = &reply.outcome else { return false };
        if !late || self.outbound.grave(id) != Some(Grave::Passed) {
            return false;
        }
        let next = self.prober().judge(Evidence::Result(result));
        if !matches!(next, Next::Modern { .. }) {
            return false;
        }
        for handshake in self.outbound.ids() {
            self.outbound.remove(handshake, Grave::GivenUp, self.config.limits.tombstones);
        }
        self.find(Rule::LateReply, reply.id.clone(), "the answer to the probe".into());
        self.proceed(next, Some(result));
        true
    }

    /// A step of the opening that took too long.
    pub(super) fn opening_due(&mut self) {
        if self.opening.deadline.is_none_or(|deadline| deadline > self.now) {
            return;
        }
        self.opening.deadline = None;
        self.tell_begun(None);
        if self.state == State::Probing {
            if let Some(id) = self.opening.probe {
                self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones);
            }
            self.probe_silent();
        } else {
            // VER-11: `initialize` itself is never cancelled; the link ends.
            self.end(Cause::OpenTimeout);
        }
    }
}
