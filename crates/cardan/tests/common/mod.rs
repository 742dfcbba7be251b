//! Client and server of ours over the memory link with a tap in between, and peers that speak raw
//! lines.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub(crate) mod keeping;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use cardan::client::{Client, Connector};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision, Revisions};
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{Cause, Departed, Event, LaneId, Outgoing};
use cardan::runtime::lines::Lines;
use cardan::runtime::link::{Link, Received};
use cardan::runtime::memory;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The newest revision of each era.
pub(crate) const BOTH: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST_MODERN];

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Everything that crossed a tapped link, as seen from the tapped end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Vec<(Way, Value)>>>);

/// Which way a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

impl Wire {
    fn record(&self, way: Way, bytes: &[u8]) {
        let value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((way, value));
    }

    pub(crate) fn all(&self) -> Vec<(Way, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn went(&self, way: Way) -> Vec<Value> {
        self.all().into_iter().filter(|(went, _)| *went == way).map(|(_, message)| message).collect()
    }

    /// Messages of one method that went that way.
    pub(crate) fn of(&self, way: Way, method: &str) -> Vec<Value> {
        self.went(way).into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Results that came in for calls of one method, in order of arrival.
    pub(crate) fn results(&self, method: &str) -> Vec<Value> {
        let ids: Vec<_> = self.of(Way::Out, method).into_iter().map(|call| call["id"].clone()).collect();
        let came = self.went(Way::In).into_iter();
        came.filter(|reply| reply.get("method").is_none() && ids.contains(&reply["id"])).collect()
    }

    /// Waits until a message of one method went that way.
    pub(crate) async fn until(&self, way: Way, method: &str) -> Value {
        for _ in 0..20_000 {
            if let Some(message) = self.of(way, method).pop() {
                return message;
            }
            tokio::task::yield_now().await;
        }
        panic!("no {method} on the wire: {:?}", self.all());
    }
}

/// A link that records what crosses it.
pub(crate) struct Tap<L> {
    pub(crate) link: L,
    pub(crate) wire: Wire,
}

impl<L: Link> Link for Tap<L> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let received = self.link.poll_recv(cx);
        if let Poll::Ready(Received::Frame { bytes, .. }) = &received {
            self.wire.record(Way::In, bytes);
        }
        received
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.wire.record(Way::Out, &bytes);
        self.link.put(frame, lane, message);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.link.queued()
    }

    fn departed(&self) -> Departed {
        // What is recorded as sent is never taken back.
        Departed::through(self.link.departed().in_order)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        self.link.poll_close(cx, cause)
    }
}

/// How a client settles on exactly this revision.
pub(crate) fn speaking(connector: Connector, revision: Revision) -> Connector {
    let era = match revision.era() {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    };
    connector.era(era).revisions(Revisions::only(revision))
}

/// A client at a server, in this revision, and what crosses between them.
pub(crate) async fn join(server: &Server, connector: Connector, revision: Revision) -> (Client, Wire) {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(theirs).await });
    let wire = Wire::default();
    let tap = Tap { link: ours, wire: wire.clone() };
    let client = speaking(connector, revision).connect_link(tap).await.expect("both ends are ours");
    assert_eq!(client.settled().revision, revision);
    (client, wire)
}

/// A plain client that answers nothing.
pub(crate) fn plain() -> Connector {
    Client::builder("tester", "1")
}

/// The same, answering.
pub(crate) fn answering(answerers: Answerers) -> Connector {
    plain().answer(answerers)
}

/// A peer that speaks raw lines.
pub(crate) struct Raw {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    minted: i64,
}

impl Raw {
    fn over(stream: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: BufReader::new(reader), writer, minted: 1000 }
    }

    /// A raw client at a server of ours.
    pub(crate) fn client_of(server: &Server) -> Self {
        Self::client_of_as(server, None)
    }

    /// The same for a principal.
    pub(crate) fn client_of_as(server: &Server, principal: Option<Arc<str>>) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let serving = server.clone();
        let link = Lines::new(reader, writer, &Limits::DEFAULT);
        tokio::spawn(async move { serving.serve_as(link, principal).await });
        Self::over(ours)
    }

    /// A raw client after the handshake.
    pub(crate) async fn legacy(server: &Server, revision: Revision, capabilities: Value) -> Self {
        let mut raw = Self::client_of(server);
        let params = json!({
            "protocolVersion": revision.date(), "capabilities": capabilities,
            "clientInfo": { "name": "raw", "version": "0" },
        });
        let reply = raw.call("initialize", params).await;
        assert_eq!(reply["result"]["protocolVersion"], revision.date());
        raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        raw
    }

    /// A raw server, and a client of ours that connects to it.
    pub(crate) fn server_for(
        connector: Connector,
        revision: Revision,
    ) -> (Self, JoinHandle<Result<Client, String>>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let connecting = tokio::spawn(async move {
            let link = Lines::new(reader, writer, &Limits::DEFAULT);
            speaking(connector, revision).connect_link(link).await.map_err(|error| error.to_string())
        });
        (Self::over(ours), connecting)
    }

    /// A raw server with a client of ours that is ready.
    pub(crate) async fn ready(
        connector: Connector,
        revision: Revision,
        capabilities: Value,
    ) -> (Self, Client) {
        let (mut raw, connecting) = Self::server_for(connector, revision);
        let hello = raw.recv().await;
        let result = match revision.era() {
            Era::Legacy => json!({
                "protocolVersion": revision.date(), "capabilities": capabilities,
                "serverInfo": { "name": "raw", "version": "0" },
            }),
            Era::Modern => json!({
                "resultType": "complete", "supportedVersions": [revision.date()],
                "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            }),
        };
        raw.reply(&hello, result).await;
        if revision.era() == Era::Legacy {
            assert_eq!(raw.recv().await["method"], "notifications/initialized");
        }
        (raw, connecting.await.unwrap().unwrap())
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// A line as it is.
    pub(crate) async fn write(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn recv(&mut self) -> Value {
        let mut line = String::new();
        let reading = tokio::time::timeout(LONG, self.reader.read_line(&mut line));
        assert!(reading.await.expect("the peer says nothing").unwrap() > 0, "the peer has left");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a call and brings the next message, which must be its reply.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        let reply = self.recv().await;
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    /// Sends a call and does not wait.
    pub(crate) async fn start(&mut self, method: &str, params: Value) -> i64 {
        self.minted += 1;
        let id = self.minted;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// A modern call: with its metadata, and these capabilities of the client.
    pub(crate) async fn modern(&mut self, method: &str, params: Value, capabilities: Value) -> Value {
        self.call(method, dressed(params, capabilities)).await
    }

    pub(crate) async fn reply(&mut self, call: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, call: &Value, code: i64, data: Value) {
        let error = json!({ "code": code, "message": "no", "data": data });
        self.send(&json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })).await;
    }
}

/// Params with the metadata of a modern call.
pub(crate) fn dressed(mut params: Value, capabilities: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(Revision::LATEST_MODERN.date());
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

/// Params of a call of a raw client that is open in this revision.
pub(crate) fn params_in(revision: Revision, params: Value) -> Value {
    match revision.era() {
        Era::Legacy => params,
        Era::Modern => dressed(params, json!({})),
    }
}

/// A raw client that is open in this revision.
pub(crate) async fn raw_in(server: &Server, revision: Revision) -> Raw {
    match revision.era() {
        Era::Legacy => Raw::legacy(server, revision, json!({})).await,
        Era::Modern => Raw::client_of(server),
    }
}

/// The text that a tool returned.
pub(crate) fn words(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {reply}"))
}

/// A client that keeps a line for everything that it observes.
pub(crate) fn observing(connector: Connector) -> (Connector, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let connector = connector.observe(move |event| {
        let line = match event {
            Event::State(change) => match &change.cause {
                Some(cause) => format!("{:?}: {cause:?}", change.to),
                None => format!("{:?}", change.to),
            },
            Event::Found(finding) => format!("found {}", finding.rule.id()),
            Event::Noted(note) => format!("noted {}", note.method),
            Event::Asked { what, .. } => format!("asked {}", what.method),
            Event::AskWithdrawn { .. } => "ask withdrawn".to_owned(),
            Event::Logged { .. } => "logged".to_owned(),
            _ => return,
        };
        keep.lock().unwrap().push(line);
    });
    (connector, seen)
}
