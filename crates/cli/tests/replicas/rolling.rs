//! One replica after another is replaced while clients call.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::way::{Next, Way};
use crate::wire::{Got, Session, is_echo, modern_call, modern_listen, read, read_until, send, try_modern};
use crate::world::{BRIEF, Redis, WHOLE, World, free_port, until};

/// What a load balancer knows: where calls may go.
struct Rotation {
    addresses: RwLock<VecDeque<String>>,
    over: AtomicBool,
    answered: AtomicUsize,
    /// Tries of which nothing was taken.
    brought_again: AtomicUsize,
}

impl Rotation {
    /// One of them, another each time.
    fn pick(&self, turn: usize) -> String {
        let addresses = self.addresses.read().unwrap();
        addresses[turn % addresses.len()].clone()
    }

    /// Calls until it works, for as long as replicas say that they go, or are gone: whatever stands before them may bring such a
    /// call to the next, since nothing of it was taken. Nothing else happens to a call: none says that it does not know what became
    /// of it (502), and no connection breaks off under one. Who chose a replica and came there only when it was gone may find its
    /// door closing.
    fn calls(&self, mut call: impl FnMut(&str) -> std::io::Result<Got>, works: impl Fn(&Got) -> bool) {
        for turn in 0.. {
            let address = self.pick(turn);
            match call(&address) {
                Ok(got) if works(&got) => break,
                Ok(got) => assert_eq!(got.status, 503, "{got:?}"),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => assert!(self.has_left(&address), "{error}"),
            }
            self.brought_again.fetch_add(1, Ordering::SeqCst);
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    /// A call that must not be repeated. It is sent where calls may go, and whatever has begun there is finished.
    fn calls_once(&self, turn: usize, send: impl Fn(&str) -> std::io::Result<TcpStream>) -> Got {
        let addresses = self.addresses.read().unwrap();
        let mut stream = send(&addresses[turn % addresses.len()]).unwrap();
        // From the first byte of its answer on, it runs.
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        drop(addresses);
        let got = read(stream, &first).unwrap();
        self.answered.fetch_add(1, Ordering::SeqCst);
        got
    }

    fn has_left(&self, address: &String) -> bool {
        !self.addresses.read().unwrap().contains(address)
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }
}

/// F23: two replicas are replaced in turn, thirty times, while clients of both eras call and listen. No call fails: one of which nothing
/// was taken is answered by the next replica, one that has begun is finished, and every session goes on. Who listens is told that it
/// is over, and listens elsewhere.
#[test]
fn f23_replicas_are_replaced_under_load() {
    let Some(redis) = Redis::start() else { return };
    let rolls = std::env::var("CARDAN_ROLLS").map_or(30, |rolls| rolls.parse().unwrap());
    let port = redis.port;
    let mut world = World::before(redis, "rolling", WHOLE, "", &[port; 2]);
    let sessions = [0, 1].map(|number| Session::open(world.at(number), None).unwrap());
    let addresses = world.replicas.iter().map(|replica| replica.address.clone()).collect();
    let rotation = Rotation {
        addresses: RwLock::new(addresses),
        over: AtomicBool::new(false),
        answered: AtomicUsize::new(0),
        brought_again: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        for (client, session) in sessions.iter().enumerate() {
            let rotation = &rotation;
            scope.spawn(move || by_session(rotation, client, session));
            scope.spawn(move || by_modern_calls(rotation, client));
            scope.spawn(move || by_slow_calls(rotation, client));
        }
        // Whatever fails here, the clients end.
        let _end = End(&rotation.over);
        for _ in 0..rolls {
            let before = rotation.answered.load(Ordering::SeqCst);
            let next = world.serve(port);
            let leaving = world.replicas.remove(0);
            {
                let mut addresses = rotation.addresses.write().unwrap();
                addresses.push_back(next.address.clone());
                assert_eq!(addresses.pop_front().as_ref(), Some(&leaving.address));
            }
            let listening = Listening::at(&leaving.address);
            leaving.signal("TERM");
            let session = listening.ends();
            assert_eq!(leaving.ends(), Some(0));
            Listening::by(session, &next.address);
            world.replicas.push(next);
            until("calls are answered", || {
                rotation.answered.load(Ordering::SeqCst) >= before + 3 * sessions.len()
            });
        }
    });
    let [answered, again] =
        [&rotation.answered, &rotation.brought_again].map(|count| count.load(Ordering::SeqCst));
    println!(
        "{rolls} replicas were replaced: {answered} calls, none failed, {again} tries of which nothing was taken"
    );
}

/// Who calls nothing and only listens: a modern listen, and the push stream of a legacy session.
struct Listening {
    session: Session,
    listen: TcpStream,
    push: TcpStream,
}

impl Listening {
    /// With a session that begins there.
    fn at(address: &str) -> Self {
        Self::by(Session::open(address, None).unwrap(), address)
    }

    /// Both are open when it returns.
    fn by(session: Session, address: &str) -> Self {
        let (headers, body) = modern_listen();
        let mut listen = send(address, "POST", &headers, &body).unwrap();
        read_until(&mut listen, "notifications/subscriptions/acknowledged");
        let mut push = send(address, "GET", &session.headers(), "").unwrap();
        let head = read_until(&mut push, "\r\n\r\n");
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        Self { session, listen, push }
    }

    /// Both end in order: the listen with its result, the stream with its last chunk.
    fn ends(self) -> Session {
        let Self { session, mut listen, mut push } = self;
        let told = read_until(&mut listen, "\r\n0\r\n\r\n");
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("\"result\"") && !told.contains("\"error\""), "{told}");
        read_until(&mut push, "0\r\n\r\n");
        session
    }
}

/// F23: a replica that leaves closes the connections that rest. A request that was on its way there was never read, and is brought
/// again; one that was read is not, unless that does no harm.
#[test]
fn f23_what_nobody_read_is_brought_again() {
    let Some(redis) = Redis::start() else { return };
    let (port, store) = (free_port(), redis.port);
    let world = World::before(redis, "unread", WHOLE, "", &[store]);
    let way = Way::to(port);
    let store = format!("redis://127.0.0.1:{store}");
    let owner = world.serve_at(port, &store, &format!("http://127.0.0.1:{}", way.port), None);
    let session = Session::open(&owner.address, None).unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" });
    for call in (1..).step_by(3).take(5) {
        session.echoes(world.at(0), call, "over a connection that rests from now on");
        *way.next.lock().unwrap() = Next::Unread;
        session.echoes(world.at(0), call + 1, "brought again");
        *way.next.lock().unwrap() = Next::Unanswered;
        let got = session.echo(world.at(0), call + 2, "done, or not").unwrap();
        assert_eq!(got.status, 502, "{got:?}");
        *way.next.lock().unwrap() = Next::Unanswered;
        let got = session.post(world.at(0), &list).unwrap();
        assert!(got.status == 200 && got.messages[0]["result"]["tools"].is_array(), "{got:?}");
        assert_eq!(*way.next.lock().unwrap(), Next::Passes, "all of it went this way");
    }
}

/// F23, F22: a process that was started in the place of another has not seen what that one read: what was brought to the first is not
/// brought to it again, and it says no more of a session than that it is not its own.
#[test]
fn f23_who_comes_in_the_place_of_another_is_another() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.port;
    let world = World::before(redis, "place", BRIEF, "", &[store]);
    let [first, second] = [free_port(), free_port()];
    let (way, store) = (Way::to(first), format!("redis://127.0.0.1:{store}"));
    let serve = |port| world.serve_at(port, &store, &format!("http://127.0.0.1:{}", way.port), None);
    let (mut owner, _after) = (serve(first), serve(second));
    let session = Session::open(&owner.address, None).unwrap();
    session.echoes(world.at(0), 1, "over a connection that rests from now on");
    way.to.store(second, Ordering::SeqCst);
    *way.next.lock().unwrap() = Next::Unanswered;
    let got = session.echo(world.at(0), 2, "done, and nobody can tell").unwrap();
    assert_eq!(got.status, 502, "{got:?}");
    let lead = |port| {
        way.to.store(port, Ordering::SeqCst);
        way.cut();
        way.mend();
    };
    lead(first);
    session.echoes(world.at(0), 3, "by its owner");
    lead(second);
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    session.echoes(world.at(0), 4, "when its lease is over");
    assert_eq!(world.count(0, "cardan_replica_takeovers_total"), 1);
}

/// Lets the clients end.
pub(crate) struct End<'a>(pub(crate) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A legacy client, whose session began at a replica that is soon gone.
fn by_session(rotation: &Rotation, client: usize, session: &Session) {
    for call in 1.. {
        let text = format!("{client}/{call}");
        rotation.calls(|here| session.echo(here, call, &text), |got| is_echo(got, call, &text));
        if !rotation.goes_on() {
            break;
        }
    }
}

fn by_modern_calls(rotation: &Rotation, client: usize) {
    for call in 1.. {
        let text = format!("m{client}/{call}");
        rotation.calls(|here| try_modern(here, &text), |got| is_echo(got, 1, &text));
        if !rotation.goes_on() {
            break;
        }
    }
}

/// Calls that take their time and tell how far they are.
fn by_slow_calls(rotation: &Rotation, client: usize) {
    let arguments = json!({ "steps": 5, "delay_ms": 20 });
    let (headers, body) = modern_call("slow", &arguments, json!({ "progressToken": "far" }));
    for turn in client.. {
        let got = rotation.calls_once(turn, |here| send(here, "POST", &headers, &body));
        let told = |message: &&Value| message["method"] == "notifications/progress";
        assert_eq!(got.messages.iter().filter(told).count(), 5, "{got:?}");
        let reply = got.messages.last().unwrap();
        assert!(reply["id"] == 1 && reply["result"]["isError"] != true, "{got:?}");
        if !rotation.goes_on() {
            break;
        }
    }
}
