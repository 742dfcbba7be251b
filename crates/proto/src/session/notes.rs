//! Notes of the peer: routed to the call or listen they belong to. Never answered.

use serde::Deserialize;

use super::Session;
use super::event::Event;
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Note, Param, Params};
use crate::jsonrpc::id::CallId;
use crate::method::Method;

impl Session {
    pub(super) fn note_to_server(&mut self, note: Note) {
        let note = self.standard(note);
        match note.method {
            Method::Initialized => self.peer_is_ready(),
            Method::Cancelled => self.cancelled_by_client(&note),
            Method::Progress => self.progressed(&note.params),
            Method::RootsListChanged | Method::TasksStatus => self.event(Event::Noted(kept(note))),
            _ => self.stray(note),
        }
    }

    pub(super) fn note_to_client(&mut self, note: Note) {
        match note.method {
            Method::Progress => self.progressed(&note.params),
            Method::Cancelled => self.cancelled_by_server(&note),
            Method::SubscriptionsAcknowledged => self.acknowledged(&note),
            Method::Message => {
                if let Some(params) = kept(note).params.raw() {
                    let params = params.clone();
                    self.event(Event::Logged { params });
                }
            }
            Method::ElicitationComplete | Method::TasksStatus | Method::Tasks => {
                self.event(Event::Noted(kept(note)));
            }
            ref change if change.is_change() => self.changed(&kept(note)),
            _ => self.stray(note),
        }
    }

    /// A note that means nothing here. Our side may know better.
    fn stray(&mut self, note: Note) {
        let rule =
            if matches!(note.method, Method::Other(_)) { Rule::NoteUnknown } else { Rule::NoteMisplaced };
        self.find(rule, None, note.method.to_string());
        self.event(Event::Noted(kept(note)));
    }

    /// Races are no errors: a cancel for a call that is not running is only worth a line.
    fn cancelled_by_client(&mut self, note: &Note) {
        let Some(id) = self.cancelled_id(note) else {
            return self.find(Rule::CancelUnknown, None, "no requestId".into());
        };
        if let Some(key) = self.inbound.find(&id) {
            let reason = reason_of(&note.params, self.config.limits.reason_bytes);
            self.withdraw(key, &reason);
            return self.drained();
        }
        if !self.listen_cancelled(&id) {
            self.find(Rule::CancelUnknown, Some(id), String::new());
        }
    }

    fn cancelled_by_server(&mut self, note: &Note) {
        let Some(id) = self.cancelled_id(note) else {
            return self.find(Rule::CancelUnknown, None, "no requestId".into());
        };
        let listen = id.as_number().is_some_and(|id| self.listen_torn_down(id));
        let reason = reason_of(&note.params, self.config.limits.reason_bytes);
        if !listen && !self.ask_cancelled(&id, &reason) {
            self.find(Rule::CancelUnknown, Some(id), String::new());
        }
    }

    fn cancelled_id(&self, note: &Note) -> Option<CallId> {
        let raw = note.params.get(Param::RequestId)?;
        CallId::parse(&raw, self.config.limits.id_bytes).ok()
    }
}

/// The note in memory of its own: many may wait for whoever reads them late, each in what was read with it.
fn kept(note: Note) -> Note {
    Note { params: note.params.detached(), ..note }
}

/// The reason of a cancel note, for the log and for whoever the call was passed on to. Nothing: none was given.
fn reason_of(params: &Params, max_bytes: usize) -> String {
    #[derive(Deserialize)]
    struct Wire {
        reason: Option<String>,
    }
    let mut reason = params.decode::<Wire>().ok().and_then(|wire| wire.reason).unwrap_or_default();
    reason.truncate(reason.floor_char_boundary(max_bytes));
    reason
}
