//! What a client is told beside the words when a call brings no reply: for clients that are ours and can make more of it.

use std::fmt;
use std::sync::{Arc, Mutex};

use cardan_client::{CallError, Managed, Watcher};
use cardan_proto::finding::Finding;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::Answer;
use serde_json::{Map, Value};

use crate::fleet::lock;

/// Makes a value of a failure, which clients find in the data of the fault. It must hold no secrets of the server.
#[derive(Clone)]
pub struct Explain(Arc<Function>);

type Function = dyn Fn(CallError, Vec<Finding>, &Redactor) -> Value + Send + Sync;

impl Explain {
    /// Where it stands in the data of a fault.
    pub const MEMBER: &str = "failure";

    /// Explains by this function, which is given what was found in the meantime and what nobody should read.
    pub fn new(
        explain: impl Fn(CallError, Vec<Finding>, &Redactor) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(explain))
    }

    /// An answer with why there is none.
    pub(super) fn answer(
        &self,
        answer: Answer,
        failure: Option<(CallError, Vec<Finding>)>,
        secrets: &Redactor,
    ) -> Answer {
        match (answer, failure) {
            (Answer::Fault(fault), Some((error, found))) => {
                Answer::Fault(self.fault(fault, error, found, secrets))
            }
            (answer, _) => answer,
        }
    }

    /// A fault with its explanation.
    pub(super) fn fault(
        &self,
        fault: Fault,
        error: CallError,
        found: Vec<Finding>,
        secrets: &Redactor,
    ) -> Fault {
        let data = fault.data.as_ref().and_then(|data| serde_json::from_slice::<Map<_, _>>(data).ok());
        let mut data = data.unwrap_or_default();
        data.insert(Self::MEMBER.to_owned(), (self.0)(error, found, secrets));
        fault.with_data(&Value::Object(data))
    }
}

/// What is found on a line while a call runs there.
pub(super) struct Found {
    watcher: Watcher<Finding>,
    last: LastFound,
}

/// What was found during the call that ended last and was told to nobody: its client may have given it up.
pub(super) type LastFound = Arc<Mutex<Vec<Finding>>>;

impl Found {
    /// From now on.
    pub(super) fn begin(managed: &Managed, last: &LastFound) -> Self {
        Self { watcher: managed.findings(), last: Arc::clone(last) }
    }

    /// What came since it was asked last.
    pub(super) fn take(&mut self) -> Vec<Finding> {
        std::iter::from_fn(|| self.watcher.try_next()).collect()
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        *lock(&self.last) = self.take();
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
        let explain = Explain::new(|error, _, _| json!(error.to_string()));
        let fault = Fault::internal("lost").with_data(&json!({ "outcome": "lost" }));
        let error = CallError::Refused(Refusal::TooMany);
        let told = explain.fault(fault, error.clone(), Vec::new(), &Redactor::default());
        let data: Value = serde_json::from_slice(&told.data.unwrap()).unwrap();
        assert_eq!(data, json!({ "outcome": "lost", "failure": error.to_string() }));
    }
}
