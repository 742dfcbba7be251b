//! The templates of one server, for the question which of them make an address.

use cardan_proto::model::uri_template::UriTemplate;

use crate::catalog::{Catalog, Kind};

/// The templates of one server, hidden or not.
#[derive(Debug, Clone, Default)]
pub struct Templates(Vec<(Box<str>, UriTemplate)>);

/// Does a template make an address?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// It does.
    Surely,
    /// With a value that nobody should put in, so its server may say otherwise.
    Perhaps,
}

impl Templates {
    /// Those of a catalog. What is no template makes nothing.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Self {
        let entries = &catalog.list(Kind::Templates).entries;
        let read = entries.iter().map(|entry| (entry.key(), UriTemplate::parse(entry.key())));
        Self(read.filter_map(|(text, template)| Some((text.into(), template.ok()?))).collect())
    }

    /// Those that make an address, as they are written.
    pub fn making<'a>(&'a self, uri: &'a str) -> impl Iterator<Item = (&'a str, Makes)> {
        self.0.iter().filter_map(|(text, template)| {
            let makes = match template.matches(uri) {
                Ok(Some(_)) => Makes::Surely,
                Ok(None) => return None,
                Err(_) => Makes::Perhaps,
            };
            Some((&**text, makes))
        })
    }
}
