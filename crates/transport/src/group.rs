//! The process we started and everything it started: one process group, ended as one.

use std::future::Future;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// A child that leads a group of its own.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    /// None: the leader is reaped and the group swept, so the number may belong to someone else.
    id: Option<Pid>,
    /// Known when it is reaped.
    status: Option<ExitStatus>,
}

impl Group {
    /// Around a child that was spawned into a group of its own.
    pub(crate) fn of(leader: Child) -> Self {
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader, id, status: None }
    }

    /// The group's number, while there is one.
    pub(crate) fn id(&self) -> Option<u32> {
        self.id.and_then(|id| u32::try_from(id.as_raw_nonzero().get()).ok())
    }

    /// How the leader ended; ready with nothing: someone else reaped it. At that moment the rest of the
    /// group is swept: afterwards its number could be given to strangers.
    pub(crate) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Option<ExitStatus>> {
        if self.id.is_some() {
            let exit = ready!(pin!(self.leader.wait()).poll(cx));
            self.signal(Signal::KILL);
            self.id = None;
            self.status = exit.ok();
        }
        Poll::Ready(self.status)
    }

    /// Sends a signal to all of the group. That nobody is left to receive it is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for Group {
    /// Needs no runtime: signals are sent here and now, and reaping is left to tokio's orphan queue.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
