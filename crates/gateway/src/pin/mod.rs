//! Tools as they were when they were first seen: one that has changed since is told, or held back until somebody has
//! looked at it.
//!
//! * [`tool`]: what of a tool counts, its digest, and how two differ.
//! * [`store`]: what was approved, on disk.
//! * `told`: what people are told of that.

pub mod store;
mod told;
pub mod tool;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::fleet::PIN_FORMS;

use self::store::{Hearer, PinStore, Pinned, Stamp};
use self::told::{About, Line, Told};
use self::tool::Pin;
use crate::catalog::Catalog;
use crate::fleet::lock;

/// What becomes of a tool that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing: tools are not looked at.
    Off,
    /// It is told, and goes on.
    #[default]
    Warn,
    /// It is hidden, and calls of it are refused, until it is approved.
    Block,
}

/// Is told what people should know, a line each.
pub type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Looks at tools, and remembers them.
pub struct Pins {
    store: PinStore,
    tell: Tell,
    inner: Mutex<Inner>,
}

struct Inner {
    mode: Mode,
    /// Counts what is held back in another way than before: by another mode, or because something was approved.
    turns: u64,
    /// By name: those that are configured alike share a key, and each has a catalog of its own.
    servers: HashMap<Box<str>, Seen>,
    /// By server.
    told_alone: HashMap<Box<str>, Told>,
}

impl Inner {
    /// How this server was judged, if it is configured as it was.
    fn seen(&self, server: &str, key: &str) -> Option<&Seen> {
        self.servers.get(server).filter(|seen| &*seen.key == key)
    }

    /// What we have written holds nothing that was approved since, so who was judged by what was there before stays judged.
    fn renew(&mut self, key: &str, compared: &Compared) {
        for seen in
            self.servers.values_mut().filter(|seen| &*seen.key == key && seen.stamp == compared.before)
        {
            seen.stamp.clone_from(&compared.stamp);
        }
    }
}

/// How a server's tools were judged last.
struct Seen {
    /// Under what its pins are kept.
    key: Box<str>,
    of: Arc<Catalog>,
    judged: Arc<Held>,
    stamp: Option<Stamp>,
    /// What was told already.
    told: BTreeSet<Line>,
}

/// The tools of a server that are held back, by the names that it has for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held(BTreeSet<Box<str>>);

impl Held {
    /// Is this one?
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains(tool)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Pins {
    /// Remembers in `store`, and tells by `tell`.
    pub fn new(store: PinStore, mode: Mode, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let inner = Mutex::new(Inner { mode, turns: 0, servers: HashMap::new(), told_alone: HashMap::new() });
        Self { store, tell: Box::new(tell), inner }
    }

    /// Another mode, from now on.
    pub fn set(&self, mode: Mode) {
        let mut inner = lock(&self.inner);
        if inner.mode != mode {
            inner.mode = mode;
            inner.turns += 1;
            inner.servers.clear();
            inner.told_alone.clear();
        }
    }

    /// Where tools that have changed are held back: how often which has become another matter. What was judged before is judged anew.
    pub(crate) fn blocks(&self) -> Option<u64> {
        let inner = lock(&self.inner);
        (inner.mode == Mode::Block).then_some(inner.turns)
    }

    /// Has somebody approved something meanwhile? Then what was judged is judged anew.
    pub fn refresh(&self) -> bool {
        let mut inner = lock(&self.inner);
        let before = inner.servers.len();
        inner.servers.retain(|_, seen| self.store.stamp(&seen.key) == seen.stamp);
        let approved = inner.servers.len() != before;
        inner.turns += u64::from(approved);
        approved
    }

    /// Which tools of `server` are held back. `key` is under what its pins are kept.
    pub(crate) fn judge(&self, server: &str, key: &str, catalog: &Arc<Catalog>) -> Arc<Held> {
        let mut inner = lock(&self.inner);
        if inner.mode == Mode::Off {
            return Arc::default();
        }
        if let Some(seen) = inner.seen(server, key).filter(|seen| Arc::ptr_eq(&seen.of, catalog)) {
            return Arc::clone(&seen.judged);
        }
        let compared = self.compare(server, key, catalog, Hearer::All);
        inner.renew(key, &compared);
        let Compared { changed, lines, stamp, .. } = compared;
        let judged = Arc::new(if inner.mode == Mode::Block { changed } else { Held::default() });
        let told = inner.seen(server, key).map(|seen| &seen.told);
        // Once for a tool, however often it changes until it is approved.
        let knows = |line: &Line| told.is_some_and(|told| told.iter().any(|told| told.text == line.text));
        for line in lines.iter().filter(|line| !knows(line)) {
            (self.tell)(&line.text);
        }
        let seen = Seen {
            key: key.into(),
            of: Arc::clone(catalog),
            judged: Arc::clone(&judged),
            stamp,
            told: lines,
        };
        inner.servers.insert(server.into(), seen);
        judged
    }

    /// The same for what one client alone is offered, which is nobody else's last word.
    pub(crate) fn look(&self, server: &str, key: &str, catalog: &Catalog) -> Arc<Held> {
        let mut inner = lock(&self.inner);
        let mode = inner.mode;
        if mode == Mode::Off {
            return Arc::default();
        }
        let compared = self.compare(server, key, catalog, Hearer::One);
        inner.renew(key, &compared);
        let to_all = inner.seen(server, key).map(|seen| seen.told.clone()).unwrap_or_default();
        let told = inner.told_alone.entry(server.into()).or_default();
        for line in compared.lines.iter().filter(|line| !to_all.contains(*line) && told.take(&line.about)) {
            (self.tell)(&line.text);
        }
        Arc::new(if mode == Mode::Block { compared.changed } else { Held::default() })
    }

    /// The tools that are not what they were, and what to tell of them. New ones are trusted and kept.
    fn compare(&self, server: &str, key: &str, catalog: &Catalog, hearer: Hearer) -> Compared {
        let (mut pinned, mut compared) = match self.met(server, key, catalog, hearer) {
            Ok((_, Kept::All, compared)) | Err(compared) => return compared,
            Ok((pinned, Kept::Some, compared)) => (pinned, compared),
        };
        // Until what is read now is written: another process may have been at it meanwhile.
        let saved = self.store.hold().and_then(|_hold| {
            match self.met(server, key, catalog, hearer) {
                Ok((_, Kept::All, again)) | Err(again) => {
                    compared = again;
                    return Ok(());
                }
                Ok((again, Kept::Some, also)) => (pinned, compared) = (again, also),
            }
            self.store.save(key, &pinned)?;
            compared.stamp = self.store.stamp(key);
            Ok(())
        });
        if let Err(error) = saved {
            let text = format!("the tools of {server} cannot be remembered: {error}");
            compared.lines.insert(Line { about: About::Folder, text });
        }
        compared
    }

    /// What is kept of a server once it has met these tools, whether all of that is kept already, and how they compare.
    fn met(
        &self,
        server: &str,
        key: &str,
        catalog: &Catalog,
        hearer: Hearer,
    ) -> Result<(Pinned, Kept, Compared), Compared> {
        // Before it is read, so that what is written meanwhile is seen; what is taken over from elsewhere is there only then.
        let before = self.store.stamp(key);
        let read = self.store.load(key);
        let before = before.or_else(|| self.store.stamp(key));
        let (mut changed, mut lines) = (BTreeSet::new(), BTreeSet::new());
        let compared = |changed, lines| {
            let (before, stamp) = (before.clone(), before.clone());
            Compared { changed: Held(changed), lines, before, stamp }
        };
        let mut pinned = match read {
            Ok(pinned) => pinned.unwrap_or_else(|| Pinned::new(server)),
            // What was approved is not known, so nothing counts as approved.
            Err(error) => {
                let path = self.store.place(key);
                let text = format!(
                    "the approved tools of {server} cannot be read: {error}; mend or remove {path} to approve what there is"
                );
                lines.insert(Line { about: About::Folder, text });
                let all = catalog.tools.entries.iter().map(|tool| tool.key().into()).collect();
                return Err(compared(all, lines));
            }
        };
        let known = pinned.clone();
        for entry in &catalog.tools.entries {
            let (name, now) = (entry.key(), Pin::of(entry));
            let digest = now.digest.clone();
            if pinned.meet(name, now, hearer) {
                continue;
            }
            changed.insert(name.into());
            lines.insert(match pinned.waits(name, &digest) {
                true => waits(server, name, digest),
                false => crowded(server, name),
            });
        }
        let kept = if pinned == known { Kept::All } else { Kept::Some };
        Ok((pinned, kept, compared(changed, lines)))
    }
}

/// Why a tool is not called, `shown` to whoever calls it by this name.
pub(crate) fn held_back(shown: &str, server: &str, tool: &str) -> Fault {
    Fault::invalid_params(format!(
        "tool `{shown}` has changed since it was approved, so it is held back; see `cardan pin diff {server} {tool}`, \
         approve it with `cardan pin approve {server} {tool}`"
    ))
}

fn waits(server: &str, tool: &str, digest: String) -> Line {
    let text = format!(
        "tool `{tool}` of {server} has changed since it was approved; see `cardan pin diff {server} {tool}`, \
         approve it with `cardan pin approve {server} {tool}`"
    );
    Line { about: About::Form(tool.into(), digest), text }
}

fn crowded(server: &str, tool: &str) -> Line {
    let text = format!(
        "tool `{tool}` of {server} has changed for one client alone, where {PIN_FORMS} forms of it wait to be approved already; \
         this one cannot be before one of those is, see `cardan pin diff {server} {tool}`"
    );
    Line { about: About::Crowded(tool.into()), text }
}

/// How tools compare with what is kept of them.
struct Compared {
    /// Which have changed.
    changed: Held,
    /// What to tell of them.
    lines: BTreeSet<Line>,
    /// What tells the file that they were compared with.
    before: Option<Stamp>,
    /// The same of what is there in its place now, where something was to be kept.
    stamp: Option<Stamp>,
}

/// How much of what is known of a server is kept.
enum Kept {
    All,
    Some,
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pins").field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use cardan_proto::era::Revision;
    use serde_json::json;

    use super::*;
    use crate::catalog::{Kind, List};

    /// What several processes learn of one server at a time is all remembered. On a slow disk one of them may have to
    /// wait for too long; it says so, and tries again, as it would with the next change.
    #[test]
    fn nothing_that_others_learn_is_lost() {
        let dir = std::env::temp_dir().join(format!("cardan-pins-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let learn = |who: usize| {
            // As many as there would be processes: they share the folder and nothing else.
            let (told, lines) = std::sync::mpsc::channel();
            let tell = move |line: &str| told.send(line.to_owned()).unwrap();
            let pins = Pins::new(PinStore::new(&dir), Mode::Warn, tell);
            for number in 0..20 {
                let tool = json!({"name": format!("t{who}_{number}"), "inputSchema": {"type": "object"}});
                let mut catalog = Catalog::new(Revision::LATEST_LEGACY, None);
                catalog.tools = List::of(Kind::Tools, vec![serde_json::from_value(tool).unwrap()]).unwrap();
                loop {
                    pins.look("a", "00ff", &catalog);
                    match lines.try_recv() {
                        Ok(line) => assert!(line.contains("held the folder for too long"), "{line}"),
                        Err(_) => break,
                    }
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|who| drop(scope.spawn(move || learn(who)))));
        let kept = PinStore::new(&dir).load("00ff").unwrap().unwrap();
        assert_eq!(kept.tools.len(), 80);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Whoever has nothing to remember holds nothing, and so waits for nobody: judging stands before calls.
    #[test]
    fn what_is_known_is_judged_without_holding_the_folder() {
        let dir = std::env::temp_dir().join(format!("cardan-pins-held-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        let mut catalog = Catalog::new(Revision::LATEST_MODERN, None);
        catalog.tools = List::of(Kind::Tools, vec![serde_json::from_value(tool).unwrap()]).unwrap();
        let pins = Pins::new(PinStore::new(&dir), Mode::Block, |line| panic!("{line}"));
        pins.look("a", "00ff", &catalog);
        // Made by whoever holds the folder.
        let lock = dir.join("lock");
        std::fs::remove_file(&lock).unwrap();
        assert!(pins.look("a", "00ff", &catalog).is_empty());
        assert!(!lock.exists(), "it was held");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Servers that are configured alike share what was approved. Each is judged once all the same: judging reads a
    /// file, and every call asks.
    #[test]
    fn servers_that_are_alike_are_judged_once_each() {
        let dir = std::env::temp_dir().join(format!("cardan-pins-alike-{}", std::process::id()));
        let pins = Pins::new(PinStore::new(&dir), Mode::Block, |_| {});
        let catalog = || Arc::new(Catalog::new(Revision::LATEST_MODERN, None));
        let (one, two) = (catalog(), catalog());
        let first = [pins.judge("one", "alike", &one), pins.judge("two", "alike", &two)];
        let again = [pins.judge("one", "alike", &one), pins.judge("two", "alike", &two)];
        for (first, again) in first.iter().zip(&again) {
            assert!(Arc::ptr_eq(first, again), "judged again");
        }
        let other = pins.judge("one", "otherwise", &one);
        assert!(!Arc::ptr_eq(&first[0], &other), "configured otherwise, it is another server");
        let _ = std::fs::remove_dir_all(dir);
    }
}
