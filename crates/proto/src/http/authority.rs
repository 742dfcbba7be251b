//! Hosts and ports as they are written in `Host`, `Origin` and URLs, read strictly.
//!
//! Two spellings of one address are equal (`[0:0::1]` and `[::1]`), and so are two cases of one
//! name. Nothing else is repaired: no trailing dot, no user name, no octal or shortened IPv4.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host by name or address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, in lower case.
    Name(String),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, in brackets when written.
    V6(Ipv6Addr),
}

impl Host {
    /// Reads a host without port.
    pub fn parse(text: &str) -> Result<Self, BadAuthority> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(BadAuthority::Host)?;
            return inner.parse().map(Self::V6).map_err(|_| BadAuthority::Host);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::V4(address));
        }
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if text.is_empty() || !text.bytes().all(fits) {
            return Err(BadAuthority::Host);
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }

    /// Whether this is the address that means every address, which no one may be called by.
    pub fn is_unspecified(&self) -> bool {
        match self {
            Self::Name(_) => false,
            Self::V4(address) => address.is_unspecified(),
            Self::V6(address) => address.to_canonical().is_unspecified(),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(address),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// A host and, if written, its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, if one is written.
    pub port: Option<u16>,
}

impl Authority {
    /// Reads `host` or `host:port`.
    pub fn parse(text: &str) -> Result<Self, BadAuthority> {
        let after_host =
            if text.starts_with('[') { text.find(']').map_or(text.len(), |at| at + 1) } else { 0 };
        let Some(colon) = text[after_host..].find(':') else {
            return Ok(Self { host: Host::parse(text)?, port: None });
        };
        let (host, port) = text.split_at(after_host + colon);
        let digits = &port[1..];
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadAuthority::Port);
        }
        let port = digits.parse().map_err(|_| BadAuthority::Port)?;
        Ok(Self { host: Host::parse(host)?, port: Some(port) })
    }

    /// The port that is written, or else the one that the scheme stands for.
    pub fn port_under(&self, scheme: &str) -> Option<u16> {
        self.port.or(match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// Why a text names no host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadAuthority {
    /// The host is neither a name nor an address.
    Host,
    /// The port is not a number below 65536.
    Port,
}

impl fmt::Display for BadAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "is neither a host name nor an address",
            Self::Port => "has a port that is no number below 65536",
        })
    }
}

impl std::error::Error for BadAuthority {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn authority_is_read_strictly() {
        let table = [
            ("localhost", Ok("localhost")),
            ("LocalHost:80", Ok("localhost:80")),
            ("127.0.0.1:65535", Ok("127.0.0.1:65535")),
            ("[::1]", Ok("[::1]")),
            ("[0:0:0::1]:8", Ok("[::1]:8")),
            ("localhost.", Ok("localhost.")),
            ("0x7f.1", Ok("0x7f.1")),
            ("", Err(BadAuthority::Host)),
            (":80", Err(BadAuthority::Host)),
            ("::1", Err(BadAuthority::Port)),
            ("[::1", Err(BadAuthority::Host)),
            ("[::1]x:80", Err(BadAuthority::Host)),
            ("[fe80::1%25eth0]", Err(BadAuthority::Host)),
            ("a b", Err(BadAuthority::Host)),
            ("a/b", Err(BadAuthority::Host)),
            ("user@localhost", Err(BadAuthority::Host)),
            ("local%68ost", Err(BadAuthority::Host)),
            ("localhost:", Err(BadAuthority::Port)),
            ("localhost:+80", Err(BadAuthority::Port)),
            ("localhost:65536", Err(BadAuthority::Port)),
            ("localhost:80:80", Err(BadAuthority::Port)),
            ("user:pass@localhost", Err(BadAuthority::Port)),
            ("lоcalhost", Err(BadAuthority::Host)), // a Cyrillic letter
        ];
        for (text, want) in table {
            let read = Authority::parse(text).map(|authority| authority.to_string());
            assert_eq!(read, want.map(str::to_owned), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_never_panics_and_reads_what_it_writes(text in "[\\[\\]:.a-zA-Z0-9é@%_-]{0,24}") {
            if let Ok(authority) = Authority::parse(&text) {
                prop_assert_eq!(Authority::parse(&authority.to_string()), Ok(authority));
            }
        }
    }
}
