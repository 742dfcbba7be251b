//! Every message as it passes the link: `--trace` shows them, `--dry-run` keeps back the one that a command is for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cardan_proto::finding::{excerpt, is_obeyed, is_unseen};
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{LaneId, Outgoing};
use cardan_runtime::link::Received;
use cardan_runtime::tap::{Passage, Tap};
use serde_json::Value;
use tokio::sync::Notify;

use crate::args::Options;
use crate::output::tell;

/// Sees what passes between us and the server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    show: Show,
    secrets: Redactor,
    /// From now on nothing passes.
    holds: AtomicBool,
    /// The first call that did not.
    held: OnceLock<String>,
    news: Notify,
}

/// Whether messages are shown as they pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Yes,
    No,
}

impl Trace {
    /// Nothing: nobody wants to see.
    pub(crate) fn wanted(options: &Options, secrets: &Redactor) -> Option<Self> {
        let show = if options.trace { Show::Yes } else { Show::No };
        (options.trace || options.dry_run).then(|| {
            Self(Arc::new(Inner {
                start: Instant::now(),
                show,
                secrets: secrets.clone(),
                holds: AtomicBool::new(false),
                held: OnceLock::new(),
                news: Notify::new(),
            }))
        })
    }

    pub(crate) fn tap(&self) -> Arc<dyn Tap> {
        Arc::clone(&self.0) as Arc<dyn Tap>
    }

    /// Lets nothing pass from now on.
    pub(crate) fn hold(&self) {
        self.0.holds.store(true, Ordering::Release);
    }

    /// The first call that was held back, once there is one.
    pub(crate) async fn held(&self) -> &str {
        loop {
            let news = self.0.news.notified();
            if let Some(held) = self.0.held.get() {
                return held;
            }
            news.await;
        }
    }
}

impl Inner {
    fn tell(&self, direction: &str, what: &str) {
        if self.show == Show::Yes {
            let at = self.start.elapsed().as_secs_f64() * 1e3;
            // On one line, and only then: a secret may be of several.
            let what = self.secrets.redact(what).replace(is_space, " ");
            tell(&format!("{at:9.1} ms {direction} {what}"));
        }
    }

    /// A frame on one line.
    fn tell_frame(&self, direction: &str, frame: &[u8]) {
        if self.show == Show::Yes {
            self.tell(direction, &shown(frame));
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\t')
}

/// A frame as it is; one that is no text, that a terminal would obey or that has something in it that takes no room, so that
/// its bytes can be told.
fn shown(frame: &[u8]) -> String {
    match std::str::from_utf8(frame) {
        Ok(text) if !text.chars().any(|c| (is_obeyed(c) && !is_space(c)) || is_unseen(c)) => text.to_owned(),
        _ => format!("[escaped] {}", excerpt(frame, usize::MAX)),
    }
}

/// Does it ask for an answer? Of several at once it is enough that one does.
fn is_call(text: &str) -> bool {
    let calls = |message: &Value| message.get("id").is_some() && message.get("method").is_some();
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(messages)) => messages.iter().any(calls),
        Ok(message) => calls(&message),
        Err(_) => false,
    }
}

impl Tap for Inner {
    fn sends(&self, _lane: LaneId, message: &Outgoing) -> Passage {
        let holds = self.holds.load(Ordering::Acquire);
        if !holds && self.show == Show::No {
            return Passage::Open;
        }
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        if holds {
            // What answers the server, or tells it something, is not what the command is for.
            if is_call(&text) {
                let _ = self.held.set(self.secrets.redact(&text).into_owned());
                self.news.notify_waiters();
            }
            return Passage::Closed;
        }
        self.tell_frame("->", &bytes);
        Passage::Open
    }

    fn received(&self, received: &Received) {
        match received {
            Received::Frame { bytes, .. } => self.tell_frame("<-", bytes),
            // Only servers read ahead.
            Received::Read { .. } => {}
            Received::Broken { violation, excerpt, .. } => {
                self.tell("<-", &format!("[no message: {}] {excerpt}", violation.fault().message));
            }
            Received::Failed { cause, delivery, .. } => {
                self.tell("--", &format!("failed: {cause} ({delivery:?})"));
            }
            Received::Noticed { rule, detail } => self.tell("--", &format!("{rule:?}: {detail}")),
            Received::Doubted { why } => self.tell("--", &format!("in doubt: {why}")),
            Received::ReadClosed => self.tell("--", "the server sends nothing more"),
            Received::Ended(cause) => self.tell("--", &format!("ended: {cause}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-22: what came can be told from what is shown, and nothing of it is obeyed.
    #[test]
    fn frames_are_shown_without_loss() {
        for (frame, text) in [
            (&b"{\"a\":\n\t\"x\\ny\"}"[..], r#"{"a":  "x\ny"}"#),
            ("{\"a\":\"k\u{e4}se\"}".as_bytes(), "{\"a\":\"k\u{e4}se\"}"),
            (b"{\"a\":\"\xff\xfe\\n\"}", r#"[escaped] {"a":"\xff\xfe\\n"}"#),
            (b"\x1b[2J{}\x07", r"[escaped] \x1b[2J{}\x07"),
            ("{\"a\":\"\u{202e}b\"}".as_bytes(), r#"[escaped] {"a":"\u{202e}b"}"#),
            ("{\"pay\u{200b}ee\":1}".as_bytes(), r#"[escaped] {"pay\u{200b}ee":1}"#),
            ("\u{feff}{}".as_bytes(), r"[escaped] \u{feff}{}"),
            (
                "{\"a\":\"\u{e0041}\u{ad}\u{2063}\"}".as_bytes(),
                r#"[escaped] {"a":"\u{e0041}\u{ad}\u{2063}"}"#,
            ),
        ] {
            assert_eq!(shown(frame).replace(is_space, " "), text);
        }
    }

    /// Replies and notes are not what a command is for.
    #[test]
    fn only_calls_are_shown() {
        for (text, is_one) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"acme/x","params":{}}"#, true),
            (r#"[{"method":"x"},{"id":1,"method":"y"}]"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, false),
            (r#"{"jsonrpc":"2.0","method":"acme/note"}"#, false),
            ("no JSON", false),
        ] {
            assert_eq!(is_call(text), is_one, "{text}");
        }
    }
}
