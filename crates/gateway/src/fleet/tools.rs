//! In which session a server told its tools. Whoever must not call one that is another by now waits until that is the session there is.

use super::upstream::Upstream;

/// A session of a server: which of its connections, and which of the sessions there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionNumber {
    pub(super) connection: u64,
    pub(super) session: u64,
}

/// What became of asking for its tools.
#[derive(Debug, Default)]
pub(super) struct ToolsOf {
    /// When they were told last.
    pub(super) told: Option<SessionNumber>,
    /// When they did not come.
    pub(super) missed: Option<SessionNumber>,
}

/// What is known of a server's tools in the session there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    /// Nothing yet, or there is no session.
    Open,
    /// They are those of its catalog.
    Told,
    /// It does not tell them, at least not now.
    Missed,
}

impl Upstream {
    /// Are its tools known as they are now?
    pub(crate) fn tools(&self) -> Tools {
        let Some(managed) = self.managed.borrow().clone() else { return Tools::Open };
        let session = managed.sessions();
        let inner = self.lock();
        let now = Some(SessionNumber { connection: inner.begun, session });
        match &inner.tools_of {
            _ if !managed.condition().is_up() => Tools::Open,
            tools if tools.told == now => Tools::Told,
            tools if tools.missed == now => Tools::Missed,
            _ => Tools::Open,
        }
    }

    /// Has it asked for its tools, if it has not told them in the session there is.
    pub(crate) fn ask_for_tools(&self) {
        self.relist.notify_one();
    }
}
