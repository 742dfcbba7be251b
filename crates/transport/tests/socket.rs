//! Sockets: the same lines over Unix and TCP, private by default.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Answer, CallOptions, Called, Cause};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::service::{Handler, Service};
use cardan_transport::socket::{Listener, Reach, SocketError, SocketLink, connect_tcp, connect_unix};
use common::{Herald, config, result, within};

const LIMITS: Limits = Limits::DEFAULT;

/// Answers every call with how much it was sent.
struct Counter;

impl Service for Counter {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        let bytes = called.call.params.raw().map_or(0, Bytes::len);
        Box::pin(std::future::ready(Answer::Done(format!(r#"{{"content":[],"bytes":{bytes}}}"#).into())))
    }
}

fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("cardan-{}-{n}.sock", std::process::id()))
}

/// A session from one end to the other and back, large messages included.
async fn converse(client: SocketLink, server: SocketLink) {
    let mut serving = config(Role::Server, &LIMITS);
    Arc::get_mut(&mut serving).unwrap().capabilities = Bytes::from_static(br#"{"tools":{}}"#);
    let (server, _server_peer) = Driver::new(server, Arc::new(Counter), serving);
    let server = tokio::spawn(server);
    let herald = Arc::new(Herald::default());
    let (client, peer) = Driver::new(client, Arc::clone(&herald), config(Role::Client, &LIMITS));
    let client = tokio::spawn(client);
    within(5, "the handshake", herald.ready.notified()).await;
    let params = format!(r#"{{"name":"x","arguments":{{"a":"{}"}}}}"#, "a".repeat(1 << 20));
    let call = peer.call(Method::ToolsCall, Some(params.into()), CallOptions::default());
    assert!(result(within(10, "the call", call).await)["bytes"].as_u64().unwrap() > 1 << 20);
    peer.close("done");
    assert_eq!(within(5, "our end", client).await.unwrap(), Cause::ClosedByUs("done".into()));
    assert_eq!(within(5, "their end", server).await.unwrap(), Cause::ClosedByPeer, "S1-12: the end is seen");
}

/// STD-15, S0-6: a whole session over a Unix socket.
#[tokio::test]
async fn std_15_a_session_over_a_unix_socket() {
    let path = path();
    let listener = Listener::bind_unix(&path).await.unwrap();
    let (client, server) = tokio::join!(connect_unix(&path, &LIMITS), listener.accept(&LIMITS));
    converse(client.unwrap(), server.unwrap()).await;
}

/// STD-15, S0-6: a whole session over TCP.
#[tokio::test]
async fn std_15_a_session_over_tcp() {
    let listener = Listener::bind_tcp("127.0.0.1:0".parse().unwrap(), Reach::Loopback).await.unwrap();
    let address = listener.tcp_address().unwrap();
    let (client, server) = tokio::join!(connect_tcp(address, &LIMITS), listener.accept(&LIMITS));
    converse(client.unwrap(), server.unwrap()).await;
}

#[tokio::test]
async fn a_unix_socket_is_private_and_leaves_no_file() {
    let path = path();
    let listener = Listener::bind_unix(&path).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let cradle = format!(".{}.", std::process::id());
    let left = fs::read_dir(path.parent().unwrap()).unwrap();
    let left =
        left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&cradle));
    drop(listener);
    assert!(!path.exists());
    // Another test of this binary may be binding just now, for a moment.
    for entry in left {
        let entry = entry.unwrap().path();
        within(5, "the other bind", async {
            while entry.exists() {
                tokio::task::yield_now().await
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let path = path();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let listener = Listener::bind_unix(&path).await.unwrap();
    let second = Listener::bind_unix(&path).await.unwrap_err();
    assert!(matches!(second, SocketError::InUse(_)), "{second:?}");
    // Someone took the path over: what is there now is not ours to remove.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "someone else's").unwrap();
    drop(listener);
    assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    let file = Listener::bind_unix(&path).await.unwrap_err();
    assert!(matches!(file, SocketError::InUse(_)), "{file:?}");
    fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn tcp_stays_on_this_machine_unless_told_otherwise() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let error = Listener::bind_tcp(address, Reach::Loopback).await.unwrap_err();
        assert!(matches!(error, SocketError::NotLoopback(told) if told == address), "{error:?}");
    }
    let anywhere = Listener::bind_tcp("0.0.0.0:0".parse().unwrap(), Reach::Anywhere).await.unwrap();
    assert!(anywhere.tcp_address().unwrap().ip().is_unspecified());
}

/// S0-30 for sockets: errors say what is wrong and what to do.
#[tokio::test]
async fn errors_are_told_apart() {
    let path = path();
    let missing = connect_unix(&path, &LIMITS).await.unwrap_err();
    assert!(matches!(missing, SocketError::NotFound(_)), "{missing:?}");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let stale = connect_unix(&path, &LIMITS).await.unwrap_err();
    assert!(matches!(stale, SocketError::Refused(_)), "{stale:?}");
    fs::remove_file(&path).unwrap();

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Listener::bind_tcp(address, Reach::Loopback).await.unwrap_err();
    assert!(matches!(taken, SocketError::InUse(_)), "{taken:?}");
    drop(listener);
    let refused = connect_tcp(address, &LIMITS).await.unwrap_err();
    assert!(refused.to_string().contains(&address.to_string()), "{refused}");
    assert!(matches!(refused, SocketError::Refused(_)), "{refused:?}");
}
