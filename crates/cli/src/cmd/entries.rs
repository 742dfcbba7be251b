//! Lists as they were written: an entry that is wrong takes nothing from its neighbours, and is read only by whoever wants it.

use cardan_client::{CallError, Page};
use cardan_proto::model::{Cursor, Raw};
use cardan_proto::session::event::Delivery;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// A page of anything, its entries as they were written.
#[derive(Debug, Deserialize)]
pub(super) struct RawPage {
    #[serde(alias = "tools", alias = "resources", alias = "resourceTemplates", alias = "prompts")]
    entries: Vec<Raw>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<Cursor>,
}

impl Page for RawPage {
    type Entry = Raw;

    fn next(&self) -> Option<&Cursor> {
        self.next_cursor.as_ref()
    }

    fn entries(self) -> Vec<Raw> {
        self.entries
    }
}

/// What an entry is called by, if it says so.
pub(super) fn name_of(entry: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    entry.read::<Named>().ok().map(|named| named.name)
}

/// The entry that is wanted. Whatever it is for has not been called yet.
pub(super) fn wanted<T: DeserializeOwned>(what: &str, name: &str, entry: &Raw) -> Result<T, Failure> {
    entry.read().map_err(|error| {
        let failure = Failure::from(CallError::Shape(format!("{what} {name} as it is listed: {error}")));
        failure.delivered(Delivery::NotSent)
    })
}
