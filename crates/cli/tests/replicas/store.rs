//! A store that dies, stands still, or comes back empty.

use std::time::{Duration, Instant};

use crate::wire::{Session, is_echo, modern};
use crate::world::{BRIEF, WHOLE, World, until};

/// F21: without the store modern calls go on, sessions go on at their owner while its lease lasts, and no session begins that
/// would vanish. A store that comes back empty has forgotten them: each client is told once.
#[test]
fn f21_a_store_that_dies_and_comes_back_empty() {
    let Some(mut world) = World::start("dies", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    session.echoes(world.at(1), 1, "before");
    world.redis.kill();
    session.echoes(world.at(0), 2, "from memory");
    session.echoes(world.at(1), 3, "forwarded to who was seen to own it");
    let refused = Session::open(world.at(2), None).unwrap_err();
    assert!(refused.status == 503 && refused.head.contains("retry-after: "), "{refused:?}");
    until("the lease is over", || world.store_status(0) == "away");
    assert_eq!(session.echo(world.at(0), 4, "x").unwrap().status, 503);
    for number in 0..3 {
        assert!(is_echo(&modern(world.at(number), "m"), 1, "m"));
    }
    assert!(world.counts("cardan_replica_store_failures_total") > 0);
    world.redis.again();
    until("the store is there", || (0..3).all(|number| world.store_status(number) == "ready"));
    until("it is forgotten", || session.echo(world.at(0), 5, "x").unwrap().status == 404);
    for number in 0..3 {
        assert_eq!(session.echo(world.at(number), 6, "x").unwrap().status, 404);
    }
    let again = Session::open(world.at(1), None).unwrap();
    again.echoes(world.at(2), 1, "again");
}

/// F21: a store that stands still costs whoever needs it half a second, and sessions outlast it, though their leases do not.
#[test]
fn f21_a_store_that_stands_still() {
    let Some(world) = World::start("halts", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    world.redis.signal("STOP");
    let begun = Instant::now();
    assert_eq!(Session::open(world.at(1), None).unwrap_err().status, 503);
    assert!(begun.elapsed() < Duration::from_secs(20), "bounded, whatever else this machine does");
    assert!(is_echo(&modern(world.at(1), "m"), 1, "m"));
    until("the lease is over", || world.store_status(0) == "away");
    assert_eq!(session.echo(world.at(0), 1, "x").unwrap().status, 503);
    world.redis.signal("CONT");
    // Nobody has taken it meanwhile, or whoever asks is told so.
    until("it goes on", || is_echo(&session.echo(world.at(0), 2, "on").unwrap(), 2, "on"));
    assert_eq!(world.counts("cardan_replica_takeovers_total"), 0);
}

/// F21: a store that is away at the start is waited for by legacy clients, and by nobody else.
#[test]
fn f21_a_store_that_comes_late() {
    let Some(mut world) = World::start("late", WHOLE, "") else { return };
    world.redis.kill();
    let late = world.serve(world.redis.port);
    assert!(is_echo(&modern(&late.address, "m"), 1, "m"));
    assert_eq!(Session::open(&late.address, None).unwrap_err().status, 503);
    world.redis.again();
    until("it is there", || match Session::open(&late.address, None) {
        Ok(session) => is_echo(&session.echo(&late.address, 1, "late").unwrap(), 1, "late"),
        Err(_) => false,
    });
}

/// F21: a store that is full, that was made a copy of another, or that takes seconds is as good as away, and sessions outlast it.
#[test]
fn f21_a_store_that_is_full_a_copy_or_slow() {
    let Some(world) = World::start("refuses", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    type Words = &'static [&'static [u8]];
    let faults: [(Words, Option<Words>); 3] = [
        (&[b"CONFIG", b"SET", b"maxmemory", b"1"], Some(&[b"CONFIG", b"SET", b"maxmemory", b"0"])),
        (&[b"REPLICAOF", b"127.0.0.1", b"1"], Some(&[b"REPLICAOF", b"NO", b"ONE"])),
        (&[b"CLIENT", b"PAUSE", b"3000"], None),
    ];
    for (round, (fault, mend)) in faults.into_iter().enumerate() {
        let failures = world.counts("cardan_replica_store_failures_total");
        world.redis.say(fault);
        until("no session begins", || {
            let opened = Session::open(world.at(1), None);
            opened.is_err_and(|got| got.status == 503 && got.head.contains("retry-after: "))
        });
        assert!(is_echo(&modern(world.at(1), "m"), 1, "m"));
        assert!(world.counts("cardan_replica_store_failures_total") > failures);
        if let Some(mend) = mend {
            world.redis.say(mend);
        }
        for number in 0..3 {
            let text = format!("{round}/{number}");
            until("it goes on", || {
                is_echo(&session.echo(world.at(number), number, &text).unwrap(), number, &text)
            });
        }
        until("others begin", || Session::open(world.at(1), None).is_ok());
    }
}
