//! What a server asks of an unauthorized client: `WWW-Authenticate: Bearer ...`, read and written.
//!
//! Reading is tolerant, because a hint lost here ends an authorization flow: several challenges in
//! one header or in many, other schemes among them, values without quotes. Writing is strict.

use std::fmt;

use ::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderMap, HeaderValue};

use super::headers::{MCP_AUTH_SERVER, is_token_byte, single_text};
use crate::secret::Redactor;

/// The hints of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// The bearer challenge; of several, the first that names its metadata.
    pub bearer: Option<Bearer>,
    /// The other schemes on offer, as spelled.
    pub other_schemes: Vec<String>,
    /// The authorization server, as servers name it that know no metadata.
    pub auth_server: Option<String>,
    /// When to come again, where the server says so.
    pub retry_after: Option<RetryAfter>,
}

/// When a server that turns somebody away wants to be asked again: `Retry-After`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// After so many seconds.
    Seconds(u64),
    /// After this date, as spelled.
    Date(Box<str>),
}

/// A date in a header has 29 characters; older forms have a few more.
const MAX_DATE: usize = 40;

impl RetryAfter {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        match text.parse() {
            Ok(seconds) => Some(Self::Seconds(seconds)),
            Err(_) => (text.len() <= MAX_DATE && text.ends_with("GMT")).then(|| Self::Date(text.into())),
        }
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "in {seconds} s"),
            Self::Date(date) => write!(f, "after {date}"),
        }
    }
}

impl Hints {
    /// Takes secrets out of what the server says.
    pub(super) fn redact(&mut self, secrets: &Redactor) {
        let params = self.bearer.iter_mut().flat_map(|bearer| &mut bearer.params).map(|(_, value)| value);
        for text in params.chain(&mut self.other_schemes).chain(&mut self.auth_server) {
            *text = secrets.redact(text).into_owned();
        }
    }

    /// Reads the hints of an answer.
    pub fn read(headers: &HeaderMap) -> Self {
        let mut hints = Self::default();
        for value in headers.get_all(WWW_AUTHENTICATE) {
            let Ok(text) = value.to_str() else { continue };
            for challenge in Parser::new(text).challenges() {
                hints.add(challenge);
            }
        }
        hints.auth_server = single_text(&MCP_AUTH_SERVER, headers).ok().flatten().map(str::to_owned);
        hints.retry_after = RetryAfter::read(headers);
        hints
    }

    fn add(&mut self, challenge: Challenge) {
        if !challenge.scheme.eq_ignore_ascii_case("bearer") {
            self.other_schemes.push(challenge.scheme);
            return;
        }
        let found = Bearer { params: challenge.params };
        let better = match &self.bearer {
            None => true,
            Some(first) => first.resource_metadata().is_none() && found.resource_metadata().is_some(),
        };
        if better {
            self.bearer = Some(found);
        }
    }
}

/// A bearer challenge: every parameter of it, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bearer {
    /// Names in lower case, values without quotes.
    params: Vec<(String, String)>,
}

impl Bearer {
    /// With one more parameter; a name that is already there keeps its first value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let name = name.to_ascii_lowercase();
        if self.param(&name).is_none() {
            self.params.push((name, value.into()));
        }
        self
    }

    /// The value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Every parameter, in order.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Where the metadata of the protected resource is.
    pub fn resource_metadata(&self) -> Option<&str> {
        self.param("resource_metadata")
    }

    /// What went wrong: `invalid_token`, `insufficient_scope`.
    pub fn error(&self) -> Option<&str> {
        self.param("error")
    }

    /// The scopes that the operation needs.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.param("scope").unwrap_or("").split_ascii_whitespace()
    }

    /// The header value; every parameter is quoted.
    pub fn write(&self) -> Result<HeaderValue, BadParam> {
        let mut text = "Bearer".to_owned();
        for (at, (name, value)) in self.params.iter().enumerate() {
            let is_token = !name.is_empty() && name.bytes().all(is_token_byte);
            if !is_token || !value.bytes().all(|b| matches!(b, 0x20..=0x7E)) {
                return Err(BadParam { name: name.clone() });
            }
            text.push_str(if at == 0 { " " } else { ", " });
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            text.push_str(&format!("{name}=\"{escaped}\""));
        }
        Ok(HeaderValue::from_str(&text).expect("tokens and visible ASCII in quotes make a header value"))
    }
}

/// A parameter that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadParam {
    /// Its name.
    pub name: String,
}

impl fmt::Display for BadParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = super::excerpt(&self.name);
        write!(f, "challenge parameter {name:?} is no token, or has a value outside visible ASCII")
    }
}

impl std::error::Error for BadParam {}

struct Challenge {
    scheme: String,
    params: Vec<(String, String)>,
}

/// Reads `scheme [token68 | name=value, ...], scheme ...` (RFC 9110, 11.6.1).
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(rest: &'a str) -> Self {
        Self { rest }
    }

    fn challenges(mut self) -> Vec<Challenge> {
        let mut found: Vec<Challenge> = Vec::new();
        loop {
            self.skip(|b| matches!(b, b' ' | b'\t' | b','));
            let word = self.take(is_token_byte);
            if word.is_empty() {
                // Rubbish up to the next comma; at the end there is nothing left to skip.
                if self.take(|b| b != b',').is_empty() {
                    return found;
                }
                continue;
            }
            match (self.value(), found.last_mut()) {
                (Some(value), Some(challenge)) => challenge.add(word, value),
                (Some(_), None) => {}
                (None, _) => {
                    found.push(Challenge { scheme: word.to_owned(), params: Vec::new() });
                    self.skip_token68();
                }
            }
        }
    }

    /// What follows an equals sign, if one follows.
    fn value(&mut self) -> Option<String> {
        let rest = self.rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        self.rest = rest.trim_start_matches([' ', '\t']);
        match self.rest.strip_prefix('"') {
            Some(quoted) => Some(self.quoted(quoted)),
            // URLs without quotes are seen in the field, so more than a token is taken.
            None => Some(self.take(|b| !matches!(b, b',' | b' ' | b'\t')).to_owned()),
        }
    }

    /// A quote that is never closed reaches to the end.
    fn quoted(&mut self, text: &'a str) -> String {
        let mut value = String::new();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &text[at + 1..];
                    return value;
                }
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => value.push(c),
            }
        }
        self.rest = "";
        value
    }

    /// A lone value after a scheme, such as that of Negotiate. What could be a parameter stays.
    fn skip_token68(&mut self) {
        let start = self.rest.trim_start_matches([' ', '\t']);
        let is_token68 = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
        let mut ahead = Self::new(start);
        let lone = !ahead.take(is_token68).is_empty();
        ahead.skip(|b| b == b'=');
        ahead.skip(|b| matches!(b, b' ' | b'\t'));
        if lone && start.len() < self.rest.len() && (ahead.rest.is_empty() || ahead.rest.starts_with(',')) {
            self.rest = ahead.rest;
        }
    }

    /// Text of a header value is ASCII, so every cut is between characters.
    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|b| !fits(b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip(&mut self, fits: impl Fn(u8) -> bool) {
        self.take(fits);
    }
}

impl Challenge {
    fn add(&mut self, name: &str, value: String) {
        let name = name.to_ascii_lowercase();
        if self.params.iter().all(|(own, _)| *own != name) {
            self.params.push((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Hints {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        Hints::read(&headers)
    }

    fn params(values: &[&str]) -> Option<String> {
        let bearer = read(values).bearer?;
        Some(bearer.params().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; "))
    }

    /// S0-60, AUTC-4, AUTC-5: the forms that servers send.
    #[test]
    fn bearer_challenge_is_read_in_every_form() {
        let table: &[(&[&str], Option<&str>)] = &[
            (&[], None),
            (&["Bearer"], Some("")),
            (&["bearer realm=\"x\""], Some("realm=x")),
            (
                &[
                    r#"Bearer resource_metadata="https://a/.well-known/x", scope="a b", error="insufficient_scope""#,
                ],
                Some("resource_metadata=https://a/.well-known/x; scope=a b; error=insufficient_scope"),
            ),
            (
                &["Bearer error=invalid_token,resource_metadata=https://a/b?c=d , scope = \"a\""],
                Some("error=invalid_token; resource_metadata=https://a/b?c=d; scope=a"),
            ),
            (&[r#"Basic realm="a, Bearer b", Bearer scope="c""#], Some("scope=c")),
            (&["Negotiate YWJj==, Bearer scope=x"], Some("scope=x")),
            (&["Basic realm=x", "Bearer scope=y"], Some("scope=y")),
            (&[r#"Bearer scope="a\"b\\c""#], Some(r#"scope=a"b\c"#)),
            (&["Bearer Scope=one, scope=two"], Some("scope=one")),
            (&["Bearer scope=\"never closed"], Some("scope=never closed")),
            (&["Bearer ,, scope=a,,"], Some("scope=a")),
            (&["Bearer scope="], Some("")), // by the grammar a lone value, not a parameter
            (&["Bearer scope=a, Bearer resource_metadata=b"], Some("resource_metadata=b")),
            (&["Bearer resource_metadata=a, Bearer resource_metadata=b"], Some("resource_metadata=a")),
            (&["scope=a"], None),
            (&["{\"json\": 1}"], None),
            (&["Digest nonce=x"], None),
        ];
        for (values, want) in table {
            assert_eq!(params(values).as_deref(), *want, "{values:?}");
        }
    }

    /// S0-60: everything else that helps is kept.
    #[test]
    fn hints_keep_other_schemes_and_the_auth_server() {
        let mut headers = HeaderMap::new();
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=x, DPoP algs=\"ES256\""));
        headers.insert(MCP_AUTH_SERVER, HeaderValue::from_static("https://as.example"));
        let hints = Hints::read(&headers);
        assert_eq!(hints.other_schemes, ["Basic", "DPoP"]);
        assert_eq!((hints.bearer, hints.auth_server.as_deref()), (None, Some("https://as.example")));
        let bearer = read(&["Bearer scope=\"  a  b \", error=e"]).bearer.unwrap();
        assert_eq!(bearer.scopes().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((bearer.error(), bearer.resource_metadata()), (Some("e"), None));
    }

    /// AUTS-3, AUTS-5, AUTS-6: what we send.
    #[test]
    fn bearer_challenge_is_written_quoted() {
        let challenge = Bearer::default()
            .with("error", "insufficient_scope")
            .with("scope", "a b")
            .with("resource_metadata", "https://a/x")
            .with("Scope", "ignored");
        assert_eq!(
            challenge.write().unwrap(),
            r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://a/x""#
        );
        assert_eq!(Bearer::default().write().unwrap(), "Bearer");
        for (name, value) in [("scope", "a\nb"), ("scope", "é"), ("a b", "x"), ("", "x")] {
            assert!(Bearer::default().with(name, value).write().is_err(), "{name:?} {value:?}");
        }
    }

    proptest! {
        /// S0-60: what is written is read again.
        #[test]
        fn read_undoes_write(values in prop::collection::vec("[ -~]{0,20}", 0..4)) {
            let mut bearer = Bearer::default();
            for (at, value) in values.into_iter().enumerate() {
                bearer = bearer.with(&format!("p{at}"), value);
            }
            let written = bearer.write().unwrap();
            prop_assert_eq!(read(&[written.to_str().unwrap()]).bearer, Some(bearer));
        }

        #[test]
        fn read_never_panics(text in "[ -~]{0,60}") {
            let _ = read(&[&text]);
        }
    }
}
