//! Who called what and how it went: a line of JSON for each call, without what was said in it.
//!
//! Writing never holds up a call: lines wait in a queue, and what finds no room there is counted and told.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::fleet::lock;

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has a result.
    Done,
    /// The tool says that it failed.
    Failed,
    /// The server wants to know more first.
    InputRequired,
    /// It ended with an error, of the server or on the way there.
    Fault,
    /// There is no such thing, at least for this principal.
    Refused,
    /// The client gave up.
    Cancelled,
}

impl Outcome {
    const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::InputRequired => "input_required",
            Self::Fault => "fault",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A call that has ended.
#[derive(Debug, Clone)]
pub struct Record {
    /// On whose behalf; none: nobody in particular.
    pub principal: Option<Arc<str>>,
    /// The method.
    pub method: Box<str>,
    /// The server, and what it calls the tool, prompt or resource; what a template makes is called as the template is. None where
    /// nothing is called so: what a client makes up is not written down.
    pub target: Option<(Box<str>, Option<Box<str>>)>,
    /// How it went.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
    /// Bytes of its params.
    pub sent: usize,
    /// Bytes of its result.
    pub received: usize,
}

impl Record {
    /// The line of a call that ended `at` this time.
    #[must_use]
    pub fn line(&self, at: SystemTime) -> String {
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let target = self.target.as_ref();
        json!({
            "time_ms": u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            "principal": self.principal.as_deref(),
            "method": self.method,
            "server": target.map(|(server, _)| server),
            "name": target.and_then(|(_, name)| name.as_deref()),
            "outcome": self.outcome.word(),
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "sent": self.sent,
            "received": self.received,
        })
        .to_string()
    }
}

/// Lines that wait to be written.
const WAITING: usize = 4096;

/// Writes calls down.
pub struct Audit {
    lines: Mutex<Option<SyncSender<String>>>,
    dropped: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

impl Audit {
    /// Adds to a file, which is made for its owner alone. `tell` gets what is wrong with writing.
    pub fn file(path: &Path, tell: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::to(options.create(true).append(true).open(path)?, WAITING, tell)
    }

    fn to(
        to: impl Write + Send + 'static,
        waiting: usize,
        tell: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (lines, queue) = sync_channel(waiting);
        let dropped = Arc::new(AtomicU64::new(0));
        let missing = Arc::clone(&dropped);
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(to, &queue, &missing, &tell))?;
        Ok(Self { lines: Mutex::new(Some(lines)), dropped, writer })
    }

    /// Writes a call down, as soon as may be.
    pub fn put(&self, record: &Record) {
        let line = record.line(SystemTime::now());
        let put = lock(&self.lines).as_ref().map(|lines| lines.try_send(line));
        if !matches!(put, Some(Ok(()))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all is written. What comes later is not.
    pub fn close(&self) {
        self.close_within(Duration::MAX);
    }

    /// The same, but waits no longer than this: for who is in a hurry, though others may wait still. Tells whether all is
    /// written.
    pub fn close_within(&self, limit: Duration) -> Written {
        drop(lock(&self.lines).take());
        let begun = Instant::now();
        while !self.writer.is_finished() {
            if begun.elapsed() >= limit {
                return Written::Some;
            }
            std::thread::sleep(AUDIT_POLL);
        }
        Written::All
    }
}

/// How much of what was to be written is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// All of it.
    All,
    /// What could be in the time.
    Some,
}

/// Between two looks whether all is written.
const AUDIT_POLL: Duration = Duration::from_millis(2);

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

/// Writes until nobody has anything to say. What was lost is said where it would stand.
fn write(to: impl Write, queue: &Receiver<String>, dropped: &AtomicU64, tell: &dyn Fn(&str)) {
    let mut book = Book { to, end: End::Whole, lost: 0, tell };
    for line in queue {
        book.gap(dropped.swap(0, Ordering::Relaxed));
        book.add(&line);
    }
    book.gap(dropped.swap(0, Ordering::Relaxed));
    if book.lost > 0 {
        // The last chance: without room there is nothing more to do, and it was told.
        let _ = book.put(&json!({ "dropped": book.lost }).to_string());
    }
}

/// Where lines are written.
struct Book<'a, W> {
    to: W,
    end: End,
    /// Lines that could not be written, not yet said where they would stand.
    lost: u64,
    tell: &'a dyn Fn(&str),
}

/// How what was written so far ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// Perhaps in the middle of a line: there was no room for the rest.
    Torn,
}

impl<W: Write> Book<'_, W> {
    /// A call that finds no room is counted, and the next one begins on a line of its own.
    fn add(&mut self, line: &str) {
        if self.lost > 0 && self.put(&json!({ "dropped": self.lost }).to_string()).is_ok() {
            self.lost = 0;
        }
        if let Err(error) = self.put(line) {
            self.lost += 1;
            // Once: whoever reads it knows, and a full disk is full for a while.
            if self.lost == 1 {
                (self.tell)(&format!(
                    "calls cannot be written down: {error}; they are counted until they can"
                ));
            }
        }
    }

    /// So many found no room in the queue.
    fn gap(&mut self, lost: u64) {
        if lost > 0 {
            (self.tell)(&format!(
                "{lost} calls were not written down: they came faster than they could be written"
            ));
            if self.put(&json!({ "dropped": lost }).to_string()).is_err() {
                self.lost += lost;
            }
        }
    }

    fn put(&mut self, line: &str) -> io::Result<()> {
        let before = if self.end == End::Torn { "\n" } else { "" };
        let put = self.to.write_all(format!("{before}{line}\n").as_bytes()).and_then(|()| self.to.flush());
        self.end = if put.is_ok() { End::Whole } else { End::Torn };
        put
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::Value;

    use super::*;

    fn record() -> Record {
        Record {
            principal: Some("ada".into()),
            method: "tools/call".into(),
            target: Some(("files".into(), Some("read".into()))),
            outcome: Outcome::Done,
            took: Duration::from_millis(12),
            sent: 40,
            received: 99,
        }
    }

    #[test]
    fn a_line_says_who_what_and_how() {
        let line: Value =
            serde_json::from_str(&record().line(UNIX_EPOCH + Duration::from_millis(7))).unwrap();
        let wanted = json!({
            "time_ms": 7, "principal": "ada", "method": "tools/call", "server": "files", "name": "read",
            "outcome": "done", "took_ms": 12, "sent": 40, "received": 99,
        });
        assert_eq!(line, wanted);
    }

    /// Waits for leave to write.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Nobody left to give leave: then at will.
            let _ = self.0.recv();
            lock(&self.1).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told() {
        let (leave, wait) = mpsc::channel();
        let (written, told) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let telling = Arc::clone(&told);
        let tell = move |line: &str| lock(&telling).push(line.to_owned());
        let audit = Audit::to(Slow(wait, Arc::clone(&written)), 2, tell).unwrap();
        // The writer is stuck with one at most, and two wait.
        for _ in 0..10 {
            audit.put(&record());
        }
        drop(leave);
        audit.close();
        audit.put(&record());
        let written = String::from_utf8(lock(&written).clone()).unwrap();
        let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lost: u64 = lines.iter().filter_map(|line| line["dropped"].as_u64()).sum();
        let kept = lines.iter().filter(|line| line["outcome"] == "done").count();
        assert!(kept >= 2 && lost >= 7, "{kept} {lost}");
        assert_eq!(kept as u64 + lost, 10, "each is written or counted");
        assert!(lock(&told).iter().any(|line| line.contains("were not written down")));
    }

    /// Whoever is in a hurry does not wait behind who is not.
    #[test]
    fn who_is_in_a_hurry_is_told_what_is_missing() {
        let (leave, wait) = mpsc::channel();
        let audit = Arc::new(Audit::to(Slow(wait, Arc::default()), 2, |_| {}).unwrap());
        audit.put(&record());
        let waiting = Arc::clone(&audit);
        let waiting = std::thread::spawn(move || waiting.close());
        while lock(&audit.lines).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(audit.close_within(Duration::from_millis(10)), Written::Some);
        drop(leave);
        waiting.join().unwrap();
        assert_eq!(audit.close_within(Duration::ZERO), Written::All);
    }

    /// Has room for so many bytes, and for more after a while.
    struct Narrow {
        room: Vec<usize>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = self.room.last().map_or(bytes.len(), |room| bytes.len().min(*room));
            if fits == 0 {
                self.room.pop();
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            if let Some(room) = self.room.last_mut() {
                *room -= fits;
            }
            lock(&self.written).extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// F32: a full disk tears one line at most, loses no other that was there, and is told once; what was lost is said
    /// where it would stand.
    #[test]
    fn f32_a_full_disk_tears_no_other_line() {
        let (written, told) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let telling = Arc::clone(&told);
        // Room for a line and a half; then none, twice; then as much as there is.
        let narrow = Narrow { room: vec![0, 0, 250], written: Arc::clone(&written) };
        let audit = Audit::to(narrow, 16, move |line| lock(&telling).push(line.to_owned())).unwrap();
        for _ in 0..6 {
            audit.put(&record());
        }
        audit.close();
        let written = String::from_utf8(lock(&written).clone()).unwrap();
        let lines: Vec<Option<Value>> = written.lines().map(|line| serde_json::from_str(line).ok()).collect();
        let whole: Vec<&Value> = lines.iter().flatten().collect();
        let lost: u64 = whole.iter().filter_map(|line| line["dropped"].as_u64()).sum();
        let kept = whole.iter().filter(|line| line["outcome"] == "done").count() as u64;
        assert_eq!((lines.len() - whole.len(), kept + lost), (1, 6), "{written}");
        assert!(lost >= 1 && kept >= 3, "{written}");
        assert_eq!(lock(&told).len(), 1, "{told:?}");
    }

    /// Who is in a hurry waits for what is in the queue, and not for a writer that is stuck.
    #[test]
    fn a_hurry_drops_nothing_that_can_be_written() {
        for (stuck, all) in [(false, Written::All), (true, Written::Some)] {
            let (leave, wait) = mpsc::channel();
            let written = Arc::<Mutex<Vec<u8>>>::default();
            let audit = Audit::to(Slow(wait, Arc::clone(&written)), 100, |_| {}).unwrap();
            (0..50).for_each(|_| audit.put(&record()));
            let leave = stuck.then_some(leave);
            let limit = if stuck { Duration::from_millis(10) } else { Duration::from_secs(60) };
            assert_eq!(audit.close_within(limit), all);
            assert_eq!(
                lock(&written).iter().filter(|byte| **byte == b'\n').count(),
                if stuck { 0 } else { 50 }
            );
            drop(leave);
        }
    }
}
