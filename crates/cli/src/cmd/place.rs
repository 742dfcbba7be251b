//! Where clients come in: our own stdin and stdout, a Unix socket, or a port.

use std::path::Path;

use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::GRACE;
use cardan_proto::session::event::Cause;
use cardan_transport::socket::{Listener, SocketLink};

use super::demo::{over_sockets, unserved};
use super::serve::Door;
use crate::args::Listening;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::log::Log;

/// Where clients come in.
pub(super) enum Place {
    Pipes,
    Socket(Socket),
    Port(Box<Door>),
}

impl Place {
    /// As the command line says, which names one of them.
    pub(super) async fn open(
        stdio: bool,
        unix: Option<&Path>,
        listening: &Listening,
    ) -> Result<Self, Failure> {
        match (stdio, unix) {
            (true, _) => Ok(Self::Pipes),
            (false, Some(path)) => Ok(Self::Socket(Socket::bind(path).await?)),
            (false, None) => Ok(Self::Port(Box::new(Door::open(listening).await?))),
        }
    }

    /// The bounds of what is served there.
    pub(super) fn limits(&self, listening: &Listening) -> Limits {
        match self {
            Self::Port(door) => door.limits.clone(),
            Self::Pipes | Self::Socket(_) => {
                Limits { drain_timeout: listening.grace.unwrap_or(GRACE), ..Limits::DEFAULT }
            }
        }
    }
}

/// A Unix socket that is listened on.
pub(super) struct Socket {
    listener: Listener,
    address: String,
}

impl Socket {
    async fn bind(path: &Path) -> Result<Self, Failure> {
        let listener = Listener::bind_unix(path).await.map_err(unserved)?;
        Ok(Self { listener, address: format!("unix://{}", path.display()) })
    }

    /// Says where, and serves every link that comes until a signal comes; then what runs may still finish.
    pub(super) async fn serve<F: Future<Output = Cause> + Send + 'static>(
        &self,
        limits: &Limits,
        (stop, log): (&Interrupts, Log),
        serve: impl Fn(SocketLink) -> F,
        close: impl FnOnce(),
    ) -> Result<(), Failure> {
        log.start(&self.address, &format!("listening on {}", self.address));
        over_sockets(&self.listener, limits, stop, serve, close).await
    }
}
