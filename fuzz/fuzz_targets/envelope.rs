//! Any bytes as a frame, at every strictness: no panic; what is a message is JSON to others too, reads
//! back equal after writing, and is the same message to a more lenient reader.

#![no_main]

use bytes::Bytes;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, decode};
use cardan_proto::jsonrpc::write;
use cardan_proto::limits::Limits;
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;

fuzz_target!(|frame: &[u8]| {
    let frame = Bytes::copy_from_slice(frame);
    let limits = Limits { batch_entries: 8, id_bytes: 64, ..Limits::DEFAULT };
    let mut stricter: Option<Vec<Envelope>> = None;
    for strictness in [Strictness::Strict, Strictness::Standard, Strictness::Lenient] {
        let Some(envelopes) = messages(&frame, strictness, &limits) else {
            assert!(stricter.is_none(), "a message to a stricter reader only");
            continue;
        };
        assert!(serde_json::from_slice::<IgnoredAny>(&frame).is_ok(), "no JSON to others");
        for envelope in &envelopes {
            let mut written = Vec::new();
            write::envelope(envelope, &mut written);
            assert!(written.len() <= frame.len() * 6 + 64, "grows without bound");
            let again = messages(&Bytes::from(written), strictness, &limits);
            assert_eq!(again.as_deref(), Some(std::slice::from_ref(envelope)));
        }
        if let Some(stricter) = stricter.replace(envelopes.clone()) {
            assert_eq!(stricter, envelopes);
        }
    }
});

/// All messages of a frame in which everything is one.
fn messages(frame: &Bytes, strictness: Strictness, limits: &Limits) -> Option<Vec<Envelope>> {
    match decode(frame, strictness, limits) {
        Decoded::One(one, _) => one.ok().map(|one| vec![one]),
        Decoded::Batch(entries) => entries.into_iter().map(|(entry, _)| entry.ok()).collect(),
    }
}
