//! Tools that change while a gateway serves: told on stderr, and looked at again when somebody has approved them.

use std::sync::Arc;
use std::time::Duration;

use cardan_gateway::front::Front;
use cardan_gateway::pin::store::PinStore;
use cardan_gateway::pin::{Mode, Pins};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::cmd::config::variable;
use crate::failure::Failure;
use crate::log::Log;

/// Where tools are remembered; nothing: there is no place for it, and nobody wants it badly.
pub(super) fn pins(mode: Mode, log: Log) -> Result<Option<Arc<Pins>>, Failure> {
    let warn = move |line: &str| log.warn("pin", line);
    match (PinStore::of_user(variable), mode) {
        (Some(store), mode) => Ok(Some(Arc::new(Pins::new(store, mode, warn)))),
        (None, Mode::Block) => {
            let message = "changed tools are to be held back, but there is no place to remember tools";
            Err(Failure::usage(message).next("set HOME or XDG_CONFIG_HOME to a folder"))
        }
        (None, Mode::Off | Mode::Warn) => Ok(None),
    }
}

/// Looks again when something was approved, until it is dropped.
pub(super) struct Approvals(AbortHandle);

impl Approvals {
    pub(super) fn follow(front: Front, pins: Arc<Pins>, every: Duration) -> Self {
        let task = tokio::spawn(async move {
            let mut next = Instant::now();
            loop {
                next += every;
                sleep_until(next).await;
                // A slow disk hinders nobody.
                let looking = Arc::clone(&pins);
                let looked = tokio::task::spawn_blocking(move || looking.refresh());
                if looked.await.unwrap_or(false) {
                    front.repin();
                }
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Approvals {
    fn drop(&mut self) {
        self.0.abort();
    }
}
