//! Legacy lanes: what goes on which, and how one that broke goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use cardan_proto::codec::sse::SseItem;
use cardan_proto::era::Revision;
use cardan_proto::limits::Limits;
use cardan_server::Cx;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::rig::{BATCHING, JSON, LEGACY, Rig, STREAM, Step, builder, call, said, tool_call, within};

const OLDER: &str = Revision::V2025_06_18.date();

/// HTL-11, HTL-12, HTL-13, HTL-14: a change is told once on the push lane of each session, and on no lane of
/// a call; replies stay on theirs.
#[tokio::test]
async fn changes_are_told_on_the_push_lane() {
    let rig = Rig::start().await;
    let session = rig.open(OLDER).await;
    let other = rig.open(OLDER).await;
    let (mut push, mut others) = (session.listening().await, other.listening().await);
    let mut running = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
    assert_eq!(running.message().await["params"]["progress"], 1.0);
    assert_eq!(said(&session.call(2, "touch", json!({})).await), "touched");
    for push in [&mut push, &mut others] {
        assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
    }
    rig.signals.go.notify_one();
    assert_eq!(running.message().await["params"]["progress"], 2.0);
    running.reply(1).await;
    running.ends().await;
    session.delete().await;
    push.ends().await;
}

/// HTL-14: the second reader of the push lane takes over; the first is let go, and nothing is told twice.
#[tokio::test]
async fn a_second_reader_takes_over() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut first = session.listening().await;
    let mut second = session.listening().await;
    first.ends().await;
    session.call(1, "touch", json!({})).await;
    assert_eq!(second.message().await["method"], "notifications/tools/list_changed");
    session.delete().await;
    second.ends().await;
}

/// HTL-14: what is told while nobody reads waits for the reader to come.
#[tokio::test]
async fn what_nobody_read_waits() {
    let rig = Rig::start().await;
    for date in [OLDER, LEGACY] {
        let session = rig.open(date).await;
        session.call(1, "touch", json!({})).await;
        let mut push = session.listen().await;
        assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
        session.delete().await;
        push.ends().await;
    }
}

/// HTL-4, HTL-16: the newest revision primes every stream with an id and empty data; older ones, and answers
/// as JSON, know nothing of it. No stream names a time to come back while it is not let go.
#[tokio::test]
async fn streams_of_the_newest_revision_are_primed() {
    let rig = Rig::start().await;
    for (date, primes) in [(BATCHING, false), (OLDER, false), (LEGACY, true)] {
        let session = rig.open(date).await;
        let mut push = session.listen().await;
        let first = push.item().await.unwrap();
        match first {
            SseItem::Event(event) => {
                assert!(primes, "{date}");
                assert!(event.data.is_empty() && event.id.is_some(), "{event:?}");
            }
            SseItem::Comment => assert!(!primes, "{date}"),
            other => panic!("{other:?}"),
        }
        let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
        let first = events.event().await.unwrap();
        assert_eq!(first.data.is_empty() && first.id.is_some(), primes, "{date} {first:?}");
        rig.signals.go.notify_one();
        while events.event().await.is_some() {}
        assert_eq!((push.decoder.retry_ms(), events.decoder.retry_ms()), (None, None));
    }
}

/// HTL-15: no two events of a session have one id, whatever their lane.
#[tokio::test]
async fn event_ids_are_unique_in_a_session() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut push = session.listen().await;
    let mut ids = BTreeSet::new();
    let mut streams = Vec::new();
    for id in 1..=3 {
        streams.push(session.post(&tool_call(id, "steps", json!({}))).await.events().await);
        rig.signals.expect(Step::Entered).await;
        session.call(10 + id, "touch", json!({})).await;
    }
    for _ in 0..4 {
        let event = push.event().await.unwrap();
        assert!(ids.insert(event.id.clone().unwrap()), "{event:?}");
    }
    for mut stream in streams {
        rig.signals.go.notify_one();
        while let Some(event) = stream.event().await {
            assert!(ids.insert(event.id.clone().unwrap()), "{event:?}");
        }
    }
    assert_eq!(ids.len(), 4 + 3 * 4);
}

/// TSKD-23: how a task is doing is told as JSON, at once, while the task runs on: there is nothing to stream.
#[tokio::test]
async fn tskd_23_a_look_at_a_task_is_no_stream() {
    let (builder, signals) = builder(Limits::DEFAULT);
    let server = builder.task_support("hold", cardan_proto::model::tool::TaskSupport::Optional).build();
    let rig = Rig::of(server, signals, |options| options).await;
    let session = rig.open(LEGACY).await;
    let mut wish = tool_call(1, "hold", json!({}));
    wish["params"]["task"] = json!({});
    let made = session.post(&wish).await.answer().await.json();
    let task = made["result"]["task"]["taskId"].clone();
    assert!(task.is_string(), "{made}");
    rig.signals.expect(Step::Entered).await;
    let get = json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": { "taskId": task } });
    let look = session.post(&get).await.answer().await;
    assert_eq!(look.header("content-type"), "application/json");
    assert_eq!(look.json()["result"]["status"], "working");
    rig.signals.go.notify_one();
}

/// HTL-17, HTL-13: a lane that has told no event yet has none to go on after: whoever names one is refused, and
/// whoever waits for its reply still gets it.
#[tokio::test]
async fn a_lane_that_told_nothing_is_not_resumed() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut waiting = session.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    // Lanes are numbered from one on, the handshake and what was posted before included.
    for lane in 1..=4 {
        for number in [0, 99] {
            let stolen = session.resume(&format!("{lane}-{number}")).await.answer().await;
            assert_eq!(stolen.status(), 400, "{lane}-{number}: {stolen:?}");
        }
    }
    rig.signals.go.notify_one();
    assert_eq!(said(&within(waiting.answer()).await.json()), "held");
}

/// HTL-17, HTL-18, HTL-8, HTL-13, F11: a call's stream that broke goes on where it was, by GET, with nothing
/// lost, nothing twice, and nothing of other lanes; its reply too.
#[tokio::test]
async fn a_broken_stream_goes_on_in_mid_call() {
    let rig = Rig::start().await;
    for date in [BATCHING, OLDER, LEGACY] {
        let session = rig.open(date).await;
        let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
        rig.signals.expect(Step::Entered).await;
        assert_eq!(events.message().await["params"]["progress"], 1.0);
        let last = events.last_id();
        drop(events);
        session.call(2, "touch", json!({})).await;
        let mut resumed = session.resume(&last).await.events().await;
        rig.signals.go.notify_one();
        assert_eq!(resumed.message().await["params"]["progress"], 2.0, "{date}");
        assert_eq!(said(&resumed.reply(1).await), "stepped");
        resumed.ends().await;
        rig.signals.expect(Step::Finished).await;
        // What belongs on the push lane is still there.
        let mut push = session.listen().await;
        assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
    }
}

/// HTL-17, F11: also when the call was answered in the meantime, and from every event of it.
#[tokio::test]
async fn a_broken_stream_goes_on_after_the_reply() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    let primed = events.event().await.unwrap().id.unwrap();
    let first = events.event().await.unwrap().id.unwrap();
    drop(events);
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    for (last, want) in [(&first, vec![2.0]), (&primed, vec![1.0, 2.0]), (&primed, vec![1.0, 2.0])] {
        let mut resumed = session.resume(last).await.events().await;
        for progress in want {
            assert_eq!(resumed.message().await["params"]["progress"], progress, "after {last}");
        }
        assert_eq!(said(&resumed.reply(1).await), "stepped");
        resumed.ends().await;
    }
}

/// F11: a stream that breaks twice is not forgotten after the first time.
#[tokio::test]
async fn a_stream_may_break_twice() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
    let primed = events.event().await.unwrap().id.unwrap();
    drop(events);
    for _ in 0..2 {
        let mut resumed = session.resume(&primed).await.events().await;
        assert_eq!(resumed.message().await["params"]["progress"], 1.0);
    }
    let mut resumed = session.resume(&primed).await.events().await;
    assert_eq!(resumed.message().await["params"]["progress"], 1.0);
    rig.signals.go.notify_one();
    assert_eq!(resumed.message().await["params"]["progress"], 2.0);
    resumed.reply(1).await;
    resumed.ends().await;
}

/// HTL-17, HTL-18: the push lane goes on after its last event too, from the priming event on.
#[tokio::test]
async fn a_broken_push_lane_goes_on() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut push = session.listen().await;
    let primed = push.event().await.unwrap().id.unwrap();
    session.call(1, "touch", json!({})).await;
    push.message().await;
    let seen = push.last_id();
    drop(push);
    session.call(2, "touch", json!({})).await;
    for (last, count) in [(seen.as_str(), 1), (&*primed, 2)] {
        let mut push = session.resume(last).await.events().await;
        for _ in 0..count {
            assert_eq!(push.message().await["method"], "notifications/tools/list_changed", "after {last}");
        }
        session.call(3, "echo", json!({ "text": "x" })).await;
    }
    let mut push = session.resume(&primed).await.events().await;
    push.message().await;
    push.message().await;
    session.delete().await;
    push.ends().await;
}

/// HTL-4, HTL-17, F11: the priming event precedes what waited for a reader, so that who saw no more than that
/// loses nothing.
#[tokio::test]
async fn the_priming_event_precedes_what_waited() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    session.call(1, "touch", json!({})).await;
    let mut push = session.listen().await;
    let primed = push.event().await.unwrap();
    assert!(primed.data.is_empty());
    drop(push);
    let mut push = session.resume(&primed.id.unwrap()).await.events().await;
    assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
}

/// HTL-17, T21: an id that is none of ours is refused, however odd, and harms nothing.
#[tokio::test]
async fn odd_event_ids_are_refused() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let long = "9".repeat(4000);
    for last in ["x", "-", "1", "1-", "-1", "1--1", "0x1-1", "99999999999999999999-1", long.as_str(), "7-3"] {
        let answer = session.resume(last).await.answer().await;
        assert_eq!(answer.status(), 400, "{last}");
    }
    // A place on the push lane that never was is its end.
    let mut push = session.resume(&format!("0-{}", u64::MAX)).await.events().await;
    push.item().await.unwrap();
    session.call(1, "touch", json!({})).await;
    assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
}

/// HTL-17, T19: what is resumed is bounded; what was forgotten is said to be, and a push lane goes on.
#[tokio::test]
async fn forgotten_events_are_told() {
    let rig = Rig::limited(|limits| limits.replay_events = 2).await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
    let primed = events.event().await.unwrap().id.unwrap();
    rig.signals.expect(Step::Entered).await;
    drop(events);
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    for id in 2..5 {
        session.call(id, "touch", json!({})).await;
    }
    assert_eq!(session.resume(&primed).await.answer().await.status(), 400);
    let mut push = session.resume("0-0").await.events().await;
    assert_eq!(push.message().await["method"], "notifications/tools/list_changed");
}

/// HTL-17, F11: what is told on other lanes meanwhile, however much, costs no call its reply.
#[tokio::test]
async fn a_loud_push_lane_ends_no_broken_stream() {
    let rig = Rig::limited(|limits| limits.replay_events = 4).await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "leave", json!({}))).await.events().await;
    events.ends().await;
    for id in 2..12 {
        session.call(id, "touch", json!({})).await;
    }
    let mut resumed = session.resume(&events.last_id()).await.events().await;
    rig.signals.go.notify_one();
    assert_eq!(said(&resumed.reply(1).await), "worked on");
    resumed.ends().await;
}

/// Twice what the ring of a session keeps.
const MUCH: usize = 2 << 20;

/// HTL-17, F11: a reply larger than the ring whose stream is cut in its middle comes whole to who resumes it, once, and
/// again to who was cut off again.
#[tokio::test]
async fn a_large_reply_that_was_cut_is_resumed() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let message = tool_call(1, "big", json!({ "bytes": MUCH })).to_string();
    let mut events = session.send("POST", &[STREAM, JSON], message.as_bytes()).await.events().await;
    let primed = events.event().await.unwrap().id.unwrap();
    let mut half = vec![0; MUCH / 2];
    within(events.wire.stream.read_exact(&mut half)).await.unwrap();
    drop(events);
    for _ in 0..2 {
        let mut resumed = session.resume(&primed).await.events().await;
        assert_eq!(said(&resumed.reply(1).await).len(), MUCH);
        resumed.ends().await;
    }
}

/// A tool that says how far it is, waits, and says much.
async fn rig_with_parcels(limits: Limits) -> Rig {
    let (builder, signals) = builder(limits);
    let told = signals.clone();
    let builder = builder.tool("parcel", "says much when it is let go", move |cx: Cx| {
        let signals = told.clone();
        async move {
            cx.progress(1.0, None, None);
            signals.tell(Step::Entered);
            signals.go.notified().await;
            signals.tell(Step::Finished);
            "x".repeat(MUCH)
        }
    });
    Rig::of(builder.build(), signals, |options| options).await
}

/// HTL-17, F11: the same of a reply that was made while nobody read, however loud others have been since.
#[tokio::test]
async fn a_large_reply_that_nobody_read_is_resumed() {
    let rig = rig_with_parcels(Limits { replay_events: 4, ..Limits::DEFAULT }).await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "parcel", json!({}))).await.events().await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    let last = events.last_id();
    drop(events);
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    for id in 2..12 {
        session.call(id, "touch", json!({})).await;
    }
    let mut resumed = session.resume(&last).await.events().await;
    assert_eq!(said(&resumed.reply(1).await).len(), MUCH);
    resumed.ends().await;
}

/// HTL-17, T19: a large reply for which there is no room is said to be gone, at once.
#[tokio::test]
async fn a_large_reply_without_room_is_told() {
    let rig = rig_with_parcels(Limits { shelf_bytes: MUCH, ..Limits::DEFAULT }).await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "parcel", json!({}))).await.events().await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    let last = events.last_id();
    drop(events);
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    let answer = session.resume(&last).await.answer().await;
    assert_eq!(answer.status(), 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("is not kept any more"), "{answer:?}");
}

/// HTL-18: one session's events are not another's.
#[tokio::test]
async fn events_of_another_session_are_not_replayed() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let other = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "steps", json!({}))).await.events().await;
    let primed = events.event().await.unwrap().id.unwrap();
    assert_eq!(other.resume(&primed).await.answer().await.status(), 400);
    // And the one whose they are is not disturbed.
    assert_eq!(events.message().await["params"]["progress"], 1.0);
}

/// HTL-5, HTL-17: a handler lets its caller go: the stream ends early, after an id and a time to come back,
/// and who comes back gets the reply.
#[tokio::test]
async fn a_released_caller_comes_back() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut events = session.post(&tool_call(1, "leave", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    events.ends().await;
    assert_eq!(events.decoder.retry_ms(), Some(7));
    let last = events.last_id();
    assert!(!last.is_empty());
    let mut resumed = session.resume(&last).await.events().await;
    rig.signals.go.notify_one();
    assert_eq!(said(&resumed.reply(1).await), "worked on");
    resumed.ends().await;
}

/// HTL-3: revisions that know nothing of it hold their callers until the reply.
#[tokio::test]
async fn older_revisions_release_nobody() {
    let rig = Rig::start().await;
    for date in [BATCHING, OLDER] {
        let session = rig.open(date).await;
        let mut wire = session.post(&tool_call(1, "leave", json!({}))).await;
        rig.signals.expect(Step::Entered).await;
        assert_eq!(session.status().await, 200);
        rig.signals.go.notify_one();
        rig.signals.expect(Step::Finished).await;
        let answer = wire.answer().await;
        assert!(String::from_utf8_lossy(&answer.body).contains("worked on"), "{date} {answer:?}");
    }
}

/// HTTP-17, S1-34, F12, F35: quiet streams of every kind show signs of life, and a call that takes long gets
/// its status by then.
#[tokio::test]
async fn quiet_streams_show_signs_of_life() {
    let rig = Rig::limited(|limits| limits.keep_alive_interval = Duration::from_millis(20)).await;
    let session = rig.open(LEGACY).await;
    let mut streams = [
        session.listen().await,
        session.post(&tool_call(1, "hold", json!({}))).await.events().await,
        rig.modern(&crate::rig::modern_tool(2, "hold", json!({}))).await.events().await,
        rig.modern(&crate::rig::listen_to_tools(3)).await.events().await,
        rig.send("GET", "/sse", &[STREAM], b"").await.events().await,
    ];
    for (at, stream) in streams.iter_mut().enumerate() {
        let mut comments = 0;
        while comments < 3 {
            if let SseItem::Comment = stream.item().await.expect("it goes on") {
                comments += 1;
            }
        }
        assert_eq!(stream.end, None, "stream {at}");
    }
}

/// T19: open lanes of a session are bounded; one more is refused for now, and served when one is free.
#[tokio::test]
async fn lanes_are_bounded() {
    let rig = Rig::limited(|limits| limits.lanes = 2).await;
    let session = rig.open(LEGACY).await;
    let mut held = Vec::new();
    for id in 1..=2 {
        held.push(session.post(&tool_call(id, "hold", json!({}))).await);
        rig.signals.expect(Step::Entered).await;
    }
    let answer = session.post(&call(3, "ping")).await.answer().await;
    assert_eq!(answer.status(), 429);
    assert!(answer.head.has("retry-after"));
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    let Value::Object(reply) = held.remove(0).answer().await.json() else { panic!("a reply") };
    assert_eq!(reply["id"], 1);
    assert_eq!(session.status().await, 200);
}
