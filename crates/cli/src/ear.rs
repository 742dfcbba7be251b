//! Who listens: what a server tells is told on where it happens, so that its order is the order of the wire.
//!
//! There is no queue beside the link's own: log notes, changes and other notes all pass here, one after another.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Change, Event, Interest, Ticket};
use serde_json::json;
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::look::{Tagging, tagging};
use crate::output::{self, Form, Reader, clean, json_line, tell};
use crate::tagged;

/// What is listened to, and how it is told. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Ear(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wanted: Interest,
    /// What of it the server declares to tell, once that is known.
    offered: OnceLock<Interest>,
    form: Form,
    /// Nobody reads any more, or nothing can be written.
    ended: Notify,
    failure: Mutex<Option<Failure>>,
}

impl Ear {
    pub(crate) fn new(wanted: Interest, form: Form) -> Self {
        let (offered, ended, failure) = (OnceLock::new(), Notify::new(), Mutex::default());
        Self(Arc::new(Inner { wanted, offered, form, ended, failure }))
    }

    pub(crate) fn wanted(&self) -> &Interest {
        &self.0.wanted
    }

    /// The server tells no more than this of it.
    pub(crate) fn offered(&self, offered: &Interest) {
        let _ = self.0.offered.set(offered.clone());
    }

    /// What of it stands, where a server has agreed to this. A legacy server agrees to nothing but addresses; what it declared
    /// is all that is known.
    pub(crate) fn stands(&self, agreed: &Interest) -> Interest {
        let offered = self.0.offered.get().unwrap_or(&self.0.wanted);
        Interest {
            tools: agreed.tools && offered.tools,
            prompts: agreed.prompts && offered.prompts,
            resources: agreed.resources && offered.resources,
            ..agreed.clone()
        }
    }

    /// What stands, in words, and what of what is wanted does not.
    pub(crate) fn standing(&self, stands: &Interest) -> String {
        let (listened, wanted) = (names(stands), names(&self.0.wanted));
        let missing: Vec<_> = wanted.into_iter().filter(|name| !listened.contains(name)).collect();
        let mut line = format!(
            "listening to {}",
            if listened.is_empty() { "nothing".into() } else { listened.join(", ") }
        );
        if !missing.is_empty() {
            line.push_str(&format!("; the server does not tell changes of {}", missing.join(", ")));
        }
        line
    }

    /// Tells an event, if it is one that only who listens is told. What is not listened to is not told, also where a legacy
    /// server sends it unasked; what is, is told also where it comes before the server has agreed.
    pub(crate) fn event(&self, event: &Event, secrets: &Redactor) {
        match event {
            Event::Listening { interest, .. } => tell(&self.standing(&self.stands(interest))),
            Event::Changed { tickets, change } if self.concerns(tickets, change) => {
                self.changed(change, secrets)
            }
            Event::Noted(note) if tagging() != Tagging::Lines => {
                let params =
                    note.params.raw().map(|params| String::from_utf8_lossy(params)).unwrap_or_default();
                let line = format!("note: {} {params}", note.method.name());
                tell(secrets.redact(line.trim_end()).as_ref());
            }
            _ => {}
        }
    }

    /// A modern server says which listen it means, and may spell an address otherwise than we did.
    fn concerns(&self, tickets: &[Ticket], change: &Change) -> bool {
        let is_ours = matches!(change, Change::Resource(_)) && !tickets.is_empty();
        is_ours || self.0.wanted.covers(change)
    }

    fn changed(&self, change: &Change, secrets: &Redactor) {
        let change = match change {
            Change::Resource(uri) => &Change::Resource(secrets.redact(uri).as_ref().into()),
            other => other,
        };
        match output::write(&line(change, self.0.form)) {
            Ok(Reader::There) => return,
            Ok(Reader::Gone) => {}
            Err(failure) => *self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure),
        }
        self.0.ended.notify_one();
    }

    /// Waits until nobody reads what is told, or until that cannot be written.
    pub(crate) async fn ended(&self) -> Result<(), Failure> {
        self.0.ended.notified().await;
        let failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }
}

fn names(interest: &Interest) -> Vec<String> {
    let lists = [("tools", interest.tools), ("prompts", interest.prompts), ("resources", interest.resources)];
    let lists = lists.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned());
    lists.chain(interest.uris.iter().map(|uri| uri.to_string())).collect()
}

fn line(change: &Change, form: Form) -> String {
    let (what, uri) = match change {
        Change::Tools => ("tools", None),
        Change::Prompts => ("prompts", None),
        Change::Resources => ("resources", None),
        Change::Resource(uri) => ("resource", Some(&**uri)),
        Change::Task { id, .. } => ("task", Some(&**id)),
    };
    match (form, uri) {
        _ if tagging() == Tagging::Lines => json_line(&tagged::changed(change)).into_owned(),
        (Form::Json, Some(uri)) => {
            json_line(&json!({ "changed": what, "uri": uri }).to_string()).into_owned()
        }
        (Form::Json, None) => json!({ "changed": what }).to_string(),
        (Form::Text, Some(uri)) => format!("{what} changed: {}", clean(uri)),
        (Form::Text, None) => format!("{what} changed"),
    }
}
