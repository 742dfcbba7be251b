//! Lists of what is shown, page by page.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Params;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::fleet::CURSOR_ENTRIES;
use cardan_proto::model::Cursor;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::catalog::Kind;
use crate::merge::{Merged, Shown};

/// How much is on one page. Large: not every client turns pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

/// One page of a list, as a result. What `words` says of an entry takes its place.
pub(super) fn page(
    merged: &Merged,
    kind: Kind,
    params: &Params,
    page: Page,
    words: impl Fn(&Shown) -> Option<Bytes>,
) -> Result<Bytes, Fault> {
    let list = merged.list(kind);
    let from = match cursor(params)? {
        None => 0,
        Some(place) => place.among(list).ok_or_else(|| {
            Fault::invalid_params("params.cursor: the list has changed since; start from the first page")
        })?,
    };
    let rest = &list[from..];
    let mut bytes = 0;
    let fits = |shown: &&Shown| {
        bytes += shown.raw.as_str().len();
        bytes <= page.bytes
    };
    // One at least, however large: a page that shows nothing leads nowhere.
    let count = rest.iter().take(page.entries).take_while(fits).count().max(1).min(rest.len());
    let worded = |shown: &Shown| words(shown).and_then(|words| String::from_utf8(words.into()).ok());
    let entries: Vec<_> = rest[..count]
        .iter()
        .map(|shown| worded(shown).map_or(Cow::Borrowed(shown.raw.as_str()), Cow::Owned))
        .collect();
    let entries = entries.join(",");
    let member = match kind {
        Kind::Tools => "tools",
        Kind::Prompts => "prompts",
        Kind::Resources => "resources",
        Kind::Templates => "resourceTemplates",
        Kind::Skills => "skills",
    };
    let next = match rest[..count].last().filter(|_| count < rest.len()) {
        Some(_) => format!(",\"nextCursor\":\"{}\"", Place::behind(&list[..from + count]).text()),
        None => String::new(),
    };
    Ok(Bytes::from(format!("{{\"{member}\":[{entries}]{next}}}")))
}

/// Where a page begins: behind the first of these entries that is still there. They stood in front of it, the nearest first.
#[derive(Serialize, Deserialize)]
struct Place(Vec<Box<str>>);

impl Place {
    /// Behind all of `before`.
    fn behind(before: &[Shown]) -> Self {
        Self(before.iter().rev().take(CURSOR_ENTRIES).map(|shown| shown.key.clone()).collect())
    }

    /// Where that is in a list that may have changed since; nothing: nobody knows, and a guess would leave something out.
    fn among(&self, list: &[Shown]) -> Option<usize> {
        let at = |key: &str| list.iter().position(|shown| *shown.key == *key);
        self.0.iter().find_map(|key| at(key)).map(|at| at + 1)
    }

    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    /// What comes back need not be what was told, and each entry is looked for in the whole list.
    fn parse(text: &str) -> Option<Self> {
        let place: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (place.0.len() <= CURSOR_ENTRIES).then_some(place)
    }
}

fn cursor(params: &Params) -> Result<Option<Place>, Fault> {
    #[derive(Deserialize)]
    struct Wire {
        cursor: Option<Cursor>,
    }
    if params.raw().is_none() {
        return Ok(None);
    }
    let wire: Wire = params.decode().map_err(|error| Fault::invalid_params(format!("params: {error}")))?;
    let Some(cursor) = wire.cursor else { return Ok(None) };
    let wrong = || Fault::invalid_params("params.cursor: not one of ours; start from the first page");
    Place::parse(&cursor.0).map(Some).ok_or_else(wrong)
}
