//! Tokens that were made for somebody else.

use std::process::Command;

use serde_json::json;

use crate::client::{initialize, modern_with};
use crate::common::{CARDAN, recorder};
use crate::rig::{Running, Wire, World};

/// What an authorisation server may have signed: for another server, unsigned for it, and unsigned for us.
const FOREIGN: [&str; 3] = [
    // {"alg":"HS256"}, {"aud":"https://other.example.com/mcp","sub":"ada"}
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cHM6Ly9vdGhlci5leGFtcGxlLmNvbS9tY3AiLCJzdWIiOiJhZGEiLCJleHAiOjQxMDI0NDQ4MDB9.MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
    // {"alg":"none"}, the same
    "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cHM6Ly9vdGhlci5leGFtcGxlLmNvbS9tY3AiLCJzdWIiOiJhZGEifQ.",
    // {"alg":"none"}, {"aud":"http://127.0.0.1:2273/mcp","sub":"ada"}
    "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cDovLzEyNy4wLjAuMToyMjczL21jcCIsInN1YiI6ImFkYSJ9.",
];

/// How all of them begin.
const BEGINNING: &str = "eyJhbGciOi";

const OURS: &str = "ada-0123456789abcdef";

/// T9: a token that is none of ours opens no door, whomever it names and whomever it is for, and no server sees it; neither does
/// it see one that is ours.
#[test]
fn t9_a_token_for_another_audience_is_unknown() {
    let mut upstream = Command::new(CARDAN);
    upstream.args(["serve", "--listen", "127.0.0.1:0"]);
    let upstream = Running::of(upstream);
    let (address, recorded) = recorder(upstream.address.clone());
    let keys = "[[gateway.keys]]\nname = 'ada'\nenv = 'ADA_TOKEN'\n";
    let world = World::new("audience", &format!("{keys}[servers.far]\nurl = 'http://{address}/mcp'\n"));
    let config = world.config();
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("ADA_TOKEN", OURS);
    let gateway = Running::of(command);
    gateway.stands("ready");
    let sum = json!({ "a": 2, "b": 3 });
    for token in FOREIGN {
        let shown = format!("Authorization: Bearer {token}");
        let events = ["Accept: text/event-stream", &shown];
        let socket = [
            "Connection: close, Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            &shown,
        ];
        for (door, got) in [
            ("modern", modern_with(&gateway, &[&shown], "far__add", &sum).answer()),
            ("legacy", gateway.post("/mcp", &[&shown], &initialize()).answer()),
            ("alone", gateway.post("/servers/far/mcp", &[&shown], &initialize()).answer()),
            ("old", gateway.get("/sse", &events)),
            ("socket", gateway.get("/ws", &socket)),
            ("metrics", gateway.get("/metrics", &[&shown])),
        ] {
            assert_eq!(got.status, 401, "{door}: {got:?}");
        }
        // In the address it is no token at all.
        let mut wire = Wire::open(&gateway.address);
        wire.post(&format!("/mcp?access_token={token}"), &[], &initialize());
        assert_eq!(wire.answer().status, 401);
    }
    let ours = format!("Authorization: Bearer {OURS}");
    let got = modern_with(&gateway, &[&ours], "far__add", &sum).answer();
    assert_eq!(got.status, 200, "{got:?}");
    let seen = String::from_utf8_lossy(&recorded.lock().unwrap()).into_owned();
    assert!(seen.contains("tools/call"), "{seen}");
    for token in [BEGINNING, OURS] {
        assert!(!seen.contains(token), "{seen}");
    }
}
