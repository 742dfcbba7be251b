//! Replies in parts: `result` events with fragments, then `complete` or `error`.
//!
//! ```text
//!             result            complete, error
//!  Gathering ---------> Gathering -----------> Answered
//!      |  '-- result with a whole reply, or end of stream after fragments --^ (a deviation)
//!      '-- a fragment that cannot be used --> Lossy -- complete, error --> Answered
//! ```
//!
//! A fragment is a part of a result: its blocks of content are added, its other members replace
//! earlier ones. `complete` has the last word.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::schema::Deviation;
use crate::codec::EventKind;
use crate::codec::sse::{write_comment, write_event};
use crate::jsonrpc::envelope::{Envelope, Reply};
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::write;
use crate::limits::Limits;

/// Puts the reply to one call together.
#[derive(Debug)]
pub struct Reassembly {
    id: CallId,
    state: State,
    result: Map<String, Value>,
    fragments: usize,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Gathering,
    /// A fragment is missing: only the peer's own words can be the reply.
    Lossy,
    Answered,
}

/// What an event brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A part of the result, to be shown while the rest is on its way. A sign of life as well.
    Fragment {
        /// The part, as it came.
        part: Bytes,
        /// How many there were, this one included.
        count: usize,
    },
    /// The reply, for the session. Nothing more is expected.
    Reply {
        /// One message.
        frame: Bytes,
        /// What was odd about the stream.
        found: Vec<Deviation>,
    },
    /// A plain message that is no part of a reply, for the session.
    Frame(Bytes),
    /// Nothing that could be used.
    Odd(Deviation),
}

impl Reassembly {
    /// For the reply to the call `id`, whose fragments have at most `limits.frame_bytes` in all.
    #[must_use]
    pub fn new(id: CallId, limits: &Limits) -> Self {
        Self {
            id,
            state: State::Gathering,
            result: Map::new(),
            fragments: 0,
            bytes: 0,
            max_bytes: limits.frame_bytes,
        }
    }

    /// An event came.
    pub fn event(&mut self, kind: &EventKind, data: &Bytes) -> Step {
        let name = match kind {
            EventKind::Message => return Step::Frame(data.clone()),
            EventKind::Other(name) => &**name,
        };
        match (self.state, name) {
            (State::Answered, _) => odd("", "nothing after the reply"),
            (_, "result") => self.fragment(data),
            (_, "complete") => self.complete(data),
            (_, "error") => {
                self.state = State::Answered;
                Step::Reply { frame: data.clone(), found: Vec::new() }
            }
            (_, _) => odd("", "one of the events result, complete and error"),
        }
    }

    /// The stream came to its proper end. If only fragments came, the last one was the mark of the
    /// end. Do not call this for a stream that broke: the reply would lack what did not come.
    pub fn finish(&mut self) -> Option<Step> {
        if self.state != State::Gathering || self.fragments == 0 {
            return None;
        }
        self.state = State::Answered;
        let result = Value::Object(std::mem::take(&mut self.result)).to_string();
        let reply = Reply { id: Some(self.id.clone()), outcome: Ok(Bytes::from(result)) };
        let mut frame = Vec::new();
        write::envelope(&Envelope::Reply(reply), &mut frame);
        Some(Step::Reply {
            frame: Bytes::from(frame),
            found: vec![deviation("", "a complete event at the end")],
        })
    }

    fn fragment(&mut self, data: &Bytes) -> Step {
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > self.max_bytes {
            return self.unusable("fragments within the limit of one frame");
        }
        let Ok(Value::Object(mut part)) = serde_json::from_slice(data) else {
            return self.unusable("an object");
        };
        if part.contains_key("jsonrpc") && part.contains_key("result") {
            // One text makes `complete` the end, another `result`. A whole reply is an end either way.
            self.state = State::Answered;
            let found = vec![deviation("", "a complete event for a whole reply")];
            return Step::Reply { frame: data.clone(), found };
        }
        let blocks = part.remove("content");
        if let Some(Value::Array(blocks)) = blocks {
            match self.result.entry("content").or_insert_with(|| json!([])) {
                Value::Array(content) => content.extend(blocks),
                other => *other = Value::Array(blocks),
            }
        }
        self.result.extend(part);
        self.fragments += 1;
        Step::Fragment { part: data.clone(), count: self.fragments }
    }

    fn unusable(&mut self, expected: &'static str) -> Step {
        self.state = State::Lossy;
        self.result.clear();
        odd("", expected)
    }

    fn complete(&mut self, data: &Bytes) -> Step {
        let comparable = self.state == State::Gathering && self.fragments > 0;
        self.state = State::Answered;
        let mut found = Vec::new();
        if comparable {
            let whole: Value = serde_json::from_slice(data).unwrap_or_default();
            found.extend(self.difference(&whole["result"]));
        }
        Step::Reply { frame: data.clone(), found }
    }

    /// Where the fragments differ from the whole. Text may be cut anywhere.
    fn difference(&self, whole: &Value) -> Option<Deviation> {
        let ours = joined(self.result.get("content"));
        if ours != joined(whole.get("content")) {
            return Some(deviation("/result/content", "what the fragments had"));
        }
        let mut members = self.result.iter().filter(|(name, _)| *name != "content");
        members
            .any(|(name, value)| whole.get(name) != Some(value))
            .then(|| deviation("/result", "what the fragments had"))
    }
}

/// Blocks of content, with plain texts in a row made one.
fn joined(content: Option<&Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for block in content.and_then(Value::as_array).into_iter().flatten() {
        match (out.last_mut().and_then(plain_text), plain_text(&mut block.clone())) {
            (Some(before), Some(text)) => before.push_str(text),
            _ => out.push(block.clone()),
        }
    }
    out
}

/// The text of a block that has nothing else.
fn plain_text(block: &mut Value) -> Option<&mut String> {
    let members = block.as_object_mut().filter(|members| members.len() == 2)?;
    if members.get("type").and_then(Value::as_str) != Some("text") {
        return None;
    }
    match members.get_mut("text") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn odd(pointer: &str, expected: &'static str) -> Step {
    Step::Odd(deviation(pointer, expected))
}

fn deviation(pointer: &str, expected: &'static str) -> Deviation {
    Deviation { pointer: pointer.to_owned(), expected }
}

/// Appends a part of a result.
pub fn write_fragment(part: &[u8], out: &mut Vec<u8>) {
    write_event(out, Some("result"), None, None, part);
}

/// Appends the reply, which ends the stream. It has been through the dialect, so it fits its schema.
pub fn write_reply(reply: &Reply, out: &mut Vec<u8>) {
    let kind = if reply.outcome.is_ok() { "complete" } else { "error" };
    let mut frame = Vec::new();
    write::envelope(&Envelope::Reply(reply.clone()), &mut frame);
    write_event(out, Some(kind), None, None, &frame);
}

/// Appends a sign of life, due after [`keep_alive_interval`](Limits::keep_alive_interval) of silence.
pub fn write_heartbeat(out: &mut Vec<u8>) {
    write_comment(out, "heartbeat");
}
