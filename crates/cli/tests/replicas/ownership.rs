//! Owners that die, stop or are cut off from the store.

use std::io::Read as _;

use serde_json::json;

use crate::way::Way;
use crate::wire::{Session, ask, is_echo, read, read_until, send, send_for};
use crate::world::{BRIEF, Redis, WHOLE, World, until};

/// F22: the sessions of a replica that is killed go on at the others, as the clients had made them.
#[test]
fn f22_sessions_of_the_dead_go_on_elsewhere() {
    let Some(mut world) = World::start("dead", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    for (id, method, params) in [
        (1, "logging/setLevel", json!({ "level": "warning" })),
        (2, "resources/subscribe", json!({ "uri": "demo://clock" })),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        assert_eq!(session.post(world.at(1), &call).unwrap().status, 200);
    }
    session.echoes(world.at(1), 3, "before");
    world.replicas[0].child.kill().unwrap();
    world.replicas[0].child.wait().unwrap();
    // Nobody takes what may still be held: the call waits for the end of the lease.
    session.echoes(world.at(1), 4, "after");
    session.echoes(world.at(2), 5, "there");
    assert_eq!(world.count(1, "cardan_replica_takeovers_total"), 1);
    assert_eq!(world.count(2, "cardan_replica_takeovers_total"), 0);
    let other = world.serve(world.redis.port);
    session.echoes(&other.address, 6, "and at one that came later");
    world.replicas[0] = other;
    assert_eq!(session.delete(world.at(0)), 204);
    assert_eq!(session.echo(world.at(1), 7, "x").unwrap().status, 404);
}

/// F21, F22: what is too large to be written down is not, and neither its session nor any other is forgotten for it.
#[test]
fn f22_what_is_too_large_is_not_shared() {
    let Some(mut world) = World::start("large", BRIEF, "") else { return };
    let sessions: Vec<_> = (0..4).map(|_| Session::open(world.at(0), None).unwrap()).collect();
    let large = "x".repeat(600 << 10);
    for (method, params) in [
        ("logging/setLevel", json!({ "level": "warning", "more": large })),
        ("resources/subscribe", json!({ "uri": format!("demo://{large}") })),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        assert_eq!(sessions[0].post(world.at(0), &call).unwrap().status, 200);
    }
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "experimental": { "x": { "y": large } } },
        "clientInfo": { "name": "large", "version": "1" },
    });
    let call = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let refused = ask(world.at(0), "POST", &[], &call.to_string()).unwrap();
    assert!(refused.status == 413 && !refused.head.contains("retry-after"), "{refused:?}");
    world.replicas[0].child.kill().unwrap();
    world.replicas[0].child.wait().unwrap();
    for session in &sessions {
        session.echoes(world.at(1), 2, "on");
    }
}

/// F22: a replica that is asked to stop gives its sessions up at once.
#[test]
fn f22_who_stops_gives_up_what_it_has() {
    let Some(mut world) = World::start("stops", WHOLE, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    let leaving = world.replicas.remove(0);
    leaving.signal("TERM");
    assert_eq!(leaving.ends(), Some(0));
    assert_eq!(world.redis.keys(":replica:").len(), 2);
    session.echoes(world.at(0), 1, "after");
}

/// F22: an owner that is cut off from the store answers for its sessions while nobody can have taken them, and not any longer;
/// when it is back, it knows that they are another's.
#[test]
fn f22_who_is_cut_off_owns_nothing() {
    let Some(redis) = Redis::start() else { return };
    let way = Way::to(redis.port);
    let ports = [way.port, redis.port];
    let world = World::before(redis, "cut", BRIEF, "", &ports);
    let session = Session::open(world.at(0), None).unwrap();
    session.echoes(world.at(1), 1, "forwarded");
    let mut stream = send(world.at(0), "GET", &session.headers(), "").unwrap();
    way.cut();
    session.echoes(world.at(0), 2, "from memory");
    // At the other the call waits until the lease is over, and then the session is taken.
    until("the other takes it", || {
        is_echo(&session.echo(world.at(1), 3, "taken").unwrap(), 3, "taken") && {
            world.count(1, "cardan_replica_takeovers_total") == 1
        }
    });
    let stale = session.echo(world.at(0), 4, "stale").unwrap();
    assert_eq!(stale.status, 503, "{stale:?}");
    assert!(stale.head.contains("retry-after"), "{stale:?}");
    // Its streams end, so that the client looks for the session where it is.
    stream.read_to_end(&mut Vec::new()).unwrap();
    way.mend();
    until("the first knows better", || is_echo(&session.echo(world.at(0), 5, "there").unwrap(), 5, "there"));
    assert!(world.count(0, "cardan_replica_stale_writes_total") >= 1);
    assert_eq!(world.count(0, "cardan_replica_takeovers_total"), 0);
    session.echoes(world.at(1), 6, "still");
}

/// F22: a call that runs when its session is taken has no answer where it runs, and its client is told so.
#[test]
fn f22_a_call_in_a_session_that_is_taken_is_told() {
    let Some(redis) = Redis::start() else { return };
    let way = Way::to(redis.port);
    let ports = [way.port, redis.port];
    let world = World::before(redis, "runs", BRIEF, "", &ports);
    let session = Session::open(world.at(0), None).unwrap();
    let params = json!({ "name": "slow", "arguments": { "steps": 3000, "delay_ms": 100 } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let running = send_for(world.at(0), "application/json", &session.headers(), &call.to_string()).unwrap();
    session.echoes(world.at(0), 2, "beside it");
    way.cut();
    until("the other takes it", || {
        is_echo(&session.echo(world.at(1), 3, "taken").unwrap(), 3, "taken") && {
            world.count(1, "cardan_replica_takeovers_total") == 1
        }
    });
    way.mend();
    let told = read(running, &[]).unwrap();
    assert_eq!(told.messages[0]["error"]["data"]["mayHaveExecuted"], true, "{told:?}");
}

/// F22: an owner that stands still for longer than its lease has lost its sessions when it goes on.
#[test]
fn f22_who_stood_still_owns_nothing() {
    let Some(world) = World::start("still", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    world.replicas[0].signal("STOP");
    // It takes connections and says nothing. Whoever has sent it a call is told when its lease is over, and not asked again.
    let told = session.echo(world.at(1), 0, "waits").unwrap();
    assert!(told.status == 502 && told.messages[0]["error"]["message"].is_string(), "{told:?}");
    assert_eq!(world.redis.keys(":replica:").len(), 2);
    session.echoes(world.at(1), 1, "taken");
    world.replicas[0].signal("CONT");
    until("it knows better", || is_echo(&session.echo(world.at(0), 2, "there").unwrap(), 2, "there"));
    assert_eq!(world.counts("cardan_replica_takeovers_total"), 1);
}

/// F22: a stream that has begun ends with a word for its call when the replica that makes it stands still.
#[test]
fn f22_a_stream_of_who_stands_still_ends() {
    let Some(world) = World::start("silent", BRIEF, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    let params = json!({ "name": "slow", "arguments": { "steps": 3000, "delay_ms": 100 }, "_meta": { "progressToken": "p" } });
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let mut stream = send(world.at(1), "POST", &session.headers(), &call.to_string()).unwrap();
    let mut told = read_until(&mut stream, "notifications/progress");
    world.replicas[0].signal("STOP");
    stream.read_to_end(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("event: broken") && told.contains("broke off"), "{told}");
    world.replicas[0].signal("CONT");
}

/// F21: a session is not said to have ended while the store keeps it for others.
#[test]
fn f21_the_end_of_a_session_is_known_to_all() {
    let Some(redis) = Redis::start() else { return };
    let way = Way::to(redis.port);
    let ports = [way.port, redis.port];
    let world = World::before(redis, "ends", WHOLE, "", &ports);
    let session = Session::open(world.at(0), None).unwrap();
    way.cut();
    let got = ask(world.at(0), "DELETE", &session.headers(), "").unwrap();
    assert!(got.status == 503 && got.head.contains("retry-after: "), "{got:?}");
    session.echoes(world.at(0), 1, "still");
    way.mend();
    until("it ends", || session.delete(world.at(0)) == 204);
    assert_eq!(world.redis.keys(":session:"), [""; 0]);
    for number in 0..2 {
        assert_eq!(session.echo(world.at(number), 2, "x").unwrap().status, 404);
    }
}

/// F21: what has ended does not come back with a store that fell back to an older state.
#[test]
fn f21_what_has_ended_stays_so() {
    let Some(world) = World::start("older", WHOLE, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    let [key] = &world.redis.keys(":session:")[..] else { panic!("not one session") };
    let said = world.redis.say(&[b"DUMP", key.as_bytes()]);
    let at = said.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(session.delete(world.at(0)), 204);
    let restored = world.redis.say(&[b"RESTORE", key.as_bytes(), b"60000", &said[at + 1..said.len() - 2]]);
    assert_eq!(restored, b"+OK\r\n");
    for number in 0..3 {
        assert_eq!(session.echo(world.at(number), 1, "x").unwrap().status, 404, "{number}");
    }
    assert_eq!(world.counts("cardan_replica_takeovers_total"), 0);
}
