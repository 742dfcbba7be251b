//! What a child says beside the protocol: always drained, its tail kept, never taken for an error.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use cardan_proto::finding::{excerpt, is_obeyed};
use cardan_proto::limits::Limits;
use cardan_proto::secret::Redactor;
use cardan_runtime::witness::{Report, Witness};
use memchr::{memchr, memmem};
use tokio::io::{AsyncRead, ReadBuf};

/// Called with every line of stderr, made harmless and without its end. Must not block.
pub type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// A view of a child's stderr that outlives the link. Cheap to clone.
#[derive(Clone)]
pub struct Stderr {
    kept: Arc<Mutex<Kept>>,
    secrets: Redactor,
}

struct Kept {
    tail: VecDeque<u8>,
    max_bytes: usize,
    total_bytes: u64,
    exit: Option<Box<str>>,
}

impl Stderr {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let kept = Kept { tail: VecDeque::new(), max_bytes, total_bytes: 0, exit: None };
        Self { kept: Arc::new(Mutex::new(kept)), secrets: Redactor::default() }
    }

    /// The last of what was written, as text that is safe to print: no commands, no secrets.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = self.lock().text();
        self.secrets.redact(&text).into_owned()
    }

    /// Everything that was ever written, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lock().total_bytes
    }

    /// The process has ended, and how.
    pub(crate) fn exited(&self, status: ExitStatus) {
        self.lock().exit.get_or_insert_with(|| status.to_string().into());
    }

    /// The last words, short enough to be part of an error.
    pub(crate) fn last_words(&self) -> Box<str> {
        gist(&self.tail()).into()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Stderr {
    fn report(&self) -> Report {
        let exit = self.lock().exit.clone();
        Report { exit, stderr: self.last_words() }
    }
}

impl fmt::Debug for Stderr {
    /// Without what was written: whoever wants to see that asks for the tail.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stderr").field("total_bytes", &self.total_bytes()).finish_non_exhaustive()
    }
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.max_bytes)..];
        let excess = (self.tail.len() + bytes.len()).saturating_sub(self.max_bytes);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    /// What is kept, from the start of a character.
    fn text(&self) -> String {
        let mut bytes: Vec<u8> = self.tail.iter().copied().collect();
        if self.total_bytes > self.tail.len() as u64 {
            let torn = bytes.iter().take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
            bytes.drain(..torn);
        }
        harmless(&bytes)
    }
}

/// Drains the pipe whenever the link is polled.
pub(crate) struct Drain<R> {
    pipe: Option<R>,
    kept: Stderr,
    on_line: Option<OnLine>,
    /// The line that is being read, up to [`LINE_BYTES`] of it.
    line: Vec<u8>,
    chunk: Box<[u8]>,
    stray: Stray,
    excerpt_bytes: usize,
}

/// A line that looks like a protocol message: it was meant for stdout, a porting mistake. One is enough to
/// tell.
#[derive(Debug)]
enum Stray {
    None,
    Seen(Box<str>),
    Told,
}

impl<R: AsyncRead + Unpin> Drain<R> {
    pub(crate) fn new(pipe: R, limits: &Limits, on_line: Option<OnLine>) -> Self {
        Self {
            pipe: Some(pipe),
            kept: Stderr::new(limits.stderr_bytes),
            on_line,
            line: Vec::new(),
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            stray: Stray::None,
            excerpt_bytes: limits.excerpt_bytes,
        }
    }

    /// Shows nothing of these secrets.
    pub(crate) fn hiding(mut self, secrets: Redactor) -> Self {
        self.kept.secrets = secrets;
        self
    }

    pub(crate) fn kept(&self) -> &Stderr {
        &self.kept
    }

    /// The first message that went astray here, once.
    pub(crate) fn take_stray(&mut self) -> Option<Box<str>> {
        let Stray::Seen(line) = &mut self.stray else { return None };
        let line = std::mem::take(line);
        self.stray = Stray::Told;
        Some(line)
    }

    /// Takes what is there, but no more than a share: a flood here must not keep the link from its
    /// messages. Ready when there will be nothing more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..CHUNKS_PER_TURN {
            if ready!(self.poll_chunk(cx)) == Pipe::Ended {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Pipe> {
        let Some(pipe) = &mut self.pipe else { return Poll::Ready(Pipe::Ended) };
        let mut buf = ReadBuf::new(&mut self.chunk);
        let read = ready!(Pin::new(pipe).poll_read(cx, &mut buf));
        let n = buf.filled().len();
        // A read error here is no news: stdout and the exit status tell more.
        if read.is_err() || n == 0 {
            self.pipe = None;
            self.end_line();
            return Poll::Ready(Pipe::Ended);
        }
        self.kept.lock().push(&self.chunk[..n]);
        let chunk = std::mem::take(&mut self.chunk);
        self.lines(&chunk[..n]);
        self.chunk = chunk;
        Poll::Ready(Pipe::Open)
    }

    fn lines(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.part(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.part(bytes);
    }

    /// More of the current line. One that is too long is handed on in pieces.
    fn part(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = LINE_BYTES - self.line.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.line.extend_from_slice(now);
            if self.line.len() == LINE_BYTES {
                self.end_line();
            }
            bytes = later;
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        if matches!(self.stray, Stray::None) && is_frame(&self.line) {
            self.stray = Stray::Seen(excerpt(&self.line, self.excerpt_bytes));
        }
        if let Some(on_line) = &self.on_line {
            on_line(&self.kept.secrets.redact(&harmless(self.line.trim_ascii_end())));
        }
        self.line.clear();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Open,
    Ended,
}

/// Does it begin like a message? Good enough to tell a person; nothing is decided by it.
fn is_frame(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    (line.starts_with(b"{") || line.starts_with(b"[{")) && memmem::find(line, b"\"jsonrpc\"").is_some()
}

/// Text that can be printed: no control characters but newline and tab, nothing that turns the
/// direction of writing.
fn harmless(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mark = |c: char| if matches!(c, '\n' | '\t') || !is_obeyed(c) { c } else { '\u{fffd}' };
    text.chars().map(mark).collect()
}

/// The last lines, and of those before them the last that are not indented: frames of a stack are, and what they lead to is not.
fn gist(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if text.len() <= LAST_WORDS_BYTES && lines.len() <= LAST_LINES + HEAD_LINES {
        return text.to_owned();
    }
    let last = lines.len().saturating_sub(LAST_LINES);
    let is_head = |at: &usize| !lines[*at].is_empty() && !lines[*at].starts_with([' ', '\t']);
    let mut kept: Vec<usize> = (0..last).rev().filter(is_head).take(HEAD_LINES).collect();
    kept.reverse();
    let mut words = String::new();
    for at in &kept {
        words.push_str(beginning(lines[*at], HEAD_BYTES));
        words.push('\n');
    }
    if kept.last().is_some_and(|at| at + 1 < last) {
        words.push_str("…\n");
    }
    let room = LAST_WORDS_BYTES - words.len();
    words.push_str(ending(&lines[last..].join("\n"), room));
    words
}

/// At most the first `max_bytes`, in whole characters.
fn beginning(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// At most the last `max_bytes`, in whole characters.
fn ending(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// Every pending call carries a copy of the last words, so they are few.
const LAST_WORDS_BYTES: usize = 4 << 10;

/// So many lines are the last.
const LAST_LINES: usize = 10;

/// So many before them are looked for among those that are not indented.
const HEAD_LINES: usize = 10;

/// So much of each of those is kept.
const HEAD_BYTES: usize = 160;

/// A longer line is handed on in pieces.
const LINE_BYTES: usize = 8 << 10;

/// One read.
const CHUNK_BYTES: usize = 16 << 10;

/// Reads before the link's messages get their turn: as much as a pipe holds.
const CHUNKS_PER_TURN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(input: &[u8], max_bytes: usize) -> (Stderr, Vec<String>) {
        let (drain, lines) = drain(input, max_bytes);
        (drain.kept, lines)
    }

    fn drain(input: &[u8], stderr_bytes: usize) -> (Drain<&[u8]>, Vec<String>) {
        let limits = Limits { stderr_bytes, ..Limits::DEFAULT };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let on_line: OnLine = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
        let mut drain = Drain::new(input, &limits, Some(on_line));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while drain.poll(&mut cx).is_pending() {}
        let lines = lines.lock().unwrap().clone();
        (drain, lines)
    }

    /// Only the end is kept, however much was written.
    #[test]
    fn s0_33_the_tail_is_kept_and_the_rest_counted() {
        let mut input = vec![b'x'; 1 << 20];
        input.extend_from_slice(b"\nlast words\n");
        let (kept, _) = drained(&input, 64);
        assert!(kept.tail().ends_with("x\nlast words\n"));
        assert_eq!((kept.tail().len(), kept.total_bytes()), (64, input.len() as u64));
    }

    #[test]
    fn a_cut_through_a_character_leaves_no_half_of_it() {
        let (kept, _) = drained("aé日本".as_bytes(), 5);
        assert_eq!(kept.tail(), "本");
        let (kept, _) = drained(b"\xa9 invalid on its own", 64);
        assert_eq!(kept.tail(), "\u{fffd} invalid on its own", "what was not cut is shown");
    }

    /// Bytes that are no UTF-8, terminal commands and turned text are made harmless.
    #[test]
    fn what_is_printed_cannot_command_a_terminal() {
        let (kept, lines) = drained("\x1b[31mred\x07\r\nt\u{202e}urn\u{9b}\tok".as_bytes(), 64);
        assert_eq!(kept.tail(), "\u{fffd}[31mred\u{fffd}\nt\u{fffd}urn\u{fffd}\tok");
        assert_eq!(lines, ["\u{fffd}[31mred\u{fffd}", "t\u{fffd}urn\u{fffd}\tok"]);
    }

    #[test]
    fn a_line_without_end_is_handed_on_in_pieces() {
        let (_, lines) = drained(&vec![b'y'; 3 * LINE_BYTES + 1], 64);
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [LINE_BYTES, LINE_BYTES, LINE_BYTES, 1]
        );
    }

    /// S1-11, S1-C8: a message on stderr is noticed; prose and other JSON are not.
    #[test]
    fn s1_11_a_frame_on_stderr_is_noticed() {
        for (input, expected) in [
            (&b"  {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"[..], true),
            (b"[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n", true),
            (b"{\"level\":\"info\",\"message\":\"ready\"}\n", false),
            (b"the \"jsonrpc\" member is missing\n", false),
        ] {
            let (mut drain, _) = drain(input, 1024);
            let told = drain.take_stray();
            assert_eq!(told.is_some(), expected, "{}", drain.kept().tail());
            assert_eq!(drain.take_stray(), None, "told once");
        }
    }

    #[test]
    fn last_words_are_few() {
        for line in
            ["z".repeat(64 << 10), "é z\n".repeat(12 << 10), format!("{}\n", "日".repeat(99)).repeat(200)]
        {
            let (kept, _) = drained(line.as_bytes(), 64 << 10);
            let words = kept.last_words();
            assert!((1 << 5..=LAST_WORDS_BYTES).contains(&words.len()), "{}: {words}", words.len());
            assert!(words.lines().count() <= LAST_LINES + HEAD_LINES + 1, "{words}");
        }
        let (kept, _) = drained(b"short\n  and whole\n\n", 64);
        assert_eq!(&*kept.last_words(), "short\n  and whole\n\n");
    }

    /// S0-33, CLI-28: why it came to a panic is told before a stack of any depth, and what was logged last beside it.
    #[test]
    fn s0_33_the_message_survives_its_backtrace() {
        let frames = |frame: &str| frame.repeat(300);
        for (head, frames, end) in [
            (
                "thread 'main' panicked at src/main.rs:2:5:\nno luck\nstack backtrace:",
                frames(
                    "  10: core::ops::function::FnOnce::call_once\n             at /rustc/library/core/src/ops/function.rs:250:5\n",
                ),
                "note: some details are omitted",
            ),
            (
                "Traceback (most recent call last):",
                frames("  File \"a.py\", line 1, in f\n    f()\n"),
                "ValueError: no luck",
            ),
            ("Error: no luck", frames("    at Object.<anonymous> (/srv/index.js:1:7)\n"), ""),
        ] {
            let input = format!("ready\n{head}\n{frames}{end}\n");
            let (kept, _) = drained(input.as_bytes(), 64 << 10);
            let words = kept.last_words();
            assert!(words.starts_with(&format!("ready\n{head}\n…\n  ")), "{words}");
            assert!(words.ends_with(end) && words.contains("no luck"), "{words}");
        }
        let log: String = (0..50).map(|nth| format!("line {nth}\n")).collect();
        let (kept, _) = drained(log.as_bytes(), 64 << 10);
        let last: Vec<_> = (30..50).map(|nth| format!("line {nth}")).collect();
        assert_eq!(
            &*kept.last_words(),
            last.join("\n"),
            "where nothing is indented, they are the last lines"
        );
    }
}
