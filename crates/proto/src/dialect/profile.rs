//! Which dialect grants which quirks. Nothing is granted elsewhere.

use super::quirk::Quirk;
use super::{CortexForm, Dialect};

/// Harmless enough to be understood from anyone.
const ALWAYS: &[Quirk] = &[Quirk::InitializedHeard];

const TUTORIAL: &[Quirk] = &[
    Quirk::InitializedSent,
    Quirk::ShutdownHeard,
    Quirk::ShutdownSent,
    Quirk::NoteAnswered,
    Quirk::ArgumentsAlways,
    Quirk::BareEvents,
    Quirk::ClientIdHeader,
];

const CORTEX_ENVELOPES: &[Quirk] = &[
    Quirk::NoOpening,
    Quirk::CallFrame,
    Quirk::ParamsClosed,
    Quirk::NoteUnsent,
    Quirk::VersionlessReply,
    Quirk::Unsolicited,
    Quirk::ContentFilled,
    Quirk::ResultClosed,
    Quirk::IdMadeUp,
    Quirk::NamedEvents,
];

const CORTEX_FRAMES: &[Quirk] = &[
    Quirk::NoOpening,
    Quirk::CallFrame,
    Quirk::CallFrameSent,
    Quirk::ParamsClosed,
    Quirk::NoteUnsent,
    Quirk::VersionlessReply,
    Quirk::Unsolicited,
    Quirk::ContentFilled,
    Quirk::ResultClosed,
    Quirk::IdMadeUp,
    Quirk::NamedEvents,
];

const BATCHES: &[Quirk] = &[Quirk::BatchAnyRevision];

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 5] = [
        Self::Standard,
        Self::Tutorial,
        Self::Cortex(CortexForm::Envelope),
        Self::Cortex(CortexForm::Frame),
        Self::JsonRpcBatch,
    ];

    /// From its name in a configuration.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Its name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Tutorial => "tutorial",
            Self::Cortex(CortexForm::Envelope) => "cortex",
            Self::Cortex(CortexForm::Frame) => "cortex-frame",
            Self::JsonRpcBatch => "batch",
        }
    }

    /// The quirks it grants, beyond those that are granted to anyone.
    #[must_use]
    pub const fn quirks(self) -> &'static [Quirk] {
        match self {
            Self::Standard => &[],
            Self::Tutorial => TUTORIAL,
            Self::Cortex(CortexForm::Envelope) => CORTEX_ENVELOPES,
            Self::Cortex(CortexForm::Frame) => CORTEX_FRAMES,
            Self::JsonRpcBatch => BATCHES,
        }
    }

    /// Does it grant `quirk`?
    #[must_use]
    pub fn grants(self, quirk: Quirk) -> bool {
        ALWAYS.contains(&quirk) || self.quirks().contains(&quirk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quirk_is_granted_by_someone() {
        for quirk in Quirk::ALL {
            assert!(Dialect::ALL.iter().any(|dialect| dialect.grants(*quirk)), "{}", quirk.name());
        }
    }

    #[test]
    fn names_read_back() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::parse(dialect.name()), Some(dialect));
        }
        assert_eq!(Dialect::parse("klingon"), None);
    }

    /// S2-22: strict by default, with one exception.
    #[test]
    fn the_standard_grants_one_alias_only() {
        let granted: Vec<_> = Quirk::ALL.iter().filter(|quirk| Dialect::Standard.grants(**quirk)).collect();
        assert_eq!(granted, [&Quirk::InitializedHeard]);
    }
}
