//! The way to another replica. How it is gone is said by whoever starts us: no HTTP client is part of this crate.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};

/// The body of another replica's answer.
pub type Answer = Pin<Box<dyn http_body::Body<Data = Bytes, Error = Box<dyn Error + Send + Sync>> + Send>>;

/// A request on its way.
pub type Carrying = Pin<Box<dyn Future<Output = Result<Response<Answer>, Uncarried>> + Send>>;

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uncarried {
    /// The request was not sent: another may be asked.
    NotSent,
    /// It may have been acted upon.
    Unknown,
}

/// Brings requests to other replicas.
pub trait Carry: Send + Sync + 'static {
    /// Sends a request, whose target is a path, to the replica at `address`.
    fn carry(&self, address: &str, request: Request<Bytes>) -> Carrying;
}
