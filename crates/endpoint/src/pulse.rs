//! Signs of life on a stream: a comment after a silence, so that proxies do not cut it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

/// Watches the silence of one stream. The timer is armed only when there is nothing to send.
#[derive(Debug)]
pub(crate) struct Pulse {
    interval: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl Pulse {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, timer: None, armed: false }
    }

    /// Something was sent: the silence begins anew.
    pub(crate) fn sent(&mut self) {
        self.armed = false;
    }

    /// Ready when the silence has lasted too long.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = Instant::now() + self.interval;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if !self.armed {
            timer.as_mut().reset(due);
            self.armed = true;
        }
        timer.as_mut().poll(cx).map(|()| self.armed = false)
    }
}

/// The comment: empty, and the same for every stream, so that ten thousand idle ones allocate nothing.
pub(crate) fn beat() -> Bytes {
    Bytes::from_static(b": \n\n")
}

#[cfg(test)]
mod tests {
    use cardan_proto::codec::sse::write_comment;

    use super::*;

    #[test]
    fn a_beat_is_a_comment() {
        let mut comment = Vec::new();
        write_comment(&mut comment, "");
        assert_eq!(beat(), comment);
    }
}
