//! What is written down of a session: enough for another replica to go on with it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::keys::{Keys, Purpose};
use cardan_proto::limits::replicas::RECORD_BYTES;

/// What follows after another version is not understood, and so it is as if there were nothing.
const VERSION: u32 = 1;

/// What another replica needs to go on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Who opened the session; nothing: whoever it was.
    pub principal: Option<String>,
    /// The revision that was agreed on.
    pub revision: String,
    /// What the client said when it opened the session.
    pub initialize: Box<RawValue>,
    /// How much it wants to hear, once it said so.
    pub level: Option<Box<RawValue>>,
    /// What it wants to hear of, in the client's words.
    pub subscriptions: Vec<String>,
}

/// A record in the hands of its owner.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    /// The replica.
    pub(crate) owner: String,
    /// Where it is reached.
    pub(crate) address: String,
    pub(crate) fence: u64,
    pub(crate) record: Record,
}

#[derive(Serialize, Deserialize)]
struct Content<R> {
    version: u32,
    /// The name under which it is kept, so that no record stands in for another.
    name: String,
    owner: String,
    address: String,
    fence: u64,
    record: R,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why what the store has is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It was changed, or is of somebody else.
    Broken,
    /// It is of another version.
    Foreign,
}

impl Owned {
    /// Sealed, as the store keeps it under `name`; nothing: it is too large.
    pub(crate) fn seal(&self, name: &str, keys: &Keys) -> Option<Vec<u8>> {
        let content = Content {
            version: VERSION,
            name: name.to_owned(),
            owner: self.owner.clone(),
            address: self.address.clone(),
            fence: self.fence,
            record: &self.record,
        };
        let plain = serde_json::to_vec(&content).ok().filter(|plain| plain.len() <= RECORD_BYTES)?;
        keys.seal(Purpose::Record, &plain)
    }

    pub(crate) fn open(sealed: &[u8], name: &str, keys: &Keys) -> Result<Self, Unreadable> {
        let plain = keys.open(Purpose::Record, sealed).ok_or(Unreadable::Broken)?;
        let versioned: Versioned = serde_json::from_slice(&plain).map_err(|_| Unreadable::Foreign)?;
        if versioned.version != VERSION {
            return Err(Unreadable::Foreign);
        }
        let content: Content<Record> = serde_json::from_slice(&plain).map_err(|_| Unreadable::Foreign)?;
        if content.name != name {
            return Err(Unreadable::Broken);
        }
        let Content { owner, address, fence, record, .. } = content;
        Ok(Self { owner, address, fence, record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned() -> Owned {
        Owned {
            owner: "tag".into(),
            address: "http://10.0.0.5:2273".into(),
            fence: 3,
            record: Record {
                principal: Some("ada".into()),
                revision: "a date".into(),
                initialize: RawValue::from_string(r#"{"capabilities":{}}"#.into()).unwrap(),
                level: None,
                subscriptions: vec!["file:///a".into()],
            },
        }
    }

    /// T29: a record is read under its own name and nowhere else, and no bit of it can be changed.
    #[test]
    fn t29_a_record_is_read_where_it_was_written() {
        let keys = Keys::derive("secret");
        let sealed = owned().seal("name", &keys).unwrap();
        let read = Owned::open(&sealed, "name", &keys).unwrap();
        assert_eq!((read.fence, read.record.initialize.get()), (3, r#"{"capabilities":{}}"#));
        assert_eq!(Owned::open(&sealed, "other", &keys).unwrap_err(), Unreadable::Broken);
        let mut flipped = sealed.clone();
        flipped[sealed.len() / 2] ^= 4;
        assert_eq!(Owned::open(&flipped, "name", &keys).unwrap_err(), Unreadable::Broken);
        for clear in ["ada", "10.0.0.5", "file:///a"] {
            assert!(!String::from_utf8_lossy(&sealed).contains(clear), "{clear}");
        }
    }

    /// T29: what is of another version is as if it were not there.
    #[test]
    fn t29_another_version_is_no_record() {
        let keys = Keys::derive("secret");
        for text in [r#"{"version":2,"all":"else"}"#, r#"{"version":1}"#, "[]", ""] {
            let sealed = keys.seal(Purpose::Record, text.as_bytes()).unwrap_or_default();
            let wrong = Owned::open(&sealed, "name", &keys).unwrap_err();
            assert!(text.is_empty() || wrong == Unreadable::Foreign, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_written() {
        let mut large = owned();
        large.record.subscriptions = vec!["x".repeat(RECORD_BYTES)];
        assert!(large.seal("name", &Keys::derive("secret")).is_none());
    }
}
