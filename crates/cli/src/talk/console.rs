//! The terminal where a person can be asked: questions go to stderr, answers come from where they are typed.
//!
//! The terminal edits the line; we see it whole. A thread reads it, because reading from a terminal blocks; a question
//! that is withdrawn leaves that thread with the next line, which then answers the next question, unless that asks for consent.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::termios::{QueueSelector, tcflush};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::floor::Floor;
use super::hidden::Hidden;
use crate::look::Surface;
use crate::look::style::{Paint, Style};
use crate::look::text::{Line, barred, paint};

/// A terminal with someone in front of it. Cheap to clone; one question is put at a time.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    reader: Arc<Mutex<Reader>>,
}

/// The longest line that a terminal hands over; what is typed beyond that it drops without a word.
const CUT_AT_BYTES: usize = if cfg!(target_os = "linux") { 4095 } else { 1023 };

/// The longest line that is read, from whatever takes itself for a terminal.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Rows of a foreign text that are shown; more would push the question out of sight.
const MAX_QUOTED_ROWS: usize = 200;

/// What stands before each of them.
const BAR: &str = "  | ";

/// How far rows after the first are indented: where nothing of ours begins.
const HANG: usize = 4;

/// Whether stdin was read for something else than answers.
static STDIN_IS_DATA: AtomicBool = AtomicBool::new(false);

/// Stdin holds an argument, so answers are typed elsewhere. It was that already: it cannot be read twice.
pub(crate) fn stdin_is_data() -> bool {
    STDIN_IS_DATA.swap(true, Ordering::Relaxed)
}

impl Console {
    /// Nothing: nobody is here who could be asked.
    pub(crate) fn find() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let terminal = if STDIN_IS_DATA.load(Ordering::Relaxed) {
            File::open("/dev/tty").ok()?
        } else if io::stdin().is_terminal() {
            File::from(io::stdin().as_fd().try_clone_to_owned().ok()?)
        } else {
            // Whoever gives us something else than a terminal does not want to be asked.
            return None;
        };
        Some(Self { reader: Arc::new(Mutex::new(Reader { terminal, lines: None, waiting: Waiting::No })) })
    }

    /// Begins to talk, once nobody else does. Until its end nothing else is told.
    pub(crate) async fn talk(&self) -> Talk {
        let reader = Arc::clone(&self.reader).lock_owned().await;
        // Without it a terminal that was changed while we were stopped is not mended.
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())).ok();
        Talk { reader, continued, cursor: Cursor::LineStart, _floor: Floor::take() }
    }
}

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A line, without its end.
    Line(String),
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// A conversation. Nobody else is asked until it is dropped.
#[derive(Debug)]
pub(crate) struct Talk {
    reader: OwnedMutexGuard<Reader>,
    continued: Option<Signal>,
    cursor: Cursor,
    _floor: Floor,
}

/// Where the next word would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    LineStart,
    BehindPrompt,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.leave_prompt();
    }
}

impl Talk {
    /// A question that nobody ended with a line is left behind.
    fn leave_prompt(&mut self) {
        if std::mem::replace(&mut self.cursor, Cursor::LineStart) == Cursor::BehindPrompt {
            write("\n");
        }
    }

    /// Says something of ours. Foreign words in it cannot move the cursor, nor begin a row.
    pub(crate) fn say(&self, text: &str) {
        write(&format!("{}\n", in_rows(text)));
    }

    /// Leaves a line empty.
    pub(crate) fn part(&self) {
        write("\n");
    }

    /// Says what the server says, behind a bar on each row.
    pub(crate) fn quote(&self, text: &str) {
        let (rows, is_all) = barred(&Line::from(BAR), text, Surface::stderr().columns(), MAX_QUOTED_ROWS);
        write(&paint(&rows, Paint::Plain));
        if !is_all {
            self.say("  (the rest of it is not shown)");
        }
    }

    /// Says an address in which one part stands out.
    pub(crate) fn mark(&self, before: &str, marked: &str, after: &str) {
        let line = Line::from("  ").with(Style::Plain, before).with(Style::Strong, marked);
        write(&format!("{}\n", line.with(Style::Plain, after).painted(Surface::stderr().paint())));
    }

    /// Asks for a line. A space stands between the prompt and what is typed.
    pub(crate) async fn ask(&mut self, prompt: &str) -> Reply {
        self.put(prompt, None).await
    }

    /// Asks for a line that nobody sees.
    pub(crate) async fn ask_hidden(&mut self, prompt: &str) -> Reply {
        match Hidden::on(self.reader.terminal.as_fd()) {
            Ok(hidden) => self.put(prompt, Some(hidden)).await,
            Err(error) => {
                self.say(&format!("typing cannot be hidden here: {error}"));
                Reply::End
            }
        }
    }

    /// Asks for consent. What was typed before the question was read does not count.
    pub(crate) async fn choose(
        &mut self,
        prompt: &str,
        choices: &[(&'static str, &str)],
    ) -> Option<&'static str> {
        let _ = tcflush(&self.reader.terminal, QueueSelector::IFlush);
        self.reader.forget();
        // Of a line that was begun for a question that is withdrawn by now only the end is left, which says nothing.
        let mut withdrawn = self.reader.waiting;
        loop {
            let Reply::Line(line) = self.ask(prompt).await else { return None };
            let owed = std::mem::replace(&mut withdrawn, Waiting::No);
            let typed = line.trim().to_lowercase();
            let chosen = choices.iter().find(|(word, also)| {
                typed == *word || (!typed.is_empty() && word.starts_with(&typed)) || typed == *also
            });
            match chosen {
                Some((word, _)) if !(typed.is_empty() && owed == Waiting::Yes) => return Some(word),
                _ => {
                    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                    self.say(&format!("type {}", words.join(", ")));
                }
            }
        }
    }

    async fn put(&mut self, prompt: &str, hidden: Option<Hidden>) -> Reply {
        let prompt = in_rows(prompt) + " ";
        loop {
            write(&prompt);
            self.cursor = Cursor::BehindPrompt;
            self.reader.want();
            tokio::select! {
                line = self.reader.line() => {
                    let Some(line) = line else {
                        self.leave_prompt();
                        return Reply::End;
                    };
                    self.cursor = Cursor::LineStart;
                    match String::from_utf8(line) {
                        Ok(line) if line.len() < CUT_AT_BYTES => return Reply::Line(line),
                        Ok(_) => self.say(&format!(
                            "the terminal cuts lines at {CUT_AT_BYTES} bytes, so this may not be all; say it on the command line"
                        )),
                        Err(_) => self.say("that was not UTF-8"),
                    }
                }
                () = continued(&mut self.continued) => {
                    if let Some(hidden) = &hidden {
                        let _ = hidden.again();
                    }
                }
            }
        }
    }
}

/// A text of ours in rows that fit, with no space at its end.
fn in_rows(text: &str) -> String {
    let (line, columns) = (Line::from(text), Surface::stderr().columns());
    let rows = columns.map_or_else(|| vec![line.clone()], |columns| line.clone().wrapped(columns, HANG));
    paint(&rows, Paint::Plain).trim_end_matches('\n').to_owned()
}

/// Waits until we go on after a stop.
async fn continued(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Nobody is left to hear that stderr is closed.
fn write(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// The thread that reads, from the first question on.
#[derive(Debug)]
struct Reader {
    terminal: File,
    lines: Option<Lines>,
    waiting: Waiting,
}

#[derive(Debug)]
struct Lines {
    wanted: mpsc::Sender<()>,
    /// Without its end; nothing: there was none.
    read: UnboundedReceiver<Option<Vec<u8>>>,
}

/// Whether the thread is reading a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Yes,
    No,
}

impl Reader {
    /// Has the thread read a line, unless it does already.
    fn want(&mut self) {
        if self.waiting == Waiting::Yes {
            return;
        }
        if self.lines.is_none() {
            self.lines = self.terminal.try_clone().ok().map(Lines::start);
        }
        if self.lines.as_ref().is_some_and(|lines| lines.wanted.send(()).is_ok()) {
            self.waiting = Waiting::Yes;
        }
    }

    /// Drops lines that were read for a question that nobody asks any more.
    fn forget(&mut self) {
        let Some(lines) = &mut self.lines else { return };
        while lines.read.try_recv().is_ok() {
            self.waiting = Waiting::No;
        }
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        let line = match &mut self.lines {
            Some(lines) => lines.read.recv().await.flatten(),
            None => None,
        };
        self.waiting = Waiting::No;
        line
    }
}

impl Lines {
    fn start(terminal: File) -> Self {
        let (wanted, wishes) = mpsc::channel();
        let (told, read) = unbounded_channel();
        thread::spawn(move || read_lines(terminal, &wishes, &told));
        Self { wanted, read }
    }
}

fn read_lines(terminal: File, wishes: &mpsc::Receiver<()>, told: &UnboundedSender<Option<Vec<u8>>>) {
    let mut terminal = BufReader::new(terminal);
    while wishes.recv().is_ok() {
        let mut line = Vec::new();
        let read = terminal.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        // Ctrl-D behind a text is a change of mind: what is not ended is not said.
        let whole = read.is_ok() && line.pop() == Some(b'\n');
        if told.send(whole.then_some(line)).is_err() {
            return;
        }
    }
}
