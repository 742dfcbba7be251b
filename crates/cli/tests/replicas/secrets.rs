//! What the store knows, and what becomes of what others write there.

use std::io::Read as _;

use serde_json::json;

use crate::wire::{Session, ask, is_echo, send};
use crate::world::{KEY, WHOLE, World};

pub(crate) const ADA: &str = "a token that is Ada's alone";
pub(crate) const BOB: &str = "a token that is Bob's alone";

/// T29: nothing in the store tells an id, a token, a name or what a client said.
#[test]
fn t29_the_store_holds_nothing_in_clear() {
    let keys = "[[gateway.keys]]\nname = \"ada-of-the-keys\"\nhash = \"HASH\"\n";
    let Some(world) = World::start("clear", WHOLE, &keys.replace("HASH", &sha256(ADA))) else { return };
    let session = Session::open(world.at(0), Some(ADA)).unwrap();
    session.echoes(world.at(1), 1, "forwarded");
    let mut dump = Vec::new();
    let all = [world.redis.keys(":session:"), world.redis.keys(":replica:")].concat();
    assert_eq!(all.len(), 4);
    for key in &all {
        dump.extend_from_slice(key.as_bytes());
        dump.extend(world.redis.say(&[b"DUMP", key.as_bytes()]));
        dump.extend(world.redis.say(&[b"HGETALL", key.as_bytes()]));
    }
    let text = String::from_utf8_lossy(&dump);
    for clear in
        [session.id.as_str(), ADA, "ada-of-the-keys", "canary-client", "127.0.0.1", KEY, "protocolVersion"]
    {
        assert!(!text.contains(clear), "{clear} is in the store: {text}");
    }
}

/// T29: what was changed in the store is no session: 404, and it is counted.
#[test]
fn t29_flipped_bytes_are_no_session() {
    let Some(world) = World::start("flipped", WHOLE, "") else { return };
    let mut told = 0;
    for (field, at) in [("record", 0), ("record", 40), ("fence", 0), ("owner", 3)] {
        let session = Session::open(world.at(0), None).unwrap();
        let [key] = &world.redis.keys(":session:")[..] else { panic!("not one session") };
        let mut bytes = world.redis.field(key, field);
        bytes[at] ^= 1;
        world.redis.say(&[b"HSET", key.as_bytes(), field.as_bytes(), &bytes]);
        told += 1;
        assert_eq!(session.echo(world.at(1), 1, "x").unwrap().status, 404, "{field}");
        assert_eq!(world.count(1, "cardan_replica_unreadable_records_total"), told, "{field}");
        // A neighbour may delete what it likes.
        world.redis.say(&[b"DEL", key.as_bytes()]);
    }
}

/// T29, F21: what others put in the place of one session is no session, at whichever replica, and costs no other: the store is
/// not taken for absent.
#[test]
fn t29_one_bad_key_is_one_lost_session() {
    let Some(world) = World::start("bad", WHOLE, "") else { return };
    let other = Session::open(world.at(0), None).unwrap();
    let known = world.redis.keys(":session:");
    let large = vec![b'x'; 2 << 20];
    let mut told = 0;
    for bad in [
        &[&b"SET"[..], b"KEY", b"x"][..],
        &[b"HSET", b"KEY", b"record", &large],
        &[b"HDEL", b"KEY", b"fence"],
    ] {
        let session = Session::open(world.at(0), None).unwrap();
        let keys = world.redis.keys(":session:");
        let key = keys.iter().find(|key| !known.contains(key)).unwrap();
        let words: Vec<&[u8]> =
            bad.iter().map(|word| if *word == b"KEY" { key.as_bytes() } else { word }).collect();
        world.redis.say(&words);
        told += 1;
        assert_eq!(session.echo(world.at(1), 1, "x").unwrap().status, 404, "{told}");
        assert_eq!(world.count(1, "cardan_replica_unreadable_records_total"), told);
        let _ = session.delete(world.at(0));
        world.redis.say(&[b"DEL", key.as_bytes()]);
        for number in 0..3 {
            other.echoes(world.at(number), number, "on");
        }
    }
    assert_eq!(world.counts("cardan_replica_store_failures_total"), 0);
}

/// T29, F22: a session is its principal's at every replica, and nobody else forwards.
#[test]
fn t29_a_session_is_its_principals_everywhere() {
    let Some(world) = World::start("principals", WHOLE, &two_keys()) else { return };
    let session = Session::open(world.at(0), Some(ADA)).unwrap();
    for number in 0..3 {
        session.echoes(world.at(number), number, "ada");
        assert_eq!(session.as_other(BOB).echo(world.at(number), 1, "bob").unwrap().status, 404);
        assert_eq!(session.as_other(BOB).delete(world.at(number)), 404);
        let stranger = ask(world.at(number), "POST", &[format!("Mcp-Session-Id: {}", session.id)], "{}");
        assert_eq!(stranger.unwrap().status, 401);
        let mut forged = session.headers();
        forged[1] = "Cardan-Pass: nonsense".to_owned();
        assert_eq!(ask(world.at(number), "POST", &forged, "{}").unwrap().status, 403);
        // T16: nor does one who says so learn which servers there are.
        for below in ["mcp", "sse", "messages", "ws", "else"] {
            let statuses = ["demo", "nobody"].map(|name| {
                let at = format!("/servers/{name}/{below}");
                world.replicas[number].get(&at, &["Cardan-Pass: nonsense"]).status
            });
            assert_eq!(statuses, [403; 2], "{below}");
        }
    }
    assert!(is_echo(&session.echo(world.at(2), 9, "still").unwrap(), 9, "still"));
}

/// T10: whoever knows the id of another's session gets the same bytes as with an id that nobody has, whatever is tried and at
/// whichever replica, the session's owner or not; the stream of whom it belongs to goes on.
#[test]
fn t10_a_stolen_id_is_an_unknown_id_at_every_replica() {
    let Some(world) = World::start("stolen", WHOLE, &two_keys()) else { return };
    let ada = Session::open(world.at(0), Some(ADA)).unwrap();
    // At another replica than the one that has her session, so that it passes both.
    let mut stream = send(world.at(1), "GET", &ada.headers(), "").unwrap();
    let (mut came, mut some) = (String::new(), [0; 4096]);
    while !came.contains("\nid: ") || !came.ends_with("\n\r\n") {
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "{came}");
        came += std::str::from_utf8(&some[..count]).unwrap();
    }
    let last = came.split_once("\nid: ").unwrap().1.lines().next().unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }).to_string();
    let attempts = [
        ("POST", None, ping.as_str()),
        ("POST", None, &note),
        ("GET", None, ""),
        ("GET", Some(last), ""),
        ("DELETE", None, ""),
    ];
    let bob = ada.as_other(BOB);
    let nobodys = bob.with_id("AAAAAAAAAAAAAAAAAAAAAA");
    for (number, (method, last, body)) in (0..3).flat_map(|number| attempts.map(|one| (number, one))) {
        let told = |session: &Session| {
            let mut headers = session.headers();
            headers.extend(last.map(|last| format!("Last-Event-ID: {last}")));
            let (mut all, mut stream) =
                (String::new(), send(world.at(number), method, &headers, body).unwrap());
            stream.read_to_string(&mut all).unwrap();
            let undated = all.split_inclusive('\n').filter(|line| !line.to_lowercase().starts_with("date:"));
            undated.collect::<String>()
        };
        let stolen = told(&bob);
        assert!(stolen.starts_with("HTTP/1.1 404 "), "{method} {last:?} at {number}: {stolen}");
        assert_eq!(stolen, told(&nobodys), "{method} {last:?} at {number}");
    }
    for number in 0..3 {
        ada.echoes(world.at(number), number, "still hers");
    }
    let change = json!({ "name": "change", "arguments": { "what": "tools" } });
    let change = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": change });
    assert_eq!(ada.post(world.at(2), &change).unwrap().status, 200);
    while !came.contains("notifications/tools/list_changed") {
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "{came}");
        came += std::str::from_utf8(&some[..count]).unwrap();
    }
}

pub(crate) fn two_keys() -> String {
    let key = |name: &str, token: &str| {
        format!("[[gateway.keys]]\nname = \"{name}\"\nhash = \"{}\"\n", sha256(token))
    };
    key("ada", ADA) + &key("bob", BOB)
}

/// As `cardan key` writes it.
fn sha256(token: &str) -> String {
    let out = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write as _;
            child.stdin.take().unwrap().write_all(token.as_bytes())?;
            child.wait_with_output()
        })
        .unwrap();
    format!("sha256:{}", String::from_utf8(out.stdout).unwrap().split(' ').next().unwrap())
}
