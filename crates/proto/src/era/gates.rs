//! What differs between revisions, as data: a row per revision, a column per difference.
//!
//! Reading one row tells what a revision has. A new revision is a new row.

use super::revision::Revision;
use crate::jsonrpc::fault::code;

/// What an error reply carries when the call's id could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadId {
    /// `"id": null`, as JSON-RPC says.
    Null,
    /// No `id` at all.
    Omitted,
}

/// The ways to ask a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Elicitation {
    /// None.
    Absent,
    /// A form.
    Form,
    /// A form, or an address to visit.
    FormAndUrl,
}

/// How tasks are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// Not at all.
    Absent,
    /// As an experiment in the core.
    Core,
    /// As an extension.
    Extension,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of yes and no is what this is")]
pub struct Gates {
    /// Batches are received.
    pub batches: bool,
    /// Progress notes may say something.
    pub progress_message: bool,
    /// The `completions` capability exists (completion itself is older).
    pub completions_capability: bool,
    /// Tools have annotations; content may be audio.
    pub audio: bool,
    /// Tools have output schemas, results structured content.
    pub structured_output: bool,
    /// Content may be a link to a resource.
    pub resource_link: bool,
    /// Things have titles.
    pub title: bool,
    /// Things have icons.
    pub icons: bool,
    /// Completion gets the arguments filled in so far.
    pub completion_context: bool,
    /// Sampling may use tools, and content may be several blocks.
    pub sampling_tools: bool,
    /// The ways to ask a person.
    pub elicitation: Elicitation,
    /// How tasks are done.
    pub tasks: Tasks,
    /// The error id when the call's could not be read.
    pub unread_id: UnreadId,
    /// A resource that does not exist.
    pub resource_not_found: i64,
    /// A failed argument check is a tool error, not a fault.
    pub bad_arguments_are_tool_errors: bool,
    /// The version header is required after the handshake.
    pub version_header: bool,
    /// Streams open with a priming event and tell when to come back.
    pub priming_event: bool,
    /// Results carry `resultType`, lists carry cache hints.
    pub result_type: bool,
}

/// The row of `revision`.
#[must_use]
pub const fn gates(revision: Revision) -> &'static Gates {
    match revision {
        Revision::V2024_11_05 => &V2024_11_05,
        Revision::V2025_03_26 => &V2025_03_26,
        Revision::V2025_06_18 => &V2025_06_18,
        Revision::V2025_11_25 => &V2025_11_25,
        Revision::V2026_07_28 => &V2026_07_28,
    }
}

const V2024_11_05: Gates = Gates {
    batches: false,
    progress_message: false,
    completions_capability: false,
    audio: false,
    structured_output: false,
    resource_link: false,
    title: false,
    icons: false,
    completion_context: false,
    sampling_tools: false,
    elicitation: Elicitation::Absent,
    tasks: Tasks::Absent,
    unread_id: UnreadId::Null,
    resource_not_found: code::RESOURCE_NOT_FOUND,
    bad_arguments_are_tool_errors: false,
    version_header: false,
    priming_event: false,
    result_type: false,
};

const V2025_03_26: Gates =
    Gates { batches: true, progress_message: true, completions_capability: true, audio: true, ..V2024_11_05 };

const V2025_06_18: Gates = Gates {
    batches: false,
    structured_output: true,
    resource_link: true,
    title: true,
    completion_context: true,
    elicitation: Elicitation::Form,
    version_header: true,
    ..V2025_03_26
};

const V2025_11_25: Gates = Gates {
    icons: true,
    sampling_tools: true,
    elicitation: Elicitation::FormAndUrl,
    tasks: Tasks::Core,
    unread_id: UnreadId::Omitted,
    bad_arguments_are_tool_errors: true,
    priming_event: true,
    ..V2025_06_18
};

const V2026_07_28: Gates = Gates {
    tasks: Tasks::Extension,
    resource_not_found: code::INVALID_PARAMS,
    priming_event: false,
    result_type: true,
    ..V2025_11_25
};

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-13, BASE-14, BASE-16: batches exist in one revision and in no other.
    #[test]
    fn batches_exist_once() {
        let with: Vec<_> = Revision::ALL.into_iter().filter(|r| gates(*r).batches).collect();
        assert_eq!(with, [Revision::V2025_03_26]);
    }

    /// RES-6, RES-7: the code for a missing resource changed with the era.
    #[test]
    fn missing_resources_have_a_code_per_era() {
        let codes: Vec<_> = Revision::ALL.into_iter().map(|r| gates(r).resource_not_found).collect();
        assert_eq!(codes, [-32002, -32002, -32002, -32002, -32602]);
    }

    #[test]
    fn elicitation_grew() {
        let ways: Vec<_> = Revision::ALL.into_iter().map(|r| gates(r).elicitation).collect();
        assert!(ways.is_sorted());
        assert_eq!(ways[0], Elicitation::Absent);
        assert_eq!(ways[2], Elicitation::Form);
    }
}
