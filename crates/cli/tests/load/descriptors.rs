//! A gateway that has no descriptor left: nobody is left hanging, what stands goes on, and it heals by itself.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Era, Posting};
use crate::common::CARDAN;
use crate::rig::{LONG, Running, World};

/// Descriptors that the gateway has, and clients that come at once.
const DESCRIPTORS: usize = 256;
const CLIENTS: usize = 1000;

/// Two servers, with a process for each legacy client that calls them; the second is given up soon, and tried again by
/// whoever calls.
fn servers() -> String {
    let one = |name: &str| format!("[servers.{name}]\ncommand = '{CARDAN}'\nargs = ['demo']\n");
    let soon = "reconnect = { attempts = 1, wait_min = '10ms', wait_max = '50ms', burst = 1000 }\n";
    format!("{}{}{soon}", one("a"), one("b"))
}

/// A request, and the status of its answer; nothing: the connection ended without. What was not refused is held.
async fn ask(address: &str) -> (Option<u16>, TcpStream) {
    let mut stream = timeout(LONG, TcpStream::connect(address)).await.unwrap().unwrap();
    let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let (mut said, mut part) = (Vec::new(), [0; 1024]);
    while !said.windows(4).any(|end| end == b"\r\n\r\n") {
        match timeout(LONG, stream.read(&mut part)).await.expect("nobody is left hanging") {
            Ok(0) | Err(_) => return (None, stream),
            Ok(read) => said.extend(&part[..read]),
        }
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    (said.split(' ').nth(1).and_then(|status| status.parse().ok()), stream)
}

/// What a process has used of the processor so far, in hundredths of a second.
fn spent(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

async fn add(client: &mut Posting, id: usize, server: &str) -> Value {
    client.call(id, &format!("{server}__add"), &json!({ "a": 2, "b": 3 })).await
}

/// F30: 1,000 clients at a gateway with 256 descriptors: each is served or told 503, sessions that stand go on, those
/// who wait cost no processor, and when the crowd has left everyone is served again. F31: a server that cannot be
/// started for want of descriptors says so to whoever called it, and is started by a later call.
#[test]
fn f30_a_lack_of_descriptors_passes() {
    super::crowd::allow_files();
    let world = World::new("descriptors", &servers());
    let gateway = world.command(&[]);
    let mut command = Command::new("sh");
    let limited = format!(
        "ulimit -n {DESCRIPTORS}; exec {CARDAN} serve --listen 127.0.0.1:0 --config '{}'",
        world.config()
    );
    command.args(["-c", &limited]).stdin(Stdio::null());
    for (name, value) in gateway.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let gateway = Running::of(command);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut standing = Posting::open(&gateway.address, Era::Legacy).await;
        assert_eq!(add(&mut standing, 1, "a").await["result"]["structuredContent"]["sum"], 5);
        let mut crowd = JoinSet::new();
        for _ in 0..CLIENTS {
            let address = gateway.address.clone();
            crowd.spawn(async move { ask(&address).await });
        }
        let crowd = crowd.join_all().await;
        let of = |wanted: Option<u16>| crowd.iter().filter(|(status, _)| *status == wanted).count();
        let (served, refused) = (of(Some(200)), of(Some(503)));
        assert!(served > DESCRIPTORS / 2 && served < DESCRIPTORS, "{served} served, {refused} refused");
        // Some see the connection end instead of the answer; nobody sees anything else.
        assert!(refused > CLIENTS / 2 && served + refused + of(None) == CLIENTS, "{served} and {refused}");

        assert_eq!(add(&mut standing, 2, "a").await["result"]["structuredContent"]["sum"], 5, "it goes on");
        let error = add(&mut standing, 3, "b").await;
        let told = error["error"]["message"].as_str().unwrap_or_else(|| panic!("{error}"));
        assert!(told.contains("server `b`") && told.contains("Too many open files"), "{told}");

        // Those who say nothing are turned away, too, one after the other; that takes a second, and hardly any work.
        let before = spent(gateway.child.id());
        for _ in 0..10 {
            let mut silent = TcpStream::connect(&gateway.address).await.unwrap();
            let mut said = Vec::new();
            let _ = timeout(LONG, silent.read_to_end(&mut said)).await.expect("nobody is left hanging");
        }
        let spent = spent(gateway.child.id()) - before;
        assert!(spent < 50, "{spent} hundredths of a second while there was nothing to do");

        drop(crowd);
        let mut told = Value::Null;
        let healed = async {
            while ask(&gateway.address).await.0 != Some(200) {}
            loop {
                told = add(&mut standing, 4, "b").await;
                if told.get("result").is_some() {
                    return;
                }
            }
        };
        assert!(timeout(LONG, healed).await.is_ok(), "it heals by itself: {told}");
        let mut late = Posting::open(&gateway.address, Era::Modern).await;
        assert_eq!(add(&mut late, 5, "b").await["result"]["structuredContent"]["sum"], 5);
    });
}
