//! Frames that readers disagree about: whatever a policy saw is what the server behind it reads, or it reads nothing.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;
mod fronting;
mod relaying;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_gateway::audit::Audit;
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_proto::era::{Era, Revision};
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Param, decode};
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{LaneId, Outgoing};
use cardan_runtime::lines::Lines;
use cardan_runtime::link::Received;
use cardan_runtime::tap::{Passage, Tap, Tapped};
use cardan_server::Server;
use cardan_sim::rng::Rng;
use common::Scratch;
use fronting::behalf::policy;
use relaying::{making, revisions, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// Tools that anybody may use, and as many that nobody may.
const TOOLS: u64 = 16;

/// Of each era.
const FRAMES: u64 = 1500;

/// A string of JSON that says this, in one of its many spellings.
fn spelled(rng: &mut Rng, text: &str) -> String {
    let escapes = rng.pick(&[0, 0, 20, 100]);
    let each = |letter: char| match letter {
        // What JSON does not let stand as it is.
        letter if letter.is_control() || rng.percent(escapes) => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    format!("\"{}\"", text.chars().map(each).collect::<String>())
}

/// A key that some reader may take for this one, or that is this one.
fn alike(rng: &mut Rng, key: &str) -> String {
    let (first, rest) = key.split_at(1);
    let choices = [
        key.to_owned(),
        first.to_uppercase() + rest,
        key.to_uppercase(),
        key.replace('s', "\u{17f}"),
        key.replace('k', "\u{212a}"),
        format!("{key}\0"),
        format!(" {key}"),
        key.replace('a', "\u{430}"),
    ];
    let chosen = rng.pick(&choices);
    spelled(rng, &chosen)
}

type Members = Vec<(String, String)>;

/// Adds a member somewhere.
fn add(rng: &mut Rng, members: &mut Members, key: String, value: String) {
    let at = rng.below(members.len() as u64 + 1) as usize;
    members.insert(at, (key, value));
}

fn object(members: &Members) -> String {
    let members: Vec<_> = members.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn meta(era: Era) -> Option<String> {
    let date = Revision::LATEST_MODERN.date();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": date, "io.modelcontextprotocol/clientCapabilities": {} });
    (era == Era::Modern).then(|| meta.to_string())
}

fn params(rng: &mut Rng, era: Era, name: &str) -> Members {
    let mut members = vec![(spelled(rng, "name"), spelled(rng, name))];
    add(rng, &mut members, "\"arguments\"".to_owned(), "{}".to_owned());
    if let Some(meta) = meta(era) {
        let key = spelled(rng, "_meta");
        add(rng, &mut members, key, meta);
    }
    members
}

/// A call of one tool that some reader may take for that of another.
fn frame(rng: &mut Rng, era: Era, id: u64) -> String {
    let number = rng.below(TOOLS);
    let mut names = [format!("up__open{number}"), format!("up__secret{number}")];
    if rng.percent(30) {
        names.swap(0, 1);
    }
    let [name, other] = names;
    let mut inner = params(rng, era, &name);
    let decoys = rng.below(3);
    for _ in 0..decoys {
        let (key, value) = match rng.below(8) {
            0..=4 => (alike(rng, "name"), spelled(rng, &other)),
            5 => (alike(rng, "arguments"), format!("{{\"name\":{}}}", spelled(rng, &other))),
            6 => (alike(rng, "_meta"), "{\"progressToken\":1,\"progressToken\":2}".to_owned()),
            _ => (alike(rng, "name"), rng.pick(&["null", "1", "[]", "{}"]).to_owned()),
        };
        add(rng, &mut inner, key, value);
    }
    let mut members =
        vec![("\"jsonrpc\"".to_owned(), "\"2.0\"".to_owned()), (spelled(rng, "id"), id.to_string())];
    let (method, called, key) = (spelled(rng, "method"), spelled(rng, "tools/call"), spelled(rng, "params"));
    add(rng, &mut members, method, called);
    add(rng, &mut members, key, object(&inner));
    if rng.percent(50) {
        let (key, value) = match rng.below(4) {
            0 | 1 => (alike(rng, "params"), object(&params(rng, era, &other))),
            2 => (alike(rng, "method"), spelled(rng, "ping")),
            _ => (alike(rng, "id"), (id + (1 << 20)).to_string()),
        };
        add(rng, &mut members, key, value);
    }
    object(&members)
}

/// What a reader makes of a frame: the method, and the name.
type Read = (Value, Value);

fn by_serde(frame: &[u8]) -> Read {
    let frame: Value = serde_json::from_slice(frame).unwrap();
    (frame["method"].clone(), frame["params"]["name"].clone())
}

const SCRIPT: &str = r#"
import json, sys
for line in sys.stdin.buffer:
    frame = json.loads(line)
    params = frame.get("params")
    print(json.dumps([frame.get("method"), params.get("name") if isinstance(params, dict) else None]))
"#;

/// The same by Python; nothing: there is none.
fn by_python<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Read>> {
    let mut lines = frames.collect::<Vec<_>>().join(&b'\n');
    lines.push(b'\n');
    let child =
        Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped in part: there is no Python");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(&lines).unwrap());
    let out = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    Some(out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// T14: a message that we take for a call is the same call, of the same tool, to a reader that knows nothing of us; two members
/// of one name are nothing to anybody.
#[test]
fn t14_one_frame_is_one_call_to_every_reader() {
    let (mut rng, mut taken, mut refused) = (Rng::seeded(14), Vec::new(), 0);
    for id in 0..20_000 {
        let frame = Bytes::from(frame(&mut rng, Era::Modern, id));
        let Decoded::One(decoded, _) = decode(&frame, Strictness::Lenient, &Limits::DEFAULT) else {
            panic!("no batch: {frame:?}")
        };
        let Ok(Envelope::Call(call)) = decoded else {
            refused += 1;
            continue;
        };
        let name = call.params.text(Param::Name).map_or(Value::Null, |name| json!(name));
        let ours = (json!(call.method.name()), name);
        let (method, name) = by_serde(&frame);
        // A name that is no text is none.
        let theirs = (method, if name.is_string() { name } else { Value::Null });
        assert_eq!(ours, theirs, "{frame:?}");
        taken.push((frame, theirs));
    }
    assert!(taken.len() > 1000 && refused > 1000, "{} taken, {refused} refused", taken.len());
    let Some(read) = by_python(taken.iter().map(|(frame, _)| &**frame)) else { return };
    assert_eq!(read.len(), taken.len());
    for ((frame, ours), (method, name)) in taken.iter().zip(read) {
        let theirs = (method, if name.is_string() { name } else { Value::Null });
        assert_eq!(*ours, theirs, "{frame:?}");
    }
}

/// Frames as they come to the server.
#[derive(Default)]
struct Seen(Mutex<Vec<Bytes>>);

impl Tap for Seen {
    fn sends(&self, _: LaneId, _: &Outgoing) -> Passage {
        Passage::Open
    }

    fn received(&self, received: &Received) {
        if let Received::Frame { bytes, .. } = received {
            self.0.lock().unwrap().push(bytes.clone());
        }
    }
}

/// A server of this era whose every frame is seen.
fn upstream(era: Era) -> (Spec, Arc<Seen>) {
    let mut builder = Server::builder("up", "1").revisions(revisions(era));
    for name in (0..TOOLS).flat_map(|number| [format!("open{number}"), format!("secret{number}")]) {
        builder = builder.tool(&name, "does nothing", async || "done");
    }
    let (server, seen) = (builder.build(), Arc::new(Seen::default()));
    let tap = Arc::clone(&seen);
    let (making, _) = making(move |link| {
        let (server, tap) = (server.clone(), Arc::clone(&tap));
        async move { drop(server.serve(Tapped::new(link, Some(tap))).await) }
    });
    (Spec::new("up", "http", "digest", making), seen)
}

/// A client that says exactly what it is told to.
struct Raw {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    fn at(front: &Front) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (front, (reader, writer)) = (front.clone(), tokio::io::split(theirs));
        tokio::spawn(async move { front.serve(Lines::new(reader, writer, &Limits::DEFAULT)).await });
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    async fn say(&mut self, frame: &str) {
        self.writer.write_all(format!("{frame}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the reply to this call, whatever else is said before.
    async fn hears(&mut self, id: &str) -> Value {
        loop {
            let line = soon(id, self.lines.next_line()).await.unwrap().unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["id"] == id {
                return said;
            }
        }
    }

    async fn greet(&mut self, era: Era) {
        if era == Era::Modern {
            return;
        }
        let date = Revision::LATEST_LEGACY.date();
        let params = json!({ "protocolVersion": date, "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } });
        let call = json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params });
        self.say(&call.to_string()).await;
        self.hears("open").await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }

    /// Sends a frame, and after it a call whose reply tells that the frame was read.
    async fn tries(&mut self, era: Era, frame: &str, number: u64) {
        self.say(frame).await;
        let meta = meta(era).map(|meta| format!(",\"_meta\":{meta}")).unwrap_or_default();
        let id = format!("after {number}");
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"up__open0"{meta}}}}}"#
        ))
        .await;
        let said = self.hears(&id).await;
        assert_eq!(said["result"]["content"][0]["text"], "done", "{frame}: {said}");
    }
}

/// T14: whatever is sent to a gateway that keeps some tools from everybody, those are never called behind it; and each call
/// that comes there is of the tool that was looked at, as the server reads it, whatever it reads with.
#[tokio::test]
async fn t14_what_the_policy_saw_is_what_the_server_reads() {
    for (era, server) in [(Era::Legacy, Era::Legacy), (Era::Modern, Era::Modern), (Era::Modern, Era::Legacy)]
    {
        let scratch = Scratch::new(&format!("frames-{era:?}-{server:?}"));
        let file = scratch.path().join("audit.jsonl");
        let audit = Arc::new(Audit::file(&file, |line| panic!("{line}")).unwrap());
        let (spec, seen) = upstream(server);
        let options = Options { audit: Some(Arc::clone(&audit)), ..Options::default() };
        let front = Front::start(Fleet::start(vec![spec], fleet::Options::default()), options);
        front.protect(policy("[policy.'*']\ntools = { deny = ['up__secret*'] }\n"));
        front.settled().await;
        let mut client = Raw::at(&front);
        client.greet(era).await;
        let mut rng = Rng::seeded(0x14);
        for number in 0..FRAMES {
            let frame = frame(&mut rng, era, number);
            client.tries(era, &frame, number).await;
        }
        drop(client);
        front.end("done").await;
        audit.close();
        let written = std::fs::read_to_string(&file).unwrap();
        let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (mut allowed, mut barred) = (Vec::new(), 0);
        for line in written.iter().filter(|line| line["method"] == "tools/call") {
            match line["outcome"].as_str().unwrap() {
                "refused" => barred += usize::from(line["name"].is_string()),
                outcome => {
                    assert_eq!(outcome, "done", "{line}");
                    allowed.push(line["name"].as_str().unwrap().to_owned());
                }
            }
        }
        let frames = seen.0.lock().unwrap().clone();
        let python = by_python(frames.iter().map(|frame| &**frame));
        let serde = frames.iter().map(|frame| by_serde(frame)).collect();
        allowed.sort();
        for read in [Some(serde), python].into_iter().flatten() {
            assert_eq!(read.len(), frames.len());
            let called = read.into_iter().filter(|(method, _)| method == "tools/call");
            let mut called: Vec<_> = called.map(|(_, name)| name.as_str().unwrap().to_owned()).collect();
            called.sort();
            assert!(called.iter().all(|name| name.starts_with("open")), "{era:?} {server:?}");
            assert_eq!(called, allowed, "{era:?} {server:?}");
        }
        let more = allowed.len() - FRAMES as usize;
        assert!(more > 200 && barred > 100, "{era:?} {server:?}: {more} passed, {barred} were barred");
    }
}
