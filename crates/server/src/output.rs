//! What a tool function may return, and how it goes on the wire.

use bytes::Bytes;
use cardan_proto::era::{Era, Revision, gates};
use cardan_proto::jsonrpc::write;
use cardan_proto::model::{CallToolResult, Content, Schema};
use schemars::JsonSchema;
use serde::Serialize;

use crate::lower;
use crate::stop::Stop;

/// A value of a type of yours, as structured output. Its schema is announced with the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Json<T>(pub T);

/// What a tool function may return.
pub trait ToolOutput: Send {
    /// The result object for a call of this revision.
    fn into_result(self, revision: Revision) -> Result<Bytes, Stop>;

    /// The schema of the structured part, if there is one.
    fn schema() -> Option<Schema> {
        None
    }

    /// Does it hold a resource itself? Then the server must have declared that it has resources.
    fn embeds(&self) -> bool {
        false
    }

    /// Which members its result objects can have.
    const MEMBERS: Members = Members::Any;
}

/// Which members a result object can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// Content, structured content and `isError`: nothing that an era adds too.
    Content,
    /// Anything.
    Any,
}

impl ToolOutput for String {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, revision: Revision) -> Result<Bytes, Stop> {
        self.as_str().into_result(revision)
    }
}

impl ToolOutput for &str {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, _revision: Revision) -> Result<Bytes, Stop> {
        const HEAD: &[u8] = b"{\"content\":[{\"type\":\"text\",\"text\":";
        // Room for some escapes: growing costs more than a few bytes.
        let mut out = Vec::with_capacity(HEAD.len() + self.len() + self.len() / 4 + 16);
        out.extend_from_slice(HEAD);
        write::string(self, &mut out);
        out.extend_from_slice(b"}]}");
        Ok(Bytes::from(out))
    }
}

impl ToolOutput for () {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, _revision: Revision) -> Result<Bytes, Stop> {
        Ok(Bytes::from_static(b"{\"content\":[]}"))
    }
}

impl ToolOutput for Content {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, revision: Revision) -> Result<Bytes, Stop> {
        vec![self].into_result(revision)
    }

    fn embeds(&self) -> bool {
        matches!(self, Self::Resource(_))
    }
}

impl ToolOutput for Vec<Content> {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, revision: Revision) -> Result<Bytes, Stop> {
        CallToolResult::of(self).into_result(revision)
    }

    fn embeds(&self) -> bool {
        self.iter().any(Content::embeds)
    }
}

impl ToolOutput for CallToolResult {
    fn into_result(mut self, revision: Revision) -> Result<Bytes, Stop> {
        lower::result(&mut self, revision);
        Ok(Bytes::from(serde_json::to_vec(&self)?))
    }

    fn embeds(&self) -> bool {
        self.content.embeds()
    }
}

impl<T: Serialize + JsonSchema + Send> ToolOutput for Json<T> {
    const MEMBERS: Members = Members::Content;

    fn into_result(self, revision: Revision) -> Result<Bytes, Stop> {
        let value = serde_json::to_string(&self.0)?;
        let mut out = Vec::with_capacity(2 * value.len() + 80);
        out.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":");
        write::string(&value, &mut out);
        out.extend_from_slice(b"}]");
        if takes_structure(revision, &value) {
            out.extend_from_slice(b",\"structuredContent\":");
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
        Ok(Bytes::from(out))
    }

    fn schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }
}

impl<T: ToolOutput> ToolOutput for Result<T, Stop> {
    const MEMBERS: Members = T::MEMBERS;

    fn into_result(self, revision: Revision) -> Result<Bytes, Stop> {
        self?.into_result(revision)
    }

    fn embeds(&self) -> bool {
        self.as_ref().is_ok_and(T::embeds)
    }

    fn schema() -> Option<Schema> {
        T::schema()
    }
}

/// Legacy revisions with structured output take objects only.
pub(crate) fn takes_structure(revision: Revision, value: &str) -> bool {
    gates(revision).structured_output && (revision.era() == Era::Modern || value.starts_with('{'))
}

/// The schema of a type.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Schema {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    Schema::from(schema.as_value())
}
