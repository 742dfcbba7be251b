//! What kind of result it is, and the result that says nothing more.

use serde::{Deserialize, Serialize};

use super::meta::Meta;
use super::open::open_enum;

open_enum! {
    /// How to read a result. Legacy results have none, which means [`Complete`](Self::Complete).
    ResultType {
        /// The answer itself.
        Complete = "complete",
        /// Asks that must be answered before a retry.
        InputRequired = "input_required",
        /// A task that will have the answer.
        Task = "task",
    }
}

impl ResultType {
    /// The type of a raw result; absent, null or unreadable means complete, as in the legacy era.
    #[must_use]
    pub fn peek(result: &[u8]) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Peek {
            result_type: Option<ResultType>,
        }
        serde_json::from_slice::<Peek>(result)
            .ok()
            .and_then(|peek| peek.result_type)
            .unwrap_or(Self::Complete)
    }
}

/// A result without content: of a ping, a subscription, a level, an acknowledged task call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyResult {
    /// Modern: always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_type_means_complete() {
        assert_eq!(ResultType::peek(br#"{"content":[]}"#), ResultType::Complete);
        assert_eq!(ResultType::peek(br#"{"resultType":null}"#), ResultType::Complete);
        assert_eq!(ResultType::peek(br#"{"resultType":"input_required"}"#), ResultType::InputRequired);
        assert_eq!(ResultType::peek(br#"{"resultType":"later"}"#), ResultType::Other("later".into()));
    }
}
