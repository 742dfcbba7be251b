//! What a client is told beside the words when a call brings no reply: for clients that are ours and can make more of it.

use std::fmt;
use std::sync::Arc;

use cardan_client::CallError;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::Answer;
use serde_json::{Map, Value};

/// Makes a value of a failure, which clients find in the data of the fault. It must hold no secrets of the server.
#[derive(Clone)]
pub struct Explain(Arc<Function>);

type Function = dyn Fn(CallError, &Redactor) -> Value + Send + Sync;

impl Explain {
    /// Where it stands in the data of a fault.
    pub const MEMBER: &str = "failure";

    /// Explains by this function, which is given what nobody should read.
    pub fn new(explain: impl Fn(CallError, &Redactor) -> Value + Send + Sync + 'static) -> Self {
        Self(Arc::new(explain))
    }

    /// An answer with why there is none.
    pub(super) fn answer(&self, answer: Answer, failure: Option<CallError>, secrets: &Redactor) -> Answer {
        match (answer, failure) {
            (Answer::Fault(fault), Some(error)) => Answer::Fault(self.fault(fault, error, secrets)),
            (answer, _) => answer,
        }
    }

    /// A fault with its explanation.
    pub(super) fn fault(&self, fault: Fault, error: CallError, secrets: &Redactor) -> Fault {
        let data = fault.data.as_ref().and_then(|data| serde_json::from_slice::<Map<_, _>>(data).ok());
        let mut data = data.unwrap_or_default();
        data.insert(Self::MEMBER.to_owned(), (self.0)(error, secrets));
        fault.with_data(&Value::Object(data))
    }
}

impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explain").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::session::event::Refusal;
    use serde_json::json;

    use super::*;

    /// What was told stays, and what is said is beside it.
    #[test]
    fn explanations_stand_beside_what_is_told() {
        let explain = Explain::new(|error, _| json!(error.to_string()));
        let fault = Fault::internal("lost").with_data(&json!({ "outcome": "lost" }));
        let error = CallError::Refused(Refusal::TooMany);
        let told = explain.fault(fault, error.clone(), &Redactor::default());
        let data: Value = serde_json::from_slice(&told.data.unwrap()).unwrap();
        assert_eq!(data, json!({ "outcome": "lost", "failure": error.to_string() }));
    }
}
