//! The way to a server: how another link is made whenever one is wanted.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use cardan_proto::session::event::{Cause, Hurdle};
use cardan_runtime::link::{Link, NoLink};

use crate::client::Client;
use crate::connect::Connector;
use crate::error::ConnectError;

/// An attempt to reach a server. Dropping it gives it up, and ends what it had begun.
pub type Reaching = Pin<Box<dyn Future<Output = Result<Client, ConnectError<Unreached>>> + Send>>;

/// A way to a server. A link is used once, so each attempt makes a new one.
pub trait Way: Send + Sync + 'static {
    /// Makes a link and opens a session, as `connector` describes.
    fn reach(&self, connector: Connector) -> Reaching;
}

/// The way over links that `dial` makes.
pub fn way<L, E, D, F>(dial: D) -> Arc<dyn Way>
where
    D: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<L, E>> + Send + 'static,
    L: Link + Unpin,
    E: NoLink + Send + Sync + 'static,
{
    Arc::new(Dialled { dial: Arc::new(dial) })
}

struct Dialled<D> {
    dial: Arc<D>,
}

impl<L, E, D, F> Way for Dialled<D>
where
    D: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<L, E>> + Send + 'static,
    L: Link + Unpin,
    E: NoLink + Send + Sync + 'static,
{
    fn reach(&self, connector: Connector) -> Reaching {
        let dial = Arc::clone(&self.dial);
        Box::pin(async move { connector.connect_owned(|| dial()).await.map_err(unreached) })
    }
}

/// Why a way made no link, whatever kind of link it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreached {
    /// What stood in the way.
    pub hurdle: Hurdle,
    /// The same in words, with what led to it.
    pub why: Box<str>,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Unreached {}

impl NoLink for Unreached {
    fn hurdle(&self) -> Hurdle {
        self.hurdle
    }
}

impl From<ConnectError<Unreached>> for Cause {
    /// As everyone is told who waits for a link.
    fn from(error: ConnectError<Unreached>) -> Self {
        match error {
            ConnectError::Link(Unreached { hurdle, why }) => Self::Unreachable { hurdle, why },
            ConnectError::Opening { cause, .. } => cause,
        }
    }
}

fn unreached<E: NoLink + 'static>(error: ConnectError<E>) -> ConnectError<Unreached> {
    match error {
        ConnectError::Link(error) => {
            ConnectError::Link(Unreached { hurdle: error.hurdle(), why: chain(&error).into() })
        }
        ConnectError::Opening { cause, findings, report } => {
            ConnectError::Opening { cause, findings, report }
        }
    }
}

fn chain(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        told = format!("{told}: {error}");
        source = error.source();
    }
    told
}

impl fmt::Debug for dyn Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}
