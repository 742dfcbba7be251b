//! A server as our child: its pipes are the link, its process group is ended with it.
//!
//! Reading, writing and stderr are all polled by the one task that drives the link. How the child ends
//! is written in `ladder.rs`, who ends with it in `group.rs`, and what happens when we are killed first
//! in [`guard`](crate::guard).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Departed, LaneId, Outgoing};
use cardan_runtime::lines::Lines;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::witness::Witness;
use rustix::process::Signal;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::group::Group;
use crate::guard::Guardian;
use crate::ladder::{Deed, Ladder, Leader};
use crate::stderr::{Drain, Stderr};
use crate::stir::Stir;

/// The link to a child. Made by [`Spawn::spawn`](crate::spawn::Spawn::spawn).
///
/// Dropped before it was closed, it kills the child's whole group at once.
pub struct ChildLink {
    lines: Lines<ChildStdout, ChildStdin>,
    stdout: Stdout,
    stderr: Drain<ChildStderr>,
    /// Of stderr, the exit and what follows it.
    stir: Stir,
    // Dropped in this order: the guard leaves when the group is dead, not before.
    group: Group,
    guard: Option<Guardian>,
    /// Runs when the child has ended and its stdout has not.
    orphaned: Option<Pin<Box<Sleep>>>,
    explaining: Option<Pin<Box<Sleep>>>,
    closing: Option<Closing>,
    limits: Limits,
}

/// The way down.
#[derive(Debug)]
struct Closing {
    ladder: Ladder,
    start: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Whether the child may still say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stdout {
    Open,
    Ended,
}

/// A pipe ends a moment before the process does; this long the exit status is waited for.
const EXPLAIN_TIMEOUT: Duration = Duration::from_millis(150);

/// Messages thrown away in one turn of closing.
const DISCARDS_PER_TURN: usize = 64;

impl ChildLink {
    pub(crate) fn new(
        stdin: ChildStdin,
        stdout: ChildStdout,
        stderr: Drain<ChildStderr>,
        group: Group,
        guard: Option<Guardian>,
        limits: &Limits,
    ) -> Self {
        Self {
            lines: Lines::new(stdout, stdin, limits),
            stdout: Stdout::Open,
            stderr,
            stir: Stir::new(),
            group,
            guard,
            orphaned: None,
            explaining: None,
            closing: None,
            limits: limits.clone(),
        }
    }

    /// The child's process id, which is its group's too. None once it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.group.id()
    }

    /// What the child says on stderr. The view outlives the link.
    #[must_use]
    pub fn stderr(&self) -> Stderr {
        self.stderr.kept().clone()
    }

    /// Takes what the child says on stderr. Ready when nothing more is to be waited for from it.
    fn look_aside(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = self.stderr.poll(cx);
        // Looked at so that a dead server is noticed even while a process it left behind holds the pipe. The
        // group is swept with it, and the pipe ends after what was already said; who left the group may
        // hold it for ever, and is not waited for.
        ready!(poll_exit(&mut self.group, self.stderr.kept(), cx));
        let grace = self.limits.child_pipe_grace;
        self.orphaned.get_or_insert_with(|| Box::pin(sleep(grace))).as_mut().poll(cx)
    }

    /// What was promised is written and stdin closed; what the child still says is thrown away, so
    /// that it is not stuck saying it.
    fn part(&mut self, cx: &mut Context<'_>, cause: &Cause) {
        let _ = self.lines.poll_close(cx, cause);
        let _ = self.stderr.poll(cx);
        for _ in 0..DISCARDS_PER_TURN {
            if self.stdout == Stdout::Ended {
                return;
            }
            match self.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(_) => {}
            }
        }
        cx.waker().wake_by_ref();
    }
}

impl Link for ChildLink {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        if let Some(waker) = self.stir.due(cx)
            && self.look_aside(&mut Context::from_waker(&waker)).is_ready()
        {
            self.stdout = Stdout::Ended;
            return Poll::Ready(Received::Ended(Cause::ClosedByPeer));
        }
        if let Some(detail) = self.stderr.take_stray() {
            return Poll::Ready(Received::Noticed { rule: Rule::FrameOnStderr, detail });
        }
        let received = ready!(self.lines.poll_recv(cx));
        if matches!(received, Received::ReadClosed | Received::Ended(_)) {
            self.stdout = Stdout::Ended;
        }
        Poll::Ready(received)
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.lines.put(frame, lane, message);
    }

    fn put_ahead(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.lines.put_ahead(frame, lane, message);
    }

    fn retract(&mut self, frame: u64) {
        self.lines.retract(frame);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lines.poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.lines.queued()
    }

    fn departed(&self) -> Departed {
        self.lines.departed()
    }

    fn received_bytes(&self) -> u64 {
        self.lines.received_bytes()
    }

    fn begun(&self) -> &[u8] {
        self.lines.begun()
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        Some(Arc::new(self.stderr()))
    }

    fn poll_explain(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<Cause> {
        let exit = poll_exit(&mut self.group, self.stderr.kept(), cx);
        // After the exit: what was said before it is in the pipe by now.
        let said = self.stderr.poll(cx);
        if !matches!(cause, Cause::ClosedByPeer | Cause::Io(_)) {
            return Poll::Ready(cause.clone());
        }
        let timer = self.explaining.get_or_insert_with(|| Box::pin(sleep(EXPLAIN_TIMEOUT)));
        let timed_out = timer.as_mut().poll(cx).is_ready();
        match exit {
            Poll::Ready(Some(status)) if said.is_ready() || timed_out => Poll::Ready(Cause::Exited {
                status: status.to_string().into(),
                stderr: self.stderr.kept().last_words(),
            }),
            Poll::Ready(None) => Poll::Ready(cause.clone()),
            // It lives and has merely closed its streams: no crash.
            Poll::Pending if timed_out => Poll::Ready(cause.clone()),
            Poll::Ready(Some(_)) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        self.part(cx, cause);
        let closing = self.closing.get_or_insert_with(|| Closing::new(&self.limits));
        loop {
            let leader = match poll_exit(&mut self.group, self.stderr.kept(), cx) {
                Poll::Ready(_) => Leader::Exited,
                Poll::Pending => Leader::Running,
            };
            match closing.ladder.step(closing.start.elapsed(), leader) {
                Deed::Wait(until) => ready!(closing.poll_until(cx, until)),
                Deed::Term => {
                    // Whoever has not read until now is not waited for.
                    self.lines.close_writer();
                    self.group.signal(Signal::TERM);
                }
                Deed::Kill => self.group.signal(Signal::KILL),
                Deed::Leave => break,
            }
        }
        self.lines.close_writer();
        self.guard = None;
        Poll::Ready(())
    }
}

/// How the child ended. Whoever looks at its stderr learns it too.
fn poll_exit(group: &mut Group, stderr: &Stderr, cx: &mut Context<'_>) -> Poll<Option<ExitStatus>> {
    let exit = ready!(group.poll_exit(cx));
    if let Some(status) = exit {
        stderr.exited(status);
    }
    Poll::Ready(exit)
}

impl Closing {
    fn new(limits: &Limits) -> Self {
        let start = Instant::now();
        Self { ladder: Ladder::new(limits), start, timer: Box::pin(sleep_until(start)) }
    }

    fn poll_until(&mut self, cx: &mut Context<'_>, until: Duration) -> Poll<()> {
        let at = self.start + until;
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        self.timer.as_mut().poll(cx)
    }
}

impl fmt::Debug for ChildLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildLink")
            .field("id", &self.id())
            .field("stdout", &self.stdout)
            .field("queued", &self.queued())
            .field("closing", &self.closing)
            .finish_non_exhaustive()
    }
}
