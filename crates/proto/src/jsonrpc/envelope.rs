//! Bytes to envelope: call, note or reply, with the payload left raw.
//!
//! One pass over the frame finds the members of the envelope, those of `params` and the known
//! keys of `_meta`, as spans. Then the message is classified, so that every malformed shape gets
//! its own name instead of "no variant matched".

use bytes::Bytes;

use super::fault::{Fault, code};
use super::head;
use super::id::CallId;
pub use super::params::{MetaKey, Param, Params};
use super::scan::{Scanner, Syntax, Wrong};
use super::walk::Walk;
use crate::finding::{Rule, Strictness};
use crate::http::stray::Strays;
use crate::limits::Limits;
use crate::method::Method;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    /// Wants an answer.
    Call(Call),
    /// Wants none.
    Note(Note),
    /// Is one.
    Reply(Reply),
}

impl Envelope {
    fn shape(&self) -> Shape {
        match self {
            Self::Call(_) => Shape::Call,
            Self::Note(_) => Shape::Note,
            Self::Reply(_) => Shape::Reply,
        }
    }

    fn into_id(self) -> Option<CallId> {
        match self {
            Self::Call(call) => Some(call.id),
            Self::Note(_) => None,
            Self::Reply(reply) => reply.id,
        }
    }
}

/// A JSON-RPC request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names the call; echoed by its reply.
    pub id: CallId,
    /// What is called.
    pub method: Method,
    /// With what.
    pub params: Params,
    /// What came beside it and is to go on beside it: over HTTP, in the modern era. No part of the message.
    pub strays: Option<Strays>,
}

/// A JSON-RPC notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// What happened.
    pub method: Method,
    /// The details.
    pub params: Params,
}

/// A JSON-RPC response.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The call's id; absent when it could not be read.
    pub id: Option<CallId>,
    /// The raw result, or the fault.
    pub outcome: Result<Bytes, Fault>,
}

/// A frame that cannot be used: which rule it breaks, and whose call it was, if that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The id in the frame, where one could be read.
    pub id: Option<CallId>,
    /// What the frame seemed to be.
    pub shape: Shape,
    /// Where in the frame, in bytes.
    pub at: usize,
}

/// What a broken frame seemed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// It had a method and an id, so someone waits for an answer.
    Call,
    /// It had a method and no id.
    Note,
    /// It had an outcome.
    Reply,
    /// Nobody knows.
    Unknown,
}

impl Violation {
    /// A violation of a frame that could not be read at all.
    #[must_use]
    pub fn of(rule: Rule) -> Self {
        Self { rule, id: None, shape: Shape::Unknown, at: 0 }
    }

    /// A violation of a frame of which no more than the beginning is known.
    #[must_use]
    pub fn in_head(rule: Rule, head: &[u8], limits: &Limits) -> Self {
        let (shape, id) = head::read(head, limits);
        Self { rule, id, shape, at: 0 }
    }

    /// What the sender reads, when it is owed an answer.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self.rule {
            Rule::NotUtf8 | Rule::Syntax | Rule::Depth | Rule::Trailing => code::PARSE,
            Rule::ParamsType | Rule::MetaType if self.shape == Shape::Call => code::INVALID_PARAMS,
            _ => code::INVALID_REQUEST,
        };
        Fault::new(code, format!("{}: {} (at byte {})", self.rule.id(), self.rule.clause(), self.at))
    }

    pub(super) fn syntax(error: Syntax) -> Self {
        let rule = if error.what == Wrong::Depth { Rule::Depth } else { Rule::Syntax };
        Self { rule, id: None, shape: Shape::Unknown, at: error.at }
    }
}

/// Rules that a frame broke and that were overlooked or repaired: at most a few per frame.
pub type Repairs = Vec<Rule>;

/// What one frame held.
#[expect(clippy::large_enum_variant, reason = "a batch is rare, and every message would be allocated for it")]
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// One message, or the reason why it is none.
    One(Result<Envelope, Violation>, Repairs),
    /// A batch: each entry judged on its own.
    Batch(Vec<(Result<Envelope, Violation>, Repairs)>),
}

/// Decodes one frame.
#[must_use]
pub fn decode(frame: &Bytes, strictness: Strictness, limits: &Limits) -> Decoded {
    if frame.len() > limits.frame_bytes {
        let head = &frame[..limits.excerpt_bytes.min(frame.len())];
        return refuse(Violation::in_head(Rule::Oversize, head, limits));
    }
    if simdutf8::basic::from_utf8(frame).is_err() {
        let at = std::str::from_utf8(frame).err().map_or(0, |error| error.valid_up_to());
        return refuse(Violation { at, ..Violation::of(Rule::NotUtf8) });
    }
    let mut scanner = Scanner::new(frame, limits.depth);
    match scanner.peek() {
        Some(b'{') => {
            let (what, mut repairs) = message(frame, &mut scanner, strictness, limits);
            match what {
                // What a C string ends with is no second message.
                Ok(envelope) if strictness == Strictness::Lenient && only_nul(&frame[scanner.at()..]) => {
                    repairs.push(Rule::Trailing);
                    Decoded::One(Ok(envelope), repairs)
                }
                Ok(envelope) if !scanner.is_done() => refuse(Violation {
                    rule: Rule::Trailing,
                    shape: envelope.shape(),
                    id: envelope.into_id(),
                    at: scanner.at(),
                }),
                what => Decoded::One(what, repairs),
            }
        }
        Some(b'[') => batch(frame, &mut scanner, strictness, limits),
        _ => refuse(match scanner.value().map(|_| scanner.is_done()) {
            Ok(true) => Violation::of(Rule::NotAnObject),
            Ok(false) => Violation { at: scanner.at(), ..Violation::of(Rule::Trailing) },
            Err(error) => Violation::syntax(error),
        }),
    }
}

fn only_nul(rest: &[u8]) -> bool {
    rest.contains(&0) && rest.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

fn refuse(violation: Violation) -> Decoded {
    Decoded::One(Err(violation), Vec::new())
}

/// A batch, entry by entry. An entry that is no message spoils only itself; broken JSON spoils all.
fn batch(frame: &Bytes, scanner: &mut Scanner<'_>, strictness: Strictness, limits: &Limits) -> Decoded {
    let mut entries = Vec::new();
    let whole = scanner.clone().value();
    if let Err(error) = whole {
        return refuse(Violation::syntax(error));
    }
    if scanner.expect(b'[').is_err() || scanner.take(b']') {
        return refuse(Violation::of(Rule::BatchEmpty));
    }
    loop {
        if entries.len() == limits.batch_entries {
            return refuse(Violation { at: scanner.at(), ..Violation::of(Rule::BatchTooLong) });
        }
        entries.push(batch_entry(frame, scanner, strictness, limits));
        if !scanner.take(b',') {
            break;
        }
    }
    if scanner.expect(b']').is_err() || !scanner.is_done() {
        return refuse(Violation { at: scanner.at(), ..Violation::of(Rule::Trailing) });
    }
    Decoded::Batch(entries)
}

fn batch_entry(
    frame: &Bytes,
    scanner: &mut Scanner<'_>,
    strictness: Strictness,
    limits: &Limits,
) -> (Result<Envelope, Violation>, Repairs) {
    scanner.peek();
    let at = scanner.at();
    let rule = match scanner.peek() {
        Some(b'{') => {
            let mut inner = scanner.clone();
            // The whole entry is skipped first, so that a bad one never leaves the scanner inside it.
            if let Err(error) = scanner.value() {
                return (Err(Violation::syntax(error)), Vec::new());
            }
            return message(frame, &mut inner, strictness, limits);
        }
        Some(b'[') => Rule::BatchNested,
        _ => Rule::NotAnObject,
    };
    let rule = if scanner.value().is_ok() { rule } else { Rule::Syntax };
    (Err(Violation { at, ..Violation::of(rule) }), Vec::new())
}

fn message(
    frame: &Bytes,
    scanner: &mut Scanner<'_>,
    strictness: Strictness,
    limits: &Limits,
) -> (Result<Envelope, Violation>, Repairs) {
    let mut walk = Walk::default();
    if let Err(error) = walk.envelope(frame, scanner) {
        return (Err(walk.stopped(frame, limits, error)), Vec::new());
    }
    let mut repairs = Vec::new();
    let classified = walk.classify(frame, strictness, limits, &mut repairs);
    (classified, repairs)
}
