//! Peers and wires that fail, on either side of a gateway: those who have to do with it are told, the others do not notice.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Legacy, modern};
use crate::common::{CARDAN, Fifo, has_python};
use crate::rig::{Got, Running, Wire, World, demo};

/// A server that does something odd, and logs what it reads.
fn odd(manner: &str, log: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    format!("[servers.odd]\ncommand = 'python3'\nargs = ['{script}', '{manner}', '{log}']\n")
}

/// The messages of an answer, whichever form it has.
fn messages(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line.trim_start_matches("data: ")).ok();
    text.lines().filter_map(read).filter(Value::is_object).collect()
}

fn add(gateway: &Running, tool: &str) -> Got {
    modern(gateway, tool, &json!({ "a": 2, "b": 3 })).answer()
}

#[track_caller]
fn adds(gateway: &Running, tool: &str) {
    let got = add(gateway, tool);
    let all = messages(&got.body);
    assert_eq!(all.last().unwrap()["result"]["structuredContent"]["sum"], 5, "{got:?}");
}

/// F6: a server that reads nothing any more: whoever calls it is told so in time, the others are served, and the end is in time.
#[test]
fn f6_a_server_that_reads_nothing_holds_up_nobody() {
    if !has_python() {
        return;
    }
    let script = "import json, sys, time
for line in sys.stdin:
    call = json.loads(line)
    if 'id' not in call: continue
    if call['method'] == 'tools/call': time.sleep(3600)
    caps = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'deaf', 'version': '1'}}
    tools = {'tools': [{'name': 'take', 'inputSchema': {'type': 'object'}}]}
    result = {'initialize': caps, 'tools/list': tools}.get(call['method'], {})
    print(json.dumps({'jsonrpc': '2.0', 'id': call['id'], 'result': result}), flush=True)
";
    let deaf = format!(
        "[servers.deaf]\ncommand = 'python3'\nargs = ['-c', '''{script}''']\nera = 'legacy'\ncall_timeout = '1s'\n"
    );
    let world = World::new("deaf", &(deaf + &demo("well")));
    let gateway = world.serve(&["--grace", "1"]);
    gateway.stands("ready");
    let much = "x".repeat(64 << 10);
    let calls: Vec<Wire> =
        (0..200).map(|_| modern(&gateway, "deaf__take", &json!({ "much": much }))).collect();
    adds(&gateway, "well__add");
    for call in calls {
        let got = call.answer();
        let told = messages(&got.body);
        assert!(told.last().is_some_and(|reply| reply.get("error").is_some()), "{got:?}");
    }
    adds(&gateway, "well__add");
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
}

/// F10: clients that read nothing of what they asked for hold up nobody else.
#[test]
fn f10_clients_that_do_not_read_hold_up_nobody() {
    let world = World::new("stalled", &demo("alpha"));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let mut stalled: Vec<Wire> =
        (0..3).map(|_| modern(&gateway, "alpha__big", &json!({ "bytes": 8_000_000 }))).collect();
    // Its answer is on the way.
    for wire in &mut stalled {
        wire.until("HTTP/1.1 200");
    }
    for _ in 0..50 {
        adds(&gateway, "alpha__add");
    }
    // Who reads after all has lost nothing.
    let whole = stalled.remove(0).rest();
    assert!(whole.len() > 7_900_000, "{}", whole.len());
}

/// F11: where the wire of a modern client breaks in the middle of its call, the call is cancelled at its server.
#[test]
fn f11_a_modern_call_whose_wire_breaks_is_cancelled() {
    if !has_python() {
        return;
    }
    let world = World::new("broken", "");
    let log = Fifo::new(&world.0, "log");
    std::fs::write(world.config(), odd("hang", &log.path)).unwrap();
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let wire = modern(&gateway, "odd__odd", &json!({}));
    let call = log.message("tools/call");
    drop(wire);
    assert_eq!(log.message("notifications/cancelled")["params"]["requestId"], call["id"]);
}

/// F11: a legacy client whose wire breaks goes on where it was: nothing is lost and nothing comes twice.
#[test]
fn f11_a_legacy_call_whose_wire_breaks_is_resumed() {
    let world = World::new("resumed", &demo("alpha"));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let client = Legacy::open(&gateway);
    let mut wire = client.call("alpha__slow", &json!({ "steps": 5, "delay_ms": 50 }));
    let mut seen = wire.until("notifications/progress");
    drop(wire);
    // What came in part is not had.
    seen.truncate(seen.rfind("\n\n").map_or(0, |end| end + 2));
    let id = seen.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().trim().to_owned();
    let (session, last) = (format!("Mcp-Session-Id: {}", client.session), format!("Last-Event-ID: {id}"));
    let mut again = Wire::open(&gateway.address);
    again.send("GET", "/mcp", &["Accept: text/event-stream", &session, &last], "");
    let rest = again.until("\"result\"") + &again.rest();
    let all: Vec<Value> = [messages(&seen), messages(&rest)].concat();
    let steps: Vec<_> = all.iter().filter_map(|note| note["params"]["progress"].as_f64()).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0], "{seen}\n{rest}");
    assert_eq!(all.iter().filter(|message| message["id"] == 8).count(), 1, "{seen}\n{rest}");
}

/// F12: a server that stands still: calls to it end when their time is over, the others are served, and it is there again when
/// it goes on.
#[test]
fn f12_a_server_that_stands_still_is_told_of_in_time() {
    let mut upstream = Command::new(CARDAN);
    upstream.args(["serve", "--listen", "127.0.0.1:0"]);
    let upstream = Running::of(upstream);
    let still = format!("[servers.still]\nurl = 'http://{}/mcp'\ncall_timeout = '1s'\n", upstream.address);
    let world = World::new("still", &(still + &demo("well")));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    adds(&gateway, "still__add");
    upstream.signal("STOP");
    let got = add(&gateway, "still__add");
    let told = messages(&got.body);
    assert!(told.last().is_some_and(|reply| reply.get("error").is_some()), "{got:?}");
    adds(&gateway, "well__add");
    upstream.signal("CONT");
    // It may have been given up meanwhile, and is dialled again then.
    while messages(&add(&gateway, "still__add").body).last().unwrap().get("error").is_some() {}
}

/// F15: of two calls with one id the second is refused, and the first goes on.
#[test]
fn f15_an_id_that_is_taken_is_refused() {
    let world = World::new("twice", &demo("alpha"));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let client = Legacy::open(&gateway);
    let mut first = client.call("alpha__slow", &json!({ "steps": 20, "delay_ms": 50 }));
    first.until("notifications/progress");
    let second = client.call("alpha__add", &json!({ "a": 2, "b": 3 })).answer();
    assert_eq!(messages(&second.body).last().unwrap()["error"]["code"], -32600, "{second:?}");
    let rest = messages(&first.rest());
    let reply = rest.last().unwrap();
    assert!(reply["id"] == 8 && reply.get("result").is_some(), "{reply}");
}
