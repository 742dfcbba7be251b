//! Findings: what a peer did that the protocol does not allow, told truthfully.
//!
//! One table of rules serves tolerance at run time, diagnosis in the client and linting. A
//! frame that cannot be used is a [`Violation`](crate::jsonrpc::envelope::Violation); a frame
//! that was used all the same leaves a [`Finding`] behind. [`Strictness`] decides which of the two.

use std::collections::VecDeque;
use std::fmt;

use crate::jsonrpc::id::CallId;

/// How much deviation is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Strictness {
    /// A deviation ends the link.
    Strict,
    /// What can be understood is used and recorded; what cannot is refused and recorded.
    #[default]
    Standard,
    /// What can be repaired is repaired and recorded.
    Lenient,
}

/// The kind of mistake, from the outside in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Where one message ends and the next begins.
    Framing,
    /// Not JSON.
    Syntax,
    /// JSON, but not a JSON-RPC message.
    Envelope,
    /// Replies and calls that do not belong together.
    Correlation,
    /// The wrong thing at this time or in this era.
    Lifecycle,
    /// A payload of the wrong shape.
    Schema,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $class:ident $id:literal $clause:literal;)*) => {
        /// One rule of the protocol that a frame can break.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A stable, machine-readable name.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// The clause that says so, in short.
            #[must_use]
            pub const fn clause(self) -> &'static str {
                match self { $(Self::$name => $clause,)* }
            }

            /// The kind of mistake.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

rules! {
    /// A line or body that is not UTF-8.
    NotUtf8 Framing "not-utf8" "messages are UTF-8 (base protocol)";
    /// A message beyond the limit.
    Oversize Framing "oversize" "a message fits the frame limit (limits.frame_bytes)";
    /// The stream ended inside a message.
    Unterminated Framing "unterminated" "a message ends with a newline (stdio)";
    /// A line that is not JSON, where only messages belong.
    Noise Framing "noise" "only messages go to stdout (stdio)";
    /// A message that is broken off at the end of a line, or goes on in the next.
    Split Framing "split" "one message per line, without line breaks inside (stdio)";
    /// A message on stderr, where nobody reads it.
    FrameOnStderr Framing "frame-on-stderr" "messages go to stdout, and only logs to stderr (stdio)";
    /// A blank or broken part of an event stream.
    BrokenEvent Framing "broken-event" "an event ends with a blank line (server-sent events)";
    /// A binary message, where only text belongs.
    Binary Framing "binary" "messages are text frames (WebSocket)";
    /// A frame that the WebSocket protocol does not have.
    SocketFraming Framing "socket-framing" "frames have the form of RFC 6455 (WebSocket)";
    /// Not JSON.
    Syntax Syntax "syntax" "a message is valid JSON (RFC 8259)";
    /// JSON nested beyond the limit.
    Depth Syntax "depth" "nesting fits the depth limit (limits.depth)";
    /// Something after the message.
    Trailing Syntax "trailing" "one message per line or body";
    /// Neither an object nor an array.
    NotAnObject Envelope "not-an-object" "a message is an object (JSON-RPC 2.0, 4)";
    /// A member twice, in the envelope or in `params`.
    DuplicateMember Envelope "duplicate-member" "member names are unique (RFC 8259, 4)";
    /// No `jsonrpc` member.
    VersionMissing Envelope "version-missing" "`jsonrpc` is present (JSON-RPC 2.0, 4)";
    /// `jsonrpc` is not `"2.0"`.
    VersionWrong Envelope "version-wrong" "`jsonrpc` is exactly \"2.0\" (JSON-RPC 2.0, 4)";
    /// `id` is `null`.
    IdNull Envelope "id-null" "an id is never null (base protocol)";
    /// `id` is neither string nor number.
    IdType Envelope "id-type" "an id is a string or an integer (base protocol)";
    /// `id` is a number with a fraction or an exponent.
    IdFraction Envelope "id-fraction" "an id is a string or an integer (base protocol)";
    /// `id` beyond the limit.
    IdTooLong Envelope "id-too-long" "an id fits the limit (limits.id_bytes)";
    /// `method` is not a string.
    MethodType Envelope "method-type" "`method` is a string (JSON-RPC 2.0, 4)";
    /// `params` is not an object.
    ParamsType Envelope "params-type" "`params` is an object (base protocol)";
    /// `_meta` is not an object.
    MetaType Envelope "meta-type" "`_meta` is an object (base protocol)";
    /// A reply with both `result` and `error`.
    BothOutcomes Envelope "both-outcomes" "a reply has `result` or `error`, not both (JSON-RPC 2.0, 5)";
    /// A message with an id, but neither method nor outcome.
    NoOutcome Envelope "no-outcome" "a message has `method`, `result` or `error` (JSON-RPC 2.0, 4 and 5)";
    /// A message with a method and an outcome.
    MethodAndOutcome Envelope "method-and-outcome" "a message is a call or a reply, not both (JSON-RPC 2.0)";
    /// An error object without integer `code` or string `message`.
    ErrorShape Envelope "error-shape" "`error` has an integer `code` and a string `message` (JSON-RPC 2.0, 5.1)";
    /// A result reply without id.
    ReplyWithoutId Envelope "reply-without-id" "a result carries the call's id (JSON-RPC 2.0, 5)";
    /// An empty batch.
    BatchEmpty Envelope "batch-empty" "a batch has at least one entry (JSON-RPC 2.0, 6)";
    /// A batch inside a batch.
    BatchNested Envelope "batch-nested" "a batch holds messages (JSON-RPC 2.0, 6)";
    /// A batch beyond the limit.
    BatchTooLong Envelope "batch-too-long" "a batch fits the limit (limits.batch_entries)";
    /// A batch where the revision has none.
    BatchForbidden Envelope "batch-forbidden" "batches exist in one revision only";
    /// `initialize` inside a batch.
    BatchedOpening Envelope "batched-opening" "`initialize` is never in a batch";
    /// A reply to a call that had already ended here.
    LateReply Correlation "late-reply" "a reply comes before the timeout or cancel (informative)";
    /// A second reply to one call.
    DuplicateReply Correlation "duplicate-reply" "a call is answered once (JSON-RPC 2.0, 5)";
    /// An exchange that ended without the reply to its call.
    NoReply Correlation "no-reply" "a posted call is answered with its reply (Streamable HTTP)";
    /// A reply to a call that was never made.
    UnknownReply Correlation "unknown-reply" "a reply carries the id of a call (JSON-RPC 2.0, 5)";
    /// A reply whose id has the right value in the wrong JSON type.
    IdTypeChanged Correlation "id-type-changed" "the id is echoed in its JSON type (base protocol)";
    /// A call with the id of another one still running.
    DuplicateCall Correlation "duplicate-call" "ids of running calls are distinct (base protocol)";
    /// Progress for a token that is not in use.
    ProgressUnknown Correlation "progress-unknown" "progress names a token in use (progress)";
    /// Progress that does not increase.
    ProgressStuck Correlation "progress-stuck" "progress increases (progress)";
    /// A cancel note for a call that is not running.
    CancelUnknown Correlation "cancel-unknown" "a cancel names a running call (cancellation)";
    /// A change note on no listen of ours.
    ListenUnknown Correlation "listen-unknown" "a change note names its listen (subscriptions)";
    /// A change note before the acknowledgement.
    ListenUnacknowledged Correlation "listen-unacknowledged" "the acknowledgement comes first (subscriptions)";
    /// A call before the session is open.
    BeforeOpening Lifecycle "before-opening" "`initialize` comes first (lifecycle)";
    /// Our own call, sent back to us.
    Echo Lifecycle "echo" "a server answers what it is sent, and does not send it back";
    /// A second `initialize`.
    OpenedTwice Lifecycle "opened-twice" "`initialize` is sent once (lifecycle)";
    /// A revision that was not offered.
    RevisionUnknown Lifecycle "revision-unknown" "the answered revision is one the client speaks (lifecycle)";
    /// A server that calls its client in the modern era.
    ServerCall Lifecycle "server-call" "servers send no calls (2026-07-28)";
    /// A client that replies in the modern era.
    ClientReply Lifecycle "client-reply" "clients send no replies (2026-07-28)";
    /// A note that this side does not receive in this era.
    NoteMisplaced Lifecycle "note-misplaced" "notes flow in their own direction and era";
    /// A note of an unknown kind.
    NoteUnknown Lifecycle "note-unknown" "unknown notes are ignored (informative)";
    /// A note or answer of ours that the server did not take.
    PostRefused Lifecycle "post-refused" "notes and answers are accepted with 202 (Streamable HTTP)";
    /// The push lane was refused, or lost too often.
    PushLost Lifecycle "push-lost" "the push lane stays open, or is refused with 405 (informative)";
    /// A session id that changed after the handshake.
    SessionChanged Lifecycle "session-changed" "the session id is set by initialize (Streamable HTTP)";
    /// A removed or unadvertised feature was used.
    Unadvertised Lifecycle "unadvertised" "only declared capabilities are used (lifecycle)";
    /// A server that asks for input faster than anyone can answer.
    AskFlood Lifecycle "ask-flood" "asks fit the rate limit (limits.asks_per_minute)";
    /// Roots, sampling or logging in the modern era: they work, but are on their way out.
    Deprecated Lifecycle "deprecated" "roots, sampling and logging are deprecated (2026-07-28)";
    /// A foreign form that was understood: the first use of each quirk.
    Foreign Lifecycle "foreign" "messages have their published form (a dialect granted this one)";
    /// A result that is not an object.
    ResultType Schema "result-type" "a result is an object of a known `resultType`";
    /// A result that lacks what its method promises.
    ResultShape Schema "result-shape" "a result has the shape that the schema gives its method";
    /// A structured result that does not fit what its tool promises.
    OutputSchema Schema "output-schema" "a structured result fits the output schema of its tool (tools)";
    /// A tool with a header annotation that breaks the rules: it is not offered.
    BadMirror Schema "bad-mirror" "header annotations of a tool follow their rules (2026-07-28)";
    /// Params that lack what their method needs.
    ParamsShape Schema "params-shape" "params have the shape of their method";
    /// An input request that the call cannot have.
    AskMisplaced Schema "ask-misplaced" "only three methods may ask for input (2026-07-28)";
}

impl Rule {
    /// Can lenience mend some of what breaks it? The rest is the same at every [`Strictness`].
    #[must_use]
    pub const fn is_mendable(self) -> bool {
        matches!(
            self,
            Self::Noise
                | Self::Unterminated
                | Self::VersionMissing
                | Self::VersionWrong
                | Self::IdNull
                | Self::ReplyWithoutId
                | Self::UnknownReply
                | Self::IdTypeChanged
                | Self::BothOutcomes
                | Self::Trailing
                | Self::BatchForbidden
        )
    }
}

/// One recorded deviation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which frame of the link, counted from one; zero where it was found beside the link, by whoever knows more of the call.
    pub frame: u64,
    /// The rule it broke.
    pub rule: Rule,
    /// The call it belongs to, where that is known.
    pub call: Option<CallId>,
    /// What is to be said of it, in short.
    pub detail: Box<str>,
    /// The frame as [`excerpt`] shows it; empty where there is none, or the detail shows it.
    pub bytes: Box<str>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frame > 0 {
            write!(f, "frame {}: ", self.frame)?;
        }
        f.write_str(self.rule.id())?;
        if let Some(call) = &self.call {
            write!(f, " (call {call})")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if !self.bytes.is_empty() {
            write!(f, ": {}", self.bytes)?;
        }
        write!(f, "; rule: {}", self.rule.clause())
    }
}

/// A bounded record of findings: the first ones are kept, all are counted.
#[derive(Debug, Default)]
pub struct Findings {
    kept: VecDeque<Finding>,
    total: u64,
    counts: Vec<(Rule, u64)>,
}

impl Findings {
    /// Records one; only counted when `max` are kept already.
    pub fn record(&mut self, finding: Finding, max: usize) {
        self.total += 1;
        match self.counts.iter_mut().find(|(rule, _)| *rule == finding.rule) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((finding.rule, 1)),
        }
        if self.kept.len() < max {
            self.kept.push_back(finding);
        }
    }

    /// How many there were, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often `rule` was broken.
    #[must_use]
    pub fn count(&self, rule: Rule) -> u64 {
        self.counts.iter().find(|(r, _)| *r == rule).map_or(0, |(_, count)| *count)
    }

    /// Those that were kept, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.kept.iter()
    }
}

/// Would a terminal or a viewer obey this character instead of showing it? Control characters, and those
/// that turn the direction of writing or end a line.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Does this character take no room? In prose some of these belong to the spelling; where bytes are told apart they must be seen.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// A short, printable excerpt of foreign bytes, from which they can be told: what would be obeyed, takes no room or is no
/// text is written as an escape, and so is the backslash.
#[must_use]
pub fn excerpt(bytes: &[u8], max_bytes: usize) -> Box<str> {
    let cut = bytes.get(..max_bytes).map_or(bytes, whole_characters);
    let mut text = String::with_capacity(cut.len());
    for chunk in cut.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(escaped));
        text.extend(
            chunk.invalid().iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).map(char::from),
        );
    }
    if cut.len() < bytes.len() {
        text.push_str("...");
    }
    text.into()
}

/// As an excerpt writes it.
pub(crate) fn escaped(c: char) -> impl Iterator<Item = char> {
    let written = match c {
        '\\' => Some("\\\\".to_owned()),
        '\n' => Some("\\n".to_owned()),
        '\r' => Some("\\r".to_owned()),
        '\t' => Some("\\t".to_owned()),
        c if c.is_ascii_control() => Some(format!("\\x{:02x}", u32::from(c))),
        c if is_obeyed(c) || is_unseen(c) => Some(format!("\\u{{{:x}}}", u32::from(c))),
        _ => None,
    };
    let plain = written.is_none().then_some(c);
    written.unwrap_or_default().into_bytes().into_iter().map(char::from).chain(plain)
}

/// Without the beginning of a character that the cut went through.
fn whole_characters(cut: &[u8]) -> &[u8] {
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_names_are_unique() {
        for (n, rule) in Rule::ALL.iter().enumerate() {
            assert!(Rule::ALL[n + 1..].iter().all(|other| other.id() != rule.id()), "{}", rule.id());
        }
    }

    #[test]
    fn what_turns_or_ends_a_line_is_obeyed() {
        for c in "\u{1b}\u{7f}\u{9b}\u{61c}\u{200e}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\n".chars()
        {
            assert!(is_obeyed(c), "{c:?}");
        }
        for c in "a é\u{200d}\u{2027}\u{202f}\u{2065}\u{206a}ש".chars() {
            assert!(!is_obeyed(c), "{c:?}");
        }
    }

    #[test]
    fn findings_are_bounded_and_counted() {
        let mut findings = Findings::default();
        for frame in 1..=5 {
            let finding =
                Finding { frame, rule: Rule::Noise, call: None, detail: "x".into(), bytes: "".into() };
            findings.record(finding, 2);
        }
        assert_eq!((findings.total(), findings.iter().count(), findings.count(Rule::Noise)), (5, 2, 5));
    }

    /// Nothing is obeyed, and nothing is lost: two frames look alike only if they are.
    #[test]
    fn excerpts_tell_bytes_without_obeying_them() {
        for (bytes, shown) in [
            (&b"\x1b[31mred\xff"[..], r"\x1b[31mred\xff"),
            ("a\u{202e}b\u{85}".as_bytes(), r"a\u{202e}b\u{85}"),
            (b"{\"a\":1}\0", r#"{"a":1}\x00"#),
            (br"\x00 \n", r"\\x00 \\n"),
            (b"a\r\n\tb", r"a\r\n\tb"),
            ("käse".as_bytes(), "käse"),
            (
                "\u{feff}{\u{200b}\u{200c}\u{200d}\u{2060}}".as_bytes(),
                r"\u{feff}{\u{200b}\u{200c}\u{200d}\u{2060}}",
            ),
        ] {
            assert_eq!(&*excerpt(bytes, 64), shown);
        }
        assert_eq!(&*excerpt(b"abcdef", 3), "abc...");
        assert_eq!(&*excerpt("abä".as_bytes(), 3), "ab...");
        assert_eq!(&*excerpt(b"ab\xc3", 64), r"ab\xc3");
    }
}
