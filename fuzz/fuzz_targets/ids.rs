//! Ids of calls: any text is read without a panic, and what is an id is written as it was meant.

#![no_main]

use cardan_proto::jsonrpc::id::{BadId, CallId};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    let id = CallId::parse(text, 64);
    assert_eq!(text.len() > 64, id == Err(BadId::TooLong));
    let Ok(id) = id else { return };
    let _ = (id.is_standard(), id.coerced(), id.to_string(), id.as_number());
    // From here on the text is what a scanned frame can hold.
    let scanned =
        std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    if !scanned || text.trim_ascii() != text {
        return;
    }
    let mut written = Vec::new();
    id.write(&mut written);
    assert_eq!(CallId::parse(&written, usize::MAX).as_ref(), Ok(&id));
    match (serde_json::from_slice::<Value>(text), serde_json::from_slice::<Value>(&written)) {
        (Ok(before), Ok(after)) => assert_eq!(before, after, "another value"),
        (Err(_), Err(_)) => assert_eq!(written, text, "kept as spelled"),
        (before, after) => panic!("{before:?} became {after:?}"),
    }
    assert_eq!(serde_json::to_vec(&id).ok(), Some(written));
    // Changing the type twice changes nothing.
    if let Some(number) = id.as_number() {
        assert_eq!(CallId::from(number), id);
        assert_eq!(id.coerced().and_then(|text| text.coerced()), Some(id));
    }
});
