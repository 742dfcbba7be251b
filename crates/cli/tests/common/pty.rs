//! The built binary at a real pseudo-terminal: what a person would see and type.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::{CARDAN, DEADLINE, signal_pid};

/// A terminal that nobody sits at yet. All three streams are the terminal unless it is said otherwise.
pub(crate) struct Pty {
    columns: u16,
    env: Vec<(String, String)>,
    program: String,
    stdin: Option<String>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    cwd: Option<PathBuf>,
}

/// What of our own surroundings must not reach the command: each changes what is shown.
const FOREIGN: [&str; 10] = [
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "TERM_PROGRAM",
    "KITTY_WINDOW_ID",
    "LC_TERMINAL",
    "TMUX",
    "RUST_BACKTRACE",
];

impl Pty {
    /// A terminal of this many columns and 40 lines.
    pub(crate) fn new(columns: u16) -> Self {
        Self {
            columns,
            env: vec![("TERM".to_owned(), "xterm-256color".to_owned())],
            program: CARDAN.to_owned(),
            stdin: None,
            stdout: None,
            stderr: None,
            cwd: None,
        }
    }

    /// With another program than `cardan`.
    pub(crate) fn program(mut self, program: &str) -> Self {
        self.program = program.to_owned();
        self
    }

    /// With stdin from a file.
    pub(crate) fn stdin(mut self, path: &str) -> Self {
        self.stdin = Some(path.to_owned());
        self
    }

    /// With a variable in the command's environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// In another directory.
    pub(crate) fn cwd(mut self, folder: &Path) -> Self {
        self.cwd = Some(folder.to_owned());
        self
    }

    /// With stdout elsewhere.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// With stderr elsewhere.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Runs `cardan` with these words to its end.
    pub(crate) fn run(self, words: &[&str]) -> Shown {
        self.start(words).end()
    }

    /// Starts `cardan` with these words. It has a session of its own, so that Ctrl-C reaches it and no other.
    pub(crate) fn start(self, words: &[&str]) -> Seat {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let ours = File::from(ours);
        resize(&ours, self.columns);
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = OsStr::from_bytes(name.to_bytes());
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        // Else the terminal drops at Ctrl-C and Ctrl-Z what nobody has read yet, and may do so late.
        let mut modes = tcgetattr(&theirs).unwrap();
        modes.local_modes.insert(LocalModes::NOFLSH);
        tcsetattr(&theirs, OptionalActions::Now, &modes).unwrap();
        let copy = || Stdio::from(theirs.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.arg("--ctty");
        // Whoever gets the terminal gets it by its stdin, so that is exchanged afterwards.
        if let Some(path) = &self.stdin {
            command.args(["sh", "-c", "exec < \"$0\"; exec \"$@\"", path]);
        }
        command.arg(&self.program).args(words);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.envs(self.env).stdin(copy());
        command.stdout(self.stdout.unwrap_or_else(copy)).stderr(self.stderr.unwrap_or_else(copy));
        if let Some(folder) = self.cwd {
            command.current_dir(folder);
        }
        let child = command.spawn().expect("setsid of util-linux is installed");
        // With the last copy of their end the output ends.
        drop((command, theirs));
        let seen = Arc::<Seen>::default();
        let reading = thread::spawn({
            let (seen, ours) = (Arc::clone(&seen), ours.try_clone().unwrap());
            move || seen.fill(ours)
        });
        Seat { child, ours, seen, from: 0, reading: Some(reading) }
    }
}

/// What the terminal was told so far.
#[derive(Default)]
struct Seen {
    bytes: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

impl Seen {
    fn fill(&self, mut ours: File) {
        let mut chunk = [0; 8192];
        loop {
            // The last of them to leave makes reading fail.
            let read = ours.read(&mut chunk).unwrap_or_default();
            let mut seen = self.bytes.lock().unwrap();
            seen.0.extend_from_slice(&chunk[..read]);
            seen.1 = read == 0;
            self.more.notify_all();
            if read == 0 {
                return;
            }
        }
    }
}

/// Someone at a terminal at which `cardan` runs. Whoever leaves early ends it.
pub(crate) struct Seat {
    child: Child,
    ours: File,
    seen: Arc<Seen>,
    /// Up to here it was waited for.
    from: usize,
    reading: Option<JoinHandle<()>>,
}

/// Ctrl-C, as the terminal sends it.
pub(crate) const CTRL_C: &str = "\x03";

/// Ctrl-D.
pub(crate) const CTRL_D: &str = "\x04";

/// Ctrl-Z.
pub(crate) const CTRL_Z: &str = "\x1a";

impl Seat {
    /// Types this; a line ends with `\r`, as the key does.
    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        self.ours.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Waits until this is shown, after what was waited for before.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> &mut Self {
        let end = Instant::now() + DEADLINE;
        let told = Arc::clone(&self.seen);
        let mut seen = told.bytes.lock().unwrap();
        loop {
            let new = &seen.0[self.from..];
            if let Some(at) = new.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.from += at + text.len();
                return self;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !seen.1, "{text:?} is not shown: {:?}", end_of(new));
            seen = told.more.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// Makes the window as wide as this.
    pub(crate) fn resizes(&mut self, columns: u16) -> &mut Self {
        resize(&self.ours, columns);
        self
    }

    /// The modes of the terminal now: whether it shows what is typed comes first.
    pub(crate) fn modes(&self) -> (bool, LocalModes) {
        let modes = tcgetattr(&self.ours).unwrap().local_modes;
        (modes.contains(LocalModes::ECHO), modes)
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end, not for ever.
    #[track_caller]
    pub(crate) fn end(mut self) -> Shown {
        let end = Instant::now() + DEADLINE;
        let mut seen = self.seen.bytes.lock().unwrap();
        while !seen.1 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                signal_pid(self.child.id(), "KILL");
                panic!("still running after {DEADLINE:?}: {:?}", end_of(&seen.0));
            }
            seen = self.seen.more.wait_timeout(seen, left).unwrap().0;
        }
        drop(seen);
        let modes = self.modes();
        self.reading.take().unwrap().join().unwrap();
        let code = self.child.wait().unwrap().code();
        let bytes = std::mem::take(&mut self.seen.bytes.lock().unwrap().0);
        Shown { code, bytes, modes }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.reading.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The end of what was shown, for whoever has to find out why.
fn end_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(2000)..]).into_owned()
}

fn resize(ours: &File, columns: u16) {
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(ours, size).unwrap();
}

/// What a terminal was told, to the byte.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) code: Option<i32>,
    pub(crate) bytes: Vec<u8>,
    /// How the terminal was left.
    pub(crate) modes: (bool, LocalModes),
}

impl Shown {
    /// The exit code is this one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", end_of(self.written().as_bytes()));
        self
    }

    /// Everything that was written, escape sequences as `␛`, lines as lines.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.bytes).replace("\r\n", "\n").replace('\x1b', "␛").replace('\r', "␍")
    }

    /// What is left to be read on the terminal: lines that were drawn over or cleared are gone, colours too.
    pub(crate) fn left(&self) -> String {
        let (mut lines, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => column = 0,
                '\n' => row += 1,
                '\x1b' => obey(&mut rest, &mut lines, &mut row, column),
                c => {
                    let line: &mut Vec<char> = &mut lines[row];
                    line.resize(line.len().max(column + 1), ' ');
                    line[column] = c;
                    column += 1;
                }
            }
            lines.resize(lines.len().max(row + 1), Vec::new());
        }
        let lines = lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// The few sequences that are ours to write. Any other is a flaw.
fn obey(rest: &mut std::str::Chars<'_>, lines: &mut Vec<Vec<char>>, row: &mut usize, column: usize) {
    assert_eq!(rest.next(), Some('['), "only sequences of one kind are written");
    let mut number = String::new();
    loop {
        match rest.next().expect("a sequence has its end") {
            'm' | 'h' | 'l' => return,
            'A' => return *row = row.saturating_sub(number.parse().unwrap_or(1)),
            'K' => return lines[*row].truncate(if number == "2" { 0 } else { column }),
            'J' => {
                lines[*row].truncate(column);
                return lines.truncate(*row + 1);
            }
            c if c.is_ascii_digit() || matches!(c, ';' | '?') => number.push(c),
            c => panic!("a sequence that is not ours ends with {c:?}"),
        }
    }
}
