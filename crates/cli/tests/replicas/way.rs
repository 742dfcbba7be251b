//! A way to the store that can be cut, and one to all replicas in turn.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes bytes on to a port until it is cut.
pub(crate) struct Way {
    pub(crate) port: u16,
    cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way =
            Self { port: listener.local_addr().unwrap().port(), cut: Arc::default(), open: Arc::default() };
        let (cut, open) = (Arc::clone(&way.cut), Arc::clone(&way.open));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                open.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                join(near, far);
            }
        });
        way
    }

    /// From here on nothing passes.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

fn join(near: TcpStream, far: TcpStream) {
    let (up, down) = ((near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near));
    for (mut from, mut to) in [up, down] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Before several servers: each request goes to the next of them, whatever connection it came by.
pub(crate) struct Turns {
    pub(crate) port: u16,
    pub(crate) requests: Arc<AtomicUsize>,
}

impl Turns {
    pub(crate) fn before(servers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let turns = Self { port: listener.local_addr().unwrap().port(), requests: Arc::default() };
        let requests = Arc::clone(&turns.requests);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let server = servers[requests.fetch_add(1, Ordering::SeqCst) % servers.len()].clone();
                thread::spawn(move || one(near, &server));
            }
        });
        turns
    }
}

/// Asks the server to end the connection after one request, so that the next one comes here again.
fn one(mut near: TcpStream, server: &str) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if near.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let mut far = TcpStream::connect(server).ok()?;
    let text = String::from_utf8(head).ok()?;
    let kept = text.trim_end().lines().filter(|line| !line.to_lowercase().starts_with("connection:"));
    let head = kept.map(|line| format!("{line}\r\n")).collect::<String>() + "Connection: close\r\n\r\n";
    far.write_all(head.as_bytes()).ok()?;
    join(near, far);
    Some(())
}
