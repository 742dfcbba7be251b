//! The task that pumps the link, and its one owner.

use cardan_proto::session::event::Cause;
use tokio::task::JoinHandle;

/// A driver at work. Dropping it ends the link at once, and with it what the link holds, a child's
/// process included: nothing goes on that nobody owns.
#[derive(Debug)]
pub(crate) struct Driving {
    task: Option<JoinHandle<Cause>>,
    cause: Cause,
}

impl Driving {
    pub(crate) fn of(driver: impl Future<Output = Cause> + Send + 'static) -> Self {
        Self { task: Some(tokio::spawn(driver)), cause: Cause::ClosedByPeer }
    }

    /// Waits until the link has been torn down, and tells why it ended. May be asked again.
    pub(crate) async fn ended(&mut self) -> Cause {
        if let Some(task) = &mut self.task {
            match task.await {
                Ok(cause) => self.cause = cause,
                Err(error) if error.is_panic() => self.cause = Cause::Panicked,
                // The runtime is ending, and everything with it.
                Err(_) => {}
            }
            self.task = None;
        }
        self.cause.clone()
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
