//! Lanes and who reads them: the reply to a call, pushes, and the one stream of the oldest transport.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::codec::{EventKind, SseEvent};
use cardan_proto::dialect::cortex::stream::Step;
use cardan_proto::era::Era;
use cardan_proto::finding::{Rule, excerpt};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::redirect;
use cardan_proto::http::url::Url;
use cardan_proto::jsonrpc::envelope::{Envelope, Note, Params, Violation};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Delivery, Pushes};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use crate::answer::{self, Seen};
use crate::exchange::{CallPost, News, Wire};
use crate::head::Heads;
use crate::lane::{Brought, Got, Item, Lane, Patience, Waits, get};

/// How the reading of a reply ended.
enum Followed {
    /// The reply came.
    Replied,
    /// The stream was closed properly, after a reply that nobody can read. To ask again would bring it again.
    Unreadable(Rule),
    /// It did not.
    Ended {
        /// What broke; nothing: the stream was closed properly.
        why: Option<Box<str>>,
        told: Told,
    },
    /// Nothing has come for longer than was granted.
    Quiet(Told),
}

/// What came on a lane beside the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    /// Something to resume after.
    Events,
    Messages,
}

/// Reads the reply to a call from its lane. A legacy lane that breaks is resumed after its last event.
///
/// A resumed lane that says nothing may be dead: there are servers that replay what they have kept and carry nothing after
/// it, though they keep it. So it is asked for again after a while, which brings what they kept meanwhile.
pub(crate) async fn read(wire: &Wire, mut post: CallPost, body: Incoming) {
    let mut lane = Lane::new(body, &wire.limits, "");
    let (mut waits, mut patience) = (Waits::new(&wire.limits), Patience::new(&wire.limits));
    let (mut retry, mut silence, mut why) = (None, None, None);
    loop {
        let (told, pause) = match follow(wire, &mut post, &mut lane, silence).await {
            Followed::Replied => return linger(wire, &mut post, &mut lane).await,
            Followed::Unreadable(rule) => return answer::broken(wire, &post, rule, "").await,
            Followed::Ended { why: broke, told } => {
                why = broke;
                (told, None)
            }
            // The server gets time to notice that nobody reads the old one. That it gave one says that the way is well.
            Followed::Quiet(told) => {
                waits.ease();
                (told, Some(wire.limits.reconnect_wait_min))
            }
        };
        if told != Told::Nothing {
            waits.reset();
        }
        if told == Told::Messages {
            patience.reset();
        }
        retry = lane.retry().or(retry);
        let last = lane.last_id().to_owned();
        if post.era == Era::Modern || last.is_empty() || post.parts.is_some() {
            return lose(wire, post, why).await;
        }
        // What is read no more is let go before it is asked for again.
        drop(lane);
        let pause = pause.or_else(|| waits.next(retry));
        match resume(wire, &post, &last, pause, (retry, &mut waits)).await {
            Some(body) => lane = Lane::new(body, &wire.limits, &last),
            None => return lose(wire, post, why).await,
        }
        // The wait that a server names passes while it is listened to: it may still say something.
        silence = Some(patience.next().max(retry.unwrap_or_default()));
    }
}

async fn lose(wire: &Wire, post: CallPost, why: Option<Box<str>>) {
    let failure = match (why, post.odd) {
        (Some(why), _) => HttpFailure::Broken(why),
        // It came in place of the reply: nothing else did.
        (None, Some(rule)) => return answer::broken(wire, &post, rule, "").await,
        (None, None) => HttpFailure::NoReply { status: http::StatusCode::OK },
    };
    wire.fail(Some(post.call.id), failure, Delivery::Unknown).await;
}

/// Asks for the rest of a reply, after a pause, until there is one, or no hope.
async fn resume(
    wire: &Wire,
    post: &CallPost,
    last: &str,
    mut pause: Option<Duration>,
    (retry, waits): (Option<Duration>, &mut Waits),
) -> Option<Incoming> {
    loop {
        sleep(pause?).await;
        match get(wire, &post.url, &post.heads, last).await {
            Got::Lane(body) => return Some(body),
            Got::Unwell(_) => pause = waits.next(retry),
            Got::SessionGone(status) => {
                if let Some(session) = post.session.clone() {
                    // The call may have run, so it is not sent again; the next ones need a session.
                    wire.tell(News::SessionGone { session, call: None, status }).await;
                }
                return None;
            }
            Got::NotOffered | Got::Refused(_) => return None,
        }
    }
}

/// Reads until the reply, or the end, or until nothing came for as long as is granted.
async fn follow(wire: &Wire, post: &mut CallPost, lane: &mut Lane, silence: Option<Duration>) -> Followed {
    let (mut told, mut unreadable) = (Told::Nothing, None);
    loop {
        let Some(item) = lane.next_within(silence).await else { return Followed::Quiet(told) };
        match item {
            Item::Event(event) => {
                told = told.max(if event.data.is_empty() { Told::Events } else { Told::Messages });
                match take(wire, post, event).await {
                    Seen::Reply => return Followed::Replied,
                    Seen::Unreadable(rule) => unreadable = Some(rule),
                    Seen::Odd(rule) => post.odd = Some(rule),
                    Seen::Other => {}
                }
            }
            Item::Oversize(bytes) => oversize(wire, bytes).await,
            Item::Cut(event) => {
                let piece = excerpt(&event.data, wire.limits.excerpt_bytes);
                wire.found(Violation::of(Rule::BrokenEvent), piece).await;
            }
            Item::End(None) => {
                let rest = post.parts.as_mut().and_then(|parts| parts.finish());
                if let Some(step) = rest
                    && part(wire, post, step).await == Seen::Reply
                {
                    return Followed::Replied;
                }
                return unreadable.map_or(Followed::Ended { why: None, told }, Followed::Unreadable);
            }
            Item::End(why) => return Followed::Ended { why, told },
        }
    }
}

async fn take(wire: &Wire, post: &mut CallPost, event: SseEvent) -> Seen {
    if let Some(parts) = &mut post.parts {
        let step = parts.event(&event.kind, &event.data);
        return part(wire, post, step).await;
    }
    match event.kind {
        // A priming event has an id to resume after, and nothing else.
        EventKind::Message if !event.data.is_empty() => answer::pass(wire, post, event.data).await,
        _ => Seen::Other,
    }
}

/// A step of a reply in parts.
async fn part(wire: &Wire, post: &CallPost, step: Step) -> Seen {
    match step {
        Step::Fragment { count, .. } => {
            wire.frame(progress(&post.call.id, count)).await;
            Seen::Other
        }
        Step::Reply { frame, found } => {
            for deviation in found {
                wire.found(Violation::of(Rule::ResultShape), deviation.to_string()).await;
            }
            answer::pass(wire, post, frame).await;
            Seen::Reply
        }
        Step::Frame(frame) => answer::pass(wire, post, frame).await,
        Step::Odd(deviation) => {
            wire.found(Violation::of(Rule::BrokenEvent), deviation.to_string()).await;
            Seen::Other
        }
    }
}

/// A part of a reply, told as progress. The dialect has no tokens; ours is the id of the call.
fn progress(id: &CallId, count: usize) -> Bytes {
    let mut params = b"{\"progressToken\":".to_vec();
    id.write(&mut params);
    params.extend_from_slice(format!(",\"progress\":{count}}}").as_bytes());
    let note = Note { method: Method::Progress, params: Params::outgoing(Bytes::from(params)) };
    let mut frame = Vec::new();
    write::envelope(&Envelope::Note(note), &mut frame);
    Bytes::from(frame)
}

/// After the reply the stream should end. Waiting for that keeps the connection; waiting long keeps it busy.
async fn linger(wire: &Wire, post: &mut CallPost, lane: &mut Lane) {
    let rest = async { while let Followed::Replied = follow(wire, post, lane, None).await {} };
    let _ = timeout(wire.limits.drain_timeout, rest).await;
}

/// Passes on what comes beside an answer that nobody waits for, within a bound.
pub(crate) async fn drain(wire: &Wire, body: Incoming) {
    let mut lane = Lane::new(body, &wire.limits, "");
    let _ = timeout(wire.limits.drain_timeout, listen(wire, &mut lane)).await;
}

async fn oversize(wire: &Wire, bytes: u64) {
    wire.found(Violation::of(Rule::Oversize), format!("an event of {bytes} bytes")).await;
}

/// What became of the push lane so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// It was never open.
    Never,
    /// It was, and may be again soon.
    Open,
    /// It was, and does not come back; it is asked for at a slow pace.
    Lost,
}

/// A lane that lived that long was open in earnest, however quiet: proxies cut what is quiet, often after half a
/// minute.
const SETTLED: Duration = Duration::from_secs(5);

/// The push lane of a legacy session: opened again when it breaks, and slowly when nothing comes of it.
pub(crate) async fn push(wire: Wire, url: Url, heads: Heads) {
    let mut waits = Waits::new(&wire.limits);
    let (mut last, mut retry, mut past) = (String::new(), None, Past::Never);
    loop {
        let got = get(&wire, &url, &heads, &last).await;
        if last.is_empty() {
            wire.tell(News::PushTried).await;
        }
        let why = match got {
            Got::Lane(body) => {
                let mut lane = Lane::new(body, &wire.limits, &last);
                let (why, worth) = hear(&wire, &mut lane, past).await;
                last = lane.last_id().to_owned();
                retry = lane.retry().or(retry);
                match worth {
                    Worth::Much => waits.reset(),
                    Worth::Little => waits.ease(),
                    Worth::Nothing => {}
                }
                if past != Past::Lost || worth != Worth::Nothing {
                    past = Past::Open;
                    wire.tell(News::Pushes(Pushes::Opening)).await;
                }
                // One that ends properly as soon as it is there is how some servers say that they have none.
                let strange = why.is_some() || worth == Worth::Much;
                let why = why.unwrap_or_else(|| "closed by the server".into());
                if strange {
                    wire.tell(News::PushEnded(format!("the push lane ended: {why}").into())).await;
                }
                why
            }
            Got::NotOffered => return wire.tell(News::Pushes(Pushes::Absent)).await,
            Got::SessionGone(status) => {
                if let Some(session) = heads.session {
                    wire.tell(News::SessionGone { session, call: None, status }).await;
                }
                return;
            }
            Got::Refused(_) if past == Past::Never => return wire.tell(News::Pushes(Pushes::Absent)).await,
            Got::Refused(_) if past == Past::Lost => return,
            Got::Refused(failure) => return lost(&wire, &failure.to_string()).await,
            Got::Unwell(failure) => {
                if failure.status().is_none() {
                    wire.doubt(format!("the push lane cannot be opened: {failure}")).await;
                }
                failure.to_string().into()
            }
        };
        let wait = match (past, waits.next(retry)) {
            (Past::Lost, _) => waits.slow(retry),
            (_, Some(wait)) => wait,
            (Past::Never, None) => return wire.tell(News::Pushes(Pushes::Absent)).await,
            (Past::Open, None) => {
                past = Past::Lost;
                lost(&wire, &why).await;
                waits.slow(retry)
            }
        };
        sleep(wait).await;
    }
}

/// What a push lane was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// It ended where it began.
    Nothing,
    /// It brought bytes, but no message.
    Little,
    /// It brought messages, or would have.
    Much,
}

/// Reads a push lane to its end. After a loss it has to live a while before it counts as being back.
async fn hear(wire: &Wire, lane: &mut Lane, past: Past) -> (Option<Box<str>>, Worth) {
    if past != Past::Lost {
        wire.tell(News::Pushes(Pushes::Carried)).await;
    }
    let (why, settled) = {
        let mut listening = pin!(listen(wire, lane));
        match timeout(SETTLED, &mut listening).await {
            Ok((why, useful)) => (why, useful),
            Err(_) => {
                wire.tell(News::Pushes(Pushes::Carried)).await;
                (listening.await.0, true)
            }
        }
    };
    let worth = match lane.brought() {
        _ if settled => Worth::Much,
        Brought::Bytes => Worth::Little,
        Brought::Nothing => Worth::Nothing,
    };
    (why, worth)
}

async fn lost(wire: &Wire, why: &str) {
    wire.tell(News::Pushes(Pushes::Lost)).await;
    wire.noticed(Rule::PushLost, why).await;
}

/// Passes on what comes; tells why it ended and whether a message came.
async fn listen(wire: &Wire, lane: &mut Lane) -> (Option<Box<str>>, bool) {
    let mut useful = false;
    loop {
        match lane.next().await {
            Item::Event(event) if event.kind == EventKind::Message && !event.data.is_empty() => {
                useful = true;
                wire.frame(event.data).await;
            }
            Item::Event(_) | Item::Cut(_) => {}
            Item::Oversize(bytes) => oversize(wire, bytes).await,
            Item::End(why) => return (why, useful),
        }
    }
}

/// Where messages of the oldest transport are posted.
pub(crate) enum Posts {
    /// Where the `endpoint` event says.
    Announced,
    /// Here; the stream announces nothing.
    Known(Url),
}

/// The one stream of the oldest transport.
pub(crate) async fn events(wire: Wire, url: Url, heads: Heads, posts: Posts) {
    let mut lane = match timeout(wire.limits.probe_timeout, open(&wire, &url, &heads, posts)).await {
        Ok(Ok(lane)) => lane,
        Ok(Err(failure)) => return wire.tell(News::NoEndpoint(failure)).await,
        Err(_) => return wire.tell(News::NoEndpoint(HttpFailure::NoEndpoint)).await,
    };
    let (why, _) = listen(&wire, &mut lane).await;
    wire.tell(News::EventsOver(why)).await;
}

async fn open(wire: &Wire, url: &Url, heads: &Heads, posts: Posts) -> Result<Lane, HttpFailure> {
    let body = match get(wire, url, heads, "").await {
        Got::Lane(body) => body,
        Got::Refused(failure) | Got::Unwell(failure) => return Err(failure),
        Got::NotOffered | Got::SessionGone(_) => return Err(HttpFailure::NoEndpoint),
    };
    let mut lane = Lane::new(body, &wire.limits, "");
    if let Posts::Known(url) = posts {
        wire.tell(News::Endpoint(url)).await;
        return Ok(lane);
    }
    loop {
        match lane.next().await {
            Item::Event(event) if event.kind.as_str() == "endpoint" => {
                let place = redirect::endpoint(url, &event.data_text()).map_err(HttpFailure::Endpoint)?;
                wire.tell(News::Endpoint(place)).await;
                return Ok(lane);
            }
            Item::End(Some(why)) => return Err(HttpFailure::Broken(why)),
            Item::End(None) => return Err(HttpFailure::NoEndpoint),
            _ => {}
        }
    }
}
