//! Newline framing: the same frames come out however the bytes were cut, and nothing foreign,
//! long or unfinished disturbs the line after it.

use bytes::{Bytes, BytesMut};
use cardan_proto::codec::{Line, LineDecoder};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMIT: usize = 64;
const HEAD: usize = 16;

fn decode(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
    let mut decoder = LineDecoder::new(limit).keeping_head(HEAD);
    let mut buf = BytesMut::new();
    let mut lines = Vec::new();
    for chunk in chunks {
        buf.extend_from_slice(chunk);
        lines.extend(std::iter::from_fn(|| decoder.next(&mut buf)));
    }
    lines.extend(std::iter::from_fn(|| decoder.finish(&mut buf)));
    assert!(buf.is_empty(), "nothing stays behind");
    lines
}

fn frame(text: &str) -> Line {
    Line::Frame(Bytes::copy_from_slice(text.as_bytes()))
}

fn unterminated(text: &str) -> Line {
    Line::Unterminated(Bytes::copy_from_slice(text.as_bytes()))
}

/// What a decoder that keeps [`HEAD`] bytes tells of a line too long, of which `head` is the beginning.
fn oversize(bytes: u64, head: &str) -> Line {
    let head = Bytes::copy_from_slice(&head.as_bytes()[..HEAD.min(head.len())]);
    Line::Oversize { bytes, head }
}

/// Whole, byte by byte, and in two at every offset.
fn check(stream: impl AsRef<[u8]>, expected: &[Line]) {
    let stream = stream.as_ref();
    assert_eq!(decode(LIMIT, &[stream]), expected, "whole");
    assert_eq!(decode(LIMIT, &stream.chunks(1).collect::<Vec<_>>()), expected, "byte by byte");
    for at in 0..=stream.len() {
        let (left, right) = stream.split_at(at);
        assert_eq!(decode(LIMIT, &[left, right]), expected, "cut at {at}");
    }
}

/// STD-1, S3-2, S3-17: one line is one frame.
#[test]
fn std_1_one_frame_per_line() {
    check("{\"a\":1}\n{\"b\":2}\n", &[frame("{\"a\":1}"), frame("{\"b\":2}")]);
}

/// STD-18, S1-10: CRLF is a line end too, also when a read ends between the two.
#[test]
fn std_18_s1_10_crlf_is_accepted() {
    check("{}\r\n[]\r\n", &[frame("{}"), frame("[]")]);
}

/// A lone CR ends nothing: JSON allows it between tokens.
#[test]
fn a_lone_cr_stays_inside_the_line() {
    check("{\r}\n", &[frame("{\r}")]);
}

/// S1-15, S3-17: blanks around a line and blank lines do not count.
#[test]
fn s1_15_blanks_and_blank_lines_are_dropped() {
    check(" \t{} \t\r\n\n\r\n  \n\t\r\r\n[ ]\n \n", &[frame("{}"), frame("[ ]")]);
}

/// S1-15, F8: a byte order mark is dropped in front of the first line, and nowhere else.
#[test]
fn s1_15_byte_order_mark_on_the_first_line_only() {
    check("\u{feff}{}\n\u{feff}{}\n", &[frame("{}"), frame("\u{feff}{}")]);
    check("\u{feff} {}\n", &[frame("{}")]);
    check("\u{feff}\u{feff}{}\n", &[frame("\u{feff}{}")]);
    check("\u{feff}\n{}\n", &[frame("{}")]);
    check("\n\u{feff}{}\n", &[frame("\u{feff}{}")]);
    check("\u{feff}", &[]);
    check("\u{feff}{}", &[unterminated("{}")]);
}

/// F8: banner, NUL and bytes that are not UTF-8 are lines like any other; the caller judges them.
#[test]
fn f8_garbage_is_passed_on_and_harms_nothing() {
    let garbage = Line::Frame(Bytes::from_static(b"\xff\xfe\0\xc3"));
    check(
        b"Server v1.0 listening\n\xff\xfe\0\xc3\n{}\n",
        &[frame("Server v1.0 listening"), garbage, frame("{}")],
    );
}

/// S3-5, S3-24: a character cut by a read is whole again.
#[test]
fn s3_5_s3_24_multibyte_characters_survive_every_cut() {
    check("{\"é\":\"日本🙂\"}\r\n", &[frame("{\"é\":\"日本🙂\"}")]);
}

/// S3-20: all messages of one read come out.
#[test]
fn s3_20_back_to_back_messages_are_all_delivered() {
    let stream: String = (0..1000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let expected: Vec<Line> = (0..1000).map(|n| frame(&format!("{{\"n\":{n}}}"))).collect();
    assert_eq!(decode(LIMIT, &[stream.as_bytes()]), expected);
}

/// F9: many large replies in reads of an odd size, none lost, none out of order.
#[test]
fn f9_large_replies_in_many_reads_keep_their_order() {
    let size = 64 << 10;
    let mut stream = Vec::new();
    for n in 0..200_u8 {
        stream.extend(std::iter::repeat_n(n % 26 + b'a', size));
        stream.push(b'\n');
    }
    let lines = decode(size, &stream.chunks(8_191).collect::<Vec<_>>());
    assert_eq!(lines.len(), 200);
    for (n, line) in lines.iter().enumerate() {
        let Line::Frame(frame) = line else { panic!("line {n} is not a frame") };
        assert_eq!(frame.len(), size);
        assert!(frame.iter().all(|byte| *byte == (n % 26) as u8 + b'a'));
    }
}

/// S3-23, F4: wherever a message is cut by the end of the stream, exactly the fragment is reported.
#[test]
fn s3_23_f4_a_fragment_is_reported_at_every_cut() {
    let message = "{\"text\":\"né\"}";
    for at in 1..=message.len() {
        let cut = &message.as_bytes()[..at];
        let expected =
            [Line::Frame(Bytes::from_static(b"{}")), Line::Unterminated(Bytes::copy_from_slice(cut))];
        check([b"{}\n", cut].concat(), &expected);
    }
    check(format!("{message}\n"), &[frame(message)]);
    check("{}\n \t\r", &[frame("{}")]);
}

/// S3-21: the limit is sharp, whichever line end follows and however the line was cut.
#[test]
fn s3_21_the_limit_is_sharp() {
    let (longest, too_long) = ("x".repeat(LIMIT), "x".repeat(LIMIT + 1));
    let bytes = LIMIT as u64 + 1;
    check(format!("{longest}\n{{}}\n"), &[frame(&longest), frame("{}")]);
    check(format!("{longest}\r\n{{}}\n"), &[frame(&longest), frame("{}")]);
    check(format!("{too_long}\n{{}}\n"), &[oversize(bytes, &too_long), frame("{}")]);
    check(format!("{too_long}\r\n{{}}\n"), &[oversize(bytes + 1, &too_long), frame("{}")]);
    check(&longest, &[unterminated(&longest)]);
    check(&too_long, &[oversize(bytes, &too_long)]);
}

/// S3-21: an oversize line is reported once, with its whole size, at its newline or at the end.
#[test]
fn s3_21_an_oversize_line_is_skipped_to_its_newline() {
    let long = "y".repeat(10 * LIMIT);
    let oversize = oversize(10 * LIMIT as u64, &long);
    let expected = [frame("1"), oversize.clone(), oversize.clone(), frame("2"), oversize];
    check(format!("1\n{long}\n{long}\n\n2\n{long}"), &expected);
}

/// S3-21: the first line being too long leaves no mark to strip from the second.
#[test]
fn an_oversize_first_line_is_still_the_first() {
    let long = format!("\u{feff}{}", "z".repeat(LIMIT));
    // Its mark is none of its head.
    let oversize = oversize(long.len() as u64, &long[3..]);
    check(format!("{long}\n\u{feff}{{}}\n"), &[oversize, frame("\u{feff}{}")]);
}

/// T19: a line without end never holds more than the limit and one read, and lets go of the rest.
#[test]
fn t19_an_endless_line_is_not_kept() {
    let (limit, read) = (1 << 20, 64 << 10);
    let chunk = vec![b'x'; read];
    let mut decoder = LineDecoder::new(limit);
    let mut buf = BytesMut::new();
    for reads in 1..=1024_usize {
        buf.extend_from_slice(&chunk);
        assert!(buf.len() <= limit + 1 + read);
        assert_eq!(decoder.next(&mut buf), None);
        if reads * read > limit + 1 {
            assert!(buf.is_empty());
            assert!(buf.capacity() <= 2 * read, "the large buffer is released");
        }
    }
    buf.extend_from_slice(b"\n{}\n");
    assert_eq!(decoder.next(&mut buf), Some(Line::Oversize { bytes: 64 << 20, head: Bytes::new() }));
    assert_eq!(decoder.next(&mut buf), Some(frame("{}")));
}

/// T20: a run of blank lines is no recursion.
#[test]
fn t20_a_million_blank_lines_on_a_small_stack() {
    let run = || decode(LIMIT, &[&b"\r\n".repeat(1_000_000), b"{}\n"]);
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), [frame("{}")]);
}

proptest! {
    /// S3-4, F9: lines written come back as frames, under any chunking.
    #[test]
    fn s3_4_frames_do_not_depend_on_chunking(
        messages in vec("[!-~é日🙂]([ -~é日🙂]{0,20}[!-~é日🙂])?", 0..12),
        crlf in any::<bool>(),
        cuts in vec(1..9_usize, 1..40),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let stream: String = messages.iter().map(|message| format!("{message}{end}")).collect();
        let expected: Vec<Line> = messages.iter().map(|message| frame(message)).collect();
        prop_assert_eq!(decode(128, &cut(stream.as_bytes(), &cuts)), expected);
    }

    /// S3-5: any bytes at all: no panic, and every chunking agrees with the whole.
    #[test]
    fn s3_5_any_bytes_decode_the_same_under_any_chunking(
        stream in vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'x'), any::<u8>()], 0..200),
        cuts in vec(1..9_usize, 1..40),
    ) {
        prop_assert_eq!(decode(16, &cut(&stream, &cuts)), decode(16, &[&stream]));
    }
}

/// Pieces as long as `cuts` says, over and over.
fn cut<'a>(mut stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in cuts.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at(stream.len().min(*len));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}
