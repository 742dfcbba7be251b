//! Server-sent events: the published vectors, what foreign streams do, and what we write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cardan_proto::codec::sse::{write_comment, write_event, write_priming};
use cardan_proto::codec::{EventKind, SseDecoder, SseEvent, SseItem};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors/sse/cases.json");
const LIMIT: usize = 64 << 10;

fn decode_with(mut decoder: SseDecoder, chunks: &[Bytes]) -> (Vec<SseItem>, SseDecoder) {
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk.clone());
        items.extend(decoder.by_ref());
    }
    items.extend(std::iter::from_fn(|| decoder.finish()));
    (items, decoder)
}

fn decode(chunks: &[Bytes]) -> Vec<SseItem> {
    decode_with(SseDecoder::new(LIMIT), chunks).0
}

/// Whole, byte by byte, and in two at every offset: the result must be the same.
fn every_cut<T: PartialEq + std::fmt::Debug>(stream: &[u8], read: impl Fn(&[Bytes]) -> T) -> T {
    let stream = Bytes::copy_from_slice(stream);
    let whole = read(std::slice::from_ref(&stream));
    let bytes: Vec<Bytes> = (0..stream.len()).map(|at| stream.slice(at..=at)).collect();
    assert_eq!(read(&bytes), whole, "byte by byte");
    for at in 0..stream.len() {
        assert_eq!(read(&[stream.slice(..at), stream.slice(at..)]), whole, "cut at {at}");
    }
    whole
}

fn check(stream: impl AsRef<[u8]>, expected: &[SseItem]) {
    assert_eq!(every_cut(stream.as_ref(), decode), expected);
}

fn message(data: &str) -> SseItem {
    event("message", data, "")
}

fn event(kind: &str, data: &str, id: &str) -> SseItem {
    SseItem::Event(bare_event(kind, data, id))
}

fn bare_event(kind: &str, data: &str, id: &str) -> SseEvent {
    SseEvent {
        kind: if kind == "message" { EventKind::Message } else { EventKind::Other(kind.into()) },
        data: Bytes::copy_from_slice(data.as_bytes()),
        id: (!id.is_empty()).then(|| id.into()),
    }
}

/// HTTP-18, S0-70, S3-3: the vectors of the web platform tests, and those derived from the standard.
#[test]
fn http_18_s0_70_vectors() {
    let Ok(text) = std::fs::read_to_string(VECTORS) else {
        println!("skipped: the event stream vectors are not at {VECTORS}");
        return;
    };
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 154, "vectors are missing");
    for case in &cases {
        let stream = STANDARD.decode(case["stream_base64"].as_str().unwrap()).unwrap();
        let found = every_cut(&stream, |chunks| {
            let (items, decoder) = decode_with(SseDecoder::new(LIMIT), chunks);
            let events: Vec<Value> = items.iter().filter_map(as_vector).collect();
            json!({"events": events, "retry_ms": decoder.retry_ms()})
        });
        assert_eq!(found, case["expected"], "{}", case["name"]);
    }
}

fn as_vector(item: &SseItem) -> Option<Value> {
    let SseItem::Event(event) = item else { return None };
    let id = event.id.as_deref().unwrap_or_default();
    Some(json!({"type": event.kind.as_str(), "data": event.data_text(), "lastEventId": id}))
}

/// HTTP-18: comments are no events and end none.
#[test]
fn http_18_comments_are_seen_but_change_nothing() {
    check(
        ": hi\n:\n\ndata: a\n:x\ndata: b\n\n",
        &[SseItem::Comment, SseItem::Comment, SseItem::Comment, message("a\nb")],
    );
}

/// HTTP-18: an event with empty data is an event, one without data is none but its id counts.
#[test]
fn http_18_empty_data_and_no_data_differ() {
    check("id: 7\ndata:\n\n", &[event("message", "", "7")]);
    let (items, decoder) = decode_with(SseDecoder::new(LIMIT), &[Bytes::from_static(b"id: 8\nevent: x\n\n")]);
    assert_eq!((items.as_slice(), decoder.last_id()), (&[][..], "8"));
}

/// rust-peers finding 5: a character cut by a chunk is not replaced, and data is not trimmed.
#[test]
fn peers_5_split_characters_and_blanks_survive() {
    check("data:  né 日本 🙂 \r\n\r\n", &[message(" né 日本 🙂 ")]);
}

/// rust-peers finding 5: a lone CR ends a line, and an event, at once.
#[test]
fn peers_5_lone_cr_ends_a_line() {
    check("data: a\rdata: b\r\rdata: c\r\r", &[message("a\nb"), message("c")]);
    let mut decoder = SseDecoder::new(LIMIT);
    decoder.feed(Bytes::from_static(b"data: a\r\n\r"));
    assert_eq!(decoder.next(), Some(message("a")), "without waiting for the LF");
    decoder.feed(Bytes::from_static(b"\ndata: b\n\n"));
    assert_eq!(decoder.next(), Some(message("b")));
}

/// rust-peers finding 6: an unknown field is ignored.
#[test]
fn peers_6_unknown_field_is_ignored() {
    check("foo: 1\ndata: a\nlongfieldname: 2\nDATA: b\ndata : c\n\n", &[message("a")]);
}

/// rust-peers finding 6: a line without colon is a field with an empty value.
#[test]
fn peers_6_line_without_colon_is_a_field() {
    check("garbage\ndata\ndata: a\n\n", &[message("\na")]);
    check("id: 1\nid\nevent: x\nevent\ndata\n\n", &[message("")]);
}

/// rust-peers finding 6: of a repeated `event` or `id` the last counts.
#[test]
fn peers_6_repeated_event_and_id() {
    check("event: a\nevent: b\nid: 1\nid: 2\ndata: x\n\n", &[event("b", "x", "2")]);
}

/// rust-peers finding 6: CRLF ends lines and events.
#[test]
fn peers_6_crlf_ends_an_event() {
    check("event: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n", &[event("a", "x", ""), message("y")]);
}

/// rust-peers finding 6: the space after the colon is optional, and only one is taken off.
#[test]
fn peers_6_space_after_the_colon_is_optional() {
    check(
        "data:x\n\ndata: x\n\ndata:  x\n\ndata:\tx\n\n",
        &[message("x"), message("x"), message(" x"), message("\tx")],
    );
}

/// S0-70: an event that its stream leaves unfinished is no event, but is reported.
#[test]
fn s0_70_unterminated_event_is_reported() {
    let unterminated = |bytes, event| SseItem::Unterminated { bytes, event };
    check("data: a\n\nevent: e\ndata: b\nda", &[message("a"), unterminated(17, bare_event("e", "b", ""))]);
    check("data: {}\n", &[unterminated(8, bare_event("message", "{}", ""))]);
    check("data: {}", &[unterminated(8, bare_event("message", "{}", ""))]);
    check("data: {\ndata: }", &[unterminated(14, bare_event("message", "{\n}", ""))]);
    check("\u{feff}", &[]);
    check(b"\xef\xbb", &[unterminated(2, bare_event("message", "", ""))]);
    // Nothing is lost with these.
    check("retry: 5\n", &[]);
    check(": half a comment", &[]);
    check("unknown: 1\n", &[]);
}

/// S0-70: an event that was not dispatched does not move the point to resume from.
#[test]
fn s0_70_unterminated_id_is_not_resumed_after() {
    let stream = Bytes::from_static(b"id: 1\ndata: a\n\nid: 2\ndata: b\n");
    let (items, mut decoder) = decode_with(SseDecoder::new(LIMIT), &[stream]);
    assert_eq!(items[1], SseItem::Unterminated { bytes: 12, event: bare_event("message", "b", "2") });
    assert_eq!(decoder.finish(), None);
    assert_eq!(decoder.last_id(), "1");
}

/// The id carries over a reconnection.
#[test]
fn last_id_is_inherited() {
    let decoder = SseDecoder::new(LIMIT).with_last_id("…");
    assert_eq!(decoder.last_id(), "…");
    let (items, decoder) = decode_with(decoder, &[Bytes::from_static(b"data: a\n\nid\ndata: b\n\n")]);
    assert_eq!(items, [event("message", "a", "…"), message("b")]);
    assert_eq!(decoder.last_id(), "");
}

/// HTTP-18: a waiting time beyond all bounds is long, not an error.
#[test]
fn http_18_retry_saturates() {
    let stream = Bytes::from(format!("retry: {}\n", "9".repeat(40)));
    let (_, decoder) = decode_with(SseDecoder::new(LIMIT), &[stream]);
    assert_eq!(decoder.retry_ms(), Some(u64::MAX));
}

/// Bytes that are not UTF-8 leave as they came; the text has them replaced.
#[test]
fn invalid_utf_8_is_passed_on() {
    let items = every_cut(b"data: a\xffb\xe2\x82\n\n", decode);
    let [SseItem::Event(event)] = items.as_slice() else { panic!("one event, not {items:?}") };
    assert_eq!(&event.data[..], b"a\xffb\xe2\x82");
    assert_eq!(event.data_text(), "a\u{fffd}b\u{fffd}");
}

/// T19: the limit on data is sharp, over one line or several, and the next event works.
#[test]
fn t19_oversize_events_are_skipped() {
    let read =
        |stream: String| every_cut(stream.as_bytes(), |chunks| decode_with(SseDecoder::new(8), chunks).0);
    let fits = message("12345678");
    assert_eq!(read("data: 12345678\n\ndata: x\n\n".into()), [fits, message("x")]);
    assert_eq!(read("data: 123\ndata: 5678\n\n".into()), [message("123\n5678")]);
    let oversize = |bytes| SseItem::Oversize { bytes };
    assert_eq!(read("data: 123456789\n\ndata: x\n\n".into()), [oversize(15), message("x")]);
    assert_eq!(read("data:1234\ndata:6789\ndata:x\n\ndata: x\n\n".into()), [oversize(24), message("x")]);
    assert_eq!(read("event: e\ndata: 123456789\n\ndata: x\n\n".into()), [oversize(23), message("x")]);
    assert_eq!(read("data: 123456789".into()), [oversize(15)]);
}

/// T19: a line too long to be kept is counted to its end, whatever its field; a comment is free.
#[test]
fn t19_endless_lines_are_skipped() {
    let long = "x".repeat(20_000);
    let read = |stream: &str| {
        let in_pieces = |size| {
            let pieces: Vec<Bytes> = stream.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
            decode_with(SseDecoder::new(64), &pieces).0
        };
        let whole = in_pieces(stream.len());
        assert_eq!(in_pieces(1), whole);
        assert_eq!(in_pieces(997), whole);
        whole
    };
    for field in ["data", "event", "id", "unknown"] {
        let bytes = (field.len() + 2 + long.len()) as u64;
        let items = read(&format!("{field}: {long}\n\ndata: y\n\n"));
        assert_eq!(items, [SseItem::Oversize { bytes }, message("y")], "{field}");
    }
    assert_eq!(read(&format!("data: y\n:{long}\n\n")), [SseItem::Comment, message("y")]);
    assert_eq!(read(&format!("\u{feff}:{long}\ndata: y\n\n")), [SseItem::Comment, message("y")]);
    assert_eq!(read(&format!("data: {long}")), [SseItem::Oversize { bytes: 20_006 }]);
}

/// T19: the id of a skipped event counts, or resuming would bring the same event for ever.
#[test]
fn t19_oversize_event_moves_the_point_to_resume_from() {
    let stream = Bytes::from(format!("id: 1\ndata: {}\nid: 2\n\n", "x".repeat(100)));
    let (items, decoder) = decode_with(SseDecoder::new(64), &[stream]);
    assert_eq!((items.as_slice(), decoder.last_id()), (&[SseItem::Oversize { bytes: 116 }][..], "2"));
}

/// T20: a million lines that yield nothing, or only comments, are no recursion.
#[test]
fn t20_a_million_skipped_lines_on_a_small_stack() {
    let run = || {
        let mut stream = b"\n".repeat(1_000_000);
        stream.extend(b"x: y\r\n\r\n".repeat(1_000_000));
        stream.extend(b":\n".repeat(1_000_000));
        stream.extend(b"data: a\n\n");
        decode(&[Bytes::from(stream)])
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    let items = thread.join().unwrap();
    assert_eq!(items.len(), 1_000_001);
    assert_eq!(items.last(), Some(&message("a")));
}

/// What we write, to the byte.
#[test]
fn events_are_written_plainly() {
    let mut out = Vec::new();
    write_event(&mut out, None, None, None, b"{}");
    write_event(&mut out, Some("endpoint"), Some("7"), Some(3000), b"/messages");
    write_comment(&mut out, "ping");
    write_priming(&mut out, "8", None);
    let expected = "data: {}\n\n\
        event: endpoint\nid: 7\nretry: 3000\ndata: /messages\n\n\
        : ping\n\n\
        id: 8\ndata: \n\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// No value can start a field of its own.
#[test]
fn line_breaks_in_values_inject_nothing() {
    let mut out = Vec::new();
    write_event(&mut out, Some("a\ndata: evil"), Some("1\r\n\0\r\n2"), None, b"x\n\nid: 9\r\ry");
    write_comment(&mut out, "one\r\ndata: evil\n\n");
    let mut expected = vec![event("adata: evil", "x\n\nid: 9\n\ny", "12")];
    expected.extend(vec![SseItem::Comment; 4]);
    check(out, &expected);
}

/// What a server may write, in our terms.
#[derive(Debug, Clone)]
enum Written {
    Event { kind: Option<String>, id: Option<String>, retry_ms: Option<u64>, data: Vec<u8> },
    Comment(String),
}

fn written() -> impl Strategy<Value = Written> {
    let name = "[ -~é日]{0,8}";
    let data = vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), Just(b':'), any::<u8>()], 0..40);
    prop_oneof![
        4 => (option::of(name), option::of(name), option::of(any::<u64>()), data)
            .prop_map(|(kind, id, retry_ms, data)| Written::Event { kind, id, retry_ms, data }),
        1 => "[ -~é日]{0,8}".prop_map(Written::Comment),
    ]
}

/// Writes all of it, and says what a reader must find.
fn write_all(script: &[Written]) -> (Vec<u8>, Vec<SseItem>, Option<u64>) {
    let (mut out, mut expected, mut last_id, mut last_retry_ms) = (Vec::new(), Vec::new(), "", None);
    for written in script {
        match written {
            Written::Event { kind, id, retry_ms, data } => {
                write_event(&mut out, kind.as_deref(), id.as_deref(), *retry_ms, data);
                last_id = id.as_deref().unwrap_or(last_id);
                last_retry_ms = retry_ms.or(last_retry_ms);
                let kind = kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("message");
                let data = Bytes::from(lf_only(data));
                expected.push(SseItem::Event(SseEvent { data, ..bare_event(kind, "", last_id) }));
            }
            Written::Comment(text) => {
                write_comment(&mut out, text);
                expected.push(SseItem::Comment);
            }
        }
    }
    (out, expected, last_retry_ms)
}

/// Every line end as LF, which is what an event stream keeps of it.
fn lf_only(data: &[u8]) -> Vec<u8> {
    let mut previous = 0;
    let mut out = Vec::new();
    for byte in data {
        match (previous, *byte) {
            (b'\r', b'\n') => {}
            (_, b'\r') => out.push(b'\n'),
            (_, other) => out.push(other),
        }
        previous = *byte;
    }
    out
}

/// Pieces as long as `cuts` says, over and over.
fn cut(stream: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut stream = Bytes::copy_from_slice(stream);
    let mut pieces = Vec::new();
    for len in cuts.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        pieces.push(stream.split_to(stream.len().min(*len)));
    }
    pieces
}

proptest! {
    /// HTTP-18, S3-3: what is written is read back, under any chunking, by the one decoder (S0-63).
    #[test]
    fn http_18_s0_63_written_events_are_read_back(
        script in vec(written(), 0..8),
        cuts in vec(1..30_usize, 1..20),
    ) {
        let (stream, expected, retry_ms) = write_all(&script);
        let (items, decoder) = decode_with(SseDecoder::new(LIMIT), &cut(&stream, &cuts));
        prop_assert_eq!(items, expected);
        prop_assert_eq!(decoder.retry_ms(), retry_ms);
    }

    /// HTTP-18: any bytes at all: no panic, and every chunking agrees with the whole.
    #[test]
    fn http_18_any_stream_decodes_the_same_under_any_chunking(
        words in vec(
            prop_oneof![
                4 => prop::sample::select(vec!["data", "event", "id", "retry", ":", ": ", " ", "7", "\0"])
                    .prop_map(|word| word.as_bytes().to_vec()),
                3 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\u{feff}"])
                    .prop_map(|word| word.as_bytes().to_vec()),
                1 => vec(any::<u8>(), 0..6),
            ],
            0..60,
        ),
        cuts in vec(1..9_usize, 1..40),
    ) {
        let stream = words.concat();
        let (whole, _) = decode_with(SseDecoder::new(12), &[Bytes::from(stream.clone())]);
        let (pieces, _) = decode_with(SseDecoder::new(12), &cut(&stream, &cuts));
        prop_assert_eq!(pieces, whole);
    }
}
