//! Why a handler stops early: it failed, it refuses, or it needs input first.

use std::any::Any;
use std::error::Error;
use std::fmt;

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::Asks;

/// What `?` carries out of a handler.
///
/// Any error becomes a failure that the model can read; a [`Fault`] stays a fault. Like every type
/// that takes all errors in, it is no error itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stop {
    /// The work failed, in words for the model. A tool answers with `isError`.
    Failed(String),
    /// The call itself is refused: a JSON-RPC error.
    Fault(Fault),
    /// Input is needed. The handler runs again when it is there.
    Ask(Asks),
}

impl Stop {
    /// The work failed, in words for the model.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }
}

impl<E: Error + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<Fault>() {
            Some(fault) => Self::Fault(fault.clone()),
            None => Self::Failed(in_full(&error)),
        }
    }
}

/// An error with its causes.
fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_failures_and_faults_stay_faults() {
        let fault = Fault::invalid_params("no");
        assert!(matches!(Stop::from(fault.clone()), Stop::Fault(kept) if kept == fault));
        let error = "x".parse::<i32>().unwrap_err();
        assert!(matches!(Stop::from(error), Stop::Failed(why) if why.contains("invalid digit")));
    }
}
