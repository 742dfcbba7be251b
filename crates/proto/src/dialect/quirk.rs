//! The list of quirks: every deviation from the published protocol that a dialect may grant.
//!
//! A quirk is named, says where it was seen, whether we accept or emit it, and which rule of the
//! protocol it breaks. Sessions count each use.

/// Who deviates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// The peer does, and we understand it.
    Accept,
    /// We do, because the peer would not understand us otherwise.
    Emit,
}

macro_rules! quirks {
    ($($(#[$doc:meta])* $name:ident $way:ident $id:literal $seen:literal $breaks:literal;)*) => {
        /// One deviation from the published protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Quirk { $($(#[$doc])* $name,)* }

        impl Quirk {
            /// Every quirk, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A stable, machine-readable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// Do we accept it, or emit it?
            #[must_use]
            pub const fn way(self) -> Way {
                match self { $(Self::$name => Way::$way,)* }
            }

            /// Where it was seen.
            #[must_use]
            pub const fn seen(self) -> &'static str {
                match self { $(Self::$name => $seen,)* }
            }

            /// What it breaks.
            #[must_use]
            pub const fn breaks(self) -> &'static str {
                match self { $(Self::$name => $breaks,)* }
            }
        }
    };
}

quirks! {
    /// The note after the handshake under a shorter name.
    InitializedHeard Accept "initialized-heard" "an architecture tutorial's client"
        "the note is named `notifications/initialized` (lifecycle)";
    /// The same, sent by us.
    InitializedSent Emit "initialized-sent" "an architecture tutorial's server"
        "the note is named `notifications/initialized` (lifecycle)";
    /// A call that announces the end of the session.
    ShutdownHeard Accept "shutdown-heard" "an architecture tutorial's client"
        "a session ends with its link, no call announces it (lifecycle)";
    /// The same, sent by us.
    ShutdownSent Emit "shutdown-sent" "an architecture tutorial's server"
        "a session ends with its link, no call announces it (lifecycle)";
    /// An error without id that answers a note.
    NoteAnswered Accept "note-answered" "an architecture tutorial's server"
        "notes are never answered (JSON-RPC 2.0, 4.1)";
    /// `arguments` even where a tool has none.
    ArgumentsAlways Emit "arguments-always" "an architecture tutorial's server, which fails without"
        "nothing: `arguments` may be empty as well as absent (tools)";
    /// Events without a kind.
    BareEvents Emit "bare-events" "an architecture tutorial's event stream"
        "messages travel as `message` events (HTTP with SSE)";
    /// The stream named by a header of the POST.
    ClientIdHeader Accept "client-id-header" "an architecture tutorial's client"
        "the `endpoint` event says where to post (HTTP with SSE)";
    /// Calls without any handshake.
    NoOpening Accept "no-opening" "clients that only call tools"
        "`initialize` comes first, or `_meta` names the revision (lifecycle)";
    /// A call as `{id, name, arguments}`.
    CallFrame Accept "call-frame" "WebSocket clients that only call tools"
        "a call has `jsonrpc`, `method` and `params` (JSON-RPC 2.0, 4)";
    /// The same, sent by us.
    CallFrameSent Emit "call-frame-sent" "WebSocket servers that only offer tools"
        "a call has `jsonrpc`, `method` and `params` (JSON-RPC 2.0, 4)";
    /// Params without what a closed schema does not know, such as `_meta`.
    ParamsClosed Emit "params-closed" "servers with closed schemas"
        "nothing, but progress and all other metadata are lost";
    /// Notes that a closed schema does not know are not sent.
    NoteUnsent Emit "note-unsent" "peers with closed schemas"
        "a cancelled call is told (cancellation)";
    /// A reply without `jsonrpc`.
    VersionlessReply Accept "versionless-reply" "a test server of tool-only clients"
        "`jsonrpc` is present (JSON-RPC 2.0, 5)";
    /// A frame that is no message: a ping or notification in a form of its own.
    Unsolicited Accept "unsolicited" "WebSocket servers that only offer tools"
        "every frame is a message (JSON-RPC 2.0)";
    /// A result gets a block of content where it had none.
    ContentFilled Emit "content-filled" "clients with closed schemas"
        "nothing: `content` may be empty (tools)";
    /// A result without the members that a closed schema does not know.
    ResultClosed Emit "result-closed" "clients with closed schemas"
        "results are open objects (schema)";
    /// An id of our own where the call's could not be read.
    IdMadeUp Emit "id-made-up" "clients with closed schemas, which need one"
        "an error without a readable id has none (JSON-RPC 2.0, 5)";
    /// Replies in parts, as `result`, `complete` and `error` events.
    NamedEvents Accept "named-events" "event streams of tool-only servers"
        "messages travel whole, as `message` events (Streamable HTTP)";
    /// Batches in any revision.
    BatchAnyRevision Accept "batch-any-revision" "a guide to JSON-RPC framing"
        "batches exist in one revision only";
}

/// How often each quirk was used on one link.
#[derive(Debug, Clone, Default)]
pub struct Tally(Vec<(Quirk, u64)>);

impl Tally {
    /// Counts one use and says how many there were.
    pub(crate) fn count(&mut self, quirk: Quirk) -> u64 {
        match self.0.iter_mut().find(|(known, _)| *known == quirk) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.0.push((quirk, 1));
                1
            }
        }
    }

    /// How often `quirk` was used.
    #[must_use]
    pub fn of(&self, quirk: Quirk) -> u64 {
        self.iter().find(|(known, _)| *known == quirk).map_or(0, |(_, count)| count)
    }

    /// All that were used, in the order of their first use.
    pub fn iter(&self) -> impl Iterator<Item = (Quirk, u64)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quirk_names_are_unique() {
        for (n, quirk) in Quirk::ALL.iter().enumerate() {
            assert!(Quirk::ALL[n + 1..].iter().all(|other| other.name() != quirk.name()), "{quirk:?}");
        }
    }

    #[test]
    fn uses_are_counted() {
        let mut tally = Tally::default();
        assert_eq!((tally.count(Quirk::CallFrame), tally.count(Quirk::CallFrame)), (1, 2));
        tally.count(Quirk::NoOpening);
        assert_eq!(tally.iter().collect::<Vec<_>>(), [(Quirk::CallFrame, 2), (Quirk::NoOpening, 1)]);
        assert_eq!(tally.of(Quirk::Unsolicited), 0);
    }
}
