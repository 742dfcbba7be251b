//! Reading a lane: server-sent events from a body, with the id and the wait to resume with.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::codec::{SseDecoder, SseEvent, SseItem};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::headers::{Content, content};
use cardan_proto::http::url::Url;
use cardan_proto::limits::Limits;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::answer;
use crate::body::words;
use crate::exchange::Wire;
use crate::head::Heads;

/// An event stream that is being read.
pub(crate) struct Lane {
    body: Incoming,
    decoder: SseDecoder,
    /// How long silence may last, once the peer has shown that it keeps the lane alive.
    idle: Duration,
    keeps_alive: KeepsAlive,
    reading: Reading,
    brought: Brought,
    /// Bytes came since the last item, or since somebody last looked.
    midway: bool,
}

/// What came on a lane so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brought {
    Nothing,
    /// Comments at least.
    Bytes,
}

/// Many servers never send a comment: their silence means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepsAlive {
    Unknown,
    Yes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    Open,
    /// At its end, or cut off by an error.
    Over(Option<Box<str>>),
}

/// What a lane brings.
#[derive(Debug)]
pub(crate) enum Item {
    /// An event.
    Event(SseEvent),
    /// An event beyond the limit, of so many bytes. It is gone.
    Oversize(u64),
    /// The stream ended inside this event.
    Cut(SseEvent),
    /// The stream ended properly, or broke for a reason.
    End(Option<Box<str>>),
}

impl Lane {
    /// A lane from its start, or from after the event `last`.
    pub(crate) fn new(body: Incoming, limits: &Limits, last: &str) -> Self {
        let decoder =
            SseDecoder::new(limits.event_bytes).with_field_bytes(limits.event_field_bytes).with_last_id(last);
        let idle = limits.read_idle_timeout;
        let (keeps_alive, reading, brought) = (KeepsAlive::Unknown, Reading::Open, Brought::Nothing);
        Self { body, decoder, idle, keeps_alive, reading, brought, midway: false }
    }

    /// The id to resume after, empty if there is none.
    pub(crate) fn last_id(&self) -> &str {
        self.decoder.last_id()
    }

    /// How long the server wants us to wait before we come back, if it ever said so.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry_ms().map(Duration::from_millis)
    }

    pub(crate) fn brought(&self) -> Brought {
        self.brought
    }

    /// The next thing, or nothing if none has come for so long, and no part of one either.
    pub(crate) async fn next_within(&mut self, patience: Option<Duration>) -> Option<Item> {
        let Some(patience) = patience else { return Some(self.next().await) };
        loop {
            match timeout(patience, self.next()).await {
                Ok(item) => return Some(item),
                Err(_) if !std::mem::take(&mut self.midway) => return None,
                Err(_) => {}
            }
        }
    }

    /// The next thing. Nothing follows an end. What is dropped halfway has lost nothing.
    pub(crate) async fn next(&mut self) -> Item {
        loop {
            if let Reading::Over(why) = &self.reading {
                let why = why.clone();
                return match self.decoder.finish() {
                    None => Item::End(why),
                    Some(item) => match self.item(item) {
                        Some(item) => item,
                        None => continue,
                    },
                };
            }
            if let Some(item) = self.decoder.next() {
                match self.item(item) {
                    Some(item) => return item,
                    None => continue,
                }
            }
            match self.chunk().await {
                Ok(Some(chunk)) => {
                    self.midway = true;
                    self.decoder.feed(chunk);
                }
                Ok(None) => self.reading = Reading::Over(None),
                Err(why) => self.reading = Reading::Over(Some(why)),
            }
        }
    }

    fn item(&mut self, item: SseItem) -> Option<Item> {
        self.midway = false;
        match item {
            SseItem::Event(event) => Some(Item::Event(event)),
            SseItem::Comment => {
                self.keeps_alive = KeepsAlive::Yes;
                None
            }
            SseItem::Oversize { bytes } => Some(Item::Oversize(bytes)),
            SseItem::Unterminated { event, .. } => Some(Item::Cut(event)),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Box<str>> {
        loop {
            let frame = match self.keeps_alive {
                KeepsAlive::Unknown => self.body.frame().await,
                KeepsAlive::Yes => match timeout(self.idle, self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => return Err(format!("silence for {} s", self.idle.as_secs()).into()),
                },
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(words(&error)),
                // Trailers say nothing here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        if !data.is_empty() {
                            self.brought = Brought::Bytes;
                        }
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// What a GET brought.
pub(crate) enum Got {
    /// A lane.
    Lane(Incoming),
    /// The server has none to offer.
    NotOffered,
    /// The session is gone.
    SessionGone(StatusCode),
    /// The server says no, and will again.
    Refused(HttpFailure),
    /// Not now: the way or the server is unwell.
    Unwell(HttpFailure),
}

/// Asks for a lane, from after the event `last` if that is not empty.
pub(crate) async fn get(wire: &Wire, url: &Url, heads: &Heads, last: &str) -> Got {
    let response = match wire.pool.send(Method::GET, url.clone(), heads.get(last), Bytes::new()).await {
        Ok(response) => response,
        Err((failure @ HttpFailure::Redirect(_), _)) => return Got::Refused(failure),
        Err((failure, _)) => return Got::Unwell(failure),
    };
    let status = response.status();
    match status {
        StatusCode::OK if content(response.headers()) == Content::EventStream => {
            return Got::Lane(response.into_body());
        }
        StatusCode::METHOD_NOT_ALLOWED => return Got::NotOffered,
        StatusCode::NOT_FOUND | StatusCode::GONE if heads.session.is_some() => {
            return Got::SessionGone(status);
        }
        _ => {}
    }
    let (head, body) = response.into_parts();
    let failure = answer::status_failure(&head, body, &wire.limits).await;
    match status {
        // Of a lane that was cut, and whose server has not noticed yet, it says that someone reads it.
        StatusCode::CONFLICT
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => Got::Unwell(failure),
        _ if status.is_server_error() => Got::Unwell(failure),
        _ => Got::Refused(failure),
    }
}

/// How long to wait before each new attempt, and how often to try at all.
pub(crate) struct Waits {
    tries: usize,
    most: usize,
    min: Duration,
    max: Duration,
}

impl Waits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (min, max) = (limits.reconnect_wait_min, limits.reconnect_wait_max);
        Self { tries: 0, most: limits.reconnects, min, max }
    }

    /// Something useful came: what failed before does not count any more.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// It lives, but brought nothing of use: the next attempts are granted, though not at once. A server that cuts
    /// its lane and names no wait would be asked without pause.
    pub(crate) fn ease(&mut self) {
        self.tries = self.tries.min(1);
    }

    /// The wait between attempts after the last that was granted, each as long as waits get.
    pub(crate) fn slow(&self, named: Option<Duration>) -> Duration {
        (self.max + jitter(self.max / 4)).max(named.unwrap_or_default())
    }

    /// The next wait, never shorter than what the server `named`; nothing: enough is enough.
    pub(crate) fn next(&mut self, named: Option<Duration>) -> Option<Duration> {
        if self.tries >= self.most {
            return None;
        }
        let doubled = self.min.saturating_mul(1 << self.tries.min(16)).min(self.max);
        self.tries += 1;
        match named {
            Some(named) if self.tries == 1 => Some(named),
            // After a restart of the server its clients should not come back as one.
            _ => Some((doubled + jitter(doubled / 4)).max(named.unwrap_or_default())),
        }
    }
}

/// How long a resumed lane may say nothing before it is asked for again: longer each time, and as often as it takes.
/// Whoever waits for the reply has deadlines.
pub(crate) struct Patience {
    next: Duration,
    min: Duration,
    max: Duration,
}

impl Patience {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (min, max) = (limits.resumed_silence, limits.read_idle_timeout);
        Self { next: min, min, max }
    }

    /// It said something: the next silence is as suspect as the first.
    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let next = self.next;
        self.next = (next * 2).min(self.max);
        next
    }
}

/// A random part of `most`, from the randomness that hash maps are seeded with.
fn jitter(most: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1024;
    most * u32::try_from(random).unwrap_or_default() / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTL-6, F14: waits grow to their bound, never undercut the server's own, and come to an end.
    #[test]
    fn waits_grow_and_end() {
        let limits = Limits { reconnects: 8, ..Limits::DEFAULT };
        let (mut waits, mut least) = (Waits::new(&limits), limits.reconnect_wait_min);
        for _ in 0..8 {
            let wait = waits.next(None).unwrap();
            assert!(least <= wait && wait <= least + least / 4, "{wait:?} for {least:?}");
            least = (least * 2).min(limits.reconnect_wait_max);
        }
        assert_eq!(waits.next(None), None);
        assert!(waits.slow(None) >= limits.reconnect_wait_max);
        waits.ease();
        assert!(waits.next(None).unwrap() >= limits.reconnect_wait_min * 2, "granted, and not at once");
        waits.reset();
        let named = Duration::from_secs(90);
        assert_eq!((waits.next(Some(named)), waits.next(Some(named))), (Some(named), Some(named)));
    }

    /// S0-69: a server that is in a hurry is obeyed at first, and not for ever.
    #[test]
    fn a_short_wait_is_obeyed_once() {
        let mut waits = Waits::new(&Limits::DEFAULT);
        let named = Duration::from_millis(20);
        assert_eq!(waits.next(Some(named)), Some(named));
        assert!(waits.next(Some(named)).unwrap() >= Limits::DEFAULT.reconnect_wait_min * 2);
    }
}
