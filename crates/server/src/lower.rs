//! What an older revision does not know is left out or said in words, so that its clients can read
//! what newer servers say.

use cardan_proto::era::{Era, Revision, gates};
use cardan_proto::model::{CallToolResult, Content, Prompt, Resource, ResourceTemplate, Tool};

use crate::output::takes_structure;

/// A tool result as `revision` knows it.
pub(crate) fn result(result: &mut CallToolResult, revision: Revision) {
    if result.structured_content.as_ref().is_some_and(|raw| !takes_structure(revision, raw.as_str())) {
        result.structured_content = None;
    }
    content(&mut result.content, revision);
}

/// Blocks of a type that came later become text.
pub(crate) fn content(blocks: &mut [Content], revision: Revision) {
    let gates = gates(revision);
    for block in blocks {
        match block {
            Content::Audio(audio) if !gates.audio => {
                *block = Content::text(format!("[audio, {}]", audio.mime_type));
            }
            Content::ResourceLink(link) if !gates.resource_link => {
                *block = Content::text(format!("{}: {}", link.name, link.uri));
            }
            _ => {}
        }
    }
}

/// A tool as `revision` knows it.
pub(crate) fn tool(mut tool: Tool, revision: Revision) -> Tool {
    let gates = gates(revision);
    if !gates.audio {
        tool.annotations = None;
    }
    if !gates.structured_output {
        tool.meta = None;
    }
    // Legacy revisions know structured output as an object only.
    let known = tool.output_schema.as_ref().is_some_and(|schema| schema.is_of_object());
    if !gates.structured_output || (revision.era() == Era::Legacy && !known) {
        tool.output_schema = None;
    }
    if !gates.title {
        tool.title = None;
    }
    if !gates.icons {
        tool.icons = None;
    }
    if !gates.icons || revision.era() == Era::Modern {
        tool.execution = None;
    }
    tool
}

/// A resource as `revision` knows it.
pub(crate) fn resource(mut resource: Resource, revision: Revision) -> Resource {
    let gates = gates(revision);
    if !gates.title {
        resource.title = None;
        resource.meta = None;
    }
    if !gates.icons {
        resource.icons = None;
    }
    resource
}

/// A template as `revision` knows it.
pub(crate) fn template(mut template: ResourceTemplate, revision: Revision) -> ResourceTemplate {
    let gates = gates(revision);
    if !gates.title {
        template.title = None;
        template.meta = None;
    }
    if !gates.icons {
        template.icons = None;
    }
    template
}

/// A prompt as `revision` knows it.
pub(crate) fn prompt(mut prompt: Prompt, revision: Revision) -> Prompt {
    let gates = gates(revision);
    if !gates.title {
        prompt.title = None;
        prompt.meta = None;
        for argument in prompt.arguments.iter_mut().flatten() {
            argument.title = None;
        }
    }
    if !gates.icons {
        prompt.icons = None;
    }
    prompt
}
