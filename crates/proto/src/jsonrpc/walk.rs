//! One pass over a message, then what it is: a call, a note, a reply, or a named mistake.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use super::envelope::{Call, Envelope, Note, Repairs, Reply, Shape, Violation};
use super::fault::Fault;
use super::id::{BadId, CallId};
use super::params::{Known, MetaKey, Param, Params, string_at};
use super::scan::{Scanner, Span, Syntax};
use crate::finding::{Rule, Strictness};
use crate::limits::Limits;
use crate::method::Method;

/// What one pass over a message saw.
#[derive(Default)]
pub(super) struct Walk {
    version: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    pub(super) known: Known,
    duplicate: Option<usize>,
    meta_type: Option<usize>,
}

impl Walk {
    pub(super) fn envelope(&mut self, frame: &[u8], scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        let mut unknown = Seen::default();
        scanner.enter()?;
        if scanner.peek() == Some(b'}') {
            return scanner.leave();
        }
        loop {
            let key = scanner.name()?;
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
                // A second `params` is an error, and must not move the spans of the first once more.
                self.known = Known::default();
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
                return scanner.leave();
            }
        }
    }

    pub(super) fn params(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        let mut unknown = Seen::default();
        scanner.enter()?;
        if scanner.peek() == Some(b'}') {
            return scanner.leave();
        }
        loop {
            let key = scanner.name()?;
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
                return scanner.leave();
            }
        }
    }

    fn meta(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
        scanner.enter()?;
        if scanner.peek() == Some(b'}') {
            return scanner.leave();
        }
        loop {
            let key = scanner.name()?;
            let span = scanner.value()?;
            if let Some(known) = MetaKey::find(&key) {
                if !self.known.meta[known as usize].is_absent() {
                    self.duplicate.get_or_insert_with(|| span.range().start);
                }
                self.known.meta[known as usize] = span;
            }
            if !scanner.take(b',') {
                return scanner.leave();
            }
        }
    }

    /// Why the pass ended early. What is merely too deep is still somebody's: an id read before counts.
    pub(super) fn stopped(&self, frame: &[u8], limits: &Limits, error: Syntax) -> Violation {
        let violation = Violation::syntax(error);
        if violation.rule != Rule::Depth || self.id.is_absent() {
            return violation;
        }
        let id = CallId::parse(&frame[self.id.range()], limits.id_bytes).ok();
        Violation { id, shape: self.shape(), ..violation }
    }

    /// What it is, or why it is nothing.
    pub(super) fn classify(
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
        self.check_version(frame, strictness, repairs)
            .map_err(|rule| broken(rule, self.version.range().start))?;
        if let Some(Err(bad)) = bad_id {
            let repairable = strictness == Strictness::Lenient || !self.error.is_absent();
            let null_is_fine = bad == BadId::Null && shape == Shape::Reply && repairable;
            if !null_is_fine {
                return Err(broken(rule_of(bad), self.id.range().start));
            }
        }
        if id.as_ref().is_some_and(|id| !id.is_standard()) {
            overlook(Rule::IdFraction, strictness, repairs)
                .map_err(|rule| broken(rule, self.id.range().start))?;
        }
        if self.method.is_absent() {
            return self.reply(frame, id.clone(), strictness, repairs).map_err(|rule| broken(rule, 0));
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
            Some(id) => Envelope::Call(Call { id, method, params, strays: None }),
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

    fn reply(
        &self,
        frame: &Bytes,
        id: Option<CallId>,
        strictness: Strictness,
        repairs: &mut Repairs,
    ) -> Result<Envelope, Rule> {
        let lenient = strictness == Strictness::Lenient;
        let (mut result, mut error) = (!self.result.is_absent(), !self.error.is_absent());
        if result && error && lenient {
            // Of two outcomes one that is null is none.
            result = &frame[self.result.range()] != b"null";
            error = &frame[self.error.range()] != b"null";
            repairs.push(Rule::BothOutcomes);
        }
        let outcome = match (result, error) {
            (true, true) => return Err(Rule::BothOutcomes),
            (false, false) => return Err(Rule::NoOutcome),
            // Whose it is may be known otherwise, which is for the session to say.
            (true, false) if id.is_none() && !lenient => return Err(Rule::ReplyWithoutId),
            (true, false) => Ok(frame.slice(self.result.range())),
            (false, true) => Err(Fault::parse(&frame.slice(self.error.range())).ok_or(Rule::ErrorShape)?),
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
        Ok(Params::scanned(frame.slice(range), self.known))
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
