//! Absolute URLs of the web, split strictly: only as much as redirects and endpoints need.
//!
//! What other readers would repair or drop (blanks, backslashes, control characters) is refused,
//! because then two readers of one text see two places.

use std::fmt;

use super::authority::{Authority, BadAuthority, Host};

/// An absolute URL of the web, split. Its fragment is not kept: it is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Path and query, beginning with a slash.
    target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Result<Self, BadUrl> {
        match text.to_ascii_lowercase().as_str() {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err(BadUrl::Scheme),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Url {
    /// Reads an absolute URL. One with a user name is refused: it is a secret or a disguise.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let text = clean(text)?;
        let (scheme, rest) = split_scheme(text).ok_or(BadUrl::Scheme)?;
        let scheme = Scheme::parse(scheme)?;
        let rest = rest.strip_prefix("//").ok_or(BadUrl::Authority)?;
        Self::from_authority(scheme, rest)
    }

    /// Resolves a reference against this URL (RFC 3986, 5.2).
    pub fn join(&self, reference: &str) -> Result<Self, BadUrl> {
        let reference = clean(reference)?;
        if split_scheme(reference).is_some() {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::from_authority(self.scheme, rest);
        }
        let (path, _) = split_query(&self.target);
        let target = match split_query(reference) {
            ("", None) => self.target.clone(),
            ("", Some(asked)) => format!("{path}?{asked}"),
            (given, asked) => {
                let whole = if given.starts_with('/') {
                    given.to_owned()
                } else {
                    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
                    format!("{folder}{given}")
                };
                with_query(remove_dots(&whole), asked)
            }
        };
        debug_assert!(target.starts_with('/'), "the base has a path, and so has what is joined to it");
        Ok(Self { target, ..self.clone() })
    }

    /// Whether both have the same scheme, host and port.
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Whether what is sent there is encrypted.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, written or not.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query, as in a request line.
    pub fn target(&self) -> &str {
        &self.target
    }

    fn from_authority(scheme: Scheme, rest: &str) -> Result<Self, BadUrl> {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(BadUrl::User);
        }
        let authority = Authority::parse(authority).map_err(|bad| match bad {
            BadAuthority::Host => BadUrl::Authority,
            BadAuthority::Port => BadUrl::Port,
        })?;
        let (path, query) = split_query(target);
        let target = with_query(remove_dots(path), query);
        let port = authority.port.unwrap_or_else(|| scheme.port());
        Ok(Self { scheme, host: authority.host, port, target })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.host)?;
        if self.port != self.scheme.port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.target)
    }
}

/// Without outer blanks and fragment.
fn clean(text: &str) -> Result<&str, BadUrl> {
    let text = text.trim_matches(' ');
    if text.bytes().any(|b| !b.is_ascii_graphic() || b == b'\\') {
        return Err(BadUrl::Characters);
    }
    Ok(text.split_once('#').map_or(text, |(before, _)| before))
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(fits);
    named.then_some((scheme, rest))
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

fn with_query(path: String, query: Option<&str>) -> String {
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// RFC 3986, 5.2.4, for a path that is empty or begins with a slash.
fn remove_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut folder = false;
    for segment in path.split('/').skip(1) {
        folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let tail = if folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{tail}", kept.join("/"))
}

/// Why a text is no URL that we go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadUrl {
    /// Neither http nor https.
    Scheme,
    /// No host that can be read.
    Authority,
    /// Who is to log in there, which may be a secret or a disguise.
    User,
    /// A port that is no number below 65536.
    Port,
    /// A blank, a backslash, a control character or one outside ASCII.
    Characters,
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the URL is neither http nor https",
            Self::Authority => "the URL names no plain host",
            Self::User => "the URL has a user or a password, which do not belong there",
            Self::Port => "the URL's port is no number below 65536",
            Self::Characters => "the URL has characters that must be percent-encoded",
        })
    }
}

impl std::error::Error for BadUrl {}
