//! Resources: what a server lets others read.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::ask::InputResponses;
use super::cache::cacheable_result;
use super::content::{Annotations, Icon, NOT_BASE64, decode, encode, is_base64};
use super::flaw::{Flaw, under, under_index};
use super::meta::Meta;
use super::page::Cursor;
use super::uri;
use super::uri_template::UriTemplate;

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// For programs, and for people where there is no title.
    pub name: String,
    /// Since 2025-06-18: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Bytes before any encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Since 2025-11-25: what it looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Resource {
    /// By address and name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> =
            uri::check(&self.uri).err().map(|flaw| flaw.under("uri")).into_iter().collect();
        flaws.extend(self.annotations.iter().flat_map(|hints| under("annotations", hints.check())));
        flaws
    }
}

/// A family of resources, by a template of their addresses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// RFC 6570.
    pub uri_template: String,
    /// For programs, and for people where there is no title.
    pub name: String,
    /// Since 2025-06-18: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What they are, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What their bytes are, when all are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Since 2025-11-25: what they look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceTemplate {
    /// By template and name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let template = UriTemplate::parse(&self.uri_template).err();
        let mut flaws: Vec<Flaw> = template.map(|flaw| flaw.under("uriTemplate")).into_iter().collect();
        flaws.extend(self.annotations.iter().flat_map(|hints| under("annotations", hints.check())));
        flaws
    }
}

/// What was read: text or bytes, never both.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ResourceContents {
    /// Text.
    Text(TextContents),
    /// Bytes.
    Blob(BlobContents),
}

/// What was read, as text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextContents {
    /// The address.
    pub uri: String,
    /// What the text is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    pub text: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What was read, as bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobContents {
    /// The address.
    pub uri: String,
    /// What the bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The bytes in base64.
    pub blob: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl BlobContents {
    /// The bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Flaw> {
        decode(&self.blob).map_err(|flaw| flaw.under("blob"))
    }
}

impl ResourceContents {
    /// Text at an address.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text(TextContents { uri: uri.into(), mime_type: None, text: text.into(), meta: None })
    }

    /// Bytes at an address.
    pub fn blob(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::Blob(BlobContents { uri: uri.into(), mime_type: None, blob: encode(bytes), meta: None })
    }

    /// With a type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        match &mut self {
            Self::Text(TextContents { mime_type: place, .. })
            | Self::Blob(BlobContents { mime_type: place, .. }) => {
                *place = Some(mime_type.into());
            }
        }
        self
    }

    /// The address.
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(TextContents { uri, .. }) | Self::Blob(BlobContents { uri, .. }) => uri,
        }
    }

    /// What it is.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(TextContents { mime_type, .. }) | Self::Blob(BlobContents { mime_type, .. }) => {
                mime_type.as_deref()
            }
        }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> =
            uri::check(self.uri()).err().map(|flaw| flaw.under("uri")).into_iter().collect();
        match self {
            Self::Blob(contents) if !is_base64(&contents.blob) => flaws.push(Flaw::at("blob", NOT_BASE64)),
            Self::Text(_) | Self::Blob(_) => {}
        }
        flaws
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            uri: String,
            mime_type: Option<String>,
            text: Option<String>,
            blob: Option<String>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }
        let Wire { uri, mime_type, text, blob, meta } = Wire::deserialize(deserializer)?;
        match (text, blob) {
            (Some(text), None) => Ok(Self::Text(TextContents { uri, mime_type, text, meta })),
            (None, Some(blob)) => Ok(Self::Blob(BlobContents { uri, mime_type, blob, meta })),
            (Some(_), Some(_)) => Err(D::Error::custom("resource contents have both text and blob")),
            (None, None) => Err(D::Error::custom("resource contents have neither text nor blob")),
        }
    }
}

/// Params of reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceParams {
    /// The address.
    pub uri: String,
    /// Modern, in a retry: answers to the asks of the last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// Modern, in a retry: what the server gave us to bring back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

cacheable_result! {
    /// One page of resources.
    ListResourcesResult {
        /// The resources.
        resources: Vec<Resource>,
        /// Where the next page begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<Cursor>,
    }
}

cacheable_result! {
    /// One page of templates.
    ListResourceTemplatesResult {
        /// The templates.
        resource_templates: Vec<ResourceTemplate>,
        /// Where the next page begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<Cursor>,
    }
}

cacheable_result! {
    /// What was read; several parts when the address stands for several.
    ReadResourceResult {
        /// The parts.
        contents: Vec<ResourceContents>,
    }
}

impl ReadResourceResult {
    /// One part.
    #[must_use]
    pub fn of(contents: ResourceContents) -> Self {
        Self { contents: vec![contents], ..Self::default() }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let parts = self.contents.iter().enumerate();
        parts.flat_map(|(index, part)| under_index("contents", index, part.check())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ResourceContents, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// RES-17: text and blob exclude each other, and one of them is there; several parts are fine.
    #[test]
    fn contents_are_text_or_blob() {
        assert!(matches!(read(r#"{"uri":"a:b","text":""}"#), Ok(ResourceContents::Text(_))));
        assert!(matches!(read(r#"{"uri":"a:b","blob":"","text":null}"#), Ok(ResourceContents::Blob(_))));
        assert!(read(r#"{"uri":"a:b","blob":"","text":""}"#).is_err());
        assert!(read(r#"{"uri":"a:b"}"#).is_err());
        let both = r#"{"contents":[{"uri":"a:1","text":"x"},{"uri":"a:2","blob":"eA=="}]}"#;
        assert_eq!(serde_json::from_str::<ReadResourceResult>(both).unwrap().contents.len(), 2);
    }

    /// RES-14: bytes are base64 by construction, and checked when they come from elsewhere.
    #[test]
    fn blobs_are_base64() {
        let contents = ResourceContents::blob("a:b", &[0, 255]).with_mime_type("application/x");
        assert_eq!(contents.check(), []);
        assert!(matches!(&contents, ResourceContents::Blob(blob) if blob.bytes() == Ok(vec![0, 255])));
        let odd = ReadResourceResult::of(read(r#"{"uri":"a:b","blob":"not base64"}"#).unwrap());
        assert_eq!(odd.check()[0].at, "/contents/0/blob");
    }

    /// RES-12, RES-13: addresses and templates are checked.
    #[test]
    fn addresses_are_checked() {
        assert_eq!(Resource::new("x-my+scheme.1://a/b?c#d", "n").check(), []);
        assert_eq!(Resource::new("no scheme", "n").check()[0].at, "/uri");
        assert_eq!(ResourceTemplate::new("a://{x}/{?y,z}", "n").check(), []);
        assert_eq!(ResourceTemplate::new("a://{x", "n").check()[0].at, "/uriTemplate");
    }
}
