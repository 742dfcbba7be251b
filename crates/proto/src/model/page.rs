//! Listings in pages.

use serde::{Deserialize, Serialize};

use super::meta::Meta;

/// Where the next page begins. Opaque: only the side that made it knows what it says.
///
/// The empty string is a cursor like any other; only its absence, or `null`, ends a listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

impl From<&str> for Cursor {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Params of every listing call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PageParams {
    /// The page wanted; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tool::ListToolsResult;

    fn next(text: &str) -> Option<Cursor> {
        serde_json::from_str::<ListToolsResult>(text).unwrap().next_cursor
    }

    /// PAG-3: empty is a cursor, null and absence are the end.
    #[test]
    fn only_absence_ends_a_listing() {
        assert_eq!(next(r#"{"tools":[],"nextCursor":""}"#), Some(Cursor::from("")));
        assert_eq!(next(r#"{"tools":[],"nextCursor":null}"#), None);
        assert_eq!(next(r#"{"tools":[]}"#), None);
    }

    /// PAG-1, PAG-2: an empty page with a cursor is a page, and the cursor goes back as it came.
    #[test]
    fn cursors_are_opaque() {
        let cursor = next(r#"{"tools":[],"nextCursor":" a\u0000é=/ "}"#);
        let params = PageParams { cursor, meta: None };
        assert_eq!(serde_json::to_string(&params).unwrap(), r#"{"cursor":" a\u0000é=/ "}"#);
    }
}
