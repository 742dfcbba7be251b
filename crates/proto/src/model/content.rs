//! Content: what tools return, prompts say and models answer with.
//!
//! One enumeration serves all places; which block may stand where is checked, not typed. Blocks
//! of a type we do not know are kept whole. Text is the common case and is written straight out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::date;
use super::flaw::{Flaw, under, under_index};
use super::meta::Meta;
use super::open::open_enum;
use super::raw::{Raw, present};
use super::resource::{Resource, ResourceContents};
use super::uri;

open_enum! {
    /// Who says it, or for whom it is.
    Role {
        /// The person, or the side that asks.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// One block of content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Since 2025-03-26: sound.
    Audio(MediaContent),
    /// Since 2025-06-18: where a resource can be read.
    ResourceLink(Box<Resource>),
    /// A resource itself.
    Resource(Box<EmbeddedResource>),
    /// Sampling since 2025-11-25: the model wants a tool called.
    ToolUse(ToolUse),
    /// Sampling since 2025-11-25: what the tool returned.
    ToolResult(ToolResult),
    /// A block of a type we do not know, `type` included.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Content {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), annotations: None, meta: None })
    }

    /// A picture from its bytes.
    pub fn image(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Image(MediaContent::of_bytes(bytes, mime_type))
    }

    /// A sound from its bytes.
    pub fn audio(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Audio(MediaContent::of_bytes(bytes, mime_type))
    }

    /// Where a resource can be read.
    #[must_use]
    pub fn link(resource: Resource) -> Self {
        Self::ResourceLink(Box::new(resource))
    }

    /// A resource itself.
    #[must_use]
    pub fn embedded(resource: ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource { resource, annotations: None, meta: None }))
    }

    /// The text, when it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// With these hints, where the type of the block has a place for them.
    #[must_use]
    pub fn annotated(mut self, hints: Annotations) -> Self {
        match &mut self {
            Self::Text(block) => block.annotations = Some(hints),
            Self::Image(block) | Self::Audio(block) => block.annotations = Some(hints),
            Self::ResourceLink(block) => block.annotations = Some(hints),
            Self::Resource(block) => block.annotations = Some(hints),
            Self::ToolUse(_) | Self::ToolResult(_) | Self::Other(_) => {}
        }
        self
    }

    /// What must not be sent: data that is not base64, addresses and hints out of range.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let (mut flaws, annotations) = match self {
            Self::Text(block) => (Vec::new(), &block.annotations),
            Self::Image(block) | Self::Audio(block) => (block.check(), &block.annotations),
            Self::ResourceLink(block) => return block.check(),
            Self::Resource(block) => {
                (under("resource", block.resource.check()).collect(), &block.annotations)
            }
            Self::ToolResult(block) => return check_all("content", &block.content),
            Self::ToolUse(_) | Self::Other(_) => return Vec::new(),
        };
        flaws.extend(annotations.iter().flat_map(|hints| under("annotations", hints.check())));
        flaws
    }
}

/// Flaws of a list of blocks that stands as `member` in the checked value.
pub(crate) fn check_all(member: &str, blocks: &[Content]) -> Vec<Flaw> {
    blocks.iter().enumerate().flat_map(|(index, block)| under_index(member, index, block.check())).collect()
}

/// Text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// A picture or a sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaContent {
    /// The bytes in base64.
    pub data: String,
    /// What the bytes are.
    pub mime_type: String,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl MediaContent {
    /// From bytes.
    pub fn of_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self { data: STANDARD.encode(bytes), mime_type: mime_type.into(), annotations: None, meta: None }
    }

    /// The bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Flaw> {
        decode(&self.data).map_err(|flaw| flaw.under("data"))
    }

    fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if !is_base64(&self.data) {
            flaws.push(Flaw::at("data", NOT_BASE64));
        }
        if !is_mime_type(&self.mime_type) {
            flaws.push(Flaw::at("mimeType", "is not type/subtype"));
        }
        flaws
    }
}

/// A resource that stands in the message itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// The resource.
    pub resource: ResourceContents,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The model wants a tool called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Names this use, so that the result finds it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: Map<String, Value>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What the tool returned to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The use that this answers.
    pub tool_use_id: String,
    /// What it returned.
    pub content: Vec<Content>,
    /// The same as data.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Raw>,
    /// It failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Hints about content or a resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<Role>>,
    /// From 0, can be left out, to 1, must be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Since 2025-06-18: when it last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Annotations {
    /// What is out of range.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if self.audience.iter().flatten().any(|role| !role.is_known()) {
            flaws.push(Flaw::at("audience", "names a role that is neither user nor assistant"));
        }
        if self.priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            flaws.push(Flaw::at("priority", "is not between 0 and 1"));
        }
        if self.last_modified.as_deref().is_some_and(|when| !date::is_iso_8601(when)) {
            flaws.push(Flaw::at("lastModified", "is not an ISO 8601 date or time"));
        }
        flaws
    }
}

/// Since 2025-11-25: a picture that stands for something.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// Where it is: `https:` or `data:`.
    pub src: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// The background it is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<Theme>,
}

impl Icon {
    /// What must not be fetched: anything but a picture by `https:` or in a `data:` address.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let is_data = self.src.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
        let flaw = if is_data {
            let picture = self.src[5..].get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/"));
            uri::check(&self.src).err().or_else(|| (!picture).then(|| Flaw::here("is no picture")))
        } else {
            match uri::web(&self.src) {
                Ok(url) => (!url.is_secure()).then(|| Flaw::here("is neither https nor data")),
                Err(flaw) => Some(flaw),
            }
        };
        flaw.map(|flaw| flaw.under("src")).into_iter().collect()
    }
}

/// Drops the icons that must not be fetched.
pub fn keep_sound_icons(icons: &mut Option<Vec<Icon>>) {
    if let Some(icons) = icons {
        icons.retain(|icon| icon.check().is_empty());
    }
}

open_enum! {
    /// The background that an icon is made for.
    Theme {
        /// Light.
        Light = "light",
        /// Dark.
        Dark = "dark",
    }
}

pub(crate) const NOT_BASE64: &str = "is not base64";

/// Base64 in the standard alphabet with padding, the form that the protocol uses.
#[must_use]
pub fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    text.len().is_multiple_of(4)
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// The bytes behind base64.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, Flaw> {
    STANDARD.decode(text).map_err(|error| Flaw::here(format!("{NOT_BASE64}: {error}")))
}

/// Base64 of bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `type/subtype`, perhaps with parameters.
#[must_use]
pub fn is_mime_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}
