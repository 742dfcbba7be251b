//! Tools that return content of every kind.

use cardan_proto::model::{CallToolResult, Content, ResourceContents};
use cardan_server::builder::Builder;

/// A PNG of one red pixel.
pub(crate) const PICTURE: [u8; 69] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53, 0xde, 0x00,
    0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01,
    0x01, 0x00, 0xf7, 0x03, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60,
    0x82,
];

/// A WAV without a single sample.
const SOUND: [u8; 44] =
    *b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0";

const PNG: &str = "image/png";

pub(crate) fn add_to(builder: Builder) -> Builder {
    builder
        .tool("test_simple_text", "Returns text.", async || "This is a simple text response for testing.")
        .tool("test_image_content", "Returns a picture.", async || picture())
        .tool("test_audio_content", "Returns a sound.", async || Content::audio(&SOUND, "audio/wav"))
        .tool("test_embedded_resource", "Returns a resource in the result itself.", async || {
            let text = "This is an embedded resource content.";
            embedded("test://embedded-resource", "text/plain", text)
        })
        .tool("test_multiple_content_types", "Returns text, a picture and a resource.", async || {
            let json = r#"{"test":"data","value":123}"#;
            let resource = embedded("test://mixed-content-resource", "application/json", json);
            vec![Content::text("Multiple content types test:"), picture(), resource]
        })
        .tool("test_error_handling", "Fails.", async || {
            CallToolResult::error("This tool intentionally returns an error for testing")
        })
}

pub(crate) fn picture() -> Content {
    Content::image(&PICTURE, PNG)
}

pub(crate) fn embedded(uri: &str, mime_type: &str, text: &str) -> Content {
    Content::embedded(ResourceContents::text(uri, text).with_mime_type(mime_type))
}
