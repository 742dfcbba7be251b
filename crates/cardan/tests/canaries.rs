//! Secrets given to a server, and a server that lets every one of them slip: nothing that we show has them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::{Arc, Mutex};

use cardan::prelude::*;
use cardan::proto::limits::Limits;
use cardan::proto::secret::{REDACTED, Secret};
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::Event;
use cardan::transport::child::ChildLink;
use cardan::transport::spawn::Spawn;
use serde_json::json;

/// In a variable whose name tells it, in one whose name does not, in a header, behind an option.
const CANARIES: [&str; 4] =
    ["canary-by-name-1", "canary-by-value-2", "canary-in-header-3", "canary-in-option-4"];

/// Says all it knows wherever it can: on stderr, as noise on stdout, in replies that are none. `$0` is what it
/// does then.
const LEAK: &str = r#"
say() { echo "knows $SOME_API_KEY, $PLAIN, ${2#--token=}, ${1#*Bearer } and $1"; }
say "$@" >&2
say "$@"
echo "{\"jsonrpc\":\"1.0\",\"id\":\"$PLAIN\",\"method\":\"$SOME_API_KEY\",\"token\":\"x\"}"
eval "$0"
"#;

fn leaking(then: &str) -> Spawn {
    Spawn::new("/bin/sh")
        .args(["-c", LEAK, then, "Authorization: Bearer canary-in-header-3", "--token=canary-in-option-4"])
        .env("SOME_API_KEY", CANARIES[0])
        .secret("PLAIN", Secret::new(CANARIES[1]))
}

/// Everything that was shown.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    /// No canary is in it, and what stands in their place is.
    fn is_clean(&self) {
        let shown = self.0.lock().unwrap().join("\n");
        for canary in CANARIES {
            // Nor the greater part of one.
            assert!(!shown.contains(&canary[..8]) && !shown.contains(&canary[8..]), "{canary}: {shown}");
        }
        assert!(
            shown.contains(&format!("knows {REDACTED}, {REDACTED}, {REDACTED}, {REDACTED} and")),
            "it did leak: {shown}"
        );
    }

    /// Dials, and shows the link on the way.
    fn dial(&self, spawn: &Spawn) -> Result<ChildLink, cardan::transport::error::SpawnError> {
        let link = spawn.spawn(&Limits::DEFAULT)?;
        self.add(format!("{link:?} {:?}", link.stderr()));
        Ok(link)
    }

    fn connector(&self, spawn: &Spawn) -> cardan::client::Connector {
        let shown = self.clone();
        Client::builder("tester", "1").era(EraChoice::Legacy).secrets(spawn.redactor()).observe(
            move |event| {
                if matches!(event, Event::Found(_) | Event::State(_) | Event::Settled { .. }) {
                    shown.add(format!("{event:?}"));
                }
                if let Event::Found(finding) = event {
                    shown.add(finding.to_string());
                }
            },
        )
    }
}

/// T27, S1-C5: a server that dies: its last words, the findings about it and the error that has both.
#[tokio::test]
async fn a_dying_server_leaks_nothing() {
    let shown = Shown::default();
    let lines = shown.clone();
    let spawn = leaking("exit 3").on_stderr(move |line| lines.add(line));
    shown.add(format!("{spawn:?} {:?}", spawn.redactor()));
    let mut tails = Vec::new();
    let dial = async || {
        let link = shown.dial(&spawn)?;
        tails.push(link.stderr());
        Ok::<_, cardan::transport::error::SpawnError>(link)
    };
    let error = shown.connector(&spawn).connect(dial).await.unwrap_err();
    shown.add(format!("{error:?} {error}"));
    for tail in tails {
        assert!(tail.tail().contains("knows"), "it spoke");
        shown.add(tail.tail());
    }
    shown.is_clean();
    assert!(error.to_string().contains(REDACTED), "the error has its last words: {error}");
}

/// T27, S1-C5: a server that answers, fails a call with a secret in its words, and dies in the next one.
#[tokio::test]
async fn a_failing_call_leaks_nothing() {
    let then = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$1" "$2"; }
read line; reply 1 '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
read line; read line
reply 2 "\"error\":{\"code\":-1,\"message\":\"rejected api_key=$SOME_API_KEY\",\"data\":{\"password\":\"$PLAIN\"}}"
read line; say "$@" >&2; exit 1"#;
    let shown = Shown::default();
    let spawn = leaking(then);
    let client = shown.connector(&spawn).connect(async || shown.dial(&spawn)).await.unwrap();
    for part in ["rejected", "link lost"] {
        let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        shown.add(format!("{error:?} {error}"));
    }
    shown.add(format!("{client:?}"));
    shown.is_clean();
}

/// T27: what a server and its description hold: the key that seals is shown by neither.
#[test]
fn servers_show_no_key() {
    let server = Server::builder("s", "1").seal_key(*b"canary-by-name-1canary-by-value-").build();
    let shown = format!("{server:?}");
    assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
}
