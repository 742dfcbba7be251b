//! Bytes to envelope: call, note or reply, with the payload left raw.
//!
//! One pass over the frame finds the members of the envelope, those of `params` and the known
//! keys of `_meta`, as spans. Then the message is classified, so that every malformed shape gets
//! its own name instead of "no variant matched".

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use super::fault::{Fault, code};
use super::id::{BadId, CallId};
use super::scan::{Scanner, Span, Syntax, Wrong};
use crate::finding::{Rule, Strictness};
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

/// A JSON-RPC request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names the call; echoed by its reply.
    pub id: CallId,
    /// What is called.
    pub method: Method,
    /// With what.
    pub params: Params,
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

macro_rules! keys {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$kdoc:meta])* $key:ident $wire:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $($(#[$kdoc])* $key,)* }

        impl $name {
            const COUNT: usize = [$($wire,)*].len();

            fn find(name: &[u8]) -> Option<Self> {
                $(if name == $wire.as_bytes() { return Some(Self::$key); })*
                None
            }

            /// The member's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$key => $wire,)* }
            }
        }
    };
}

keys! {
    /// Members of `params` that the core looks at.
    pub enum Param {
        /// Of a tool or prompt.
        Name "name",
        /// Of a tool or prompt call.
        Arguments "arguments",
        /// Metadata.
        Meta "_meta",
        /// Of a resource.
        Uri "uri",
        /// State handed back by a retry.
        RequestState "requestState",
        /// Answers handed in by a retry.
        InputResponses "inputResponses",
        /// The call that a cancel note names.
        RequestId "requestId",
        /// The token that a progress note names.
        ProgressToken "progressToken",
        /// Of a task.
        TaskId "taskId",
    }
}

keys! {
    /// Keys of `_meta` that the core looks at.
    pub enum MetaKey {
        /// Wanted progress.
        ProgressToken "progressToken",
        /// Revision of this call.
        ProtocolVersion "io.modelcontextprotocol/protocolVersion",
        /// Capabilities of the caller.
        ClientCapabilities "io.modelcontextprotocol/clientCapabilities",
        /// Identity of the caller.
        ClientInfo "io.modelcontextprotocol/clientInfo",
        /// Wanted log level.
        LogLevel "io.modelcontextprotocol/logLevel",
        /// The listen that a note belongs to.
        SubscriptionId "io.modelcontextprotocol/subscriptionId",
    }
}

/// The params of a call or note: raw, with the spans of the members we know.
#[derive(Debug, Clone, Default)]
pub struct Params {
    raw: Option<Bytes>,
    known: Known,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    params: [Span; Param::COUNT],
    meta: [Span; MetaKey::COUNT],
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Params {
    /// Params that we made ourselves, to be sent: `raw` is a JSON object. Known members are not
    /// looked for; whoever receives them scans.
    #[must_use]
    pub fn outgoing(raw: Bytes) -> Self {
        Self { raw: Some(raw), known: Known::default() }
    }

    /// No params at all.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Scans params that did not come in a frame.
    pub fn scan(raw: Bytes, limits: &Limits) -> Result<Self, Syntax> {
        let mut scanner = Scanner::new(&raw, limits.depth);
        let mut walk = Walk::default();
        walk.params(&mut scanner)?;
        Ok(Self { known: walk.known, raw: Some(raw) })
    }

    /// The whole object as JSON text, if there is one.
    #[must_use]
    pub fn raw(&self) -> Option<&Bytes> {
        self.raw.as_ref()
    }

    /// One member of `params` as raw JSON.
    #[must_use]
    pub fn get(&self, key: Param) -> Option<Bytes> {
        self.slice(self.known.params[key as usize])
    }

    /// One member of `params._meta` as raw JSON.
    #[must_use]
    pub fn meta(&self, key: MetaKey) -> Option<Bytes> {
        self.slice(self.known.meta[key as usize])
    }

    /// One member of `params` as text, if it is a string.
    #[must_use]
    pub fn text(&self, key: Param) -> Option<Cow<'_, str>> {
        string_at(self.raw.as_ref()?, self.known.params[key as usize])
    }

    /// One member of `params._meta` as text, if it is a string.
    #[must_use]
    pub fn meta_text(&self, key: MetaKey) -> Option<Cow<'_, str>> {
        string_at(self.raw.as_ref()?, self.known.meta[key as usize])
    }

    /// Decodes the whole object.
    pub fn decode<'a, T: serde::Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_slice(self.raw.as_deref().unwrap_or(b"{}"))
    }

    fn slice(&self, span: Span) -> Option<Bytes> {
        if span.is_absent() {
            return None;
        }
        self.raw.as_ref().map(|raw| raw.slice(span.range()))
    }
}

/// The string at `span`, borrowed where it has no escapes.
fn string_at(raw: &[u8], span: Span) -> Option<Cow<'_, str>> {
    let quoted = raw.get(span.range())?;
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(quoted).ok().map(Cow::Owned)
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

    fn syntax(error: Syntax) -> Self {
        let rule = if error.what == Wrong::Depth { Rule::Depth } else { Rule::Syntax };
        Self { rule, id: None, shape: Shape::Unknown, at: error.at }
    }
}

/// Rules that a frame broke and that were overlooked or repaired: at most a few per frame.
pub type Repairs = Vec<Rule>;

/// What one frame held.
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
        return refuse(Violation::of(Rule::Oversize));
    }
    if let Err(error) = std::str::from_utf8(frame) {
        return refuse(Violation { at: error.valid_up_to(), ..Violation::of(Rule::NotUtf8) });
    }
    let mut scanner = Scanner::new(frame, limits.depth);
    match scanner.peek() {
        Some(b'{') => {
            let (what, repairs) = message(frame, &mut scanner, strictness, limits);
            match what {
                Ok(_) if !scanner.is_done() => refuse(Violation { at: scanner.at(), ..Violation::of(Rule::Trailing) }),
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
        return (Err(Violation::syntax(error)), Vec::new());
    }
    let mut repairs = Vec::new();
    let classified = walk.classify(frame, strictness, limits, &mut repairs);
    (classified, repairs)
}

/// What one pass over a message saw.
#[derive(Default)]
struct Walk {
    version: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    known: Known,
    duplicate: Option<usize>,
    meta_type: Option<usize>,
}

impl Walk {
    fn envelope(&mut self, frame: &[u8], scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        let mut unknown = Seen::default();
        scanner.expect(b'{')?;
        if scanner.take(b'}') {
            return Ok(());
        }
        loop {
            let key = unescaped(scanner.key()?);
            scanner.peek();
            let at = scanner.at();
            let slot = match &*key {
                b"jsonrpc" => &mut self.version,
                b"id" => &mut self.id,
                b"method" => &mut self.method,
                b"params" => &mut self.params,
                b"result" => &mut self.result,
                b"error" => &mut self.error,
                _ => &mut Span::default(),
            };
            if !slot.is_absent() {
                self.duplicate.get_or_insert(at);
            }
            if &*key == b"params" && frame.get(at) == Some(&b'{') {
                self.params(scanner)?;
                self.params = Span::new(at, scanner.at());
                self.known = self.known.within(at);
            } else {
                *slot = scanner.value()?;
                if !is_envelope_member(&key) && unknown.is_repeated(key) {
                    self.duplicate.get_or_insert(at);
                }
            }
            if !scanner.take(b',') {
                return scanner.expect(b'}');
            }
        }
    }

    fn params(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        let mut unknown = Seen::default();
        scanner.expect(b'{')?;
        if scanner.take(b'}') {
            return Ok(());
        }
        loop {
            let key = unescaped(scanner.key()?);
            let first = scanner.peek();
            let at = scanner.at();
            match Param::find(&key) {
                Some(known) => {
                    if !self.known.params[known as usize].is_absent() {
                        self.duplicate.get_or_insert(at);
                    }
                    if known == Param::Meta && first == Some(b'{') {
                        self.meta(scanner)?;
                    } else {
                        if known == Param::Meta {
                            self.meta_type = Some(at);
                        }
                        scanner.value()?;
                    }
                    self.known.params[known as usize] = Span::new(at, scanner.at());
                }
                None => {
                    scanner.value()?;
                    if unknown.is_repeated(key) {
                        self.duplicate.get_or_insert(at);
                    }
                }
            }
            if !scanner.take(b',') {
                return scanner.expect(b'}');
            }
        }
    }

    fn meta(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        scanner.expect(b'{')?;
        if scanner.take(b'}') {
            return Ok(());
        }
        loop {
            let key = unescaped(scanner.key()?);
            let span = scanner.value()?;
            if let Some(known) = MetaKey::find(&key) {
                if !self.known.meta[known as usize].is_absent() {
                    self.duplicate.get_or_insert(span.range().start);
                }
                self.known.meta[known as usize] = span;
            }
            if !scanner.take(b',') {
                return scanner.expect(b'}');
            }
        }
    }

    /// What it is, or why it is nothing.
    fn classify(
        &self,
        frame: &Bytes,
        strictness: Strictness,
        limits: &Limits,
        repairs: &mut Repairs,
    ) -> Result<Envelope, Violation> {
        let bad_id = (!self.id.is_absent()).then(|| CallId::parse(&frame[self.id.range()], limits.id_bytes));
        let id = bad_id.clone().and_then(Result::ok);
        let shape = self.shape();
        let broken = |rule, at| Violation { rule, id: id.clone(), shape, at };
        if let Some(at) = self.duplicate {
            return Err(broken(Rule::DuplicateMember, at));
        }
        self.check_version(frame, strictness, repairs).map_err(|rule| broken(rule, self.version.range().start))?;
        if let Some(Err(bad)) = bad_id {
            let null_is_fine = bad == BadId::Null && shape == Shape::Reply && !self.error.is_absent();
            if !null_is_fine {
                return Err(broken(rule_of(bad), self.id.range().start));
            }
        }
        if id.as_ref().is_some_and(|id| !id.is_standard()) {
            overlook(Rule::IdFraction, strictness, repairs).map_err(|rule| broken(rule, self.id.range().start))?;
        }
        if self.method.is_absent() {
            return self.reply(frame, id.clone()).map_err(|rule| broken(rule, 0));
        }
        if !self.result.is_absent() || !self.error.is_absent() {
            return Err(broken(Rule::MethodAndOutcome, self.method.range().start));
        }
        let Some(name) = string_at(frame, self.method) else {
            return Err(broken(Rule::MethodType, self.method.range().start));
        };
        let method = Method::parse(&name);
        let params = self.checked_params(frame).map_err(|(rule, at)| broken(rule, at))?;
        Ok(match id {
            Some(id) => Envelope::Call(Call { id, method, params }),
            None => Envelope::Note(Note { method, params }),
        })
    }

    fn shape(&self) -> Shape {
        match (self.method.is_absent(), self.id.is_absent()) {
            (false, false) => Shape::Call,
            (false, true) => Shape::Note,
            (true, _) if !self.result.is_absent() || !self.error.is_absent() => Shape::Reply,
            (true, _) => Shape::Unknown,
        }
    }

    fn check_version(&self, frame: &[u8], strictness: Strictness, repairs: &mut Repairs) -> Result<(), Rule> {
        let rule = match &frame[self.version.range()] {
            b"\"2.0\"" => return Ok(()),
            b"" => Rule::VersionMissing,
            _ => Rule::VersionWrong,
        };
        if strictness != Strictness::Lenient {
            return Err(rule);
        }
        repairs.push(rule);
        Ok(())
    }

    fn reply(&self, frame: &Bytes, id: Option<CallId>) -> Result<Envelope, Rule> {
        let outcome = match (self.result.is_absent(), self.error.is_absent()) {
            (false, false) => return Err(Rule::BothOutcomes),
            (true, true) => return Err(Rule::NoOutcome),
            (false, true) if id.is_none() => return Err(Rule::ReplyWithoutId),
            (false, true) => Ok(frame.slice(self.result.range())),
            (true, false) => Err(Fault::parse(&frame.slice(self.error.range())).ok_or(Rule::ErrorShape)?),
        };
        Ok(Envelope::Reply(Reply { id, outcome }))
    }

    fn checked_params(&self, frame: &Bytes) -> Result<Params, (Rule, usize)> {
        if self.params.is_absent() {
            return Ok(Params::none());
        }
        let range = self.params.range();
        if frame[range.start] != b'{' {
            return Err((Rule::ParamsType, range.start));
        }
        if let Some(at) = self.meta_type {
            return Err((Rule::MetaType, at));
        }
        Ok(Params { raw: Some(frame.slice(range)), known: self.known })
    }
}

impl Known {
    fn within(mut self, offset: usize) -> Self {
        for span in self.params.iter_mut().chain(&mut self.meta) {
            *span = span.within(offset);
        }
        self
    }
}

fn overlook(rule: Rule, strictness: Strictness, repairs: &mut Repairs) -> Result<(), Rule> {
    if strictness == Strictness::Strict {
        return Err(rule);
    }
    repairs.push(rule);
    Ok(())
}

fn rule_of(bad: BadId) -> Rule {
    match bad {
        BadId::Null => Rule::IdNull,
        BadId::Type => Rule::IdType,
        BadId::TooLong => Rule::IdTooLong,
    }
}

fn is_envelope_member(key: &[u8]) -> bool {
    matches!(key, b"jsonrpc" | b"id" | b"method" | b"params" | b"result" | b"error")
}

/// Unknown member names of one object, to notice a repeated one. Objects have few of them.
#[derive(Default)]
struct Seen<'a> {
    names: Vec<Cow<'a, [u8]>>,
    many: Option<HashSet<Cow<'a, [u8]>>>,
}

impl<'a> Seen<'a> {
    /// Beyond this many names a set is faster than looking at each.
    const FEW: usize = 16;

    fn is_repeated(&mut self, name: Cow<'a, [u8]>) -> bool {
        if let Some(many) = &mut self.many {
            return !many.insert(name);
        }
        if self.names.contains(&name) {
            return true;
        }
        self.names.push(name);
        if self.names.len() > Self::FEW {
            self.many = Some(self.names.drain(..).collect());
        }
        false
    }
}

/// A member name by value: `"\u0069d"` is `id`.
fn unescaped(key: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', key).is_none() {
        return Cow::Borrowed(key);
    }
    let quoted = [b"\"", key, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(name) => Cow::Owned(name.into_bytes()),
        Err(_) => Cow::Borrowed(key),
    }
}
