//! What params and results say: one set of types for all five revisions.
//!
//! A type is the union over the revisions, with optional members where one of them has none.
//! Which member may be sent in which revision is a question for the era module. Types are open
//! where the protocol is open: `_meta` and capabilities keep what they do not know, schemas and
//! structured results stay the text they were, other unknown members are ignored (BASE-33).
//!
//! Parsing is tolerant, checking is separate: a `check` function tells every [`Flaw`]
//! with its place, and the caller decides what follows.

mod open;

pub mod ask;
pub mod cache;
pub mod cancel;
pub mod capability;
pub mod complete;
pub mod content;
mod content_de;
pub mod date;
pub mod elicit;
mod field;
pub mod flaw;
pub mod form;
mod form_check;
#[cfg(test)]
mod form_tests;
pub mod frontmatter;
pub mod lifecycle;
pub mod listen;
pub mod logging;
pub mod meta;
pub mod page;
pub mod progress;
pub mod prompt;
pub mod raw;
pub mod resource;
pub mod result;
pub mod roots;
pub mod sampling;
pub mod shape;
pub mod skill;
pub mod task;
pub mod tool;
#[cfg(test)]
mod tool_tests;
pub mod trace;
pub mod uri;
pub mod uri_template;
#[cfg(test)]
mod uri_template_tests;

pub use ask::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
pub use capability::{ClientCapabilities, ServerCapabilities};
pub use content::{Annotations, Content, Role};
pub use elicit::{ElicitParams, ElicitResult, UrlAsk};
pub use flaw::Flaw;
pub use form::Form;
pub use lifecycle::{DiscoverResult, Implementation, InitializeParams, InitializeResult};
pub use logging::LogLevel;
pub use meta::Meta;
pub use page::{Cursor, PageParams};
pub use progress::ProgressToken;
pub use prompt::{GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptMessage};
pub use raw::{Raw, RawObject, Schema};
pub use resource::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
pub use result::{EmptyResult, ResultType};
pub use sampling::{CreateMessageParams, CreateMessageResult};
pub use task::Task;
pub use tool::{CallToolParams, CallToolResult, ListToolsResult, Tool};
