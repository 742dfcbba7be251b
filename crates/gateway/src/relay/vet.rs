//! Whether a tool may be called by a line, where those that have changed since they were approved are held back.
//!
//! Each line leads to a session of its own, and where the server is a process, to a process: what others were told of its tools says
//! nothing of those there. So they are listed once in each session, before the first is called, and again when it tells of others.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cardan_client::{Listen, Managed, Watcher};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    CallOptions, Called, Cause, Delivery, Event, Interest, Outcome, Refusal, Within,
};
use serde_json::json;
use tokio::sync::Mutex;

use super::line::Line;
use super::pool::HEARING;
use crate::catalog::{Catalog, Kind, fetch};
use crate::fleet::{Upstream, lock};
use crate::pin::{self, Pins};

/// Judges the tools of a server, line by line.
#[derive(Debug, Clone)]
pub(crate) struct Vet {
    pins: Arc<Pins>,
    upstream: Arc<Upstream>,
    /// How long a call waits until it is known what may be called.
    patience: Duration,
}

/// Why a tool is not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barred {
    /// It has changed since it was approved.
    Changed,
    /// What it is by now is not known.
    Untold,
}

/// Tells whoever makes a call whether it was let out. A fault alone does not: a server may say anything in its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bar(Arc<std::sync::Mutex<Stands>>);

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stands {
    /// Nobody has looked at it.
    #[default]
    Before,
    /// It may go by the session there is.
    LetOut,
    /// That was gone before the call reached it.
    Left,
    Barred(Barred),
}

impl Bar {
    /// Why it was not let out; nothing: it was, or something else came before.
    pub(crate) fn why(&self) -> Option<Barred> {
        match *lock(&self.0) {
            Stands::Barred(why) => Some(why),
            Stands::Before | Stands::LetOut | Stands::Left => None,
        }
    }

    /// Was it let out, and never sent because its session was gone? Another one may be looked at: once, since whoever asks is told once.
    pub(crate) fn take_left(&self) -> bool {
        let mut stands = lock(&self.0);
        let left = *stands == Stands::Left;
        if left {
            *stands = Stands::Before;
        }
        left
    }

    /// It has ended so.
    pub(super) fn ended(&self, outcome: &Outcome) {
        let mut stands = lock(&self.0);
        let unsent = match outcome {
            // The server is there and said no, or it could not be asked like that: so it would be again.
            Outcome::Lost { cause: Cause::Http(failure), delivery: Delivery::NotSent } => {
                !matches!(**failure, HttpFailure::Status { .. } | HttpFailure::Unfit(_))
            }
            Outcome::Lost { delivery, .. } => *delivery == Delivery::NotSent,
            // The link was about to end.
            Outcome::Refused(refusal) => *refusal == Refusal::NotOpen,
            _ => false,
        };
        if unsent && *stands == Stands::LetOut {
            *stands = Stands::Left;
        }
    }
}

/// How a call goes that may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// By whatever session there is.
    Any,
    /// By the one that was looked at, and no other.
    Bound,
}

impl Leave {
    pub(super) fn options(self, options: CallOptions) -> CallOptions {
        match self {
            Self::Any => options,
            Self::Bound => CallOptions { within: Within::This, ..options },
        }
    }
}

/// What is known of the tools of a line. Who looks holds it, so that many calls look once.
#[derive(Default)]
pub(super) struct Vetted(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    judged: Option<Judged>,
    /// So that its server tells changes.
    listen: Option<Listen>,
}

/// How the tools of a session were judged.
struct Judged {
    session: u64,
    /// Of what was approved, which state.
    approved: u64,
    told: BTreeSet<Box<str>>,
    held: Arc<pin::Held>,
    /// What its server has told since.
    notes: Watcher<Event>,
    missed: u64,
}

impl Judged {
    /// Is nothing another by now?
    fn holds(&mut self, session: u64, approved: u64) -> bool {
        let mut same = (self.session, self.approved) == (session, approved);
        while let Some(event) = self.notes.try_next() {
            if let Event::Changed { change, .. } = event {
                same &= !Kind::Tools.touched_by(&change);
            }
        }
        same && self.notes.missed() == self.missed
    }

    /// Are the tools the same, and as good?
    fn says_as(&self, other: &Self) -> bool {
        (self.session, self.approved) == (other.session, other.approved)
            && (&self.told, &self.held) == (&other.told, &other.held)
    }

    fn of(&self, tool: &str) -> Result<(), Barred> {
        match self.told.contains(tool) {
            _ if self.held.has(tool) => Err(Barred::Changed),
            true => Ok(()),
            false => Err(Barred::Untold),
        }
    }
}

/// So often a call looks at tools that are others each time.
const LOOKS: usize = 3;

impl Vet {
    pub(crate) fn new(pins: Arc<Pins>, upstream: Arc<Upstream>, patience: Duration) -> Self {
        Self { pins, upstream, patience }
    }

    /// May this call go by a line, right now?
    pub(super) async fn admit(&self, line: &Line, called: &Called, bar: &Bar) -> Result<Leave, Fault> {
        if called.call.method != Method::ToolsCall || self.pins.blocks().is_none() {
            return Ok(Leave::Any);
        }
        let tool = called.call.params.text(Param::Name).unwrap_or_default();
        let judging = tokio::time::timeout(self.patience, self.judge(line, &tool));
        let judged = judging.await.unwrap_or(Err(Barred::Untold));
        *lock(&bar.0) = judged.map_or_else(Stands::Barred, |()| Stands::LetOut);
        let Err(why) = judged else { return Ok(Leave::Bound) };
        Err(match why {
            Barred::Changed => pin::held_back(&tool, self.upstream.name(), &tool),
            Barred::Untold => self.untold(&tool),
        })
    }

    async fn judge(&self, line: &Line, tool: &str) -> Result<(), Barred> {
        let mut seen = line.vetted.0.lock().await;
        let Seen { judged, listen } = &mut *seen;
        for looks in 0..LOOKS {
            let Some(approved) = self.pins.blocks() else { return Ok(()) };
            let session = line.managed.sessions();
            if let Some(judged) = judged
                && judged.holds(session, approved)
            {
                return judged.of(tool);
            }
            // What does not come now may come for the next call.
            let before = judged.take().filter(|_| looks > 0);
            let seen = judged.insert(self.look(&line.managed, listen, (session, approved)).await?);
            if before.is_some_and(|before| before.says_as(seen)) {
                // It tells of changes whenever it is asked, and nothing has changed.
                return seen.of(tool);
            }
        }
        Err(Barred::Untold)
    }

    async fn look(
        &self,
        managed: &Managed,
        listen: &mut Option<Listen>,
        (session, approved): (u64, u64),
    ) -> Result<Judged, Barred> {
        let mut notes = managed.notes();
        // What was told before is in the list.
        while notes.try_next().is_some() {}
        let missed = notes.missed();
        if listen.is_none() {
            let tools = Interest { tools: true, ..Interest::default() };
            let listening = listen.insert(managed.listen(tools));
            // One that tells no changes is looked at all the same.
            let _ = tokio::time::timeout(HEARING, listening.ready()).await;
        }
        let list = fetch(managed, Kind::Tools).await.map_err(|_| Barred::Untold)?;
        let settled = managed.settled().ok_or(Barred::Untold)?;
        let mut catalog = Catalog::new(settled.revision, None);
        catalog.tools = list;
        let held = self.pins.look(self.upstream.name(), self.upstream.pinned(), &catalog);
        let told = catalog.tools.entries.iter().map(|tool| tool.key().into()).collect();
        Ok(Judged { session, approved, told, held, notes, missed })
    }

    fn untold(&self, tool: &str) -> Fault {
        let name = self.upstream.name();
        let why =
            format!("it has not told its tools since it was connected last, or `{tool}` is none of them");
        let message = format!(
            "server `{name}` was not called: {why}, and tools that have changed are held back; try again in a while"
        );
        Fault::internal(message).with_data(&json!({
            "server": name,
            "state": self.upstream.status().health.to_string(),
            "cause": why,
            "outcome": "refused",
            "delivery": "not_sent",
            "mayHaveExecuted": false,
        }))
    }
}

impl fmt::Debug for Vetted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vetted").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::http::challenge::Hints;
    use http::StatusCode;

    use super::*;

    /// A call that was let out is made once more where its session was gone before it left, and not where its server turned it away: that
    /// one would again. One that nobody let out is not made at all.
    #[test]
    fn what_never_left_goes_once_more() {
        let lost = |cause, delivery| Outcome::Lost { cause, delivery };
        let http = |failure| Cause::Http(Box::new(failure));
        let status = StatusCode::TOO_MANY_REQUESTS;
        let throttled = HttpFailure::Status { status, excerpt: "".into(), hints: Box::<Hints>::default() };
        for (outcome, again) in [
            (lost(Cause::ClosedByPeer, Delivery::NotSent), true),
            (
                lost(http(HttpFailure::SessionReplaced { status: StatusCode::NOT_FOUND }), Delivery::NotSent),
                true,
            ),
            (Outcome::Refused(Refusal::NotOpen), true),
            (lost(http(throttled), Delivery::NotSent), false),
            (lost(Cause::ClosedByPeer, Delivery::Unknown), false),
            (Outcome::Refused(Refusal::Backlog), false),
            (Outcome::Done("{}".into()), false),
        ] {
            let bar = Bar::default();
            bar.ended(&outcome);
            assert!(!bar.take_left(), "nobody let it out: {outcome:?}");
            *lock(&bar.0) = Stands::LetOut;
            bar.ended(&outcome);
            assert_eq!((bar.take_left(), bar.take_left()), (again, false), "{outcome:?}");
        }
    }
}
