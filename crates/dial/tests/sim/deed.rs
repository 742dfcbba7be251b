//! What the peer does about a message, and what must become of it: told apart from the code under test on purpose.

use cardan_client::CallError;
use cardan_proto::era::Era;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::session::event::{Cause, Delivery};
use cardan_sim::rng::Rng;
use serde_json::{Value, json};

use crate::common::{Asked, Say, fault, result, text};
use crate::stream::Stream;

/// What the peer does about a call.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// It replies, under this content type.
    Reply(&'static str),
    /// It replies with a fault, under this status.
    Fault(u16),
    /// It says no, and this beside it.
    Status(u16, Beside),
    /// It says yes, and nothing else.
    Empty(u16),
    /// It sends the message elsewhere.
    Redirect(u16, Place),
    /// It says that this is JSON.
    Json(Flaw),
    /// It sends a page for people.
    Page,
    /// It replies to a call that nobody made.
    Stranger,
    /// It opens a lane.
    Stream(Stream),
    /// It says yes, and replies on the push lane after as long again.
    Elsewhere,
    /// It has forgotten the session, and says so in these words.
    Forgets(u16, &'static str),
    /// It breaks the connection.
    Reset,
    /// It never answers.
    Hangs,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Beside {
    Nothing,
    Page,
    /// What would be a reply if it came with another status.
    Result,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Here,
    Abroad,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Flaw {
    Nonsense,
    /// It ends properly, after so many percent.
    Short(usize),
    /// The connection breaks, after so many percent.
    Torn(usize),
}

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Fault,
    Violated,
    TimedOut,
    Cancelled,
    Lost(Why, Delivery),
    /// Something that no deed leads to.
    Odd,
}

/// Why nothing came of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Status(u16),
    NoReply(u16),
    Content,
    Redirect,
    Broken,
}

const JSON: &str = "application/json";

/// Those that say no, in every class.
const NO: [u16; 18] =
    [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 431, 500, 501, 502, 503, 504];

impl Deed {
    pub(crate) fn draw(era: Era, rng: &mut Rng) -> Self {
        let percent = |rng: &mut Rng| rng.below(99) as usize;
        match rng.below(20) {
            0 | 1 => Self::Reply(JSON),
            2 => Self::Reply(rng.pick(&["text/plain", "application/octet-stream"])),
            3 => Self::Fault(known(era, rng, &[200, 400, 401, 403, 404, 422, 429, 500, 503])),
            4..=6 => {
                let beside = rng.pick(&[Beside::Nothing, Beside::Page, Beside::Result]);
                Self::Status(known(era, rng, &NO), beside)
            }
            7 => Self::Empty(rng.pick(&[200, 202, 204])),
            8 => Self::Redirect(rng.pick(&[301, 302, 303, 304]), Place::Here),
            9 => Self::Redirect(rng.pick(&[307, 308]), rng.pick(&[Place::Here, Place::Abroad])),
            10 => Self::Json(Flaw::Nonsense),
            11 => Self::Json(Flaw::Short(percent(rng))),
            12 => Self::Json(Flaw::Torn(percent(rng))),
            13 => Self::Page,
            14 => Self::Stranger,
            15 => rng.pick(&[Self::Reset, Self::Hangs]),
            16 if era == Era::Legacy => {
                let (status, words) = rng.pick(&[(404, ""), (410, ""), (400, "no such session")]);
                Self::Forgets(status, words)
            }
            _ => Self::Stream(Stream::draw(rng)),
        }
    }

    /// What the peer says at the `attempt`th POST of call `n`.
    pub(crate) fn say(&self, asked: &Asked, n: u64, attempt: usize) -> Say {
        let words = text(&format!("call {n}"));
        let reply = result(asked, words.clone());
        let typed = |status, content: &str, text: String| {
            Say::Full(status, vec![("content-type", content.to_owned())], text)
        };
        let part = |percent: usize| {
            let text = reply.to_string();
            text[..(text.len() * percent / 100).max(1)].to_owned()
        };
        match self {
            Self::Reply(content) => typed(200, content, reply.to_string()),
            Self::Fault(status) => typed(*status, JSON, fault(asked, CODE, "no").to_string()),
            Self::Status(status, Beside::Nothing) | Self::Empty(status) => Say::Status(*status, ""),
            Self::Elsewhere => Say::Status(202, ""),
            Self::Status(status, Beside::Page) => typed(*status, "text/html", "<p>no</p>".into()),
            Self::Status(status, Beside::Result) => typed(*status, JSON, reply.to_string()),
            Self::Redirect(_, Place::Here) if asked.target == MOVED => typed(200, JSON, reply.to_string()),
            Self::Redirect(status, place) => {
                let to = match place {
                    Place::Here => MOVED,
                    Place::Abroad => "http://abroad.test/mcp",
                };
                Say::Full(*status, vec![("location", to.to_owned())], String::new())
            }
            Self::Json(Flaw::Nonsense) => typed(200, JSON, "{nonsense".into()),
            Self::Json(Flaw::Short(percent)) => typed(200, JSON, part(*percent)),
            Self::Json(Flaw::Torn(percent)) => Say::Torn(part(*percent)),
            Self::Page => typed(200, "text/html", "<p>sign in</p>".into()),
            Self::Stranger => typed(
                200,
                JSON,
                json!({ "jsonrpc": "2.0", "id": 1_000_000 + n, "result": words }).to_string(),
            ),
            Self::Stream(stream) => stream.say(&reply, n, 0),
            Self::Forgets(status, words) if attempt == 0 => Say::Status(*status, words),
            Self::Forgets(..) => typed(200, JSON, reply.to_string()),
            Self::Reset => Say::Reset,
            Self::Hangs => Say::Hang,
        }
    }

    /// How the call must end, and how many GETs are made for it.
    pub(crate) fn end(&self, era: Era, pushes: bool, reconnects: usize) -> (End, usize) {
        let lost = |why, delivery| (End::Lost(why, delivery), 0);
        match self {
            Self::Reply(_) | Self::Forgets(..) | Self::Elsewhere | Self::Redirect(307 | 308, Place::Here) => {
                (End::Done, 0)
            }
            // Who must authorize first was not read.
            Self::Fault(status @ (401 | 403)) => lost(Why::Status(*status), Delivery::NotSent),
            Self::Fault(_) => (End::Fault, 0),
            Self::Status(status, _) => lost(Why::Status(*status), delivery(*status)),
            // It may come on the push lane, and never does.
            Self::Empty(202) if pushes => (End::TimedOut, 0),
            Self::Empty(status) => lost(Why::NoReply(*status), Delivery::Sent),
            Self::Redirect(307 | 308, Place::Abroad) => lost(Why::Redirect, Delivery::NotSent),
            Self::Redirect(..) => lost(Why::Redirect, Delivery::Unknown),
            Self::Json(Flaw::Torn(_)) | Self::Reset => lost(Why::Broken, Delivery::Unknown),
            Self::Json(_) => (End::Violated, 0),
            Self::Page => lost(Why::Content, Delivery::Sent),
            Self::Stranger => lost(Why::NoReply(200), Delivery::Sent),
            Self::Stream(stream) => stream.end(era, reconnects),
            Self::Hangs => (End::TimedOut, 0),
        }
    }

    /// How many POSTs are made for the call.
    pub(crate) fn posts(&self) -> usize {
        match self {
            Self::Forgets(..) | Self::Redirect(307 | 308, Place::Here) => 2,
            _ => 1,
        }
    }

    /// Does the peer say anywhere that it has forgotten the session?
    pub(crate) fn forgets(&self) -> bool {
        match self {
            Self::Forgets(..) => true,
            Self::Stream(stream) => stream.forgets(),
            _ => false,
        }
    }

    /// The case that it stands for.
    pub(crate) fn case(&self) -> &'static str {
        match self {
            Self::Reply("application/json") => "200",
            Self::Reply(_) => "a reply of the wrong type",
            Self::Fault(200) => "a fault",
            Self::Fault(_) => "a fault with a status",
            Self::Status(_, Beside::Result) => "a result with a failing status",
            Self::Status(400, _) => "400",
            Self::Status(401, _) => "401",
            Self::Status(403, _) => "403",
            Self::Status(404, _) => "404",
            Self::Status(405, _) => "405",
            Self::Status(429, _) => "429",
            Self::Status(status, _) if *status < 500 => "another 4xx",
            Self::Status(..) => "5xx",
            Self::Empty(202) => "202",
            Self::Empty(204) => "204",
            Self::Empty(_) => "200 without a body",
            Self::Redirect(307 | 308, Place::Here) => "3xx, followed",
            Self::Redirect(..) => "3xx, not followed",
            Self::Json(Flaw::Nonsense) => "invalid JSON",
            Self::Json(Flaw::Short(_)) => "truncated JSON",
            Self::Json(Flaw::Torn(_)) => "torn JSON",
            Self::Page => "a page",
            Self::Stranger => "a reply to another call",
            Self::Stream(_) => "a stream",
            Self::Elsewhere => "a reply on the push lane",
            Self::Forgets(..) => "a forgotten session",
            Self::Reset => "a reset",
            Self::Hangs => "silence",
        }
    }
}

/// Where those are sent that are sent on.
const MOVED: &str = "/moved";

/// That of the faults here: any that means nothing to a link.
const CODE: i64 = -32602;

/// To a legacy client 404 says that the session is gone, which is a deed of its own.
fn known(era: Era, rng: &mut Rng, statuses: &[u16]) -> u16 {
    match rng.pick(statuses) {
        404 if era == Era::Legacy => 400,
        status => status,
    }
}

/// Which statuses are said before anyone reads a message, and which by those who may have done what it says.
pub(crate) fn delivery(status: u16) -> Delivery {
    match status {
        401 | 403 | 405 | 406 | 413 | 415 | 429 | 431 => Delivery::NotSent,
        500.. => Delivery::Unknown,
        _ => Delivery::Sent,
    }
}

/// How call `n` ended.
pub(crate) fn end_of(n: u64, outcome: &Result<Value, CallError>) -> End {
    match outcome {
        Ok(result) if result["content"][0]["text"] == format!("call {n}") => End::Done,
        Err(CallError::Fault(fault)) if fault.code == CODE => End::Fault,
        Err(CallError::Violated(_)) => End::Violated,
        Err(CallError::TimedOut { .. }) => End::TimedOut,
        Err(CallError::Cancelled { .. }) => End::Cancelled,
        Err(CallError::Lost { cause: Cause::Http(failure), delivery, .. }) => {
            let why = match &**failure {
                HttpFailure::Status { status, .. } => Why::Status(status.as_u16()),
                HttpFailure::NoReply { status } => Why::NoReply(status.as_u16()),
                HttpFailure::Content { .. } => Why::Content,
                HttpFailure::Redirect(_) => Why::Redirect,
                HttpFailure::Broken(_) => Why::Broken,
                _ => return End::Odd,
            };
            End::Lost(why, *delivery)
        }
        _ => End::Odd,
    }
}
