//! Who may talk to us: the allow rules for `Host` and `Origin`.
//!
//! A web page can make a browser send requests to a local server, directly (then `Origin` gives it
//! away) or by pointing a name of its own at our address (then `Host` does). So every request on
//! every route is checked here before anything else looks at it, whatever carries the name:
//! `Host`, an absolute URI, or `:authority` of HTTP/2, and all of them must agree.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::http::header::{HOST, ORIGIN};
use ::http::{HeaderMap, Uri};

use super::authority::{Authority, BadAuthority, Host};
use super::cors::Cors;
use super::headers::{SEC_FETCH_SITE, all, single_text, trim_ows};

/// The hosts we answer to and the pages that may call us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    hosts: Vec<HostRule>,
    origins: Vec<Origin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HostRule {
    host: Host,
    ports: Ports,
}

/// Which ports of a host are ours. Behind a forwarded port, `Host` does not name the one we bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Every port.
    Any,
    /// This one; an unwritten port stands for 80 and 443.
    Only(u16),
}

impl Allow {
    /// The rules of a server bound to an address.
    ///
    /// A loopback bind answers to the loopback names. Any other bind answers only to `hosts`, and
    /// there must be some. `hosts` are `name` or `name:port`; `origins` are `scheme://name:port`.
    pub fn bound<H: AsRef<str>, O: AsRef<str>>(
        address: IpAddr,
        ports: Ports,
        hosts: &[H],
        origins: &[O],
    ) -> Result<Self, BadRule> {
        let mut rules = Vec::new();
        if address.is_loopback() {
            let names = [
                Host::Name("localhost".to_owned()),
                Host::V4(Ipv4Addr::LOCALHOST),
                Host::V6(Ipv6Addr::LOCALHOST),
                Host::from(address),
            ];
            rules.extend(names.map(|host| HostRule { host, ports }));
        } else if hosts.is_empty() {
            return Err(BadRule::HostsNeeded { address });
        }
        for host in hosts {
            rules.push(HostRule::parse(host.as_ref())?);
        }
        let origins = origins.iter().map(|text| {
            let text = text.as_ref();
            Origin::parse(text).ok_or_else(|| BadRule::Origin { text: text.to_owned() })
        });
        Ok(Self { hosts: rules, origins: origins.collect::<Result<_, _>>()? })
    }

    /// Checks one request, and says by which name we were called.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Denied> {
        let called = called(uri, headers)?;
        if called.host.is_unspecified() || !self.hosts.iter().any(|rule| rule.admits(&called)) {
            return Err(Denied::ForeignHost);
        }
        let listed = match origin(headers)? {
            Some(origin) if self.origins.contains(&origin) => Listed::Yes,
            Some(origin) if !origin.is_page_of(&called) => return Err(Denied::ForeignOrigin),
            Some(_) | None => Listed::No,
        };
        // Browsers leave `Origin` out of some requests, but not this. A page that we allow by
        // name is another site all the same.
        match listed {
            Listed::No if is_cross_site(headers) => Err(Denied::CrossSite),
            _ => Ok(called),
        }
    }

    /// What a browser must be told, where the request is of a page that is allowed by name.
    #[must_use]
    pub fn cors(&self, headers: &HeaderMap) -> Option<Cors> {
        if self.origins.is_empty() {
            return None;
        }
        let named = origin(headers).ok()??;
        let value = headers.get(ORIGIN).filter(|_| self.origins.contains(&named))?;
        Some(Cors::of(value.clone()))
    }
}

enum Listed {
    Yes,
    No,
}

impl HostRule {
    fn parse(text: &str) -> Result<Self, BadRule> {
        let Authority { host, port } =
            Authority::parse(text).map_err(|why| BadRule::Host { text: text.to_owned(), why })?;
        if host.is_unspecified() {
            return Err(BadRule::Unspecified { text: text.to_owned() });
        }
        Ok(Self { host, ports: port.map_or(Ports::Any, Ports::Only) })
    }

    fn admits(&self, called: &Authority) -> bool {
        self.host == called.host
            && match (self.ports, called.port) {
                (Ports::Any, _) => true,
                (Ports::Only(own), Some(port)) => own == port,
                (Ports::Only(own), None) => own == 80 || own == 443,
            }
    }
}

/// The name by which a request calls us. Every place that can name us must say the same, because
/// a proxy or library before us may have believed any of them.
fn called(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Denied> {
    let read = |text: &str| Authority::parse(text).map_err(|_| Denied::MalformedHost);
    let from_uri = uri.authority().map(|authority| read(authority.as_str())).transpose()?;
    let from_host = match single_text(&HOST, headers) {
        Ok(text) => text.map(read).transpose()?,
        Err(_) => return Err(Denied::MalformedHost),
    };
    match (from_uri, from_host) {
        (None, None) => Err(Denied::NoHost),
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (Some(uri_says), Some(host_says)) => {
            let scheme = uri.scheme_str().unwrap_or("http");
            let same_port = uri_says.port_under(scheme) == host_says.port_under(scheme);
            if uri_says.host == host_says.host && same_port {
                Ok(host_says)
            } else {
                Err(Denied::HostsDiffer)
            }
        }
    }
}

fn origin(headers: &HeaderMap) -> Result<Option<Origin>, Denied> {
    match single_text(&ORIGIN, headers) {
        Ok(None) => Ok(None),
        Ok(Some("null")) => Err(Denied::NullOrigin),
        Ok(Some(text)) => Origin::parse(text).map(Some).ok_or(Denied::MalformedOrigin),
        Err(_) => Err(Denied::MalformedOrigin),
    }
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    let says_so = |text: &str| trim_ows(text).eq_ignore_ascii_case("cross-site");
    all(&SEC_FETCH_SITE, headers).any(|value| value.to_str().is_ok_and(says_so))
}

/// Where a page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: Host,
    port: Option<u16>,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        if scheme.is_empty() || !scheme.bytes().all(fits) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let authority = Authority::parse(rest).ok().filter(|authority| !authority.host.is_unspecified())?;
        let port = authority.port_under(&scheme);
        Some(Self { scheme, host: authority.host, port })
    }

    /// Whether the page was served under the name by which we were called. TLS may end before us,
    /// so both schemes of the web count.
    fn is_page_of(&self, called: &Authority) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
            && self.host == called.host
            && self.port == called.port_under(&self.scheme)
    }
}

/// Why a request is answered with 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nothing says by which name we were called.
    NoHost,
    /// The name cannot be read, or there are two of them.
    MalformedHost,
    /// The request line and `Host` name different hosts.
    HostsDiffer,
    /// We do not answer to this name.
    ForeignHost,
    /// A page without an origin of its own: a sandbox, a file, a redirect.
    NullOrigin,
    /// The origin cannot be read, or there are two of them.
    MalformedOrigin,
    /// A page that is neither ours nor allowed.
    ForeignOrigin,
    /// The browser says that a page of another site sent this.
    CrossSite,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHost => "the request names no host",
            Self::MalformedHost => "the host of the request cannot be read",
            Self::HostsDiffer => "the request line and the host header name different hosts",
            Self::ForeignHost => "this server does not answer to that host, add it to the allowed hosts",
            Self::NullOrigin => "pages without an origin may not call this server",
            Self::MalformedOrigin => "the origin of the request cannot be read",
            Self::ForeignOrigin => "that origin may not call this server, add it to the allowed origins",
            Self::CrossSite => "pages of other sites may not call this server",
        })
    }
}

impl std::error::Error for Denied {}

/// Why a server must not start with these rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadRule {
    /// Beyond loopback, names must be given.
    HostsNeeded {
        /// What we would bind.
        address: IpAddr,
    },
    /// A host that cannot be read.
    Host {
        /// The rule as given.
        text: String,
        /// What is wrong with it.
        why: BadAuthority,
    },
    /// The address that means every address is nobody's name.
    Unspecified {
        /// The rule as given.
        text: String,
    },
    /// An origin that cannot be read, or that stands for more than one page's.
    Origin {
        /// The rule as given.
        text: String,
    },
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostsNeeded { address } => {
                write!(f, "binding {address} reaches beyond this machine, give the allowed hosts by name")
            }
            Self::Host { text, why } => write!(f, "allowed host {text} {why}, write name or name:port"),
            Self::Unspecified { text } => {
                write!(f, "allowed host {text} means every address, give the name that clients use")
            }
            Self::Origin { text } => write!(f, "allowed origin {text} is not of the form scheme://host:port"),
        }
    }
}

impl std::error::Error for BadRule {}
