//! Our own stdin and stdout. The server is this very test binary, started again with a word in its
//! environment; what the test harness prints first is noise to a client, as from any chatty program.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::service::{Handler, Service};
use cardan_transport::guard::Guard;
use cardan_transport::spawn::{EnvPolicy, Spawn};
use common::{config, connect, result, within};
use rustix::fs::{OFlags, fcntl_getfl};

const ROLE: &str = "CARDAN_TEST_SERVER";
const ARGS: [&str; 3] = ["--exact", "a_server_when_asked_to_be_one", "--nocapture"];

/// Gives back the params it was called with.
struct Echo;

impl Service for Echo {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        let params = called.call.params.raw().cloned().unwrap_or_default();
        let mut result = br#"{"content":[],"structuredContent":"#.to_vec();
        result.extend_from_slice(&params);
        result.push(b'}');
        Box::pin(std::future::ready(Answer::Done(result.into())))
    }
}

/// When started by the tests below: serves until its client leaves.
#[test]
fn a_server_when_asked_to_be_one() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cause = runtime.block_on(async {
        let mut config = config(Role::Server, &Limits::DEFAULT);
        Arc::get_mut(&mut config).unwrap().capabilities = Bytes::from_static(br#"{"tools":{}}"#);
        let link = cardan_transport::stdio::open(&Limits::DEFAULT).unwrap();
        let (driver, _peer) = Driver::new(link, Arc::new(Echo), config);
        driver.await
    });
    eprintln!("ended: {cause}");
    // Not by returning: the harness would print into the protocol.
    std::process::exit(0);
}

fn server() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(ARGS).env(ROLE, "yes").stderr(Stdio::piped());
    command
}

const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n";

/// The first line that is a message.
fn reply(from: impl Read) -> String {
    BufReader::new(from).lines().map(Result::unwrap).find(|line| line.starts_with('{')).expect("a reply")
}

fn is_pong(line: &str) -> bool {
    let reply: serde_json::Value = serde_json::from_str(line).unwrap();
    reply["id"] == 7 && reply.get("result").is_some()
}

/// It ends by itself, soon after its input does.
fn leaves(mut child: Child) -> String {
    let start = Instant::now();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(start.elapsed() < Duration::from_secs(2), "STD-12: {:?}", start.elapsed());
    said
}

fn nonblocking(fd: &impl std::os::fd::AsFd) -> bool {
    fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

/// STD-12, STD-5, S2-2, S1-12, S0-6: a client and the server it started, over pipes, both ours; large
/// messages both ways at once.
#[tokio::test]
async fn std_12_a_session_over_our_own_pipes() {
    let spawn = Spawn::new(std::env::current_exe().unwrap())
        .args(ARGS)
        .env_policy(EnvPolicy::Inherit)
        .env(ROLE, "yes")
        .guard(Guard::Off);
    let session = connect(&spawn, &Limits::DEFAULT).await;
    let calls: Vec<_> = ["a", "b", "c", "d"]
        .map(|letter| (letter, session.call("x", &format!(r#"{{"big":"{}"}}"#, letter.repeat(1 << 20)))))
        .into();
    for (letter, call) in calls {
        let result = result(within(20, "a reply", call).await);
        assert_eq!(result["structuredContent"]["arguments"]["big"], letter.repeat(1 << 20));
    }
    let stderr = session.stderr.clone();
    let (_, took) = session.close().await;
    assert!(took < Duration::from_secs(1), "it leaves at the end of its input: {took:?}");
    assert!(stderr.tail().contains("ended: closed by the peer"), "{}", stderr.tail());
}

/// S0-6: sockets instead of pipes, as Node starts its children.
#[test]
fn sockets_in_place_of_pipes() {
    let (mut input, theirs_in) = UnixStream::pair().unwrap();
    let (output, theirs_out) = UnixStream::pair().unwrap();
    let child = server().stdin(OwnedFd::from(theirs_in)).stdout(OwnedFd::from(theirs_out)).spawn().unwrap();
    input.write_all(PING).unwrap();
    assert!(is_pong(&reply(&output)));
    input.shutdown(std::net::Shutdown::Write).unwrap();
    leaves(child);
}

/// S0-6: one socket for both directions.
#[test]
fn one_socket_both_ways() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let child = server()
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    ours.write_all(PING).unwrap();
    assert!(is_pong(&reply(&ours)));
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    leaves(child);
}

/// S0-6: files, which block: a script of calls in, a transcript out.
#[test]
fn files_in_and_out() {
    let base = std::env::temp_dir().join(format!("cardan-stdio-{}", std::process::id()));
    let (script, transcript) = (base.with_extension("in"), base.with_extension("out"));
    std::fs::write(&script, PING).unwrap();
    let (input, output) =
        (std::fs::File::open(&script).unwrap(), std::fs::File::create(&transcript).unwrap());
    leaves(server().stdin(input).stdout(output).spawn().unwrap());
    assert!(is_pong(&reply(std::fs::File::open(&transcript).unwrap())));
    let _ = (std::fs::remove_file(script), std::fs::remove_file(transcript));
}

/// What we make non-blocking is made blocking again: the pipe is shared with whoever comes after us.
#[test]
fn the_mode_of_a_shared_pipe_is_put_back() {
    let (their_in, mut input) = std::io::pipe().unwrap();
    let (output, their_out) = std::io::pipe().unwrap();
    let (kept_in, kept_out) = (their_in.try_clone().unwrap(), their_out.try_clone().unwrap());
    let child = server().stdin(OwnedFd::from(their_in)).stdout(OwnedFd::from(their_out)).spawn().unwrap();
    input.write_all(PING).unwrap();
    assert!(is_pong(&reply(output)));
    assert!(nonblocking(&kept_in) && nonblocking(&kept_out), "while it serves");
    drop(input);
    leaves(child);
    assert!(!nonblocking(&kept_in) && !nonblocking(&kept_out), "afterwards");
}

/// A pipe that is stdout and stderr at once stays blocking: prints would fail when it is full.
#[test]
fn a_pipe_shared_with_stderr_is_left_blocking() {
    let (their_in, mut input) = std::io::pipe().unwrap();
    let (output, both) = std::io::pipe().unwrap();
    let kept = both.try_clone().unwrap();
    let stderr = OwnedFd::from(both.try_clone().unwrap());
    let mut command = server();
    let mut child =
        command.stdin(OwnedFd::from(their_in)).stdout(OwnedFd::from(both)).stderr(stderr).spawn().unwrap();
    drop(command);
    input.write_all(PING).unwrap();
    assert!(is_pong(&reply(&output)));
    assert!(!nonblocking(&kept));
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// S1-17: a client that stops reading and goes away ends the server, whatever it was about to say.
#[test]
fn s1_17_a_client_that_goes_away_ends_the_server() {
    let mut child = server().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(PING).unwrap();
    let output = child.stdout.take().unwrap();
    assert!(is_pong(&reply(output)));
    // The read end is gone now; this reply has nowhere to go.
    input.write_all(PING).unwrap();
    drop(input);
    leaves(child);
}
