//! How one upstream stands, for people and for health checks.

use std::sync::Arc;
use std::time::Duration;

use cardan_proto::era::Revision;
use cardan_proto::session::state::State;
use cardan_proto::upkeep::condition::Condition;

/// How one upstream stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it is called.
    pub name: String,
    /// What kind of way leads to it.
    pub kind: &'static str,
    /// Does it work?
    pub health: Health,
    /// Why it does not, or did not last.
    pub cause: Option<Arc<str>>,
    /// Where the cause lies.
    pub blame: Blame,
    /// For how long it has stood so.
    pub since: Duration,
    /// How often a link to it came up.
    pub connects: u32,
    /// How often it was tried again after a failure or a loss. Being woken is no such try.
    pub restarts: u32,
    /// The revision that is spoken, or was last.
    pub revision: Option<Revision>,
    /// What is known of its catalog.
    pub known: Known,
    /// How many tools it offers, as far as is known.
    pub tools: Option<usize>,
    /// Calls that use it right now.
    pub in_use: usize,
}

/// Which connection a cause is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The one that there is: it failed, or was lost.
    Present,
    /// One that is over, if any. Who was woken since has not failed.
    Past,
}

/// Does it work?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It cannot be reached as it is configured.
    Misconfigured,
    /// It starts when it is used.
    Asleep,
    /// It waits for others to have started.
    Waiting,
    /// As its connection does.
    Kept(Condition),
}

impl Health {
    /// Do calls flow?
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Kept(condition) if condition.is_up())
    }

    /// All words of [`Health::word`].
    pub const WORDS: [&str; 9] = [
        "misconfigured",
        "asleep",
        "waiting",
        "starting",
        "ready",
        "degraded",
        "reconnecting",
        "suspended",
        "ending",
    ];

    /// In one word, of which there are few: steps of starting and of ending are not told apart.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Misconfigured => "misconfigured",
            Self::Asleep => "asleep",
            Self::Waiting => "waiting",
            Self::Kept(condition) => match condition {
                Condition::Session(State::Ready) => "ready",
                Condition::Session(State::Draining | State::Disconnecting | State::Closed) => "ending",
                Condition::Session(_) => "starting",
                Condition::Degraded => "degraded",
                Condition::Reconnecting { .. } => "reconnecting",
                Condition::Suspended { .. } => "suspended",
            },
        }
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Misconfigured => f.write_str("misconfigured"),
            Self::Asleep => f.write_str("asleep"),
            Self::Waiting => f.write_str("waiting"),
            Self::Kept(condition) => condition.fmt(f),
        }
    }
}

impl Status {
    /// Is it of use to callers now?
    fn part(&self) -> Part {
        match self.health {
            Health::Asleep => Part::Serves,
            health if health.is_up() => Part::Serves,
            // What failed before and is tried again has not come back yet.
            Health::Waiting
            | Health::Kept(Condition::Session(
                State::Disconnected | State::Connecting | State::Probing | State::Initializing,
            )) if self.blame == Blame::Past => match self.known {
                Known::Nothing => Part::Starts,
                // Its tools are listed, and whoever calls one waits for it.
                Known::Cached(_) | Known::Told => Part::Serves,
            },
            _ => Part::Fails,
        }
    }
}

/// Of what use one upstream is to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Serves,
    Starts,
    Fails,
}

/// How a fleet stands as a whole, for who decides whether to send it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Every upstream is up, sleeps as it is meant to, or is known and starting.
    Ready,
    /// Some are.
    Degraded,
    /// None is yet.
    Starting,
    /// None is.
    Down,
}

impl Standing {
    /// How these stand together.
    #[must_use]
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Status>) -> Self {
        let parts: Vec<Part> = all.into_iter().map(Status::part).collect();
        let some = |part| parts.contains(&part);
        match (some(Part::Serves), some(Part::Starts), some(Part::Fails)) {
            (true, false, false) => Self::Ready,
            (true, _, _) => Self::Degraded,
            (false, true, _) => Self::Starting,
            (false, false, _) => Self::Down,
        }
    }

    /// Is it worth sending calls?
    #[must_use]
    pub const fn serves(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }

    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Starting => "starting",
            Self::Down => "down",
        }
    }
}

/// Where what is known of a catalog comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing is known.
    Nothing,
    /// From the cache, and told so long ago.
    Cached(Duration),
    /// From the server itself.
    Told,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(health: Health, blame: Blame, known: Known) -> Status {
        Status {
            name: "a".to_owned(),
            kind: "stdio",
            health,
            cause: Some("lost before".into()),
            blame,
            since: Duration::ZERO,
            connects: 1,
            restarts: 0,
            revision: None,
            known,
            tools: None,
            in_use: 0,
        }
    }

    #[test]
    fn a_fleet_stands_as_its_servers_do() {
        let kept = |condition| Health::Kept(condition);
        let (present, past) = (Blame::Present, Blame::Past);
        let up = status(kept(Condition::READY), present, Known::Told);
        let asleep = status(Health::Asleep, past, Known::Nothing);
        let deferred = status(kept(Condition::CONNECTING), past, Known::Cached(Duration::ZERO));
        let first = status(Health::Waiting, past, Known::Nothing);
        let again = status(kept(Condition::CONNECTING), present, Known::Told);
        let suspended = status(kept(Condition::Suspended { until: None }), past, Known::Told);
        let wrong = status(Health::Misconfigured, past, Known::Nothing);
        let ending = status(kept(Condition::CLOSED), past, Known::Told);
        for (all, standing) in [
            (vec![&up, &asleep, &deferred], Standing::Ready),
            (vec![&up, &first], Standing::Degraded),
            (vec![&up, &wrong], Standing::Degraded),
            (vec![&asleep, &again], Standing::Degraded),
            (vec![&first, &wrong], Standing::Starting),
            (vec![&again, &suspended, &wrong, &ending], Standing::Down),
            (vec![], Standing::Down),
        ] {
            assert_eq!(Standing::of(all.iter().copied()), standing, "{all:?}");
        }
    }
}
