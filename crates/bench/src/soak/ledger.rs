//! What was done, and what was done wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

/// The kinds of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    Modern,
    Events,
    Socket,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Legacy, Self::Modern, Self::Events, Self::Socket];
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It came.
    Opened,
    /// A call was sent.
    Called,
    /// Its reply came.
    Replied,
    /// Its connection was cut by us after it was sent; nobody waits for the reply.
    Cut,
    /// A message was cut off while it was sent.
    Half,
    /// Its stream was cut by us, and the reply came when it was resumed.
    Resumed,
    /// A change of a resource was told.
    Told,
    /// The standing stream was cut by us and opened again.
    Reopened,
    /// It left as it should.
    Left,
    /// It left without a word.
    Vanished,
}

impl Deed {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Opened, "sessions opened"),
        (Self::Called, "calls sent"),
        (Self::Replied, "replies, each its own"),
        (Self::Cut, "calls cut off by us, not waited for"),
        (Self::Half, "messages cut off in the middle"),
        (Self::Resumed, "replies fetched after a cut"),
        (Self::Told, "changes told"),
        (Self::Reopened, "standing streams cut and opened again"),
        (Self::Left, "left politely"),
        (Self::Vanished, "left without a word"),
    ];
}

/// Violations that are kept as text; the others are counted.
const KEPT: usize = 30;

/// All of it.
#[derive(Default)]
pub(crate) struct Ledger {
    deeds: [[AtomicU64; Deed::ALL.len()]; Kind::ALL.len()],
    open: Mutex<(u64, u64)>,
    opened: Notify,
    violations: Mutex<(Vec<String>, u64)>,
}

impl Ledger {
    pub(crate) fn did(&self, kind: Kind, deed: Deed) {
        self.deeds[kind as usize][deed as usize].fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.open);
        match deed {
            Deed::Opened => open.0 += 1,
            Deed::Left | Deed::Vanished => open.0 -= 1,
            _ => return,
        }
        open.1 = open.1.max(open.0);
        drop(open);
        self.opened.notify_one();
    }

    /// Waits until so many sessions are open at once.
    pub(crate) async fn all_open(&self, sessions: u64) {
        while lock(&self.open).0 < sessions {
            self.opened.notified().await;
        }
    }

    /// The most sessions that were open at once.
    pub(crate) fn peak(&self) -> u64 {
        lock(&self.open).1
    }

    pub(crate) fn calls(&self) -> u64 {
        Kind::ALL.iter().map(|kind| self.count(*kind, Deed::Called)).sum()
    }

    pub(crate) fn violated(&self, what: String) {
        let mut violations = lock(&self.violations);
        if violations.0.len() < KEPT {
            violations.0.push(what);
        } else {
            violations.1 += 1;
        }
    }

    /// What went wrong, and whether the books balance.
    pub(crate) fn violations(&self) -> Vec<String> {
        let (mut out, more) = lock(&self.violations).clone();
        out.extend((more > 0).then(|| format!("and {more} more")));
        for kind in Kind::ALL {
            let [called, replied, cut] =
                [Deed::Called, Deed::Replied, Deed::Cut].map(|deed| self.count(kind, deed));
            if called != replied + cut {
                out.push(format!("{kind:?}: {called} calls, but {replied} replies and {cut} cut by us"));
            }
        }
        out
    }

    pub(crate) fn print(&self) {
        println!("| done | legacy | modern | old HTTP+SSE | WebSocket | all |");
        println!("|---|--:|--:|--:|--:|--:|");
        for (deed, name) in Deed::ALL {
            let counts = Kind::ALL.map(|kind| self.count(kind, deed));
            let [legacy, modern, events, socket] = counts;
            let all: u64 = counts.iter().sum();
            println!("| {name} | {legacy} | {modern} | {events} | {socket} | {all} |");
        }
        println!();
    }

    fn count(&self, kind: Kind, deed: Deed) -> u64 {
        self.deeds[kind as usize][deed as usize].load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a message was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The reply to this call.
    Reply(u64),
    /// Our resource has changed.
    Changed,
    /// Another note of a call of ours.
    Note,
    /// Nothing that should have come; it was reported.
    Foreign,
}

/// The calls of one session: which are open, and what their replies must say.
pub(crate) struct Calls {
    pub(crate) kind: Kind,
    ledger: Arc<Ledger>,
    /// Unlike that of any other session.
    name: String,
    last: u64,
    open: BTreeMap<u64, String>,
    /// Those that were cut off by us. Of their progress we may still hear, of their end not.
    cut: BTreeSet<u64>,
}

impl Calls {
    pub(crate) fn new(kind: Kind, ledger: &Arc<Ledger>, name: String) -> Self {
        Self { kind, ledger: Arc::clone(ledger), name, last: 0, open: BTreeMap::new(), cut: BTreeSet::new() }
    }

    /// The resource of this session.
    pub(crate) fn uri(&self) -> String {
        format!("soak://{}", self.name)
    }

    pub(crate) fn did(&self, deed: Deed) {
        self.ledger.did(self.kind, deed);
    }

    /// An id for what is no call of a tool.
    pub(crate) fn mint(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A call that is about to be sent: its id, and the text that its reply must carry.
    pub(crate) fn begin(&mut self) -> (u64, String) {
        let id = self.mint();
        let nonce = format!("{}/{id}", self.name);
        self.open.insert(id, nonce.clone());
        self.did(Deed::Called);
        (id, nonce)
    }

    /// The connection of all that is open was cut by us.
    pub(crate) fn cut(&mut self) {
        for (id, _) in std::mem::take(&mut self.open) {
            self.cut.insert(id);
            self.did(Deed::Cut);
        }
    }

    /// Judges a message that came.
    pub(crate) fn take(&mut self, text: &str) -> Taken {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return self.violated(&format!("no JSON came: {text}"));
        };
        match (message["id"].as_u64(), message["method"].as_str()) {
            (Some(id), None) => self.reply(id, &message),
            (None, Some("notifications/progress")) => {
                let token = message["params"]["progressToken"].as_u64();
                if token.is_some_and(|token| self.open.contains_key(&token) || self.cut.contains(&token)) {
                    return Taken::Note;
                }
                self.violated(&format!("progress of no open call: {text}"))
            }
            (None, Some("notifications/resources/updated")) => {
                if message["params"]["uri"].as_str() == Some(&self.uri()) {
                    return Taken::Changed;
                }
                self.violated(&format!("a change of a foreign resource: {text}"))
            }
            _ => self.violated(&format!("nothing that was to come: {text}")),
        }
    }

    fn reply(&mut self, id: u64, message: &Value) -> Taken {
        let said = message["result"]["content"][0]["text"].as_str();
        match self.open.get(&id) {
            Some(nonce) if said == Some(nonce) => {
                self.open.remove(&id);
                self.did(Deed::Replied);
                Taken::Reply(id)
            }
            Some(nonce) => self.violated(&format!("a foreign reply to {nonce}: {message}")),
            None if id <= self.last => self.violated(&format!("a second reply, or to a cut call: {message}")),
            None => self.violated(&format!("a reply to no call: {message}")),
        }
    }

    fn violated(&self, what: &str) -> Taken {
        self.ledger.violated(format!("{}: {what}", self.name));
        Taken::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(id: u64, text: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    }

    /// The judge must see lost, second and foreign replies.
    #[test]
    fn every_wrong_reply_is_a_violation() {
        let ledger = Arc::new(Ledger::default());
        let mut calls = Calls::new(Kind::Modern, &ledger, "a".to_owned());
        let (id, nonce) = calls.begin();
        assert_eq!(calls.take(&reply(id, "b/1")), Taken::Foreign);
        assert_eq!(calls.take(&reply(id + 5, &nonce)), Taken::Foreign);
        assert_eq!(calls.take(&reply(id, &nonce)), Taken::Reply(id));
        assert_eq!(calls.take(&reply(id, &nonce)), Taken::Foreign);
        assert_eq!(calls.take("{"), Taken::Foreign);
        assert_eq!(ledger.violations().len(), 4);
        calls.begin();
        assert_eq!(ledger.violations().len(), 5, "a lost reply");
        calls.cut();
        assert_eq!(ledger.violations().len(), 4, "one that was cut by us");
    }
}
