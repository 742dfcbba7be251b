//! Replicas and a store that are reached by TLS.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use cardan_tls::Identity;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::wire::Session;
use crate::world::{Redis, WHOLE, World, free_port};

/// F22, T29: whoever is between replicas and the store, or between two replicas, sees TLS.
#[test]
fn f22_replicas_and_store_by_tls() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.port;
    let mut world = World::before(redis, "tls", WHOLE, "", &[]);
    let (certificate, key) = (world.scratch.file("own.pem"), world.scratch.file("own.key"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let identity = Identity::read(Path::new(&certificate), Path::new(&key)).unwrap();
    let store = format!("rediss://localhost:{}", secured(store, &identity));
    for _ in 0..2 {
        let port = free_port();
        let address = format!("https://localhost:{}", secured(port, &identity));
        let replica = world.serve_at(port, &store, &address, Some(&certificate));
        world.replicas.push(replica);
    }
    let session = Session::open(world.at(0), None).unwrap();
    session.echoes(world.at(1), 1, "by https");
    assert_eq!(world.count(1, "cardan_replica_forwards_total"), 1);
    assert_eq!(world.redis.keys(":session:").len(), 1);
    assert_eq!(session.delete(world.at(1)), 204);
    // Who does not trust the store does without it.
    let stranger = world.serve_at(free_port(), &store, "http://127.0.0.1:1", None);
    assert_eq!(Session::open(&stranger.address, None).unwrap_err().status, 503);
}

/// A port where TLS is spoken before this one.
fn secured(port: u16, identity: &Identity) -> u16 {
    let acceptor = TlsAcceptor::from(Arc::new(identity.server(&[]).unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let before = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((near, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
                    let mut near = acceptor.accept(near).await.ok()?;
                    copy_bidirectional(&mut near, &mut far).await.ok()
                });
            }
        });
    });
    before
}
