//! Output schemas of the tools that a server listed, and calls checked against them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cardan_proto::model::{CallToolResult, ListToolsResult, Schema};
use cardan_proto::session::event::CallOptions;
use cardan_schema::Validator;
use serde::Serialize;

use crate::caller::Caller;
use crate::error::CallError;

/// What was listed last, by name of the tool.
#[derive(Debug)]
pub(crate) struct Schemas {
    max_tools: usize,
    listed: Mutex<HashMap<String, Promise>>,
}

/// What a tool promises about its structured result.
#[derive(Debug, Clone)]
enum Promise {
    Nothing,
    Schema(Schema),
    Compiled(Arc<Validator>),
}

impl Schemas {
    pub(crate) fn new(max_tools: usize) -> Self {
        Self { max_tools, listed: Mutex::default() }
    }

    /// Remembers the page of tools that `params` brought. The first one forgets what was listed before.
    pub(crate) fn learn(&self, params: Option<&Bytes>, page: &[u8]) {
        let Ok(page) = serde_json::from_slice::<ListToolsResult>(page) else { return };
        let mut listed = self.lock();
        if params.is_none() {
            listed.clear();
        }
        for tool in page.tools {
            if listed.len() < self.max_tools {
                listed.insert(tool.name, tool.output_schema.map_or(Promise::Nothing, Promise::Schema));
            }
        }
    }

    fn find(&self, tool: &str) -> Option<Promise> {
        self.lock().get(tool).cloned()
    }

    /// The validator of a tool that was listed; none: it promises nothing.
    fn validator(&self, tool: &str, promise: Promise) -> Result<Option<Arc<Validator>>, CallError> {
        let schema = match promise {
            Promise::Nothing => return Ok(None),
            Promise::Compiled(validator) => return Ok(Some(validator)),
            Promise::Schema(schema) => schema,
        };
        let validator =
            Validator::compile(&schema).map_err(|error| CallError::Unchecked(error.to_string()))?;
        let validator = Arc::new(validator);
        self.lock().insert(tool.to_owned(), Promise::Compiled(Arc::clone(&validator)));
        Ok(Some(validator))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Promise>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    /// Calls a tool and checks its structured result against the output schema that was listed last.
    /// Tools are listed first if this one is not known. What cannot be checked is not called.
    pub async fn checked_call_tool(
        &self,
        name: &str,
        arguments: &impl Serialize,
        options: CallOptions,
    ) -> Result<CallToolResult, CallError> {
        let promise = match self.schemas().find(name) {
            Some(promise) => promise,
            None => {
                self.all_tools().await?;
                let listed = self.schemas().find(name);
                listed.ok_or_else(|| CallError::Unchecked("the server does not list the tool".into()))?
            }
        };
        let validator = self.schemas().validator(name, promise)?;
        let result = self.call_tool_with(name, arguments, options)?.await?;
        match validator {
            Some(validator) if !result.failed() => check(&result, &validator).map(|()| result),
            _ => Ok(result),
        }
    }
}

fn check(result: &CallToolResult, validator: &Validator) -> Result<(), CallError> {
    let Some(content) = &result.structured_content else {
        return Err(CallError::Shape(
            "structuredContent is missing, but the tool has an output schema".into(),
        ));
    };
    match validator.check(&content.value()).into_iter().next() {
        Some(flaw) => Err(CallError::Shape(flaw.under("structuredContent").to_string())),
        None => Ok(()),
    }
}
