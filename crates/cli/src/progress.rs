//! How far a call is, on stderr: one line that is drawn anew in its place at a terminal, lines elsewhere.
//!
//! There is one stderr, so there is one state of it. Whatever else goes to stderr goes through [`over`], which takes the line
//! away first; the line comes back by itself.

use std::io::{self, Write as _};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cardan_proto::limits::Limits;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::Progress;
use tokio::time::{MissedTickBehavior, interval};

use crate::look::style::Style;
use crate::look::text::{Line, beginning};
use crate::look::{Surface, Tagging, tagging};
use crate::talk::floor;

static STATUS: Mutex<Status> =
    Mutex::new(Status { runs: None, drawn: false, held: 0, loudness: Loudness::Shown });

/// What stderr shows of what runs.
#[derive(Debug)]
struct Status {
    runs: Option<Run>,
    /// Is there a line at the cursor?
    drawn: bool,
    /// How many want the line to stay away.
    held: usize,
    loudness: Loudness,
}

/// Whether progress is shown at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loudness {
    Shown,
    Silent,
}

/// Something that is waited for.
#[derive(Debug)]
struct Run {
    what: &'static str,
    since: Instant,
    bounds: Bounds,
    /// When there was last a sign that it goes on.
    heard: Instant,
    progress: Option<Progress>,
    drawn_at: Option<Instant>,
    lines: Allowance,
    /// Is there progress that no line has told yet?
    untold: bool,
}

/// How long something may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Without a sign of life.
    pub(crate) silence: Option<Duration>,
    /// In all.
    pub(crate) total: Option<Duration>,
}

impl Bounds {
    /// Nothing but an end.
    pub(crate) fn within(total: Duration) -> Self {
        Self { silence: None, total: Some(total) }
    }

    /// Those of a call.
    pub(crate) fn of(limits: &Limits) -> Self {
        let bound = |limit: Duration| Some(limit).filter(|limit| !limit.is_zero());
        Self { silence: bound(limits.call_idle_timeout), total: bound(limits.call_total_timeout) }
    }

    /// Those of a task: it may be silent as long as it likes, because each look at it is a call of its own.
    pub(crate) fn of_task(self) -> Self {
        Self { silence: None, ..self }
    }

    /// After how long it ends, if nothing more is heard than was then.
    fn end(self, heard: Duration) -> Option<Duration> {
        let silence = self.silence.map(|silence| heard + silence);
        silence.into_iter().chain(self.total).min()
    }
}

/// How often the line moves. Half of it is the shortest time between two draws: fifteen in a second.
const TICK: Duration = Duration::from_millis(133);

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_millis(300);

/// Lines that a short call may take at once; after that, one in this time.
const MAX_BURST: u32 = 5;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Longer messages are cut, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Shows nothing from now on.
pub(crate) fn silence() {
    lock().loudness = Loudness::Silent;
}

/// Shows that `work` is waited for, until it is done.
pub(crate) async fn during<T>(what: &'static str, bounds: Bounds, work: impl Future<Output = T>) -> T {
    let shown = Showing::begin(what, bounds);
    let mut work = pin!(work);
    if !Surface::stderr().can_redraw() {
        return work.await;
    }
    let mut clock = interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            _ = clock.tick() => lock().draw(),
        }
    };
    drop(shown);
    done
}

/// The call has come further. What it says holds nothing of `secrets` when it is shown.
pub(crate) fn told(progress: &Progress, secrets: &Redactor) {
    let mut status = lock();
    let Some(run) = &mut status.runs else { return };
    // Nobody reads more of it, and it is drawn often.
    let message = progress.message.as_deref().map(|text| secrets.redact(text));
    let message = message.map(|text| beginning(&text, MAX_MESSAGE).0.to_owned());
    run.progress = Some(Progress { message, ..*progress });
    run.untold = true;
    run.heard = Instant::now();
    if Surface::stderr().can_redraw() {
        return status.draw();
    }
    let line = status.line(Moment::Now);
    drop(status);
    line.into_iter().for_each(floor::write);
}

/// Writes to stderr what is no progress. Nobody is left to hear that it is closed.
pub(crate) fn over(text: &str) {
    let mut status = lock();
    status.clear();
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Keeps the line away, so that someone can be asked.
pub(crate) fn hold() -> Hold {
    let mut status = lock();
    status.clear();
    status.held += 1;
    Hold
}

/// The line stays away as long as there is one of these.
#[derive(Debug)]
pub(crate) struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        let mut status = lock();
        status.held -= 1;
        // While somebody was asked the server waited, and not we for it.
        if let Some(run) = &mut status.runs {
            run.heard = Instant::now();
        }
    }
}

/// Something is shown as long as there is one of these.
struct Showing;

impl Showing {
    fn begin(what: &'static str, bounds: Bounds) -> Self {
        lock().runs = Some(Run::new(what, bounds));
        Self
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        let mut status = lock();
        status.clear();
        // How far it came in the end is told in any case, if need be after the question that is being asked.
        let line = status.line(Moment::End);
        status.runs = None;
        drop(status);
        line.into_iter().for_each(floor::write);
    }
}

/// When a line is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Now,
    End,
}

/// How many lines may be told at once.
#[derive(Debug)]
struct Allowance {
    left: u32,
    last: Option<Instant>,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        let since = self.last.map_or(LINE_EVERY, |last| now.duration_since(last));
        if self.left == 0 && since < LINE_EVERY {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.last = Some(now);
        true
    }
}

fn lock() -> MutexGuard<'static, Status> {
    STATUS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Status {
    fn is_shown(&self) -> bool {
        self.loudness == Loudness::Shown && tagging() == Tagging::Result
    }

    fn draw(&mut self) {
        let stderr = Surface::stderr();
        let hidden = self.held > 0 || !self.is_shown();
        let Some(run) = self.runs.as_mut().filter(|_| !hidden) else { return };
        let now = Instant::now();
        let early = run.progress.is_none() && now.duration_since(run.since) < PATIENCE;
        if early || run.drawn_at.is_some_and(|at| now.duration_since(at) < TICK / 2) {
            return;
        }
        // It is given up by now, and what is left is to end it.
        if run.is_over(now.duration_since(run.since)) {
            return self.clear();
        }
        run.drawn_at = Some(now);
        // In the last column the cursor would wrap.
        let columns = stderr.columns().unwrap_or_default().saturating_sub(1);
        let line = run.shown(now.duration_since(run.since), columns).painted(stderr.paint());
        let _ = io::stderr().write_all(format!("\r\x1b[2K{line}").as_bytes());
        self.drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }

    /// How far it is, where lines are not drawn anew. Nothing: it is not to be told now.
    fn line(&mut self, moment: Moment) -> Option<String> {
        if Surface::stderr().can_redraw() || !self.is_shown() {
            return None;
        }
        let run = self.runs.as_mut().filter(|run| run.untold)?;
        // While someone is asked it grows old.
        if moment == Moment::Now && (self.held > 0 || !run.lines.take(Instant::now())) {
            return None;
        }
        run.untold = false;
        let line = Line::from(progress_line(run.progress.as_ref()?).as_str());
        Some(format!("{}\n", line.painted(Surface::stderr().paint())))
    }
}

/// How wide a bar is; where there is little room, so that the deadline has some.
const BAR: usize = 20;
const NARROW_BAR: usize = 8;
const NARROW: usize = 50;

/// What turns while nobody knows how long.
const TURNS: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl Run {
    fn new(what: &'static str, bounds: Bounds) -> Self {
        let (since, lines) = (Instant::now(), Allowance { left: MAX_BURST, last: None });
        Self { what, since, bounds, heard: since, progress: None, drawn_at: None, lines, untold: false }
    }

    /// Has it taken all the time that it had?
    fn is_over(&self, elapsed: Duration) -> bool {
        self.bounds.end(self.heard.duration_since(self.since)).is_some_and(|end| elapsed > end)
    }

    fn shown(&self, elapsed: Duration, columns: usize) -> Line {
        let turn = usize::try_from(elapsed.as_millis() / TICK.as_millis()).unwrap_or_default() % TURNS.len();
        let mut line = match self.progress.as_ref().and_then(share) {
            Some(share) => bar(share, if columns < NARROW { NARROW_BAR } else { BAR }),
            None => Line::of(Style::Required, TURNS[turn]),
        };
        let done = self.progress.as_ref().map(|progress| match progress.total {
            Some(total) => format!(" {} of {total}", progress.progress),
            None => format!(" {}", progress.progress),
        });
        line.push(Style::Plain, done.as_deref().unwrap_or_default());
        let seconds = format!(" {} s", elapsed.as_secs());
        // Whatever is heard puts the end off, and so it is told anew each time.
        let end = self.bounds.end(self.heard.duration_since(self.since));
        let limit = end.map(|end| format!(" of {} s", end.as_secs())).unwrap_or_default();
        let message = self.progress.as_ref().and_then(|progress| progress.message.as_deref());
        let message = Line::from(" ").with(Style::Plain, message.unwrap_or(self.what));
        // The message is cut first: how long it takes is what people look for.
        let room = columns.saturating_sub(line.width() + seconds.len() + limit.len());
        line.append(message.cut(room));
        line.with(Style::Faint, &format!("{seconds}{limit}")).cut(columns)
    }
}

/// How much of it is done, where that is known.
fn share(progress: &Progress) -> Option<f64> {
    let share = progress.progress / progress.total?;
    share.is_finite().then(|| share.clamp(0.0, 1.0))
}

fn bar(share: f64, columns: usize) -> Line {
    let full = (share * columns as f64) as usize;
    let line = Line::of(Style::Good, &"█".repeat(full)).with(Style::Faint, &"░".repeat(columns - full));
    line.with(Style::Plain, &format!(" {:3.0} %", (share * 100.0).floor()))
}

/// How far a call is, in one line.
fn progress_line(progress: &Progress) -> String {
    let mut line = match progress.total {
        Some(total) => format!("progress: {} of {total}", progress.progress),
        None => format!("progress: {}", progress.progress),
    };
    if let Some(message) = &progress.message {
        line.push_str(", ");
        line.push_str(message);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::style::Paint;

    fn shown(progress: Option<(f64, Option<f64>, &str)>, deadline: Option<u64>, columns: usize) -> String {
        let progress = progress.map(|(progress, total, message)| Progress {
            progress,
            total,
            message: (!message.is_empty()).then(|| message.to_owned()),
        });
        let bounds = Bounds { silence: None, total: deadline.map(Duration::from_secs) };
        let run = Run { progress, ..Run::new("waiting for the answer", bounds) };
        run.shown(Duration::from_secs(12), columns).painted(Paint::Plain)
    }

    /// CLI-12: a bar where the total is known, else something that turns; what is going on, since when, and until when.
    #[test]
    fn a_line_says_how_far_it_is_and_fits() {
        let bar = "██████████░░░░░░░░░░  50 % 2 of 4";
        assert_eq!(shown(Some((2.0, Some(4.0), "half")), Some(30), 60), format!("{bar} half 12 s of 30 s"));
        assert_eq!(
            shown(Some((2.0, Some(4.0), "half of it all")), Some(30), 52),
            format!("{bar} half… 12 s of 30 s")
        );
        assert_eq!(shown(Some((7.0, None, "")), None, 60), "⠸ 7 waiting for the answer 12 s");
        assert_eq!(shown(None, Some(600), 60), "⠸ waiting for the answer 12 s of 600 s");
        assert_eq!(shown(None, None, 10), "⠸ wa… 12 s");
        for odd in [
            (5.0, Some(0.0), "x"),
            (f64::NAN, Some(1.0), "x"),
            (-3.0, Some(2.0), "\x1b[2J"),
            (9.0, Some(2.0), "x"),
        ] {
            let line = shown(Some(odd), None, 40);
            assert!(crate::look::text::width(&line) <= 40 && !line.contains('\x1b'), "{line}");
        }
    }

    /// CLI-12: what is heard puts the end off, until the end that nothing puts off.
    #[test]
    fn cli_12_the_end_that_is_shown_is_the_one_in_force() {
        let seconds = |secs| Duration::from_secs(secs);
        let bounds = Bounds { silence: Some(seconds(30)), total: Some(seconds(100)) };
        let shown = |heard| {
            let run = Run::new("x", bounds);
            let run = Run { heard: run.since + seconds(heard), ..run };
            run.shown(seconds(heard + 2), 60).painted(Paint::Plain)
        };
        assert!(shown(0).ends_with(" 2 s of 30 s"), "{}", shown(0));
        assert!(shown(40).ends_with(" 42 s of 70 s"), "{}", shown(40));
        assert!(shown(90).ends_with(" 92 s of 100 s"), "{}", shown(90));
        assert_eq!(Bounds::default().end(seconds(5)), None);
    }

    /// CLI-19: a task that says nothing for long is still waited for, and that is shown.
    #[test]
    fn cli_19_a_silent_task_is_not_over() {
        let seconds = |secs| Duration::from_secs(secs);
        let bounds = Bounds { silence: Some(seconds(30)), total: Some(seconds(600)) };
        for (bounds, is_over) in [(bounds, true), (bounds.of_task(), false)] {
            assert_eq!(Run::new("x", bounds).is_over(seconds(31)), is_over);
        }
        assert!(Run::new("x", bounds.of_task()).is_over(seconds(601)));
    }

    /// A line for each is told at once, but for the time that someone is asked: then it is one, at the end.
    #[test]
    fn lines_wait_while_someone_is_asked() {
        let progress = Some(Progress { progress: 1.0, total: None, message: None });
        let run = Run { progress, untold: true, ..Run::new("x", Bounds::default()) };
        let mut status = Status { runs: Some(run), drawn: false, held: 1, loudness: Loudness::Shown };
        assert_eq!(status.line(Moment::Now), None);
        assert_eq!(status.line(Moment::End).as_deref(), Some("progress: 1\n"));
        assert_eq!(status.line(Moment::End), None, "it was told");
    }

    #[test]
    fn lines_are_few_after_the_first() {
        let (start, mut lines) = (Instant::now(), Allowance { left: 2, last: None });
        let at = |millis| start + Duration::from_millis(millis);
        let taken = [0, 1, 2, 500, 1001, 1500, 2002].map(|millis| lines.take(at(millis)));
        assert_eq!(taken, [true, true, false, false, true, false, true]);
    }
}
