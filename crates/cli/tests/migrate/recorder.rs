//! What stands before a server and remembers what it is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes bytes on, both ways, for as long as anybody sends some.
pub(crate) struct Recorder {
    pub(crate) address: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    pub(crate) fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, sent) = (server.to_owned(), Arc::<Mutex<Vec<u8>>>::default());
        let record = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let record = Arc::clone(&record);
                thread::spawn(move || {
                    pass(from, to, |bytes| record.lock().unwrap().extend_from_slice(bytes))
                });
                thread::spawn(move || pass(server, client, |_| {}));
            }
        });
        Self { address, sent }
    }

    /// Was this among the heads of what was sent? Names of headers have no case.
    pub(crate) fn was_sent(&self, header: &str) -> bool {
        let sent = String::from_utf8_lossy(&self.sent.lock().unwrap()).to_ascii_lowercase();
        sent.contains(&format!("\r\n{}\r\n", header.to_ascii_lowercase()))
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        record(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
