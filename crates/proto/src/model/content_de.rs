//! Reading content without a second pass: `type` comes first from nearly every peer, and then
//! the block is read straight into its variant. Only when it comes later are members kept aside.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::content::Content;

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Block)
    }
}

struct Block;

impl<'de> Visitor<'de> for Block {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block: an object with a type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        let mut aside = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == "type" && aside.is_empty() {
                return by_type(&members.next_value::<String>()?, members);
            }
            aside.insert(name, members.next_value()?);
        }
        let Some(kind) = aside.get("type") else { return Err(A::Error::missing_field("type")) };
        let kind =
            kind.as_str().ok_or_else(|| A::Error::custom("the type of a content block is not a string"))?;
        let kind = kind.to_owned();
        let rest = MapDeserializer::new(aside.into_iter().map(|(name, value)| (name, Late(value))));
        by_type(&kind, rest).map_err(A::Error::custom)
    }
}

fn by_type<'de, A: MapAccess<'de>>(kind: &str, members: A) -> Result<Content, A::Error> {
    let block = MapAccessDeserializer::new(members);
    Ok(match kind {
        "text" => Content::Text(Deserialize::deserialize(block)?),
        "image" => Content::Image(Deserialize::deserialize(block)?),
        "audio" => Content::Audio(Deserialize::deserialize(block)?),
        "resource_link" => Content::ResourceLink(Deserialize::deserialize(block)?),
        "resource" => Content::Resource(Deserialize::deserialize(block)?),
        "tool_use" => Content::ToolUse(Deserialize::deserialize(block)?),
        "tool_result" => Content::ToolResult(Deserialize::deserialize(block)?),
        other => {
            let mut members = Map::deserialize(block)?;
            members.insert("type".to_owned(), other.into());
            Content::Other(members)
        }
    })
}

/// A member that was kept aside.
struct Late(Value);

impl<'de> IntoDeserializer<'de, serde_json::Error> for Late {
    type Deserializer = Value;

    fn into_deserializer(self) -> Value {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::content::{Annotations, MediaContent, Role};
    use crate::model::resource::{Resource, ResourceContents};

    fn read(value: &Value) -> Result<Content, serde_json::Error> {
        serde_json::from_str(&value.to_string())
    }

    #[test]
    fn type_may_come_first_or_last() {
        let first: Content = serde_json::from_str(r#"{"type":"text","text":"a","x":1}"#).unwrap();
        let last: Content =
            serde_json::from_str(r#"{"text":"a","x":{"type":"image"},"type":"text"}"#).unwrap();
        assert_eq!(first, Content::text("a"));
        assert_eq!(last, first);
        assert_eq!(serde_json::to_string(&first).unwrap(), r#"{"type":"text","text":"a"}"#);
        let nested = r#"{"toolUseId":"u","content":[{"text":"b","type":"text"}],"structuredContent":[1],"type":"tool_result"}"#;
        assert!(
            matches!(serde_json::from_str(nested).unwrap(), Content::ToolResult(result) if result.content[0].as_text() == Some("b"))
        );
    }

    /// BASE-33: blocks of a later revision pass through whole.
    #[test]
    fn unknown_types_are_kept_whole() {
        for text in [r#"{"type":"video","frames":[1,{"a":null}]}"#, r#"{"frames":2,"type":"video"}"#] {
            let block: Content = serde_json::from_str(text).unwrap();
            assert!(matches!(block, Content::Other(_)));
            assert_eq!(serde_json::to_value(&block).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
        for bad in
            [json!({}), json!({ "text": "a" }), json!({ "type": 1 }), json!([]), json!({ "type": "text" })]
        {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }

    /// RES-14, PRM-6: data is base64 by construction, and checked when it comes from elsewhere.
    #[test]
    fn media_is_base64_with_a_type() {
        for len in 0..5 {
            let block = Content::image(&[0xff; 5][..len], "image/png");
            assert_eq!(block.check(), []);
            assert!(matches!(&block, Content::Image(media) if media.bytes().unwrap().len() == len));
        }
        let media = |data: &str, mime: &str| {
            Content::Audio(MediaContent {
                data: data.into(),
                mime_type: mime.into(),
                annotations: None,
                meta: None,
            })
        };
        for (data, mime, place) in [
            ("abc", "audio/wav", "/data"),
            ("ab-_", "audio/wav", "/data"),
            ("a===", "audio/wav", "/data"),
            ("YQ==", "wav", "/mimeType"),
            ("YQ==", "audio/", "/mimeType"),
        ] {
            assert_eq!(media(data, mime).check()[0].at, place, "{data} {mime}");
        }
        assert_eq!(media("YQ==", "audio/ogg; codecs=opus").check(), []);
    }

    /// RES-18: priority from 0 to 1, known roles, ISO 8601.
    #[test]
    fn annotations_have_ranges() {
        let hints = Annotations {
            audience: Some(vec![Role::User, Role::parse("model")]),
            priority: Some(1.5),
            last_modified: Some("yesterday".into()),
        };
        let places: Vec<String> =
            Content::text("a").annotated(hints).check().into_iter().map(|flaw| flaw.at).collect();
        assert_eq!(places, ["/annotations/audience", "/annotations/priority", "/annotations/lastModified"]);
        let fine = Annotations {
            priority: Some(1.0),
            last_modified: Some("2025-01-12T15:00:58Z".into()),
            audience: None,
        };
        assert_eq!(Content::link(Resource::new("a:b", "b")).annotated(fine).check(), []);
    }

    #[test]
    fn constructors_make_every_type() {
        let rows = [
            (Content::text("a"), "text"),
            (Content::image(b"a", "image/png"), "image"),
            (Content::audio(b"a", "audio/wav"), "audio"),
            (Content::link(Resource::new("a:b", "b")), "resource_link"),
            (Content::embedded(ResourceContents::text("a:b", "t")), "resource"),
        ];
        for (block, kind) in rows {
            let value = serde_json::to_value(&block).unwrap();
            assert_eq!(value["type"], kind);
            assert_eq!(read(&value).unwrap(), block);
        }
    }
}
