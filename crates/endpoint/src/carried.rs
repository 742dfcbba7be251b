//! The answer of another replica, passed on as it comes. A stream that breaks off there ends here with a word for the call.

use std::task::{Context, Poll};

use bytes::Bytes;
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

use crate::body::Lane;

const LOST: &str = "the replica that had this session broke off, the call may have been carried out";

/// Ends an event of which only a part has come, as one of a kind that nobody listens to.
const BROKEN: &[u8] = b"\nevent: broken\n\n";

pub(crate) struct Carried {
    answer: Option<Answer>,
    form: Form,
    /// What was asked, for who has to be told that no answer comes.
    asked: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Events,
}

impl Carried {
    pub(crate) fn new(answer: Answer, head: &HeaderMap, asked: Bytes) -> Self {
        let events = head.get(CONTENT_TYPE) == Some(&CONTENT_EVENT_STREAM);
        let form = if events { Form::Events } else { Form::Whole };
        Self { answer: Some(answer), form, asked }
    }

    /// What is said when no more comes and more was to come.
    fn last_words(&self) -> Option<Bytes> {
        if self.form == Form::Whole {
            return None;
        }
        let mut out = BROKEN.to_vec();
        for id in calls(&self.asked) {
            let mut reply = Vec::new();
            let fault = Fault::new(code::INTERNAL, LOST);
            write::envelope(&Envelope::Reply(Reply { id: Some(id), outcome: Err(fault) }), &mut reply);
            write_event(&mut out, None, None, None, &reply);
        }
        Some(Bytes::from(out))
    }
}

impl Lane for Carried {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
            match std::task::ready!(answer.as_mut().poll_frame(cx)) {
                // Frames without data are trailers, of which there are none.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(data)),
                    _ => {}
                },
                None => {
                    self.answer = None;
                    return Poll::Ready(None);
                }
                Some(Err(_)) => {
                    self.answer = None;
                    return Poll::Ready(self.last_words());
                }
            }
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
    use std::pin::Pin;

    use http_body::Frame;

    use super::*;

    struct Parts(VecDeque<Result<&'static str, &'static str>>);

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = Box<dyn Error + Send + Sync>;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let part = self.0.pop_front();
            Poll::Ready(part.map(|part| part.map(|part| Frame::data(part.into())).map_err(Into::into)))
        }
    }

    fn told(content_type: &'static str, parts: &[Result<&'static str, &'static str>]) -> String {
        let mut head = HeaderMap::new();
        head.insert(CONTENT_TYPE, content_type.parse().unwrap());
        let asked = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
        let mut carried = Carried::new(Box::pin(Parts(parts.iter().copied().collect())), &head, asked);
        let mut out = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(bytes)) = carried.poll_bytes(&mut cx) {
            out.extend_from_slice(&bytes);
        }
        String::from_utf8(out).unwrap()
    }

    /// F22: each call has one outcome, though the replica that ran it is gone in the middle of its answer.
    #[test]
    fn f22_a_stream_that_breaks_off_ends_with_a_fault() {
        let whole = told("text/event-stream", &[Ok("data: {}\n\n"), Ok("data: 2\n\n")]);
        assert_eq!(whole, "data: {}\n\ndata: 2\n\n");
        let broken = told("text/event-stream", &[Ok("data: {}\n\n"), Ok("data: {\"re"), Err("gone")]);
        let (said, last) = broken.split_once("\nevent: broken\n\n").unwrap();
        assert_eq!(said, "data: {}\n\ndata: {\"re");
        assert!(last.contains(r#""id":7"#) && last.contains("broke off"), "{last}");
        assert_eq!(told("application/json", &[Ok("{\"a\""), Err("gone")]), "{\"a\"");
    }
}
