//! A collector of spans: what it was sent, read with nothing but the rules of protobuf.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and a failed step is a failed test"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_gateway::trace::{Settings, Tracer};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// A span, as far as anyone here asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    /// 2: server, 3: client.
    pub(crate) kind: u64,
    pub(crate) took_ns: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) failed: bool,
}

impl Span {
    pub(crate) fn of(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).map(String::as_str)
    }
}

/// A request, as it came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Collector {
    pub(crate) url: String,
    requests: Arc<Mutex<Receiver<Request>>>,
    /// Statuses of the next answers; 200 when there are none.
    pub(crate) statuses: Arc<Mutex<Vec<u16>>>,
    pub(crate) told: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, requests) = channel();
        let statuses = Arc::<Mutex<Vec<u16>>>::default();
        let next = Arc::clone(&statuses);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &tell, &next);
            }
        });
        Self { url, requests: Arc::new(Mutex::new(requests)), statuses, told: Arc::default() }
    }

    /// Exports here, with these variables set.
    pub(crate) fn tracer(&self, vars: &'static [(&str, &str)]) -> Arc<Tracer> {
        let env = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        let settings = Settings::of(Some(&self.url), &env).unwrap().unwrap();
        let told = Arc::clone(&self.told);
        Tracer::start(settings, move |line| told.lock().unwrap().push(line.to_owned())).unwrap()
    }

    /// Waits for one request.
    pub(crate) fn next(&self) -> Request {
        self.requests.lock().unwrap().recv_timeout(LONG).unwrap()
    }

    /// Waits for one request, off the runtime's only thread.
    pub(crate) async fn request(&self) -> Request {
        let requests = Arc::clone(&self.requests);
        let waiting = move || requests.lock().unwrap().recv_timeout(LONG).unwrap();
        tokio::task::spawn_blocking(waiting).await.unwrap()
    }

    /// What came until now; all there is, once the tracer is closed.
    pub(crate) fn rest(&self) -> Vec<Request> {
        self.requests.lock().unwrap().try_iter().collect()
    }
}

fn serve(mut stream: TcpStream, tell: &Sender<Request>, statuses: &Mutex<Vec<u16>>) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut some) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&some[..read]),
            _ => return,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = bytes.split_off(end);
    let have = body.len();
    body.resize(length.parse().unwrap(), 0);
    stream.read_exact(&mut body[have..]).unwrap();
    let status = statuses.lock().unwrap().pop().unwrap_or(200);
    tell.send(Request { head, body }).ok();
    let answer = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).ok();
}

/// The spans of a request, and what is said of the program.
pub(crate) fn spans(body: &[u8]) -> (BTreeMap<String, String>, Vec<Span>) {
    let (mut resource, mut all) = (BTreeMap::new(), Vec::new());
    for (_, of_resource) in fields(body) {
        for (field, value) in fields(of_resource.bytes()) {
            match field {
                1 => resource
                    .extend(fields(value.bytes()).into_iter().map(|(_, pair)| read_pair(pair.bytes()))),
                _ => {
                    let scope = fields(value.bytes()).into_iter().filter(|(field, _)| *field == 2);
                    all.extend(scope.map(|(_, one)| read_span(one.bytes())));
                }
            }
        }
    }
    (resource, all)
}

fn read_span(message: &[u8]) -> Span {
    let (mut span, mut begun) = (Span::default(), 0);
    for (field, value) in fields(message) {
        match field {
            1 => span.trace = hex(value.bytes()),
            2 => span.id = hex(value.bytes()),
            3 => span.state = value.text(),
            4 => span.parent = hex(value.bytes()),
            5 => span.name = value.text(),
            6 => span.kind = value.number(),
            7 => begun = value.number(),
            8 => span.took_ns = value.number().checked_sub(begun).unwrap(),
            9 => {
                let (key, value) = read_pair(value.bytes());
                assert!(span.attributes.insert(key, value).is_none(), "told twice");
            }
            15 => {
                span.failed =
                    fields(value.bytes()).iter().any(|(field, code)| *field == 3 && code.number() == 2)
            }
            _ => {}
        }
    }
    span
}

fn read_pair(message: &[u8]) -> (String, String) {
    let all = fields(message);
    (all[0].1.text(), fields(all[1].1.bytes())[0].1.text())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn bytes(&self) -> &'a [u8] {
        let Value::Bytes(bytes) = self else { panic!("a number") };
        bytes
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn number(&self) -> u64 {
        let Value::Number(number) = self else { panic!("bytes") };
        *number
    }
}

fn fields(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => Value::Number(u64::from_le_bytes(message.split_off(..8).unwrap().try_into().unwrap())),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                Value::Bytes(message.split_off(..length).unwrap())
            }
            5 => {
                let four = message.split_off(..4).unwrap().try_into().unwrap();
                Value::Number(u32::from_le_bytes(four).into())
            }
            other => panic!("no form {other}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut place) = (0, 0);
    loop {
        let byte = *bytes.split_off_first().unwrap();
        number |= u64::from(byte & 0x7f) << place;
        place += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}
