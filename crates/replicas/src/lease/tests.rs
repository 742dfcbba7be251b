//! Rules one by one, and then every order of events of a small world.

use std::collections::HashSet;

use super::*;

const TERM: Duration = Duration::from_secs(16);

fn at(seconds: u64) -> Moment {
    Moment::after(Duration::from_secs(seconds))
}

/// F22: a lease counts from when its beat was sent, and not quite as long as the store keeps it.
#[test]
fn f22_a_lease_ends_before_the_store_forgets_it() {
    let mut lease = Lease::new(TERM);
    assert!(!lease.holds(at(0)));
    let beat = lease.beat(at(10));
    lease.confirmed(beat, None);
    assert!(lease.holds(at(10)) && lease.holds(at(24)) && !lease.holds(at(25)));
    lease.release();
    assert!(!lease.holds(at(10)));
}

/// F22: only a store that still had our last mark says that nothing was taken.
#[test]
fn f22_what_was_away_begins_anew() {
    let mut lease = Lease::new(TERM);
    let first = lease.beat(at(0));
    lease.confirmed(first, None);
    assert_eq!(lease.epoch(), 1);
    let second = lease.beat(at(5));
    lease.confirmed(second, Some(first.mark));
    assert_eq!(lease.epoch(), 1);
    let lost = lease.beat(at(10));
    let third = lease.beat(at(40));
    lease.confirmed(third, Some(lost.mark));
    assert_eq!(lease.epoch(), 2, "the lost beat may have come after others took what was ours");
    let fourth = lease.beat(at(45));
    lease.confirmed(fourth, None);
    assert_eq!(lease.epoch(), 3);
}

#[test]
fn f22_only_who_is_gone_is_robbed() {
    let left = Some(Duration::from_secs(1));
    assert_eq!(step("a", "b", 4, left), Step::Forward(Duration::from_secs(1)));
    assert_eq!(step("a", "b", 4, None), Step::Take(5));
    assert_eq!(step("b", "b", 4, left), Step::Take(5));
}

/// Two replicas, one session, a store, and beats that may be late or lost. Time goes by in steps of a second.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    replicas: [Replica; 2],
    /// Of each lease: the mark, and when the store forgets it.
    leases: [Option<(u64, u64)>; 2],
    session: (usize, u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Replica {
    lease: Lease,
    /// Up to which epoch sessions were looked up.
    reviewed: u64,
    /// The fence with which it holds the session.
    holds: Option<u64>,
    /// On its way to the store, perhaps given up by now.
    sent: Option<Beat>,
    /// On its way back.
    answer: Option<(Beat, Option<u64>)>,
}

const SMALL: u64 = 2;
const LONG: u64 = 4;

impl World {
    fn start() -> Self {
        let term = Duration::from_secs(SMALL);
        let replica =
            || Replica { lease: Lease::new(term), reviewed: 0, holds: None, sent: None, answer: None };
        let mut world = Self { now: 0, replicas: [replica(), replica()], leases: [None; 2], session: (0, 1) };
        for who in 0..2 {
            let beat = world.replicas[who].lease.beat(at(0));
            world.leases[who] = Some((beat.mark, SMALL));
            world.replicas[who].lease.confirmed(beat, None);
            world.replicas[who].reviewed = 1;
        }
        world.replicas[0].holds = Some(1);
        world
    }

    fn lease(&self, who: usize) -> Option<u64> {
        self.leases[who].filter(|(_, ends)| *ends > self.now).map(|(mark, _)| mark)
    }

    /// Does it answer for the session?
    fn serves(&self, who: usize) -> Option<u64> {
        let replica = &self.replicas[who];
        let usable = replica.lease.holds(at(self.now)) && replica.reviewed == replica.lease.epoch();
        replica.holds.filter(|_| usable)
    }

    /// Everything that can happen next.
    fn next(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            all.push(world);
        };
        if self.now < LONG {
            add(&|world| world.now += 1);
        }
        for who in 0..2 {
            let replica = &self.replicas[who];
            // The other's beats come at once: its troubles would be the same ones mirrored, and the worlds a hundred times as many.
            if who == 1 && replica.lease.beats < 4 {
                add(&|world| {
                    let before = world.lease(who);
                    let beat = world.replicas[who].lease.beat(at(world.now));
                    world.leases[who] = Some((beat.mark, world.now + SMALL));
                    world.replicas[who].lease.confirmed(beat, before);
                });
            }
            if who == 0 && replica.answer.is_none() && replica.lease.beats < 4 {
                // One that was sent before is lost, or given up: then it may still come. Both are tried.
                add(&|world| world.replicas[who].sent = Some(world.replicas[who].lease.beat(at(world.now))));
                add(&|world| _ = world.replicas[who].lease.beat(at(world.now)));
            }
            if let Some(beat) = replica.sent {
                let deliver = |world: &mut Self| {
                    let before = world.lease(who);
                    world.leases[who] = Some((beat.mark, world.now + SMALL));
                    world.replicas[who].sent = None;
                    before
                };
                add(&|world| _ = deliver(world));
                add(&|world| {
                    let before = deliver(world);
                    if beat.mark == world.replicas[who].lease.beats {
                        world.replicas[who].answer = Some((beat, before));
                    }
                });
            }
            if let Some((beat, before)) = replica.answer {
                add(&|world| {
                    world.replicas[who].answer = None;
                    world.replicas[who].lease.confirmed(beat, before);
                });
            }
            add(&|world| {
                let replica = &mut world.replicas[who];
                replica.holds = replica.holds.filter(|fence| world.session == (who, *fence));
                replica.reviewed = replica.lease.epoch();
            });
            if replica.holds.is_none() && self.lease(who).is_some() {
                let (owner, fence) = self.session;
                let left = self.lease(owner).map(|_| Duration::from_secs(1));
                if let Step::Take(next) = step(&owner.to_string(), &who.to_string(), fence, left) {
                    add(&|world| {
                        world.session = (who, next);
                        world.replicas[who].holds = Some(next);
                    });
                }
            }
        }
        all
    }
}

/// F22: in no order of beats, losses, delays, looks and takeovers do two replicas answer for one session, and fences
/// only grow.
#[test]
fn f22_no_order_of_events_gives_a_session_two_owners() {
    let mut seen = HashSet::new();
    let mut open = vec![World::start()];
    let mut taken = 0;
    while let Some(world) = open.pop() {
        let serving: Vec<_> = (0..2).filter_map(|who| world.serves(who).map(|fence| (who, fence))).collect();
        assert!(serving.len() <= 1, "{world:#?}");
        for next in world.next() {
            assert!(next.session.1 >= world.session.1, "{world:#?}");
            taken += usize::from(next.session != world.session);
            if next.session.1 <= 3 && seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(seen.len() > 10_000 && taken > 100, "{} worlds, {taken} takeovers", seen.len());
}
