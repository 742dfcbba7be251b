//! Content that is no plain text: a picture, a sound, a link, an embedded resource.

use cardan_proto::model::{Content, Resource, ResourceContents};
use cardan_server::builder::Builder;

pub(super) fn add_to(builder: Builder) -> Builder {
    builder
        .tool("picture", "Returns a small picture.", async || Content::image(&PICTURE, "image/png"))
        .tool("sound", "Returns a small sound.", async || Content::audio(&sound(), "audio/wav"))
        .tool("link", "Returns a link to a resource.", async || {
            let mut clock = Resource::new("demo://clock", "clock");
            clock.mime_type = Some("text/plain".to_owned());
            Content::link(clock)
        })
        .tool("embed", "Returns a resource in the result itself.", async || {
            let contents = ResourceContents::text("demo://page/1", "This is page 1.");
            Content::embedded(contents.with_mime_type("text/plain"))
        })
}

/// A PNG of four by four pixels.
const PICTURE: [u8; 98] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x04, 0x08, 0x02, 0x00, 0x00, 0x00, 0x26, 0x93, 0x09, 0x29, 0x00,
    0x00, 0x00, 0x29, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x0d, 0xc7, 0x31, 0x01, 0x00, 0x00, 0x0c, 0xc2,
    0x30, 0xa4, 0x55, 0x1a, 0x52, 0x2a, 0x05, 0x69, 0x5b, 0xbe, 0x24, 0x91, 0xd8, 0xb8, 0x98, 0x20, 0x58,
    0x1c, 0x9f, 0x4a, 0x6d, 0x5d, 0x3f, 0x93, 0xd9, 0xb9, 0x79, 0xe8, 0x43, 0x16, 0x01, 0x10, 0x84, 0xbb,
    0xf9, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Samples in a second.
const RATE: u32 = 8000;

/// A WAV of a tenth of a second: one channel, eight bits, a square wave of 400 Hz.
fn sound() -> Vec<u8> {
    let samples: Vec<u8> = (0..RATE / 10).map(|n| if n / 10 % 2 == 0 { 0x40 } else { 0xc0 }).collect();
    let length = u32::try_from(samples.len()).unwrap_or_default();
    let mut wav = Vec::with_capacity(44 + samples.len());
    wav.extend_from_slice(b"RIFF");
    wav.extend_from_slice(&(36 + length).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt ");
    wav.extend_from_slice(&16_u32.to_le_bytes());
    for half in [1_u16, 1] {
        wav.extend_from_slice(&half.to_le_bytes()); // plain samples, one channel
    }
    for word in [RATE, RATE] {
        wav.extend_from_slice(&word.to_le_bytes()); // samples and bytes in a second
    }
    for half in [1_u16, 8] {
        wav.extend_from_slice(&half.to_le_bytes()); // bytes and bits of a sample
    }
    wav.extend_from_slice(b"data");
    wav.extend_from_slice(&length.to_le_bytes());
    wav.extend_from_slice(&samples);
    wav
}
