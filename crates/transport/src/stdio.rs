//! Our own stdin and stdout as a link: we are the server, whoever started us is the client.
//!
//! Pipes and sockets are read and written without blocking. That mode belongs to the pipe and not to
//! us, so it is put back at the end, and left alone where our own stderr would suffer from it. Files
//! and terminals know no such mode; there, threads of tokio block in our place, and one may still wait
//! for input when we are done: end such a process by leaving `main` or with `std::process::exit`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use cardan_proto::limits::Limits;
use cardan_runtime::lines::Lines;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The link over our own stdin and stdout.
pub type StdioLink = Lines<StdinReader, StdoutWriter>;

/// Opens the link. Once per process: two would steal from each other.
///
/// Needs a tokio runtime with I/O.
///
/// ```no_run
/// use cardan_proto::limits::Limits;
///
/// # async fn example() -> std::io::Result<()> {
/// let link = cardan_transport::stdio::open(&Limits::DEFAULT)?;
/// # Ok(())
/// # }
/// ```
pub fn open(limits: &Limits) -> io::Result<StdioLink> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let reader = StdinReader::of(stdin.as_fd())?;
    let writer = match is_same(stdout.as_fd(), stderr.as_fd()) {
        // Prints to stderr would fail whenever the shared pipe is full.
        true => StdoutWriter { way: Outward::Blocking(tokio::io::stdout()), _mode: None },
        false => StdoutWriter::of(stdout.as_fd())?,
    };
    Ok(Lines::new(reader, writer, limits))
}

/// The reading half.
#[derive(Debug)]
pub struct StdinReader {
    way: Inward,
    _mode: Option<Mode>,
}

#[derive(Debug)]
enum Inward {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Blocking(Stdin),
}

/// The writing half.
#[derive(Debug)]
pub struct StdoutWriter {
    way: Outward,
    _mode: Option<Mode>,
}

#[derive(Debug)]
enum Outward {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Blocking(Stdout),
}

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    Socket,
    Other,
}

impl StdinReader {
    fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = Kind::of(fd)?;
        let mode = Mode::of(fd, kind)?;
        let way = match kind {
            Kind::Pipe => Inward::Pipe(pipe::Receiver::from_owned_fd(fd.try_clone_to_owned()?)?),
            Kind::Socket => Inward::Socket(socket(fd)?),
            Kind::Other => Inward::Blocking(tokio::io::stdin()),
        };
        Ok(Self { way, _mode: mode })
    }
}

impl StdoutWriter {
    fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = Kind::of(fd)?;
        let mode = Mode::of(fd, kind)?;
        let way = match kind {
            Kind::Pipe => Outward::Pipe(pipe::Sender::from_owned_fd(fd.try_clone_to_owned()?)?),
            Kind::Socket => Outward::Socket(socket(fd)?),
            Kind::Other => Outward::Blocking(tokio::io::stdout()),
        };
        Ok(Self { way, _mode: mode })
    }
}

impl Kind {
    fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let file_type = File::from(fd.try_clone_to_owned()?).metadata()?.file_type();
        Ok(match () {
            () if file_type.is_fifo() => Self::Pipe,
            () if file_type.is_socket() => Self::Socket,
            () => Self::Other,
        })
    }
}

/// Node and others start their children with sockets for pipes.
fn socket(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd.try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let place = |fd: BorrowedFd<'_>| {
        let metadata = File::from(fd.try_clone_to_owned()?).metadata()?;
        io::Result::Ok((metadata.dev(), metadata.ino()))
    };
    matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
}

/// The mode that was found; put back when dropped.
#[derive(Debug)]
struct Mode {
    fd: OwnedFd,
    found: OFlags,
}

impl Mode {
    fn of(fd: BorrowedFd<'_>, kind: Kind) -> io::Result<Option<Self>> {
        if kind == Kind::Other {
            return Ok(None);
        }
        Ok(Some(Self { found: fcntl_getfl(fd)?, fd: fd.try_clone_to_owned()? }))
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        let _ = fcntl_setfl(&self.fd, self.found);
    }
}

impl AsyncRead for StdinReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Inward::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Inward::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
            Inward::Blocking(stdin) => Pin::new(stdin).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for StdoutWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().way {
            Outward::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Outward::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
            Outward::Blocking(stdout) => Pin::new(stdout).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Outward::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Outward::Socket(socket) => Pin::new(socket).poll_flush(cx),
            Outward::Blocking(stdout) => Pin::new(stdout).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Outward::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Outward::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Outward::Blocking(stdout) => Pin::new(stdout).poll_shutdown(cx),
        }
    }
}
