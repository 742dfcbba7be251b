//! Clients that nobody here wrote, whose every request goes to the next replica.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::common::{CHECKS, peer};
use crate::way::Turns;
use crate::world::{WHOLE, World};

fn passes(client: &str, script: &str) {
    let Some(mut command) = peer(client, script) else { return };
    let Some(world) = World::start(client, WHOLE, "") else { return };
    let turns = Turns::before((0..3).map(|number| world.at(number).to_owned()).collect());
    command.arg("--").arg(format!("http://127.0.0.1:{}/mcp", turns.port));
    let output = command.output().expect("the client runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for check in CHECKS {
        let line = lines.iter().find(|line| line["check"] == check);
        let line = line.unwrap_or_else(|| panic!("{client}: {check} was not reached: {text}"));
        assert_eq!(line["ok"], Value::Bool(true), "{client}: {line}");
    }
    let forwards = world.counts("cardan_replica_forwards_total");
    assert!(forwards as usize > turns.requests.load(Ordering::SeqCst) / 3, "{forwards} were forwarded");
}

/// F22: the Python SDK notices nothing of three replicas.
#[test]
fn f22_python_sdk_1_in_turns() {
    passes("python-v1", "client.py");
}

/// F22: nor does the TypeScript SDK.
#[test]
fn f22_typescript_sdk_1_in_turns() {
    passes("node-v1", "client.mjs");
}
