//! Peers and wires that fail, on either side of a gateway: those who have to do with it are told, the others do not notice.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Legacy, modern};
use crate::common::{CARDAN, Fifo, has_python, signal};
use crate::rig::{Got, LONG, Running, Wire, World, demo};

/// A server that does something odd, and logs what it reads.
pub(crate) fn odd(manner: &str, log: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    format!("[servers.odd]\ncommand = 'python3'\nargs = ['{script}', '{manner}', '{log}']\n")
}

/// The messages of an answer, whichever form it has.
pub(crate) fn messages(text: &str) -> Vec<Value> {
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

/// A server that reads no more once it is called.
const DEAF: &str = "import json, sys, time
for line in sys.stdin:
    call = json.loads(line)
    if 'id' not in call: continue
    if call['method'] == 'tools/call': time.sleep(3600)
    caps = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'deaf', 'version': '1'}}
    tools = {'tools': [{'name': 'take', 'inputSchema': {'type': 'object'}}]}
    result = {'initialize': caps, 'tools/list': tools}.get(call['method'], {})
    print(json.dumps({'jsonrpc': '2.0', 'id': call['id'], 'result': result}), flush=True)
";

fn deaf(more: &str) -> String {
    format!("[servers.deaf]\ncommand = 'python3'\nargs = ['-c', '''{DEAF}''']\nera = 'legacy'\n{more}\n")
}

/// F6: a server that reads nothing any more: whoever calls it is told so in time, the others are served, and the end is in time.
#[test]
fn f6_a_server_that_reads_nothing_holds_up_nobody() {
    if !has_python() {
        return;
    }
    let world = World::new("deaf", &(deaf("call_timeout = '1s'") + &demo("well")));
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

/// F6: 10,000 calls of 64 KiB to it by one client: what waits is bounded, the rest is refused at once, one that is cancelled
/// is over, the others are served meanwhile, and the end is in time and tells those who wait.
#[test]
fn f6_ten_thousand_calls_to_a_server_that_reads_nothing() {
    const CALLS: usize = 10_000;
    if !has_python() {
        return;
    }
    let world = World::new("ten-thousand", &(deaf("call_timeout = '1h'") + &demo("well")));
    let config = world.config();
    let mut command = world.command(&["serve", "--stdio", "--config", &config, "--grace", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut gateway = command.spawn().unwrap();
    let mut stdin = gateway.stdin.take().unwrap();
    let stdout = BufReader::new(gateway.stdout.take().unwrap());
    let (tell, told) = mpsc::channel::<Value>();
    thread::spawn(move || {
        let replies = stdout.lines().map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap());
        // Notes come as well: that a list has changed, say.
        replies.filter(|reply: &Value| reply.get("id").is_some()).for_each(|reply| drop(tell.send(reply)));
    });
    let mut say = |message: String| writeln!(stdin, "{message}").unwrap();
    let next = || told.recv_timeout(LONG).expect("a reply");
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "f6", "version": "1" } });
    say(json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello }).to_string());
    assert_eq!(next()["id"], "hello");
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    let much = json!({ "name": "deaf__take", "arguments": { "much": "x".repeat(64 << 10) } }).to_string();
    for id in 0..CALLS {
        say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{much}}}"#));
    }
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    say(cancel.to_string());
    let add = json!({ "name": "well__add", "arguments": { "a": 2, "b": 3 } });
    say(json!({ "jsonrpc": "2.0", "id": "well", "method": "tools/call", "params": add }).to_string());
    let mut refused = HashSet::new();
    loop {
        let reply = next();
        if reply["id"] == "well" {
            assert_eq!(reply["result"]["structuredContent"]["sum"], 5, "{reply}");
            break;
        }
        assert!(reply["error"]["code"].is_number(), "{reply}");
        assert!(refused.insert(reply["id"].as_u64().unwrap()), "{reply}");
    }
    let peak = peak_bytes(gateway.id());
    eprintln!("{} refused, peak {} MiB", refused.len(), peak >> 20);
    assert!(refused.len() > CALLS / 2, "{}", refused.len());
    assert!(!refused.contains(&0) && peak < 256 << 20, "{peak}");
    let begun = Instant::now();
    signal(&gateway, "TERM");
    let rest: Vec<Value> = std::iter::from_fn(|| told.recv_timeout(LONG).ok()).collect();
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let waited: HashSet<u64> = rest.iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
    assert!(rest.iter().all(|reply| reply.get("error").is_some()) && waited.len() == rest.len());
    assert!(!waited.contains(&1), "it was cancelled");
    assert_eq!(waited.len() + refused.len(), CALLS - 1, "each of the others has one answer");
}

/// The most memory that a process ever had.
fn peak_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
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

/// How soon a server knows that a call was given up whose wire has broken.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// F11: where the wire of a modern client breaks in the middle of its call, the call is cancelled at its server, within a second.
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
    let broke = Instant::now();
    drop(wire);
    assert_eq!(log.message("notifications/cancelled")["params"]["requestId"], call["id"]);
    assert!(broke.elapsed() <= GIVEN_UP, "{:?}", broke.elapsed());
}

/// F11: so it is at a server that is dialled, in either era, where the wire breaks in the middle of a stream; whether it is closed or
/// reset.
#[test]
fn f11_a_modern_call_whose_stream_breaks_is_cancelled_at_a_server_elsewhere() {
    let mut upstream = Command::new(CARDAN);
    upstream.args(["serve", "--listen", "127.0.0.1:0"]);
    let upstream = Running::of(upstream);
    let far =
        |era: &str| format!("[servers.{era}]\nurl = 'http://{}/mcp'\nera = '{era}'\n", upstream.address);
    let world = World::new("broken-far", &(far("legacy") + &far("modern")));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    for (era, is_reset) in [("legacy", false), ("legacy", true), ("modern", false), ("modern", true)] {
        let steps = json!({ "steps": 6000, "delay_ms": 50 });
        let mut wire = modern(&gateway, &format!("{era}__slow"), &steps);
        wire.until("notifications/progress");
        let broke = Instant::now();
        if is_reset {
            wire.breaks_off()
        } else {
            drop(wire)
        }
        upstream.hears("cancelled");
        assert!(broke.elapsed() <= GIVEN_UP, "{era}, reset {is_reset}: {:?}", broke.elapsed());
    }
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

/// F12: a server that stands still: calls to it end when their time is over, `/readyz` says that it is of no use and that the gateway
/// is degraded, the others are served all the while, and it is there again when it goes on.
#[test]
fn f12_a_server_that_stands_still_is_told_of_in_time() {
    let mut upstream = Command::new(CARDAN);
    upstream.args(["serve", "--listen", "127.0.0.1:0"]);
    let upstream = Running::of(upstream);
    let asked = "probe_within = '1s', probe_busy_within = '1s'";
    let still = format!(
        "[servers.still]\nurl = 'http://{}/mcp'\ncall_timeout = '1s'\nstart_timeout = '1s'\n\
         reconnect = {{ attempts = 1000, burst = 1000, wait_min = '10ms', wait_max = '50ms', {asked} }}\n",
        upstream.address
    );
    let world = World::new("still", &(still + &demo("well")));
    let gateway = world.serve(&[]);
    let server = |said: &Value| said["servers"].as_array().unwrap()[0].clone();
    let said = gateway.stands("ready");
    assert!(server(&said)["name"] == "still" && server(&said)["up"] == true, "{said}");
    adds(&gateway, "still__add");
    upstream.signal("STOP");
    let got = add(&gateway, "still__add");
    let told = messages(&got.body);
    assert!(told.last().is_some_and(|reply| reply.get("error").is_some()), "{got:?}");
    loop {
        adds(&gateway, "well__add");
        let got = gateway.get("/readyz", &[]);
        let said = got.json();
        if said["status"] == "degraded" {
            assert!(got.status == 200 && server(&said)["up"] == false, "{said}");
            assert!(server(&said)["cause"].is_string(), "{said}");
            break;
        }
    }
    // Whoever calls it now is told what is known of it.
    let got = add(&gateway, "still__add");
    let told = messages(&got.body);
    let error = &told.last().unwrap()["error"];
    assert!(error["message"].as_str().is_some_and(|said| said.contains("server `still`")), "{got:?}");
    assert_eq!(error["data"]["mayHaveExecuted"], false, "{got:?}");
    adds(&gateway, "well__add");
    upstream.signal("CONT");
    gateway.stands("ready");
    // A call has a second here, which is not much for a machine that runs other tests too.
    let sum =
        |got: Got| messages(&got.body).last().map(|last| last["result"]["structuredContent"]["sum"].clone());
    while sum(add(&gateway, "still__add")) != Some(json!(5)) {}
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
