//! A way to the store that can be cut, and one to all replicas in turn.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes bytes on to a port until it is cut.
pub(crate) struct Way {
    pub(crate) port: u16,
    /// Where connections lead that come from here on.
    pub(crate) to: Arc<AtomicU16>,
    /// What happens to the next request.
    pub(crate) next: Arc<Mutex<Next>>,
    cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Next {
    #[default]
    Passes,
    /// It is never read: the connection is closed.
    Unread,
    /// It is read, and the connection is closed when there is an answer.
    Unanswered,
}

impl Way {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port_here = listener.local_addr().unwrap().port();
        let way = Self {
            port: port_here,
            to: Arc::new(port.into()),
            next: Arc::default(),
            cut: Arc::default(),
            open: Arc::default(),
        };
        let (cut, open, next) = (Arc::clone(&way.cut), Arc::clone(&way.open), Arc::clone(&way.next));
        let to = Arc::clone(&way.to);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let port = to.load(Ordering::SeqCst);
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                open.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                join(near, far, &next);
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

fn join(near: TcpStream, far: TcpStream, next: &Arc<Mutex<Next>>) {
    let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let (next, mute) = (Arc::clone(next), Arc::new(AtomicBool::new(false)));
    let muted = Arc::clone(&mute);
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            match std::mem::take(&mut *next.lock().unwrap()) {
                Next::Passes => {}
                Next::Unread => {
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    return;
                }
                Next::Unanswered => mute.store(true, Ordering::SeqCst),
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (far, near);
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if muted.load(Ordering::SeqCst) {
                let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
                return;
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
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
    join(near, far, &Arc::default());
    Some(())
}
