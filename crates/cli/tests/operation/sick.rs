//! Servers that are sick beside servers that are well.

use serde_json::{Value, json};

use crate::client::{Legacy, modern};
use crate::rig::{SICK, World, demo};

/// S0-78: ten servers, of which one never answers and one ends at once. The eight others are called and listed while
/// the mute one is still waited for, in its first attempt: nobody waits for it longer than the window. No clock is asked.
#[test]
fn s0_78_eight_of_ten_are_used_while_the_ninth_is_waited_for() {
    let mute = "[servers.mute]\ncommand = \"sleep\"\nargs = [\"1000\"]\nstart_timeout = \"1h\"\n";
    let names: Vec<String> = (1..=8).map(|n| format!("well{n}")).collect();
    let well: String = names.iter().map(|name| demo(name)).collect();
    let world = World::new("eight", &[mute, SICK, &*well].concat());
    let gateway = world.serve(&[]);
    for name in &names {
        let answer = modern(&gateway, &format!("{name}__add"), &json!({ "a": 1, "b": 2 })).answer();
        assert!(answer.status == 200 && answer.body.contains('3'), "{answer:?}");
    }
    let listing = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list" });
    let listed = Legacy::open(&gateway).post(&listing).answer();
    assert!(names.iter().all(|name| listed.body.contains(&format!("{name}__add"))), "{listed:?}");
    let said = gateway.get("/readyz", &[]).json();
    let server = |name: &str| -> Value {
        let servers = said["servers"].as_array().unwrap().iter();
        servers.filter(|server| server["name"] == name).cloned().collect()
    };
    let mute = &server("mute")[0];
    assert!(mute["up"] == false && mute["restarts"] == 0 && mute["cause"].is_null(), "{mute}");
    let sick = &server("sick")[0];
    assert!(sick["cause"].as_str().unwrap().contains("exit status: 3"), "{sick}");
    assert!(names.iter().all(|name| server(name)[0]["up"] == true), "{said}");
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
}
