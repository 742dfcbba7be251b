//! All standing listens of a connection, brought in force on every link.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cardan_proto::session::event::{Change, Interest, Outcome, Refusal};
use cardan_runtime::peer::{CallHandle, Happening, Peer};

use super::ear::Ear;

/// The listens, and what carries each on the link there is.
#[derive(Debug, Default)]
pub(super) struct Ears {
    ears: Vec<Carried>,
    told: Told,
}

#[derive(Debug)]
struct Carried {
    ear: Arc<Ear>,
    handle: Option<CallHandle>,
    /// What was dropped on its way here, as far as the ear knows.
    dropped: u64,
    hearing: Hearing,
    /// Whoever listens knows that it was in force once, for this.
    acknowledged: Option<Interest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearing {
    /// It is to be brought in force at once.
    Wanted,
    /// It broke, and is tried again when upkeep says so.
    Broken,
    /// It is in force.
    InForce,
}

/// What was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Told {
    #[default]
    All,
    Less,
}

/// What is news about all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// All are in force, after some were not: changes may have been missed on this very link.
    All,
    /// One is not in force although the link lives.
    Less,
}

impl Ears {
    /// Takes in who listens now. Who does no longer is told to the server.
    pub(super) fn sync(&mut self, ears: Vec<Arc<Ear>>) {
        self.ears.retain(|carried| ears.iter().any(|ear| Arc::ptr_eq(ear, &carried.ear)));
        for ear in ears {
            if !self.ears.iter().any(|carried| Arc::ptr_eq(&ear, &carried.ear)) {
                self.ears.push(Carried::new(ear));
            }
        }
    }

    /// The link is gone.
    pub(super) fn lost(&mut self) {
        self.told = Told::All;
        for carried in &mut self.ears {
            (carried.handle, carried.hearing) = (None, Hearing::Wanted);
        }
    }

    /// The session was replaced under listens that stand: nobody told what changed meanwhile.
    pub(super) fn missed(&self) {
        for carried in self.ears.iter().filter(|carried| carried.hearing == Hearing::InForce) {
            if let Some(interest) = &carried.acknowledged {
                missed(&carried.ear, interest);
            }
        }
    }

    /// Tries again whatever is not in force.
    pub(super) fn relisten(&mut self, peer: Option<&Peer>) {
        let Some(peer) = peer else { return };
        for carried in self.ears.iter_mut().filter(|carried| carried.handle.is_none()) {
            carried.carry(peer);
        }
    }

    /// Passes on what is heard.
    pub(super) fn poll(&mut self, peer: &Peer, cx: &mut Context<'_>) -> Poll<Heard> {
        let mut broke = false;
        for carried in &mut self.ears {
            if carried.hearing == Hearing::Wanted && carried.handle.is_none() {
                carried.carry(peer);
            }
            broke |= carried.poll(cx) == Listened::Broke;
        }
        self.ears.retain(|carried| !carried.ear.is_over());
        if broke {
            self.told = Told::Less;
            return Poll::Ready(Heard::Less);
        }
        let all = self.ears.iter().all(|carried| carried.hearing == Hearing::InForce);
        if all && std::mem::take(&mut self.told) == Told::Less {
            return Poll::Ready(Heard::All);
        }
        Poll::Pending
    }
}

/// What one poll of a listen says.
#[derive(Debug, PartialEq, Eq)]
enum Listened {
    Fine,
    Broke,
}

impl Carried {
    fn new(ear: Arc<Ear>) -> Self {
        Self { ear, handle: None, dropped: 0, hearing: Hearing::Wanted, acknowledged: None }
    }

    fn carry(&mut self, peer: &Peer) {
        (self.handle, self.dropped) = (Some(peer.listen(self.ear.interest.clone())), 0);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Listened {
        let Some(handle) = &mut self.handle else { return Listened::Fine };
        loop {
            let heard = handle.poll_next(cx);
            // A link that brings more at once than is kept has dropped the oldest itself.
            let dropped = handle.dropped();
            self.ear.missed(dropped - std::mem::replace(&mut self.dropped, dropped));
            match heard {
                Poll::Pending => return Listened::Fine,
                Poll::Ready(Some(Happening::Listening(interest))) => {
                    self.hearing = Hearing::InForce;
                    match self.acknowledged.replace(interest.clone()) {
                        None => self.ear.hear(Happening::Listening(interest)),
                        Some(_) => missed(&self.ear, &interest),
                    }
                }
                Poll::Ready(Some(happening)) => self.ear.hear(happening),
                Poll::Ready(None) => break,
            }
        }
        let Poll::Ready(outcome) = Pin::new(handle).poll(cx) else { return Listened::Fine };
        self.handle = None;
        match outcome {
            // The server does not want it, and will not want it the next time.
            Outcome::Fault(_) | Outcome::Violated(_) => self.ear.end(outcome),
            Outcome::Refused(ref refusal) if *refusal != Refusal::NotOpen => self.ear.end(outcome),
            _ => {
                // From now on it is carried anew only when upkeep says so.
                self.hearing = Hearing::Broken;
                return Listened::Broke;
            }
        }
        Listened::Fine
    }
}

/// What may have changed while nobody told. Lists are compared instead.
fn missed(ear: &Ear, interest: &Interest) {
    for uri in &interest.uris {
        ear.hear(Happening::Change(Change::Resource(uri.clone().into())));
    }
}
