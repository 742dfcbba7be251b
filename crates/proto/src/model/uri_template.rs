//! Templates of addresses: RFC 6570 up to level 3, expanded and matched.
//!
//! Matching is not part of the RFC. Ours takes time linear in the address: a table of which
//! parts can match from which byte is filled once from the end, so nothing is ever tried twice.
//! Values are percent-decoded by component, and a value that would climb out of its place, or
//! smuggle a control character into whatever it is put into next, is refused.

use std::collections::BTreeMap;

use super::flaw::Flaw;
use super::uri::{is_reserved, is_unreserved};

/// Longest address that is matched; longer ones match nothing.
pub const MAX_URI_BYTES: usize = 64 << 10;

/// Most parts of a template, so that one machine word tells which of them match.
pub const MAX_PARTS: usize = 63;

/// A template, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct UriTemplate {
    pieces: Vec<Piece>,
    parts: Vec<Part>,
}

/// What stands in the template.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(String),
    Expression(Operator, Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Matrix,
    Query,
    Continuation,
}

/// What matching looks for, one after the other.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(String),
    /// One value. With a lead it may be absent, without one it must not be empty.
    Value {
        name: String,
        lead: Option<u8>,
        stops: &'static [u8],
    },
    /// `name=value` pairs in any order, each at most once.
    Pairs {
        names: Vec<String>,
        lead: u8,
        separator: char,
        stops: &'static [u8],
    },
}

impl UriTemplate {
    /// Parses a template, or says what is wrong with it.
    pub fn parse(template: &str) -> Result<Self, Flaw> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while !rest.is_empty() {
            let (literal, behind) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
            if !literal.is_empty() {
                pieces.push(Piece::Literal(encoded(literal, Allow::Reserved)));
            }
            let Some(expression) = behind.strip_prefix('{') else {
                if behind.is_empty() {
                    break;
                }
                return Err(Flaw::here("has a } without a {"));
            };
            let Some((expression, behind)) = expression.split_once('}') else {
                return Err(Flaw::here("has a { without a }"));
            };
            pieces.push(parse_expression(expression)?);
            rest = behind;
        }
        let parts = parts(&pieces);
        if parts.len() > MAX_PARTS {
            return Err(Flaw::here(format!("has more than {MAX_PARTS} parts")));
        }
        Ok(Self { pieces, parts })
    }

    /// The names of its variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().flat_map(|piece| {
            match piece {
                Piece::Literal(_) => [].iter(),
                Piece::Expression(_, names) => names.iter(),
            }
            .map(String::as_str)
        })
    }

    /// The address for some values; a variable without value is left out, as the RFC says.
    pub fn expand(&self, values: &BTreeMap<String, String>) -> Result<String, Flaw> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => out.push_str(literal),
                Piece::Expression(operator, names) => operator.expand(names, values, &mut out)?,
            }
        }
        Ok(out)
    }

    /// The values that make this address, or `None` when it is not of this template.
    ///
    /// A value takes as much as it can. An address that fits with a dangerous value is an error.
    pub fn matches(&self, uri: &str) -> Result<Option<BTreeMap<String, String>>, Flaw> {
        if uri.len() > MAX_URI_BYTES {
            return Ok(None);
        }
        let reach = self.reach(uri.as_bytes());
        if reach[0] & 1 == 0 {
            return Ok(None);
        }
        let mut values = BTreeMap::new();
        let mut at = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let end = part.longest(uri.as_bytes(), at, |end| reach[end] >> (index + 1) & 1 == 1);
            let text = uri.get(at..end).unwrap_or_default();
            at = end;
            if !part.read(text, &mut values)? {
                return Ok(None);
            }
        }
        Ok(Some(values))
    }

    /// For each byte of the address, the parts from which the rest of the template matches there.
    fn reach(&self, uri: &[u8]) -> Vec<u64> {
        let mut reach = vec![0u64; uri.len() + 1];
        let mut inside_next = 0u64;
        for at in (0..=uri.len()).rev() {
            let mut starts = if at == uri.len() { 1u64 << self.parts.len() } else { 0 };
            let mut inside = 0u64;
            for (index, part) in self.parts.iter().enumerate().rev() {
                let bit = 1u64 << index;
                let done = starts & (bit << 1) != 0;
                let goes_on = inside_next & bit != 0;
                let byte = uri.get(at).copied();
                let fits = match part {
                    Part::Literal(literal) => {
                        let end = at + literal.len();
                        uri[at..].starts_with(literal.as_bytes()) && reach[end] & (bit << 1) != 0
                    }
                    Part::Value { lead: None, .. } => byte.is_some_and(|byte| part.takes(byte)) && goes_on,
                    Part::Value { lead, .. } => done || (byte.is_some() && byte == *lead && goes_on),
                    Part::Pairs { lead, .. } => done || (byte == Some(*lead) && goes_on),
                };
                starts |= if fits { bit } else { 0 };
                inside |=
                    if done || (byte.is_some_and(|byte| part.takes(byte)) && goes_on) { bit } else { 0 };
            }
            reach[at] = starts;
            inside_next = inside;
        }
        reach
    }
}

impl Part {
    /// May this byte stand inside the value?
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Value { stops, .. } | Self::Pairs { stops, .. } => !stops.contains(&byte),
        }
    }

    /// The last place where this part can end when it starts at `at`.
    fn longest(&self, uri: &[u8], at: usize, may_end: impl Fn(usize) -> bool) -> usize {
        let lead = match self {
            Self::Literal(literal) => return at + literal.len(),
            Self::Value { lead, .. } => *lead,
            Self::Pairs { lead, .. } => Some(*lead),
        };
        let start = match lead {
            Some(lead) if uri.get(at) == Some(&lead) => at + 1,
            Some(_) => return at,
            None => at,
        };
        let run = uri[start..].iter().take_while(|byte| self.takes(**byte)).count();
        (start..=start + run).rev().find(|end| may_end(*end)).unwrap_or(at)
    }

    /// Reads the values out of what this part matched; `false` when they cannot be told.
    fn read(&self, text: &str, values: &mut BTreeMap<String, String>) -> Result<bool, Flaw> {
        match self {
            Self::Literal(_) => Ok(true),
            Self::Value { lead: Some(_), .. } if text.is_empty() => Ok(true),
            Self::Value { name, lead, .. } => {
                let value = decoded(name, &text[usize::from(lead.is_some())..])?;
                refuse_traversal(name, &value)?;
                Ok(put(values, name, value))
            }
            Self::Pairs { .. } if text.is_empty() => Ok(true),
            Self::Pairs { names, separator, .. } => {
                for pair in text[1..].split(*separator) {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    if !names.iter().any(|known| known == name) || values.contains_key(name) {
                        return Ok(false);
                    }
                    let value = decoded(name, value)?;
                    values.insert(name.to_owned(), value);
                }
                Ok(true)
            }
        }
    }
}

/// A variable that stands twice has one value.
fn put(values: &mut BTreeMap<String, String>, name: &str, value: String) -> bool {
    match values.get(name) {
        Some(other) => *other == value,
        None => {
            values.insert(name.to_owned(), value);
            true
        }
    }
}

fn parse_expression(expression: &str) -> Result<Piece, Flaw> {
    let operator = match expression.bytes().next() {
        Some(b'+') => Operator::Reserved,
        Some(b'#') => Operator::Fragment,
        Some(b'.') => Operator::Label,
        Some(b'/') => Operator::Path,
        Some(b';') => Operator::Matrix,
        Some(b'?') => Operator::Query,
        Some(b'&') => Operator::Continuation,
        _ => Operator::Simple,
    };
    let names = &expression[usize::from(operator != Operator::Simple)..];
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    for name in &names {
        if name.contains([':', '*']) {
            return Err(Flaw::here(format!(
                "has {{{expression}}}; the modifiers : and * of level 4 are not supported"
            )));
        }
        let fits =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !name.split('.').all(fits) {
            return Err(Flaw::here(format!(
                "has {{{expression}}}, which does not name variables of letters, digits, _ and ."
            )));
        }
    }
    Ok(Piece::Expression(operator, names))
}

fn parts(pieces: &[Piece]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        let (operator, names) = match piece {
            Piece::Literal(literal) => {
                parts.push(Part::Literal(literal.clone()));
                continue;
            }
            Piece::Expression(operator, names) => (*operator, names),
        };
        let stops = operator.stops(names.len());
        match operator {
            // `{?a}{&b}` is one run of pairs on the wire.
            Operator::Continuation if matches!(parts.last(), Some(Part::Pairs { separator: '&', .. })) => {
                if let Some(Part::Pairs { names: all, .. }) = parts.last_mut() {
                    all.extend(names.iter().cloned());
                }
            }
            Operator::Query | Operator::Continuation | Operator::Matrix => {
                let (lead, separator) = match operator {
                    Operator::Query => (b'?', '&'),
                    Operator::Continuation => (b'&', '&'),
                    _ => (b';', ';'),
                };
                parts.push(Part::Pairs { names: names.clone(), lead, separator, stops });
            }
            Operator::Simple | Operator::Reserved | Operator::Fragment | Operator::Label | Operator::Path => {
                for (index, name) in names.iter().enumerate() {
                    let lead = if index == 0 { operator.first() } else { operator.separator() };
                    parts.push(Part::Value { name: name.clone(), lead: lead.bytes().next(), stops });
                }
            }
        }
    }
    parts
}

impl Operator {
    fn first(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::Matrix => ";",
            Self::Query => "?",
            Self::Continuation => "&",
        }
    }

    fn separator(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ",",
            Self::Label => ".",
            Self::Path => "/",
            Self::Matrix => ";",
            Self::Query | Self::Continuation => "&",
        }
    }

    /// Bytes that end a value: what separates components, and siblings where there are any.
    fn stops(self, names: usize) -> &'static [u8] {
        match (self, names) {
            (Self::Simple, 1) | (Self::Label, 1) | (Self::Path | Self::Matrix, _) => b"/?#",
            (Self::Simple, _) => b"/?#,",
            (Self::Label, _) => b"/?#.",
            (Self::Reserved | Self::Fragment, 1) => b"",
            (Self::Reserved | Self::Fragment, _) => b",",
            (Self::Query | Self::Continuation, _) => b"#",
        }
    }

    fn expand(
        self,
        names: &[String],
        values: &BTreeMap<String, String>,
        out: &mut String,
    ) -> Result<(), Flaw> {
        let named = matches!(self, Self::Matrix | Self::Query | Self::Continuation);
        let allow = match self {
            Self::Reserved | Self::Fragment => Allow::Reserved,
            _ => Allow::Unreserved,
        };
        let mut lead = self.first();
        for name in names {
            let Some(value) = values.get(name) else { continue };
            refuse_control(name, value)?;
            if !named {
                refuse_traversal(name, value)?;
            }
            out.push_str(lead);
            lead = self.separator();
            if named {
                out.push_str(name);
                if !value.is_empty() || self != Self::Matrix {
                    out.push('=');
                }
            }
            out.push_str(&encoded(value, allow));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Allow {
    /// Letters, digits, `- . _ ~`.
    Unreserved,
    /// Those, delimiters, and percent triplets that are there already.
    Reserved,
}

fn encoded(text: &str, allow: Allow) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    for (at, byte) in bytes.iter().copied().enumerate() {
        let is_triplet = || matches!(bytes.get(at + 1..at + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        let plain = is_unreserved(byte)
            || (allow == Allow::Reserved && (is_reserved(byte) || (byte == b'%' && is_triplet())));
        if plain {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

fn decoded(name: &str, text: &str) -> Result<String, Flaw> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| {
            byte.and_then(|byte| char::from(byte).to_digit(16)).and_then(|d| u8::try_from(d).ok())
        };
        out.push(match byte {
            b'%' => match (hex(bytes.next()), hex(bytes.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(Flaw::at(name, "has a % without two hex digits behind it")),
            },
            byte => byte,
        });
    }
    let value = String::from_utf8(out).map_err(|_| Flaw::at(name, "is not UTF-8 when decoded"))?;
    refuse_control(name, &value)?;
    Ok(value)
}

fn refuse_control(name: &str, value: &str) -> Result<(), Flaw> {
    if value.contains(char::is_control) {
        return Err(Flaw::at(name, "has a control character"));
    }
    Ok(())
}

/// Refuses a `..` between separators, also one that a second decoding would bring to light.
fn refuse_traversal(name: &str, value: &str) -> Result<(), Flaw> {
    let again = value.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    if again.split(['/', '\\']).any(|segment| segment == "..") {
        return Err(Flaw::at(name, "climbs out of its place with .."));
    }
    Ok(())
}
