//! The link over a WebSocket, against a WebSocket of no session at the other end.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, LaneId, Outgoing};
use cardan_proto::socket::CloseCode;
use cardan_runtime::link::{Link, Received};
use cardan_ws::{WsLink, layer};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_websockets::{Message, WebSocketStream};

type Stranger = WebSocketStream<DuplexStream>;

/// A server's link, and the client at its other end.
fn pair(limits: &Limits) -> (WsLink<DuplexStream>, Stranger) {
    let (ours, theirs) = duplex(64 << 10);
    (WsLink::server(ours, limits), layer::client(theirs, limits))
}

async fn receive(link: &mut WsLink<DuplexStream>) -> Received {
    poll_fn(|cx| {
        let _ = link.poll_flush(cx);
        let received = link.poll_recv(cx);
        let _ = link.poll_flush(cx);
        received
    })
    .await
}

async fn close(link: &mut WsLink<DuplexStream>, cause: &Cause) {
    poll_fn(|cx| link.poll_close(cx, cause)).await;
}

/// What the stranger reads up to the end: the code it was closed with.
async fn closed_with(mut stranger: Stranger) -> Option<(u16, String)> {
    while let Some(Ok(message)) = stranger.next().await {
        if let Some((code, reason)) = message.as_close() {
            return Some((code.into(), reason.to_owned()));
        }
    }
    None
}

fn text(bytes: &'static str) -> Outgoing {
    Outgoing::Raw(bytes.into())
}

/// S2-11: one message is one text frame, both ways.
#[tokio::test]
async fn s2_11_messages_are_text_frames() {
    let (mut link, mut stranger) = pair(&Limits::DEFAULT);
    stranger.send(Message::text("{\"a\":1}")).await.unwrap();
    assert!(
        matches!(receive(&mut link).await, Received::Frame { lane: LaneId::MAIN, bytes } if bytes == "{\"a\":1}")
    );
    link.put(1, LaneId::MAIN, &text("{\"b\":2}"));
    poll_fn(|cx| link.poll_flush(cx)).await.unwrap();
    assert_eq!(stranger.next().await.unwrap().unwrap().as_text(), Some("{\"b\":2}"));
    assert_eq!((link.queued(), link.departed().in_order), (0, 1));
}

/// S1-47: the peer's close frame becomes the cause, whatever its code.
#[tokio::test]
async fn s1_47_a_close_frame_is_the_cause() {
    let numbers = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013, 3001, 4999];
    for number in numbers {
        let (mut link, mut stranger) = pair(&Limits::DEFAULT);
        let code = tokio_websockets::CloseCode::try_from(number).unwrap();
        stranger.send(Message::close(Some(code), "so\u{202e} long")).await.unwrap();
        let Received::Ended(cause) = receive(&mut link).await else { panic!("not the end") };
        // What a terminal would obey is not passed on.
        let reason = "so\\u{202e} long".into();
        assert_eq!(cause, Cause::Closed { code: CloseCode::of(number), reason });
        let answered = tokio::join!(close(&mut link, &cause), closed_with(stranger)).1;
        assert_eq!(answered, Some((number, String::new())));
    }
    let (mut link, mut stranger) = pair(&Limits::DEFAULT);
    stranger.send(Message::close(None, "")).await.unwrap();
    let received = receive(&mut link).await;
    assert!(
        matches!(received, Received::Ended(Cause::Closed { code: CloseCode::Absent, .. })),
        "{received:?}"
    );
}

/// S1-47: why we end the link is what the peer reads, cut to what a frame holds.
#[tokio::test]
async fn s1_47_the_cause_is_told_by_a_close_frame() {
    let (mut link, stranger) = pair(&Limits::DEFAULT);
    let cause = Cause::ClosedByUs("x".repeat(200).into());
    let ((), told) = tokio::join!(close(&mut link, &cause), closed_with(stranger));
    let (code, reason) = told.unwrap();
    assert_eq!((code, reason.len()), (1001, 123));
    assert!(reason.starts_with("closed by us: xxx"));
}

/// What was put before the end is written before the close frame.
#[tokio::test]
async fn what_was_promised_is_written_before_the_end() {
    let (mut link, mut stranger) = pair(&Limits::DEFAULT);
    let large: &'static str = "7".repeat(1 << 20).leak();
    link.put(2, LaneId::MAIN, &text(large));
    let cause = Cause::ClosedByUs("done".into());
    let reading = async {
        let first = stranger.next().await.unwrap().unwrap();
        (first.as_payload().len(), closed_with(stranger).await.unwrap().0)
    };
    let ((), read) = tokio::join!(close(&mut link, &cause), reading);
    assert_eq!(read, (1 << 20, 1001));
}

/// Each way to break the protocol: the raw bytes of a client, the rule, and the code.
#[tokio::test]
async fn s1_47_violations_have_codes() {
    let limits = Limits { socket_message_bytes: 1000, ..Limits::DEFAULT };
    let masked = |first: u8, payload: &[u8]| {
        let mut frame = vec![first, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    };
    let fragments: Vec<u8> =
        (0..12).flat_map(|n| masked(if n == 0 { 0x01 } else { 0x00 }, &[b'x'; 100])).collect();
    let table = [
        ("binary", masked(0x82, b"\x01\x02"), Rule::Binary, 1003),
        ("not UTF-8", masked(0x81, b"\xff\xfe"), Rule::NotUtf8, 1007),
        ("a reserved bit", masked(0xc1, b"{}"), Rule::SocketFraming, 1002),
        ("an unknown opcode", masked(0x83, b"{}"), Rule::SocketFraming, 1002),
        ("no mask", vec![0x81, 2, b'{', b'}'], Rule::SocketFraming, 1002),
        ("nothing to go on with", masked(0x80, b"{}"), Rule::SocketFraming, 1002),
        ("a large frame", vec![0x81, 0xfe, 0x04, 0x00, 0, 0, 0, 0], Rule::Oversize, 1009),
        ("many fragments", fragments, Rule::Oversize, 1009),
    ];
    for (what, bytes, rule, code) in table {
        let (ours, mut theirs) = duplex(64 << 10);
        let mut link = WsLink::server(ours, &limits);
        theirs.write_all(&bytes).await.unwrap();
        let broken = receive(&mut link).await;
        assert!(
            matches!(&broken, Received::Broken { violation, .. } if violation.rule == rule),
            "{what}: {broken:?}"
        );
        let Received::Ended(cause) = receive(&mut link).await else { panic!("{what}: not the end") };
        assert_eq!(cause, Cause::Violated(rule), "{what}");
        let told = closed_with(layer::client(theirs, &limits));
        let ((), told) = tokio::join!(close(&mut link, &cause), told);
        assert_eq!(told.map(|(code, _)| code), Some(code), "{what}");
    }
}

/// S1-45: a connection that is cut, with or without a frame begun, ends the link.
#[tokio::test]
async fn s1_45_a_cut_ends_the_link() {
    for begun in [&b""[..], b"\x81", b"\x81\x85\0\0\0\0he"] {
        let (ours, mut theirs) = duplex(1024);
        let mut link = WsLink::server(ours, &Limits::DEFAULT);
        theirs.write_all(begun).await.unwrap();
        drop(theirs);
        let received = receive(&mut link).await;
        assert!(matches!(received, Received::Ended(Cause::Io(_))), "{received:?}");
    }
}

/// F12: a silent peer is asked twice, and counts as gone after three silences. A sign of life is enough.
#[tokio::test(start_paused = true)]
async fn f12_silence_is_noticed() {
    let limits = Limits::DEFAULT;
    let (ours, mut theirs) = duplex(1024);
    let mut link = WsLink::server(ours, &limits);
    let start = Instant::now();
    // A pong that nobody asked for, after ten seconds: the clock starts again.
    let later = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        theirs.write_all(b"\x8a\x80\0\0\0\0").await.unwrap();
        let mut pings = Vec::new();
        let mut ping = [0; 2];
        for _ in 0..2 {
            theirs.read_exact(&mut ping).await.unwrap();
            assert_eq!(ping, [0x89, 0]);
            pings.push(start.elapsed().as_secs());
        }
        pings
    };
    let (received, pings) = tokio::join!(receive(&mut link), later);
    assert!(matches!(received, Received::Ended(Cause::Silent(after)) if after == limits.read_idle_timeout));
    assert_eq!(pings, [25, 40]);
    assert_eq!(start.elapsed(), Duration::from_secs(55));
}

/// S1-44: pings are answered with what they hold, in the middle of everything else.
#[tokio::test]
async fn s1_44_pings_are_answered() {
    let (mut link, mut stranger) = pair(&Limits::DEFAULT);
    stranger.send(Message::ping("are you there")).await.unwrap();
    stranger.send(Message::text("{}")).await.unwrap();
    assert!(matches!(receive(&mut link).await, Received::Frame { .. }));
    let pong = stranger.next().await.unwrap().unwrap();
    assert!(pong.is_pong());
    assert_eq!(&pong.as_payload()[..], b"are you there");
}

/// T22: a flood of pings by a peer that reads nothing ends the link with few pongs waiting.
#[tokio::test]
async fn t22_pings_that_nobody_reads_are_bounded() {
    let (ours, theirs) = duplex(1024);
    let mut link = WsLink::server(ours, &Limits::DEFAULT);
    let (_unread, mut writer) = tokio::io::split(theirs);
    let flood = async move {
        let mut ping = vec![0x89, 0x80 | 125, 0, 0, 0, 0];
        ping.extend_from_slice(&[b'p'; 125]);
        let mut sent = 0u32;
        while writer.write_all(&ping).await.is_ok() {
            sent += 1;
        }
        sent
    };
    let ended = async {
        let received = receive(&mut link).await;
        assert!(matches!(received, Received::Ended(Cause::Stalled)), "{received:?}");
        assert!(link.queued() < 70 * 127, "{} bytes wait", link.queued());
        close(&mut link, &Cause::Stalled).await;
        drop(link);
    };
    let (sent, ()) = tokio::join!(flood, ended);
    assert!(sent < 200, "{sent} pings were taken");
}

/// T22: neither pings nor empty fragments keep others on the task from their turn.
#[tokio::test]
async fn t22_floods_starve_nobody() {
    for frame in [&b"\x89\x80\0\0\0\0"[..], b"\x8a\x80\0\0\0\0", b"\x00\x80\0\0\0\0"] {
        let (ours, theirs) = duplex(64 << 10);
        let mut link = WsLink::server(ours, &Limits::DEFAULT);
        let (mut reader, mut writer) = tokio::io::split(theirs);
        writer.write_all(b"\x01\x80\0\0\0\0").await.unwrap();
        let flood = async {
            let many = frame.repeat(1000);
            while writer.write_all(&many).await.is_ok() {}
        };
        // Answers are read and thrown away.
        let drain = async {
            let mut sink = vec![0; 64 << 10];
            while reader.read(&mut sink).await.is_ok_and(|n| n > 0) {}
        };
        let turns = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&turns);
        let others = async move {
            for _ in 0..10 {
                counting.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = others => {}
            () = async { tokio::join!(flood, drain); } => panic!("the flood ended"),
            received = receive(&mut link) => panic!("nothing was sent, yet {received:?}"),
        }
        assert_eq!(turns.load(Ordering::SeqCst), 10);
        assert!(link.queued() < 64 * 10, "{} bytes wait", link.queued());
    }
}

/// F10: what the peer does not take is counted to the byte, and a message counts when its last byte left.
#[tokio::test]
async fn f10_what_waits_is_known() {
    let limits = Limits { socket_frame_bytes: 3000, ..Limits::DEFAULT };
    let (ours, theirs) = duplex(1000);
    let mut link = WsLink::server(ours, &limits);
    let large: &'static str = "8".repeat(10_000).leak();
    link.put(3, LaneId::MAIN, &text("{}"));
    link.put(4, LaneId::MAIN, &text(large));
    let wire = 4 + 3 * (4 + 3000) + (4 + 1000);
    assert_eq!((link.queued(), link.departed().in_order), (wire, 0));
    assert!(poll_fn(|cx| Poll::Ready(link.poll_flush(cx))).await.is_pending());
    assert_eq!((link.queued(), link.departed().in_order), (wire - 1000, 3));
    // Reading writes too, but that is not taken for a standstill: it is seen at the next flush.
    let mut stranger = layer::client(theirs, &limits);
    let reading = async {
        assert_eq!(stranger.next().await.unwrap().unwrap().as_text(), Some("{}"));
        stranger.next().await.unwrap().unwrap().as_payload().len()
    };
    let (flushed, length) = tokio::join!(poll_fn(|cx| link.poll_flush(cx)), reading);
    flushed.unwrap();
    assert_eq!((length, link.queued(), link.departed().in_order), (10_000, 0, 4));
}

/// F38: a peer that does not answer our close frame, or sends without end, holds us up for no longer than the limit.
#[tokio::test(start_paused = true)]
async fn f38_closing_is_bounded() {
    let limits = Limits::DEFAULT;
    let cause = Cause::ClosedByUs("done".into());
    let (mut link, silent) = pair(&limits);
    let start = Instant::now();
    close(&mut link, &cause).await;
    assert_eq!(start.elapsed(), limits.farewell_timeout);
    drop(silent);

    // And one that takes nothing at all.
    let (ours, _theirs) = duplex(8);
    let mut link = WsLink::server(ours, &limits);
    let start = Instant::now();
    close(&mut link, &cause).await;
    assert_eq!(start.elapsed(), limits.drain_timeout);
}
