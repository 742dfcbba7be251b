//! Keys that are taken away while what they opened is open.

use std::fs;

use serde_json::json;

use crate::client::initialize;
use crate::rig::{Running, Wire, World, demo};

const ADA: &str = "Authorization: Bearer ada-0123456789abcdef";
const BOB: &str = "Authorization: Bearer bob-0123456789abcdef";

/// Everything that lasts, opened with a key.
fn opened(gateway: &Running, key: &str, below: &str) -> [Wire; 3] {
    let get = |path: &str, headers: &[&str], until: &str| {
        let mut wire = Wire::open(&gateway.address);
        wire.send("GET", &format!("{below}{path}"), &[&[key], headers].concat(), "");
        wire.until(until);
        wire
    };
    let mcp = format!("{below}/mcp");
    let session = gateway.post(&mcp, &[key], &initialize()).answer().session();
    let session = format!("Mcp-Session-Id: {session}");
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(gateway.post(&mcp, &[key, &session], &told).answer().status, 202);
    let upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    [
        get("/ws", &upgrade, "101 Switching"),
        get("/sse", &["Accept: text/event-stream"], "event: endpoint"),
        get("/mcp", &["Accept: text/event-stream", &session], "200 OK"),
    ]
}

/// INT-5, T16: who came by a key that is gone is sent away, by WebSocket and on streams too; others stay. A key that is somebody
/// else's now counts as gone.
#[test]
fn t16_a_key_that_is_gone_closes_what_it_opened() {
    let key = |name: &str, variable: &str| format!("[[gateway.keys]]\nname = '{name}'\nenv = '{variable}'\n");
    for left in [String::new(), key("eve", "ADA_TOKEN")] {
        let world = World::new(
            "revoked",
            &[demo("alpha"), key("ada", "ADA_TOKEN"), key("bob", "BOB_TOKEN")].concat(),
        );
        let config = world.config();
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
        command.env("ADA_TOKEN", "ada-0123456789abcdef").env("BOB_TOKEN", "bob-0123456789abcdef");
        let gateway = Running::of(command);
        let hers: Vec<_> =
            ["", "/servers/alpha"].iter().flat_map(|below| opened(&gateway, ADA, below)).collect();
        let his: Vec<_> =
            ["", "/servers/alpha"].iter().flat_map(|below| opened(&gateway, BOB, below)).collect();
        fs::write(&config, [demo("alpha"), key("bob", "BOB_TOKEN"), left].concat()).unwrap();
        hers.into_iter().for_each(Wire::ends);
        assert!(his.into_iter().all(|mut wire| wire.is_open()));
        assert_eq!(gateway.post("/mcp", &[BOB], &initialize()).answer().status, 200);
    }
}
