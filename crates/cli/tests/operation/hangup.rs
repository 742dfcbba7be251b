//! SIGHUP: the configuration is read again, unless it means that the terminal is gone.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::modern;
use crate::common::{CARDAN, Fifo};
use crate::rig::{World, demo};

/// S0-79: a hangup makes a gateway look at its files at once, and touches nothing where they say what they said.
#[test]
fn s0_79_a_hangup_reads_the_configuration_again() {
    let world = World::new("hangup", &demo("alpha"));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    gateway.signal("HUP");
    gateway.hears("configuration: taken over, no server is touched");
    fs::write(world.config(), demo("alpha") + &demo("beta")).unwrap();
    gateway.signal("HUP");
    gateway.hears("configuration: taken over, added beta");
    assert_eq!(modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer().status, 200);
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
}

/// S2-42, S0-79: a server that failed too often is left alone, and comes back as soon as somebody who has mended it says so
/// by a hangup; one that works goes on untouched.
#[test]
fn s2_42_a_hangup_tries_suspended_servers_again() {
    let world = World::new("retried", "");
    let mended = world.0.file("mended");
    let broken = format!(
        "[servers.beta]\ncommand = \"sh\"\nargs = [\"-c\", \"test -e '{mended}' || exit 3; exec '{CARDAN}' demo\"]\n\
         reconnect = {{ attempts = 1, wait_min = \"1ms\", wait_max = \"1h\" }}\n"
    );
    fs::write(world.config(), demo("alpha") + &broken).unwrap();
    let gateway = world.serve(&[]);
    let server = |name: &str| {
        let said = gateway.get("/readyz", &[]).json();
        said["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap().clone()
    };
    while server("beta")["state"] != "suspended" {}
    fs::write(&mended, "").unwrap();
    gateway.signal("HUP");
    gateway.hears("configuration: taken over, no server is touched");
    gateway.stands("ready");
    assert_eq!(modern(&gateway, "beta__add", &json!({ "a": 1, "b": 2 })).answer().status, 200);
    assert_eq!(server("alpha")["restarts"], 0);
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
}

/// F25: with its terminal a gateway ends as it does when it is asked to.
#[test]
fn f25_a_terminal_that_goes_asks_it_to_stop() {
    let world = World::new("terminal", &demo("alpha"));
    let told = Fifo::new(&world.0, "told");
    let line = format!(
        "exec '{CARDAN}' serve --listen 127.0.0.1:0 --config '{}' 2> '{}'",
        world.config(),
        told.path
    );
    // It holds the terminal, as a window does.
    let mut window = Command::new("script");
    window.args(["-qc", &line, "/dev/null"]).env("HOME", world.0.file("home"));
    window.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut window = window.spawn().expect("script of util-linux is installed");
    let hears = |what: &str| while !told.line().contains(what) {};
    hears("end with Ctrl-C");
    window.kill().unwrap();
    hears("asked to stop");
    window.wait().unwrap();
}
