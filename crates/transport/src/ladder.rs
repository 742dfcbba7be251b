//! How a child is ended: politely, then firmly, then for good, each once.
//!
//! ```text
//!  stdin closed --eof grace--> TERM --term grace--> KILL --kill grace--> given up
//!        |                       |                    |
//!        '-----------------------+---- exited --------+----------------> done
//! ```
//!
//! Time comes in as an argument, so the ladder is tested without processes.

use std::time::Duration;

use cardan_proto::limits::Limits;

/// Where we stand, and until when.
#[derive(Debug)]
pub(crate) struct Ladder {
    rung: Rung,
    /// Since the start. Fixed points, so that a late poll does not lengthen the whole.
    until: Duration,
    term_grace: Duration,
    kill_grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    Eof,
    Term,
    Kill,
    Off,
}

/// Whether the process that we started still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    Running,
    Exited,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Wait for the exit, until so long after the start.
    Wait(Duration),
    /// Send TERM to the group.
    Term,
    /// Send KILL to the group.
    Kill,
    /// Nothing more.
    Leave,
}

impl Ladder {
    /// The first rung: stdin is closed now.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            rung: Rung::Eof,
            until: limits.child_eof_grace,
            term_grace: limits.child_term_grace,
            kill_grace: limits.child_kill_grace,
        }
    }

    /// The next deed, `elapsed` after the start. Ask again after each that is not a wait.
    pub(crate) fn step(&mut self, elapsed: Duration, leader: Leader) -> Deed {
        if leader == Leader::Exited {
            self.rung = Rung::Off;
        }
        if self.rung != Rung::Off && elapsed < self.until {
            return Deed::Wait(self.until);
        }
        match self.rung {
            Rung::Eof => self.climb(Rung::Term, self.term_grace, Deed::Term),
            Rung::Term => self.climb(Rung::Kill, self.kill_grace, Deed::Kill),
            Rung::Kill | Rung::Off => {
                self.rung = Rung::Off;
                Deed::Leave
            }
        }
    }

    fn climb(&mut self, rung: Rung, grace: Duration, deed: Deed) -> Deed {
        self.rung = rung;
        self.until += grace;
        deed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps every 10 ms of virtual time; what was done, and when.
    fn climb(exits_at: Option<u64>) -> Vec<(u64, Deed)> {
        let mut ladder = Ladder::new(&Limits::DEFAULT);
        let mut deeds = Vec::new();
        for now in (0..).step_by(10) {
            let leader = if exits_at.is_some_and(|at| at <= now) { Leader::Exited } else { Leader::Running };
            loop {
                let deed = ladder.step(Duration::from_millis(now), leader);
                match deed {
                    Deed::Wait(until) => {
                        assert!(until > Duration::from_millis(now), "a wait lies ahead");
                        break;
                    }
                    Deed::Leave => {
                        deeds.push((now, deed));
                        return deeds;
                    }
                    Deed::Term | Deed::Kill => deeds.push((now, deed)),
                }
            }
        }
        unreachable!("the ladder has an end")
    }

    /// F7, STD-11: one that ignores everything is asked once, killed once, and left after 5 s.
    #[test]
    fn f7_escalates_exactly_once_within_five_seconds() {
        assert_eq!(climb(None), [(2000, Deed::Term), (4000, Deed::Kill), (5000, Deed::Leave)]);
    }

    /// F7, STD-12: whoever leaves on its own at any time is not pushed further.
    #[test]
    fn f7_exit_during_a_grace_ends_the_ladder() {
        assert_eq!(climb(Some(0)), [(0, Deed::Leave)]);
        assert_eq!(climb(Some(1990)), [(1990, Deed::Leave)]);
        assert_eq!(climb(Some(2500)), [(2000, Deed::Term), (2500, Deed::Leave)]);
        assert_eq!(climb(Some(4010)), [(2000, Deed::Term), (4000, Deed::Kill), (4010, Deed::Leave)]);
    }

    /// S0-34: asking again after the end does nothing again.
    #[test]
    fn leaving_is_final() {
        let mut ladder = Ladder::new(&Limits::DEFAULT);
        assert_eq!(ladder.step(Duration::ZERO, Leader::Exited), Deed::Leave);
        assert_eq!(ladder.step(Duration::from_secs(60), Leader::Running), Deed::Leave);
    }

    /// F7: a poll that comes late does not lengthen the whole.
    #[test]
    fn a_late_poll_catches_up() {
        let mut ladder = Ladder::new(&Limits::DEFAULT);
        let late = Duration::from_secs(9);
        let deeds: Vec<Deed> = (0..3).map(|_| ladder.step(late, Leader::Running)).collect();
        assert_eq!(deeds, [Deed::Term, Deed::Kill, Deed::Leave]);
    }
}
