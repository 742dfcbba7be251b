//! How long a server behind a bridge may be silent about a call.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Legacy, modern};
use crate::common::{CARDAN, Fifo, ODD, cardan, has_python};
use crate::faults::{messages, odd};
use crate::rig::{Running, Wire, World};

/// The reply of a call.
fn reply(call: Wire) -> Value {
    messages(&call.answer().body).pop().unwrap()
}

/// CAN-11, S0-39: a call about which its server says nothing is cancelled there when the time is over that `--call-timeout` says,
/// which wins over what is configured, and its client is told.
#[test]
fn a_server_may_be_silent_as_long_as_is_said() {
    const SILENT: Duration = Duration::from_millis(500);
    if !has_python() {
        return;
    }
    let world = World::new("silent", "");
    let log = Fifo::new(&world.0, "log");
    std::fs::write(world.config(), odd("hang", &log.path) + "call_timeout = '1h'\n").unwrap();
    let config = world.config();
    for server in [&["--", "python3", ODD, "hang", &log.path][..], &["odd", "--config", &config]] {
        let words = ["bridge", "--listen", "127.0.0.1:0", "--call-timeout", "500ms"];
        let bridge = Running::of(world.command(&[&words, server].concat()));
        let legacy = Legacy::open(&bridge);
        for is_modern in [true, false] {
            let begun = Instant::now();
            let nothing = json!({});
            let call =
                if is_modern { modern(&bridge, "odd", &nothing) } else { legacy.call("odd", &nothing) };
            let told = reply(call);
            assert!(begun.elapsed() >= SILENT, "{:?}", begun.elapsed());
            let data = json!({ "outcome": "timed_out", "delivery": "unknown", "mayHaveExecuted": true });
            assert_eq!(told["error"]["data"], data, "{told}");
            let called = log.message("tools/call");
            assert_eq!(log.message("notifications/cancelled")["params"]["requestId"], called["id"]);
        }
    }
}

/// CAN-12, S0-36: what tells how far it is may go on for longer than that, as long as its client waits.
#[test]
fn progress_puts_off_the_end_of_a_call() {
    const SILENT: Duration = Duration::from_secs(2);
    let world = World::new("patient", "");
    let words = ["bridge", "--listen", "127.0.0.1:0", "--call-timeout", "2s", "--", CARDAN, "demo"];
    let bridge = Running::of(world.command(&words));
    let begun = Instant::now();
    let steps = json!({ "steps": 30, "delay_ms": 100 });
    for call in [modern(&bridge, "slow", &steps), Legacy::open(&bridge).call("slow", &steps)] {
        let told = reply(call);
        assert_eq!(told["result"]["content"][0]["text"], "done", "{told}");
        assert!(begun.elapsed() > SILENT, "{:?}", begun.elapsed());
    }
}

/// What is no time is refused, with what is one.
#[test]
fn a_time_is_written_as_in_a_configuration() {
    let words = ["bridge", "--call-timeout", "soon", "--", CARDAN, "demo"];
    cardan(&words).exits(1).tells(&["--call-timeout", "500ms, 10s, 2m, 1h"]);
}
