//! Values of mirrored headers: every text survives, and no header value makes us panic.

#![no_main]

use cardan_proto::http::value::{decode, encode};
use http::HeaderValue;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let value = encode(&text);
    assert!(value.len() <= text.len() * 2 + 32);
    assert_eq!(decode(&value).as_deref(), Ok(&*text));

    let Ok(value) = HeaderValue::from_bytes(input) else { return };
    if let Ok(text) = decode(&value) {
        assert_eq!(decode(&encode(&text)).as_deref(), Ok(&*text));
    }
});
