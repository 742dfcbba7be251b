//! Serving over our own stdin and stdout.

use std::io::{self, IsTerminal as _};

use cardan_proto::limits::Limits;
use cardan_proto::session::event::Cause;
use cardan_transport::stdio::{self, StdioLink};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::tell;

/// Serves until stdin ends or a signal comes; then what runs may still finish. `hint` is for someone who started
/// us by hand.
pub(super) async fn serve<F: Future<Output = Cause>>(
    limits: &Limits,
    hint: &str,
    stop: &Interrupts,
    serve: impl FnOnce(StdioLink) -> F,
    close: impl FnOnce(),
) -> Result<(), Failure> {
    let link = stdio::open(limits)
        .map_err(|error| Failure::new(Exit::Unreachable, format!("cannot use stdin and stdout: {error}")))?;
    if io::stdin().is_terminal() {
        tell(hint);
    }
    let mut serving = std::pin::pin!(serve(link));
    let cause = tokio::select! {
        cause = &mut serving => cause,
        () = stop.first() => {
            close();
            tokio::select! {
                cause = &mut serving => cause,
                // Asked twice: what runs is left alone.
                () = stop.second() => return Ok(()),
            }
        }
    };
    match cause {
        // Whoever started us may leave without reading the rest.
        Cause::ClosedByPeer | Cause::ClosedByUs(_) | Cause::Io(_) => Ok(()),
        other => Err(Failure::new(Exit::Violation, other.to_string())),
    }
}
