//! Where the store is: `redis://user:password@host:port/database`.

use std::fmt;

use cardan_proto::http::percent::decoded;

use http::Uri;

/// Where the store is, and how it is opened. Shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// The host, a name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Is it reached by TLS?
    pub secure: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

/// Where Redis listens unless told otherwise.
const PORT: u16 = 6379;

/// The address is none of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPlace;

impl fmt::Display for BadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no address of a Redis store, write it like `redis://127.0.0.1:6379/0`")
    }
}

impl std::error::Error for BadPlace {}

impl Place {
    /// From an address.
    pub fn parse(address: &str) -> Result<Self, BadPlace> {
        let uri: Uri = address.parse().map_err(|_| BadPlace)?;
        let secure = match uri.scheme_str() {
            Some("redis") => false,
            Some("rediss") => true,
            _ => return Err(BadPlace),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(BadPlace)?.to_owned();
        let authority = uri.authority().ok_or(BadPlace)?.as_str();
        let (user, password) = match authority.rsplit_once('@').map(|(who, _)| who.split_once(':')) {
            None => (None, None),
            // A lone word is a user without a password, which opens nothing.
            Some(None) => return Err(BadPlace),
            Some(Some((user, password))) => {
                let user = decoded(user).ok_or(BadPlace)?;
                ((!user.is_empty()).then_some(user), Some(decoded(password).ok_or(BadPlace)?))
            }
        };
        let database = match uri.path().trim_start_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| BadPlace)?,
        };
        if uri.query().is_some() {
            return Err(BadPlace);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host: bare, port: uri.port_u16().unwrap_or(PORT), secure, user, password, database })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "rediss" } else { "redis" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}/{}", self.host, self.port, self.database),
            false => write!(f, "{scheme}://{}:{}/{}", self.host, self.port, self.database),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_passwords_not_shown() {
        let place = Place::parse("redis://ada:p%40ss@store.example:7000/2").unwrap();
        assert_eq!((place.user.as_deref(), place.password.as_deref()), (Some("ada"), Some("p@ss")));
        assert_eq!((place.database, place.secure), (2, false));
        assert_eq!(format!("{place:?} {place}"), "redis://store.example:7000/2 redis://store.example:7000/2");
        let short = Place::parse("rediss://:secret@[::1]").unwrap();
        assert_eq!((short.host.as_str(), short.port, short.database, short.secure), ("::1", PORT, 0, true));
        assert_eq!((short.user, short.password.as_deref()), (None, Some("secret")));
        for wrong in
            ["", "127.0.0.1:6379", "http://a", "redis://", "redis://a/x", "redis://a@b", "redis://a?x=1"]
        {
            assert_eq!(Place::parse(wrong), Err(BadPlace), "{wrong}");
        }
    }
}
