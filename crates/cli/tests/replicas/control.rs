//! What replicas tell each other is nothing that a stranger can say, and what they share is shown to nobody.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{CARDAN, Scratch, finish};
use crate::rig::Running;
use crate::secrets::{ADA, BOB, two_keys};
use crate::wire::{Got, Session, ask, is_echo};
use crate::world::{KEY, WHOLE, World};

/// T16: several replicas have a secret of somebody's choice, or do not start: there is none to fall back on.
#[test]
fn t16_replicas_without_a_key_do_not_start() {
    let scratch = Scratch::new("replicas-no-key");
    let config = scratch.file("cardan.toml");
    for (key, why) in [
        ("", "[replicas] says no `key`"),
        ("key = ''", "[replicas] says no `key`"),
        ("key = '${NO_SUCH_VARIABLE_HERE}'", "the variable NO_SUCH_VARIABLE_HERE is not set"),
        ("key = 'short'", "fewer than"),
    ] {
        let said = "store = 'redis://127.0.0.1:1'\naddress = 'http://127.0.0.1:2'\n";
        fs::write(&config, format!("[replicas]\n{said}{key}\n")).unwrap();
        let mut command = Command::new(CARDAN);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config", &config]).stdin(Stdio::null());
        command.env("HOME", scratch.file("home")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = finish(command.spawn().unwrap()).tells(&["key", why]);
        assert_ne!(ran.code, Some(0), "{key}: {ran:?}");
        assert!(!ran.stderr.contains("http://127.0.0.1:0"), "it never listened: {ran:?}");
    }
}

/// Names by which gateways, ours or others', know whom they trust, and what a stranger might say there.
fn internal(address: &str) -> Vec<String> {
    let names = [
        "X-Mcp-Principal",
        "X-Mcp-User",
        "X-Mcp-Session-Owner",
        "X-Mcp-Internal",
        "X-Mcp-Internal-Key",
        "X-Mcp-Router-Key",
        "X-Mcp-Gateway-Key",
        "X-Mcp-Servername",
        "Mcp-Init-Host",
        "X-Cardan-Principal",
        "Cardan-Principal",
        "Cardan-Replica",
        "Cardan-Key",
        "X-Internal",
        "X-Internal-Key",
        "X-Forwarded-User",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-Ip",
        "X-Original-Url",
        "X-Rewrite-Url",
        "X-Http-Method-Override",
        "Remote-User",
        "Forwarded",
    ];
    let values = ["ada", KEY, address, "127.0.0.1", "true"];
    names.into_iter().flat_map(|name| values.map(|value| format!("{name}: {value}"))).collect()
}

/// What a client can tell apart.
fn told(got: &Got) -> (u16, String) {
    (got.status, format!("{:?}", got.messages))
}

/// T16: headers that gateways use among themselves mean nothing from outside: a stranger stays one, nobody becomes another, and
/// what somebody may do goes on. A pass that no replica has written is none.
#[test]
fn t16_internal_headers_from_outside_have_no_effect() {
    let Some(world) = World::start("internal", WHOLE, &two_keys()) else { return };
    let (ada, bob) =
        (Session::open(world.at(0), Some(ADA)).unwrap(), Session::open(world.at(1), Some(BOB)).unwrap());
    let call = |text: &str| {
        let params = json!({ "name": "echo", "arguments": { "message": text } });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    let stranger = vec![format!("Mcp-Session-Id: {}", ada.id)];
    let thief = ada.as_other(BOB).headers();
    let ask_with = |at: usize, headers: &[String], more: &str| {
        ask(world.at(at), "POST", &[headers, &[more.to_owned()]].concat(), &call("x")).unwrap()
    };
    let plain = |headers: &[String]| told(&ask_with(0, headers, "X-Nothing: x"));
    let (unknown, stolen) = (plain(&stranger), plain(&thief));
    assert_eq!((unknown.0, stolen.0), (401, 404));
    for (number, header) in internal(world.at(0)).iter().enumerate() {
        let at = number % 3;
        assert_eq!(told(&ask_with(at, &stranger, header)), unknown, "{header}");
        assert_eq!(told(&ask_with(at, &thief, header)), stolen, "{header}");
        assert!(is_echo(&ask_with(at, &bob.headers(), header), 1, "x"), "{header}");
    }
    for pass in ["ada", KEY, "", "0", &"A".repeat(400)] {
        let pass = format!("Cardan-Pass: {pass}");
        for headers in [&stranger, &thief, &bob.headers()] {
            for at in 0..3 {
                assert_eq!(ask_with(at, headers, &pass).status, 403, "{pass} at {at}");
            }
        }
    }
    for at in 0..3 {
        ada.echoes(world.at(at), at, "still hers");
    }
}

/// The command lines of a process and of all that it started, and they of theirs.
fn command_lines(root: u32) -> Vec<(u32, String)> {
    let parent = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let (mut ours, mut at) = (vec![root], 0);
    while let Some(&of) = ours.get(at) {
        ours.extend(all.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    let line = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    ours.into_iter().filter_map(line).collect()
}

/// T16: whoever may look at the processes of a machine sees no secret: not those of replicas, keys, servers and addresses, neither
/// in ours nor in what we start.
#[test]
fn t16_no_secret_stands_in_a_command_line() {
    const SECRETS: [(&str, &str); 4] = [
        ("SHARED", "a-secret-of-all-replicas-that-is-long"),
        ("TOKEN", "a-secret-of-clients"),
        ("SERVERS", "a-secret-of-a-server"),
        ("PASSWORD", "a-secret-of-the-store"),
    ];
    let scratch = Scratch::new("replicas-command-lines");
    let config = format!(
        "[replicas]\nstore = 'redis://:${{PASSWORD}}@127.0.0.1:1'\naddress = 'http://127.0.0.1:2'\nkey = '${{SHARED}}'\n\
         [[gateway.keys]]\nname = 'ada'\nenv = 'TOKEN'\n\
         [servers.child]\ncommand = '{CARDAN}'\nargs = ['demo']\nenv = {{ API_KEY = '${{SERVERS}}' }}\n\
         [servers.far]\nurl = 'http://127.0.0.1:3/mcp'\nheaders = {{ Authorization = 'Bearer ${{SERVERS}}' }}\n"
    );
    let file = scratch.file("cardan.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(CARDAN);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config", &file]).stdin(Stdio::null());
    command.env("HOME", scratch.file("home")).envs(SECRETS);
    let gateway = Running::of(command);
    let key = format!("Authorization: Bearer {}", SECRETS[1].1);
    let is_up = |page: &Value| {
        let all = page["servers"].as_array().unwrap();
        all.iter().any(|one| one["name"] == "child" && one["up"] == true)
    };
    while !is_up(&gateway.get("/readyz", &[&key]).json()) {}
    let lines = command_lines(gateway.child.id());
    assert!(lines.iter().any(|(_, line)| line.contains("demo")), "its server is seen: {lines:?}");
    for (pid, line) in &lines {
        for (_, secret) in SECRETS {
            assert!(!line.contains(secret), "{pid}: {line}");
        }
    }
}

/// T16: the program carries no key and no hash of one.
#[test]
fn t16_no_secret_is_in_the_program() {
    let program = fs::read(CARDAN).unwrap();
    let places = |what: &'static str| {
        let all = program.windows(what.len()).enumerate().filter(|(_, window)| *window == what.as_bytes());
        all.map(|(at, _)| at + what.len())
    };
    for at in places("sha256:") {
        let digits = program[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        assert!(digits < 64, "{}", String::from_utf8_lossy(&program[at..at + 64]));
    }
    for at in places("PRIVATE KEY-----\n") {
        let base64 =
            program[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte));
        assert!(base64.count() < 40, "{}", String::from_utf8_lossy(&program[at..at + 40]));
    }
}
