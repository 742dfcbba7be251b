//! The answer of another replica, passed on as it comes. A stream that breaks off there ends here with a word for the call.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cardan_proto::codec::sse::write_event;
use cardan_proto::finding::Strictness;
use cardan_proto::http::headers::CONTENT_EVENT_STREAM;
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Reply, decode};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use cardan_proto::limits::Limits;
use cardan_replicas::Answer;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use crate::body::Lane;
use crate::pulse::Pulse;

const LOST: &str = "the replica that had this session broke off, the call may have been carried out";

/// Ends an event of which only a part has come, as one of a kind that nobody listens to.
const BROKEN: &[u8] = b"\nevent: broken\n\n";

/// A stream of events.
pub(crate) struct Carried {
    answer: Option<Answer>,
    /// What was asked, for who has to be told that no answer comes.
    asked: Bytes,
    watch: Watch,
}

/// Is an answer a stream of events?
pub(crate) fn is_stream(head: &HeaderMap) -> bool {
    head.get(CONTENT_TYPE) == Some(&CONTENT_EVENT_STREAM)
}

/// Asks whether the owner of a session is gone.
type Ask = Box<dyn Fn() -> Asking + Send>;
type Asking = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Watches over the silence of another replica: it writes a comment now and then for as long as it lives.
pub(crate) struct Watch {
    ask: Ask,
    asking: Option<Asking>,
    pulse: Pulse,
    heard: Instant,
    longest: Duration,
}

impl Watch {
    /// After each `pause` of silence it is asked whether the owner is gone; after the `longest` nobody is asked any more.
    pub(crate) fn new(pause: Duration, longest: Duration, ask: Ask) -> Self {
        let pulse = Pulse::new(pause.min(longest));
        Self { ask, asking: None, pulse, heard: Instant::now(), longest }
    }

    fn heard(&mut self) {
        self.asking = None;
        self.pulse.sent();
        self.heard = Instant::now();
    }

    /// Ready when nothing more is to be waited for.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(asking) = &mut self.asking {
                if std::task::ready!(asking.as_mut().poll(cx)) {
                    return Poll::Ready(());
                }
                self.asking = None;
            }
            std::task::ready!(self.pulse.poll(cx));
            if self.heard.elapsed() >= self.longest {
                return Poll::Ready(());
            }
            self.asking = Some((self.ask)());
        }
    }
}

impl Carried {
    pub(crate) fn new(answer: Answer, asked: Bytes, watch: Watch) -> Self {
        Self { answer: Some(answer), asked, watch }
    }

    /// What is said when no more comes and more was to come.
    fn last_words(&self) -> Bytes {
        let mut out = BROKEN.to_vec();
        for id in calls(&self.asked) {
            let mut reply = Vec::new();
            let fault = Fault::new(code::INTERNAL, LOST);
            write::envelope(&Envelope::Reply(Reply { id: Some(id), outcome: Err(fault) }), &mut reply);
            write_event(&mut out, None, None, None, &reply);
        }
        Bytes::from(out)
    }
}

impl Lane for Carried {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
            match answer.as_mut().poll_frame(cx) {
                // Frames without data are trailers, of which there are none.
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        self.watch.heard();
                        return Poll::Ready(Some(data));
                    }
                    _ => {}
                },
                Poll::Ready(None) => {
                    self.answer = None;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => {
                    self.answer = None;
                    return Poll::Ready(Some(self.last_words()));
                }
                Poll::Pending => {
                    std::task::ready!(self.watch.poll_gone(cx));
                    self.answer = None;
                    return Poll::Ready(Some(self.last_words()));
                }
            }
        }
    }
}

/// All of an answer that is one message: half of it is worse than none. Nothing: it broke off, or there is no end to it.
pub(crate) async fn whole(mut answer: Answer, mut watch: Watch, most: usize) -> Option<Bytes> {
    let mut all = BytesMut::new();
    loop {
        let frame = poll_fn(|cx| match answer.as_mut().poll_frame(cx) {
            Poll::Pending => watch.poll_gone(cx).map(|()| Err(())),
            Poll::Ready(frame) => Poll::Ready(frame.transpose().map_err(drop)),
        });
        let Some(frame) = frame.await.ok()? else { return Some(all.freeze()) };
        watch.heard();
        if let Ok(data) = frame.into_data() {
            if data.len() > most - all.len() {
                return None;
            }
            all.extend_from_slice(&data);
        }
    }
}

/// The calls in a message.
fn calls(message: &Bytes) -> Vec<CallId> {
    let id = |entry: Envelope| match entry {
        Envelope::Call(call) => Some(call.id),
        _ => None,
    };
    match decode(message, Strictness::Lenient, &Limits::DEFAULT) {
        Decoded::One(entry, _) => entry.ok().and_then(id).into_iter().collect(),
        Decoded::Batch(entries) => entries.into_iter().filter_map(|(entry, _)| id(entry.ok()?)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::error::Error;

    use http_body::Frame;

    use super::*;

    /// What comes, and then silence, unless the last says otherwise.
    struct Parts(VecDeque<Part>);

    type Part = Option<Result<&'static str, &'static str>>;

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = Box<dyn Error + Send + Sync>;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let Some(part) = self.0.pop_front() else { return Poll::Pending };
            Poll::Ready(part.map(|part| part.map(|part| Frame::data(part.into())).map_err(Into::into)))
        }
    }

    const PAUSE: Duration = Duration::from_secs(15);
    const LONGEST: Duration = Duration::from_secs(45);

    fn answer(parts: &[Part]) -> Answer {
        Box::pin(Parts(parts.iter().copied().collect()))
    }

    /// A watch that is told this each time it asks.
    fn watch(gone: bool) -> Watch {
        Watch::new(PAUSE, LONGEST, Box::new(move || Box::pin(std::future::ready(gone))))
    }

    async fn told(parts: &[Part], watch: Watch) -> String {
        let asked = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
        let mut carried = Carried::new(answer(parts), asked, watch);
        let mut out = Vec::new();
        while let Some(bytes) = poll_fn(|cx| carried.poll_bytes(cx)).await {
            out.extend_from_slice(&bytes);
        }
        String::from_utf8(out).unwrap()
    }

    /// F22: each call has one outcome, though the replica that ran it is gone in the middle of its answer.
    #[tokio::test(start_paused = true)]
    async fn f22_a_stream_that_breaks_off_ends_with_a_fault() {
        let parts = [Some(Ok("data: {}\n\n")), Some(Ok("data: 2\n\n")), None];
        assert_eq!(told(&parts, watch(true)).await, "data: {}\n\ndata: 2\n\n");
        let parts = [Some(Ok("data: {}\n\n")), Some(Ok("data: {\"re")), Some(Err("gone"))];
        let broken = told(&parts, watch(false)).await;
        let (said, last) = broken.split_once("\nevent: broken\n\n").unwrap();
        assert_eq!(said, "data: {}\n\ndata: {\"re");
        assert!(last.contains(r#""id":7"#) && last.contains("broke off"), "{last}");
    }

    /// F22: so it has when that replica stands still: when others may have the session, and after three keep-alives at the
    /// latest.
    #[tokio::test(start_paused = true)]
    async fn f22_a_stream_that_falls_silent_ends_with_a_fault() {
        for (gone, after) in [(true, PAUSE), (false, LONGEST)] {
            let begun = Instant::now();
            let silent = told(&[Some(Ok("data: {}\n\n"))], watch(gone)).await;
            assert!(silent.starts_with("data: {}\n\n\nevent: broken\n\n"), "{silent}");
            assert!(silent.contains(r#""id":7"#) && silent.contains("broke off"), "{silent}");
            assert!(begun.elapsed() >= after && begun.elapsed() < after + PAUSE, "{:?}", begun.elapsed());
        }
    }

    /// F22: half of a message is not passed on as if it were all.
    #[tokio::test(start_paused = true)]
    async fn f22_half_a_message_is_none() {
        let (one, two) = (Some(Ok("{\"a\"")), Some(Ok(":1}")));
        assert_eq!(whole(answer(&[one, two, None]), watch(true), 100).await.unwrap(), r#"{"a":1}"#);
        assert_eq!(whole(answer(&[one, Some(Err("gone"))]), watch(true), 100).await, None);
        assert_eq!(whole(answer(&[one]), watch(true), 100).await, None);
        assert_eq!(whole(answer(&[one, two, None]), watch(true), 6).await, None);
    }
}
