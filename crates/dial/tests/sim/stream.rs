//! A reply that comes on a lane, in as many pieces as it takes.

use cardan_proto::era::Era;
use cardan_proto::session::event::Delivery;
use cardan_sim::rng::Rng;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::common::{Say, message};
use crate::deed::{End, Why};

/// A lane, and what each GET after its end is answered with. Who asks for more hears 503.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Whether events have ids.
    ids: bool,
    /// How long to wait before asking for the rest, where the peer says so.
    retry_ms: Option<u64>,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    Lane(Lane),
    Status(u16),
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Whether it begins with an event that says nothing.
    primed: bool,
    /// Log notes on it.
    notes: u64,
    /// Whether one event is no message.
    junk: bool,
    /// Whether the reply is on it.
    reply: bool,
    /// Whether it ends inside an event.
    fragment: bool,
    /// Whether the connection breaks.
    torn: bool,
    /// Whether it stays open instead, without another word. Only where it resumes another.
    dead: bool,
}

impl Lane {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            primed: rng.percent(50),
            notes: rng.pick(&[0, 0, 1, 3]),
            junk: rng.percent(10),
            reply: rng.percent(40),
            fragment: rng.percent(20),
            torn: rng.percent(50),
            dead: false,
        }
    }

    fn resumed(rng: &mut Rng) -> Self {
        Self { dead: rng.percent(40), ..Self::draw(rng) }
    }

    /// Events before the reply.
    fn events(self) -> u64 {
        u64::from(self.primed) + self.notes + u64::from(self.junk)
    }
}

impl Stream {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut pieces = vec![Piece::Lane(Lane::draw(rng))];
        for _ in 0..rng.below(5) {
            pieces.push(match rng.percent(60) {
                true => Piece::Lane(Lane::resumed(rng)),
                false => Piece::Status(rng.pick(&[409, 429, 500, 503, 503, 405, 400, 403, 404])),
            });
        }
        Self { ids: rng.percent(70), retry_ms: rng.pick(&[None, Some(0), Some(700)]), pieces }
    }

    /// The piece at `at`, of call `n`.
    pub(crate) fn say(&self, reply: &Value, n: u64, at: usize) -> Say {
        let lane = match self.pieces.get(at) {
            Some(Piece::Lane(lane)) => lane,
            Some(Piece::Status(status)) => return Say::Status(*status, ""),
            None => return Say::Status(503, ""),
        };
        let mut number = 0;
        let mut id = || {
            number += 1;
            if self.ids { format!("id: {}\n", event_id(n, at, number)) } else { String::new() }
        };
        let mut said = self.retry_ms.map(|ms| format!("retry: {ms}\n\n")).unwrap_or_default();
        if lane.primed {
            said += &format!("{}data:\n\n", id());
        }
        for note in 0..lane.notes {
            said += &format!("{}{}", id(), message(&log(&nonce(n, at, note))));
        }
        if lane.junk {
            said += &format!("{}data: {{nonsense\n\n", id());
        }
        if lane.reply {
            said += &format!("{}{}", id(), message(reply));
        }
        if lane.dead {
            return silent(said);
        }
        if lane.fragment {
            said += &format!("{}data: {{\"jsonrpc\"", id());
        }
        if lane.torn { Say::Cut(said) } else { Say::Events(said) }
    }

    /// How the call must end, and how many GETs are made for it.
    pub(crate) fn end(&self, era: Era, reconnects: usize) -> (End, usize) {
        let walk = self.walk(era, reconnects);
        (walk.end, walk.read - 1)
    }

    /// The log notes that are heard, in order.
    pub(crate) fn heard(&self, n: u64, era: Era, reconnects: usize) -> Vec<String> {
        let read = self.walk(era, reconnects).read;
        let lanes = self.pieces.iter().enumerate().take(read).filter_map(|(at, piece)| match piece {
            Piece::Lane(lane) => Some((at, lane.notes)),
            Piece::Status(_) => None,
        });
        lanes.flat_map(|(at, notes)| (0..notes).map(move |note| nonce(n, at, note))).collect()
    }

    /// After which event the GET of the piece at `at` must ask.
    pub(crate) fn last_id(&self, n: u64, at: usize) -> Option<String> {
        let lanes = self.pieces.iter().enumerate().take(at).rev();
        let mut last = lanes.filter_map(|(at, piece)| match piece {
            Piece::Lane(lane) if lane.events() > 0 => Some(event_id(n, at, lane.events())),
            _ => None,
        });
        last.next().filter(|_| self.ids)
    }

    pub(crate) fn forgets(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Status(404)))
    }

    /// The cases that it stands for.
    pub(crate) fn cases(&self, era: Era, reconnects: usize) -> Vec<&'static str> {
        let Walk { end, read, tries } = self.walk(era, reconnects);
        let mut cases = vec![match (end, self.ids, read) {
            (End::Done, _, 1) => "a stream with its reply",
            (End::Done, ..) => "a stream that is resumed",
            (_, false, _) => "a stream without reply and ids",
            (..) => "a stream without reply, with ids",
        }];
        if tries >= reconnects {
            cases.push("resuming that is given up");
        } else if read > 1 && end != End::Done {
            cases.push("resuming that is refused");
        }
        let dead = |piece: &Piece| matches!(piece, Piece::Lane(lane) if lane.dead && !lane.reply);
        if self.pieces.iter().take(read).any(dead) {
            cases.push("a resumed lane that is dead");
        }
        cases
    }

    /// Follows the pieces as a client must.
    fn walk(&self, era: Era, reconnects: usize) -> Walk {
        let (mut read, mut tries, mut known, mut why) = (0, 0, false, Why::Broken);
        let mut junk = false;
        loop {
            let piece = self.pieces.get(read).copied().unwrap_or(Piece::Status(503));
            read += 1;
            let over = match piece {
                Piece::Lane(lane) if lane.reply => return Walk { end: End::Done, read, tries },
                Piece::Lane(lane) => {
                    junk |= lane.junk;
                    if lane.events() > 0 {
                        (tries, known) = (0, self.ids);
                    }
                    // To look again is no try: the server answers, and may have kept something.
                    if lane.dead {
                        continue;
                    }
                    why = if lane.torn { Why::Broken } else { Why::NoReply(200) };
                    era == Era::Modern || !known
                }
                Piece::Status(409 | 429 | 500..) => false,
                Piece::Status(_) => true,
            };
            if over || tries == reconnects {
                let end = match why {
                    // It came in place of the reply.
                    Why::NoReply(_) if junk => End::Violated,
                    why => End::Lost(why, Delivery::Unknown),
                };
                return Walk { end, read, tries };
            }
            tries += 1;
        }
    }
}

/// Where following a stream leads.
struct Walk {
    end: End,
    /// How many pieces are asked for.
    read: usize,
    /// GETs in a row that brought nothing.
    tries: usize,
}

/// Says this, and then nothing, for as long as somebody reads.
fn silent(said: String) -> Say {
    let (tell, live) = mpsc::unbounded_channel();
    tell.send(said).unwrap();
    tokio::spawn(async move { tell.closed().await });
    Say::Live(live)
}

fn event_id(n: u64, at: usize, number: u64) -> String {
    format!("{n}.{at}.{number}")
}

fn nonce(n: u64, at: usize, note: u64) -> String {
    format!("note {n}.{at}.{note}")
}

fn log(nonce: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": nonce } })
}
