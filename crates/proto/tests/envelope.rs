//! What a frame is: a call, a note, a reply, or a mistake with a name.

use bytes::Bytes;
use cardan_proto::finding::{Class, Rule, Strictness};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Param, Shape, Violation, decode};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use proptest::prelude::*;

fn read(frame: &str) -> Result<Envelope, Violation> {
    read_as(frame, Strictness::Standard).0
}

fn read_as(frame: &str, strictness: Strictness) -> (Result<Envelope, Violation>, Vec<Rule>) {
    match decode(&Bytes::copy_from_slice(frame.as_bytes()), strictness, &Limits::DEFAULT) {
        Decoded::One(what, repairs) => (what, repairs),
        Decoded::Batch(entries) => panic!("{frame} is no single message: {entries:?}"),
    }
}

fn violation(frame: &str) -> Violation {
    read(frame).expect_err(frame)
}

/// S0-2, S0-18, S3-7, S3-8, S2-13, S2-17, BASE-12: method and id is a call, method alone a note,
/// an outcome a reply.
#[test]
fn the_three_shapes_are_told_apart() {
    let call = read(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1.50}}}"#,
    );
    let Ok(Envelope::Call(call)) = call else { panic!("{call:?}") };
    assert_eq!((call.id, call.method), (CallId::from(1), Method::ToolsCall));
    assert_eq!(call.params.text(Param::Name).as_deref(), Some("echo"));
    assert_eq!(call.params.get(Param::Arguments).as_deref(), Some(&br#"{"a":1.50}"#[..]));

    let note = read(r#"{"method":"notifications/initialized","jsonrpc":"2.0"}"#);
    let Ok(Envelope::Note(note)) = note else { panic!("{note:?}") };
    assert_eq!((note.method, note.params.raw()), (Method::Initialized, None));

    let reply = read(r#"{"result":{"x":[1e3]},"id":"a","jsonrpc":"2.0"}"#);
    let Ok(Envelope::Reply(reply)) = reply else { panic!("{reply:?}") };
    assert_eq!(reply.id, Some(CallId::text("a")));
    assert_eq!(reply.outcome.as_deref(), Ok(&br#"{"x":[1e3]}"#[..]));
}

/// S3-6, S3-11, S0-2, S1-5, BASE-1, BASE-3, BASE-4, BASE-8, BASE-9, BASE-17, S3-18: every malformed
/// shape has its own name, keeps the id where there is one, and knows whether someone waits.
#[test]
fn malformed_envelopes_are_named() {
    use Rule::{
        BothOutcomes, DuplicateMember, ErrorShape, IdNull, IdTooLong, IdType, MetaType, MethodAndOutcome,
        MethodType, NoOutcome, ParamsType, ReplyWithoutId, VersionMissing, VersionWrong,
    };
    use Shape::{Call, Note, Reply, Unknown};
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(300));
    let table: &[(&str, Rule, Shape, Option<i64>)] = &[
        (r#"{"id":7,"method":"m"}"#, VersionMissing, Call, Some(7)),
        (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, VersionWrong, Call, Some(7)),
        (r#"{"jsonrpc":2.0,"id":7,"result":{}}"#, VersionWrong, Reply, Some(7)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, IdNull, Call, None),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, IdNull, Reply, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, IdType, Call, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, IdType, Call, None),
        (r#"{"jsonrpc":"2.0","id":[1],"result":{}}"#, IdType, Reply, None),
        (&long, IdTooLong, Call, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, MethodType, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, MethodType, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#, ParamsType, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":null}"#, ParamsType, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","method":"m","params":"x"}"#, ParamsType, Note, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":1}}"#, MetaType, Call, Some(7)),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#,
            BothOutcomes,
            Reply,
            Some(7),
        ),
        (r#"{"jsonrpc":"2.0","id":7}"#, NoOutcome, Unknown, Some(7)),
        (r#"{"jsonrpc":"2.0"}"#, NoOutcome, Unknown, None),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","result":{}}"#, MethodAndOutcome, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":"x","message":""}}"#, ErrorShape, Reply, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1.5,"message":""}}"#, ErrorShape, Reply, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#, ErrorShape, Reply, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"error":"bad"}"#, ErrorShape, Reply, Some(7)),
        (r#"{"jsonrpc":"2.0","result":{}}"#, ReplyWithoutId, Reply, None),
        (r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"m"}"#, DuplicateMember, Call, Some(8)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","method":"n"}"#, DuplicateMember, Call, Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"\u006dethod":"m","method":"n"}"#, DuplicateMember, Call, Some(7)),
    ];
    for (frame, rule, shape, id) in table {
        let seen = violation(frame);
        assert_eq!((seen.rule, seen.shape), (*rule, *shape), "{frame}");
        assert_eq!(seen.id, id.map(CallId::from), "{frame}");
        assert_eq!(seen.rule.class(), Class::Envelope, "{frame}");
    }
}

/// Members that repeat inside repeated params: the frame is refused, whatever was seen in the first.
#[test]
fn repeated_params_are_refused() {
    for frame in [
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"a"},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{},"params":{"_meta":{"progressToken":1}}}"#,
        r#"{"params":{"uri":"a","_meta":{"progressToken":1}},"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"a","name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":1,"x":2}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
    ] {
        assert_eq!(violation(frame).rule, Rule::DuplicateMember, "{frame}");
    }
}

/// S3-6: framing, syntax, envelope and schema are four classes, and broken bytes are the first two.
#[test]
fn broken_bytes_are_framing_or_syntax() {
    let table: &[(&[u8], Rule, Class)] = &[
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", Rule::NotUtf8, Class::Framing),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,", Rule::Syntax, Class::Syntax),
        (b"hello", Rule::Syntax, Class::Syntax),
        (b"{'jsonrpc':'2.0'}", Rule::Syntax, Class::Syntax),
        (b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"m\"}", Rule::Syntax, Class::Syntax),
        (b"", Rule::Syntax, Class::Syntax),
        (b"5", Rule::NotAnObject, Class::Envelope),
        (b"\"text\"", Rule::NotAnObject, Class::Envelope),
        (b"null", Rule::NotAnObject, Class::Envelope),
    ];
    for (frame, rule, class) in table {
        let Decoded::One(Err(seen), _) =
            decode(&Bytes::copy_from_slice(frame), Strictness::Standard, &Limits::DEFAULT)
        else {
            panic!("{frame:?}")
        };
        assert_eq!((seen.rule, seen.rule.class()), (*rule, *class), "{frame:?}");
    }
    assert!(Rule::ALL.iter().any(|rule| rule.class() == Class::Schema));
}

/// S3-4: one object is one message; a second one behind it spoils the frame, and whoever waits for
/// the first is told.
#[test]
fn two_messages_in_one_frame_are_refused() {
    let seen = violation(r#"{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":8,"result":{}}"#);
    assert_eq!((seen.rule, seen.id, seen.shape), (Rule::Trailing, Some(CallId::from(7)), Shape::Reply));
    assert_eq!(violation("5 5").rule, Rule::Trailing);
}

/// BASE-7, S1-C2, T11: `1`, `"1"` and `1.0` are three ids; each goes back as it came.
#[test]
fn ids_keep_their_type_and_spelling() {
    let ids = [
        "1",
        "\"1\"",
        "-5",
        "\"\"",
        "0",
        "123456789012345678",
        "1234567890123456789012345",
        "\"a b\"",
        "\"\u{e9}\"",
        "9007199254740993",
    ];
    for (n, spelled) in ids.iter().enumerate() {
        let id = CallId::parse(spelled.as_bytes(), 256).unwrap();
        let mut out = Vec::new();
        id.write(&mut out);
        assert_eq!(out, spelled.as_bytes());
        for other in &ids[n + 1..] {
            assert_ne!(id, CallId::parse(other.as_bytes(), 256).unwrap(), "{spelled} {other}");
        }
    }
    let escaped = CallId::parse(br#""\u0061""#, 256).unwrap();
    assert_eq!(escaped, CallId::text("a"), "one string is one id, however it is spelled");
}

/// BASE-3: a fraction is no id by the text; it is echoed all the same unless we are strict.
#[test]
fn fractional_ids_are_overlooked_or_refused() {
    let frame = r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#;
    let (seen, repairs) = read_as(frame, Strictness::Standard);
    assert!(seen.is_ok());
    assert_eq!(repairs, [Rule::IdFraction]);
    assert_eq!(read_as(frame, Strictness::Strict).0.unwrap_err().rule, Rule::IdFraction);
}

/// S3-18: a missing version is diagnosed, and accepted with a finding when we are lenient.
#[test]
fn lenient_reading_repairs_the_version() {
    for (frame, rule) in [
        (r#"{"id":1,"result":{}}"#, Rule::VersionMissing),
        (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, Rule::VersionWrong),
    ] {
        let (seen, repairs) = read_as(frame, Strictness::Lenient);
        assert!(seen.is_ok(), "{frame}");
        assert_eq!(repairs, [rule], "{frame}");
        for strictness in [Strictness::Standard, Strictness::Strict] {
            assert_eq!(read_as(frame, strictness).0.unwrap_err().rule, rule);
        }
    }
}

/// S1-5, BASE-11, S0-2: an error without a readable id is a reply; with `id: null` too.
#[test]
fn errors_may_lack_the_id() {
    for frame in [
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":{"n":1.0}}}"#,
    ] {
        let Ok(Envelope::Reply(reply)) = read(frame) else { panic!("{frame}") };
        assert_eq!((reply.id, reply.outcome.unwrap_err().code), (None, -32700));
    }
}

/// BASE-33, META-7: members that nobody knows are ignored, and those of `params` are kept.
#[test]
fn unknown_members_do_no_harm() {
    let frame = r#"{"jsonrpc":"2.0","id":1,"method":"x/y","trace":[1],"params":{"new":{"a":1.0},"_meta":{"com.example/k":1e2}}}"#;
    let Ok(Envelope::Call(call)) = read(frame) else { panic!() };
    assert_eq!(call.params.raw().unwrap(), &br#"{"new":{"a":1.0},"_meta":{"com.example/k":1e2}}"#[..]);
    assert_eq!(call.method.name(), "x/y");
}

/// Nesting is counted over the whole frame, so that what we accept, everyone can read.
#[test]
fn depth_counts_the_whole_frame() {
    let nested = |depth: usize| {
        let inner = depth - 2;
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"x":{}{}}}}}"#,
            "[".repeat(inner),
            "]".repeat(inner)
        )
    };
    let limit = Limits::DEFAULT.depth;
    assert!(read(&nested(limit)).is_ok());
    assert_eq!(violation(&nested(limit + 1)).rule, Rule::Depth);
    let meta = format!(r#"{{"params":{{"_meta":{{"x":{}{}}}}}}}"#, "[".repeat(limit), "]".repeat(limit));
    assert_eq!(violation(&meta).rule, Rule::Depth);
    let Ok(Envelope::Call(call)) = read(&nested(limit)) else { panic!() };
    assert!(call.params.decode::<serde_json::Value>().is_ok(), "what is accepted raw can be read typed");
}

/// T20: what is too deep is refused under its id, if that was read before.
#[test]
fn too_deep_is_still_somebodys() {
    let deep = "[".repeat(Limits::DEFAULT.depth + 1);
    for (frame, id, shape) in [
        (format!(r#"{{"id":1,"method":"m","params":{deep}"#), Some(CallId::from(1)), Shape::Call),
        (format!(r#"{{"id":1,"result":{deep}"#), Some(CallId::from(1)), Shape::Unknown),
        (format!(r#"{{"method":"m","params":{deep}"#), None, Shape::Unknown),
        (deep.clone(), None, Shape::Unknown),
    ] {
        let violation = violation(&frame);
        assert_eq!((violation.rule, violation.id, violation.shape), (Rule::Depth, id, shape), "{frame}");
    }
}

/// S3-22: the cost of a frame is bounded by its length: many members are no quadratic work.
#[test]
fn many_members_are_read_in_linear_time() {
    let members: Vec<_> = (0..200_000).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{}}}}}"#, members.join(","));
    assert!(read(&frame).is_ok());
}

fn round_trip(frame: &str) {
    let first = read(frame).expect(frame);
    let mut out = Vec::new();
    write::envelope(&first, &mut out);
    let text = String::from_utf8(out).expect("UTF-8 in, UTF-8 out");
    assert!(!text.contains('\n'));
    assert_eq!(read(&text).expect(&text), first);
}

proptest! {
    /// S1-1, STD-1, S0-14, S3-1: what is written reads back the same and has no newline inside.
    #[test]
    fn envelopes_read_back_equal(id in any::<i64>(), method in "\\PC{1,20}", text in any::<String>()) {
        let (method, text) = (serde_json::json!(method), serde_json::json!(text));
        round_trip(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{"t":{text}}}}}"#));
        round_trip(&format!(r#"{{"jsonrpc":"2.0","method":{method}}}"#));
        round_trip(&format!(r#"{{"jsonrpc":"2.0","id":{text:?},"result":{{"t":{text}}}}}"#, text = id.to_string()));
        round_trip(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{id},"message":{text},"data":[{text}]}}}}"#));
    }

    /// S3-19: whatever the bytes, reading them never panics, in any strictness.
    #[test]
    fn no_bytes_make_it_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"jsonrpc\":\"2.0\"", "\"id\":1", "\"id\":null", "\"method\":\"m\"",
                "\"params\":{", "\"params\":{\"name\":\"n\"}", "\"_meta\":{", "\"progressToken\":1", "\"result\":{}",
                "\"error\":{\"code\":1,\"message\":\"\"}", "\\", "\"", "\u{e9}", "1.0", " ",
            ]),
            0..16,
        ),
    ) {
        let frame = Bytes::from(pieces.concat());
        for strictness in [Strictness::Strict, Strictness::Standard, Strictness::Lenient] {
            let _ = decode(&frame, strictness, &Limits::DEFAULT);
        }
    }
}
