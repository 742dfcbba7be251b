//! How a command reaches the daemon, and starts it where none runs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cardan_config::Search;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

use super::place::{Place, user};
use super::talk::{PROMPT, Say, Want, hear, nodded, say};

/// How often one is started that ends before it is reached: another may just end for want of work.
const TRIES: usize = 3;

/// How long one that was started may take until it listens.
const STARTING: Duration = Duration::from_secs(10);

/// How often it is looked for one that somebody else has started.
const LOOK: Duration = Duration::from_millis(5);

/// A log that is longer is put aside.
const LOG_BYTES: u64 = 1 << 20;

/// Starts a program without what scripts have open: a lock or a pipe would be held for as long as the daemon runs.
const CLOSED: &str = r#"for fd in /dev/fd/*; do
fd=${fd##*/}
case $fd in [0-2] | *[!0-9]*) ;; *) eval "exec $fd>&-" ;; esac
done
exec "$0" "$@""#;

/// The same for a shell that has words for ten descriptors only, where there is no other.
const FEW_CLOSED: &str = r#"exec "$0" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-"#;

/// Asks the daemon; one is started where none runs. One that has not heard after `patience` is taken for dead.
pub(crate) async fn ask(
    want: &Want,
    place: &Place,
    search: &Search,
    patience: Duration,
) -> io::Result<(UnixStream, Say)> {
    let mut last = io::Error::other("nothing was tried");
    for _ in 0..TRIES {
        let stream = match connect(place).await {
            Ok(stream) => stream,
            Err(error) if is_absent(&error) => {
                start(place, search).await?;
                connect(place).await?
            }
            Err(error) => return Err(error),
        };
        match tell(&stream, want, patience).await {
            Ok(said) => return Ok((stream, said)),
            // It would do the same again.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            // It ended just when we came.
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks the daemon that runs; nothing: none does.
pub(crate) async fn ask_running(want: &Want, place: &Place) -> io::Result<Option<(UnixStream, Say)>> {
    match connect(place).await {
        Ok(stream) => tell(&stream, want, PROMPT).await.map(|said| Some((stream, said))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn tell(stream: &UnixStream, want: &Want, patience: Duration) -> io::Result<Say> {
    let heard = async {
        say(stream, want).await?;
        nodded(stream).await
    };
    let deaf = || io::Error::new(io::ErrorKind::TimedOut, "it was asked and does not say that it has heard");
    timeout(patience, heard).await.map_err(|_| deaf())??;
    // A server may take its time to start; who waits has a bound of their own.
    hear(stream).await
}

/// Nobody but us may listen there.
async fn connect(place: &Place) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(place.socket()).await?;
    match stream.peer_cred()?.uid() == user() {
        true => Ok(stream),
        false => Err(io::Error::other("somebody else listens in its place")),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Starts one, and waits until it listens, or another that was started at the same time.
async fn start(place: &Place, search: &Search) -> io::Result<()> {
    // Unlike others it has words for all descriptors; -p keeps it from running what a variable names first.
    let mut child = match spawn("bash", &["-p", "-c", CLOSED], place, search) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            spawn("/bin/sh", &["-c", FEW_CLOSED], place, search)?
        }
        child => child?,
    };
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no stdout"))?;
    let told = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let until = Instant::now() + STARTING;
    tokio::time::timeout_at(until, said(&told)).await??;
    while let Err(error) = connect(place).await {
        if !is_absent(&error) {
            return Err(error);
        }
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was started and does not listen"));
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Starts a daemon by a shell.
fn spawn(shell: &str, words: &[&str], place: &Place, search: &Search) -> io::Result<Child> {
    let mut command = Command::new(shell);
    command.args(words).arg(std::env::current_exe()?);
    command.args(["daemon", "--on-demand", "--log", "json"]);
    if let Some(file) = &search.file {
        command.arg("--config").arg(file);
    }
    let log = place.log().and_then(|path| log(&path).ok());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.map_or_else(Stdio::null, Stdio::from));
    command.spawn()
}

/// Waits for the one word that a daemon says to who started it: that it listens, or that another does.
async fn said(told: &pipe::Receiver) -> io::Result<()> {
    loop {
        told.readable().await?;
        let mut word = [0; 16];
        match told.try_read(&mut word) {
            Ok(0) => return Err(io::Error::other("it did not start; its log says why")),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The file that it tells what happens, for its owner alone.
fn log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if fs::symlink_metadata(path).is_ok_and(|about| about.len() > LOG_BYTES) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
