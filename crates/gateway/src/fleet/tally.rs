//! What became of the calls to one upstream, in numbers. Counting takes no lock and allocates nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::Answer;
use tokio::time::Instant;

use super::upstream::Upstream;

/// How a call to an upstream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a result, also one in which a tool says that it failed.
    Done,
    /// The upstream asks its client first.
    InputRequired,
    /// With an error of the upstream.
    Fault,
    /// The upstream was lost.
    Lost,
    /// The upstream did not answer in time.
    TimedOut,
    /// The upstream could not be reached, so nothing was sent.
    Unreachable,
    /// Its client gave up, or was given up.
    Cancelled,
}

impl Ending {
    /// All there are, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::InputRequired,
        Self::Fault,
        Self::Lost,
        Self::TimedOut,
        Self::Unreachable,
        Self::Cancelled,
    ];

    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::InputRequired => "input_required",
            Self::Fault => "fault",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(answered: &Result<Answer, Fault>) -> Self {
        match answered {
            Ok(Answer::Done(_) | Answer::Bare(_) | Answer::Sealed(_)) => Self::Done,
            Ok(Answer::Ask(_)) => Self::InputRequired,
            Ok(Answer::Fault(fault)) => Self::of_fault(fault),
            // Faults of ours: they say so where a server was reached and did not answer.
            Err(fault) => match Self::of_fault(fault) {
                Self::TimedOut => Self::TimedOut,
                _ => Self::Unreachable,
            },
        }
    }

    /// What we say of a call without a reply stands in the data, and nothing else of it counts: an upstream may say anything
    /// in its own.
    fn of_fault(fault: &Fault) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Told<'a> {
            outcome: &'a str,
            delivery: &'a str,
            #[serde(rename = "mayHaveExecuted")]
            _executed: bool,
        }
        let data = fault.data.as_deref().unwrap_or_default();
        match serde_json::from_slice::<Told<'_>>(data) {
            Ok(Told { outcome: "lost", delivery: "not_sent", .. }) => Self::Unreachable,
            Ok(Told { outcome: "lost", .. }) => Self::Lost,
            Ok(Told { outcome: "timed_out", .. }) => Self::TimedOut,
            Ok(Told { outcome: "cancelled", .. }) => Self::Cancelled,
            _ => Self::Fault,
        }
    }
}

/// Calls are sorted by how long they took: up to each of these, and longer.
pub const BUCKETS: [Duration; 8] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(2500),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// The numbers at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls by how they ended, in the order of [`Ending::ALL`].
    pub ended: [u64; Ending::ALL.len()],
    /// Calls that took so long, in the order of [`BUCKETS`]; the last ones took longer than any.
    pub took: [u64; BUCKETS.len() + 1],
    /// How long all of them took together.
    pub total: Duration,
    /// Calls that run, those included that wait for their client's answers meanwhile.
    pub running: u64,
    /// Bytes of params.
    pub sent: u64,
    /// Bytes of results.
    pub received: u64,
}

/// Counts calls.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    begun: AtomicU64,
    waiting: AtomicU64,
    ended: [AtomicU64; Ending::ALL.len()],
    took: [AtomicU64; BUCKETS.len() + 1],
    total_us: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Tally {
    /// A call begins, with so many bytes of params.
    pub(crate) fn begin(&self, sent: usize) -> Counted<'_> {
        self.begun.fetch_add(1, Relaxed);
        Counted { tally: self, begun: Instant::now(), sent: sent as u64, ending: Some(Ending::Cancelled) }
    }

    pub(crate) fn counts(&self) -> Counts {
        let each = |counters: &AtomicU64| counters.load(Relaxed);
        let ended = self.ended.each_ref().map(each);
        Counts {
            // What ends meanwhile is counted as ended, or as running, never as less than nothing.
            running: self.begun.load(Relaxed).saturating_sub(ended.iter().sum()) + self.waiting.load(Relaxed),
            ended,
            took: self.took.each_ref().map(each),
            total: Duration::from_micros(self.total_us.load(Relaxed)),
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
        }
    }
}

/// A call that runs. One that is dropped was cancelled.
pub(crate) struct Counted<'a> {
    tally: &'a Tally,
    begun: Instant,
    sent: u64,
    /// None: it never went there.
    ending: Option<Ending>,
}

impl Counted<'_> {
    /// It has ended so.
    pub(crate) fn end(mut self, answered: &Result<Answer, Fault>) {
        self.ending = Some(Ending::of(answered));
        if let Ok(Answer::Done(result) | Answer::Bare(result) | Answer::Sealed(result)) = answered {
            self.tally.received.fetch_add(result.len() as u64, Relaxed);
        }
    }

    /// It was held back before its server: it is none of its calls.
    pub(crate) fn withdraw(mut self) {
        self.ending = None;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let (tally, took) = (self.tally, self.begun.elapsed());
        let Some(ending) = self.ending else {
            tally.begun.fetch_sub(1, Relaxed);
            return;
        };
        tally.sent.fetch_add(self.sent, Relaxed);
        let bucket = BUCKETS.iter().position(|most| took <= *most).unwrap_or(BUCKETS.len());
        tally.took[bucket].fetch_add(1, Relaxed);
        tally.total_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        tally.ended[ending as usize].fetch_add(1, Relaxed);
    }
}

/// A call that runs on while its client answers what it was asked: it has been counted as ended, and is not. Until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Upstream>);

impl Waiting {
    pub(super) fn at(upstream: Arc<Upstream>) -> Self {
        upstream.tally().waiting.fetch_add(1, Relaxed);
        Self(upstream)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.tally().waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    /// Each call is counted once, by how it ended and how long it took; what is dropped was cancelled.
    #[tokio::test(start_paused = true)]
    async fn every_call_is_counted_once() {
        let tally = Tally::default();
        let told = |outcome: &str, delivery: &str| {
            let data = json!({ "outcome": outcome, "delivery": delivery, "mayHaveExecuted": delivery != "not_sent" });
            Fault::internal("x").with_data(&data)
        };
        let (lost, late) = (told("lost", "sent"), told("timed_out", "unknown"));
        let answers = [
            (0, Ok(Answer::Done(Bytes::from_static(b"{}")))),
            (5, Ok(Answer::Sealed(Bytes::from_static(b"{}")))),
            (6, Ok(Answer::Fault(Fault::internal("no")))),
            (99, Ok(Answer::Fault(lost))),
            (59_999, Ok(Answer::Fault(late))),
            (60_001, Err(Fault::internal("away"))),
        ];
        for (ms, answered) in &answers {
            let counted = tally.begin(10);
            tokio::time::advance(Duration::from_millis(*ms)).await;
            assert_eq!(tally.counts().running, 1);
            counted.end(answered);
        }
        drop(tally.begin(1));
        let counts = tally.counts();
        assert_eq!(counts.ended, [2, 0, 1, 1, 1, 1, 1]);
        assert_eq!(counts.took, [2, 1, 1, 1, 0, 0, 0, 1, 1]);
        assert_eq!(counts.total, Duration::from_millis(5 + 6 + 99 + 59_999 + 60_001));
        assert_eq!((counts.running, counts.sent, counts.received), (0, 61, 4));
    }

    /// What was never sent was not lost, who gave up was not failed, and what an upstream says in its data is its own business.
    #[test]
    fn an_ending_is_what_we_say_of_it() {
        let rows = [
            (
                json!({"outcome": "lost", "delivery": "not_sent", "mayHaveExecuted": false}),
                Ending::Unreachable,
            ),
            (json!({"outcome": "lost", "delivery": "unknown", "mayHaveExecuted": true}), Ending::Lost),
            (
                json!({"outcome": "timed_out", "delivery": "not_sent", "mayHaveExecuted": false}),
                Ending::TimedOut,
            ),
            (json!({"outcome": "cancelled", "delivery": "sent", "mayHaveExecuted": true}), Ending::Cancelled),
            (json!({"outcome": "violated", "delivery": "sent", "mayHaveExecuted": true}), Ending::Fault),
            (
                json!({"server": "a", "outcome": "lost", "delivery": "sent", "mayHaveExecuted": true}),
                Ending::Lost,
            ),
            (
                json!({"cause": {"outcome": "lost", "delivery": "sent", "mayHaveExecuted": true}}),
                Ending::Fault,
            ),
            (json!({"outcome": "lost"}), Ending::Fault),
            (json!("\"outcome\":\"lost\""), Ending::Fault),
        ];
        for (data, ending) in rows {
            let fault = Fault::internal("x").with_data(&data);
            assert_eq!(Ending::of(&Ok(Answer::Fault(fault))), ending, "{data}");
        }
    }

    #[test]
    fn endings_stand_in_their_order() {
        assert!(Ending::ALL.iter().enumerate().all(|(place, ending)| *ending as usize == place));
    }
}
