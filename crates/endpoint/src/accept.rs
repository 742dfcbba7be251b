//! Taking connections in, also when there is no descriptor left for them.
//!
//! F30: one descriptor is kept spare. When there is no other, it is given up for as long as it takes to tell one client
//! that there is no room; who is told so does not wait for nothing. Connections that stand go on.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// Takes connections in.
#[derive(Debug)]
pub(crate) struct Accept {
    spare: Option<File>,
    turning: Turning,
}

/// How clients are turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turning {
    /// In words.
    Told,
    /// Without: they would not be understood before a handshake.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only TLS has handshakes"))]
    Untold,
}

impl Accept {
    pub(crate) fn new(turning: Turning) -> Self {
        Self { spare: spare(), turning }
    }

    /// The next connection. An error concerns one connection, or a lack that will pass.
    pub(crate) async fn next(&mut self, socket: &TcpListener) -> TcpStream {
        loop {
            match socket.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if is_lack(&error) && self.spare.take().is_some() => {
                    self.turn_away(socket).await;
                    self.spare = spare();
                }
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    self.spare = self.spare.take().or_else(spare);
                }
            }
        }
    }

    /// Tells whoever waits at the door that there is no room. It went away by itself, or others were faster: then nobody.
    async fn turn_away(&self, socket: &TcpListener) {
        let Ok(Ok((mut stream, _))) = tokio::time::timeout(PAUSE, socket.accept()).await else { return };
        if self.turning == Turning::Told {
            let _ = stream.try_write(NO_ROOM);
            // What is closed with something unread is reset, and takes the answer with it.
            let _ = tokio::time::timeout(PAUSE, stream.read(&mut [0; 4096])).await;
        }
    }
}

/// How long nobody is accepted when there is nothing to accept with.
const PAUSE: Duration = Duration::from_millis(100);

const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn spare() -> Option<File> {
    File::open(if cfg!(windows) { "NUL" } else { "/dev/null" }).ok()
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// No descriptor is left, to us or to anyone: ENFILE, EMFILE, and what Windows calls them.
fn is_lack(error: &io::Error) -> bool {
    let codes: &[i32] = if cfg!(windows) { &[10_024] } else { &[23, 24] };
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
