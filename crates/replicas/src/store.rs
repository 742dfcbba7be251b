//! The store: calls with a deadline over a few kept connections. After a failure it is left alone for a moment.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cardan_proto::limits::replicas::{STORE_CALL, STORE_CONNECTIONS, STORE_PAUSE};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use crate::place::Place;
use crate::resp::{self, Reply};

/// A stream of bytes to the store.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream in the making.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// How streams to the store are made; TCP, unless told otherwise.
pub type Open = Arc<dyn Fn(&Place) -> Opening + Send + Sync>;

/// TCP to whichever address of the host answers first.
pub(crate) fn tcp() -> Open {
    Arc::new(|place: &Place| {
        let (host, port) = (place.host.clone(), place.port);
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    })
}

/// The store did not do what was asked, and it is not known why for sure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away(pub String);

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Away {}

/// The store.
pub(crate) struct Store {
    place: Place,
    open: Open,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
    /// For the lease alone, so that nobody who looks for sessions stands in its way.
    own: tokio::sync::Mutex<Option<Connection>>,
    failed: Mutex<Option<(Instant, Away)>>,
    failures: AtomicU64,
}

type Connection = BufReader<Box<dyn Stream>>;

impl Store {
    pub(crate) fn new(place: Place, open: Open) -> Self {
        Self {
            place,
            open,
            idle: Mutex::default(),
            places: Semaphore::new(STORE_CONNECTIONS),
            own: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Calls that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Why it is away, as far as the last call tells.
    pub(crate) fn trouble(&self) -> Option<Away> {
        lock(&self.failed).as_ref().map(|(_, away)| away.clone())
    }

    /// Runs a script there, unless it was away a moment ago, or everybody asks at once.
    pub(crate) async fn run(&self, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Result<Reply, Away> {
        self.rested()?;
        // Waiting for others says nothing about the store.
        let busy = || Away(format!("the store was asked by too many for {} ms", STORE_CALL.as_millis()));
        let place = timeout(STORE_CALL, self.places.acquire()).await.map_err(|_| busy())?;
        // Whoever was waited for may have found it away.
        self.rested()?;
        let called = timeout(STORE_CALL, self.call(&command(script, keys, args))).await;
        drop(place);
        self.outcome(called)
    }

    /// After a failure it is left alone for a moment.
    fn rested(&self) -> Result<(), Away> {
        match &*lock(&self.failed) {
            Some((when, away)) if when.elapsed() < STORE_PAUSE => Err(away.clone()),
            _ => Ok(()),
        }
    }

    /// Runs a script there that keeps the lease: by a connection of its own, whatever became of others.
    pub(crate) async fn run_alone(
        &self,
        script: &str,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Reply, Away> {
        let command = command(script, keys, args);
        let called = timeout(STORE_CALL, async {
            let mut own = self.own.lock().await;
            let mut connection = match own.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let reply = exchange(&mut connection, &command).await?;
            if !matches!(reply, Reply::Refused(_)) {
                *own = Some(connection);
            }
            Ok(reply)
        });
        let called = called.await;
        self.outcome(called)
    }

    /// What a call says of the store.
    fn outcome(&self, called: Result<io::Result<Reply>, Elapsed>) -> Result<Reply, Away> {
        let called = match called {
            Ok(Ok(Reply::Refused(why))) => Err(Away(format!("the store refuses: {why}"))),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(Away(error.to_string())),
            Err(_) => Err(Away(format!("the store did not answer within {} ms", STORE_CALL.as_millis()))),
        };
        match &called {
            Ok(_) => *lock(&self.failed) = None,
            Err(away) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                *lock(&self.failed) = Some((Instant::now(), away.clone()));
                // Others may lead to the same trouble, such as a store that was replaced by another.
                lock(&self.idle).clear();
            }
        }
        called
    }

    async fn call(&self, command: &[u8]) -> io::Result<Reply> {
        let kept = lock(&self.idle).pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        // Not kept while it is used: whoever gives up in between leaves half an answer behind.
        let reply = exchange(&mut connection, command).await?;
        if !matches!(reply, Reply::Refused(_)) {
            lock(&self.idle).push(connection);
        }
        Ok(reply)
    }

    async fn connect(&self) -> io::Result<Connection> {
        let mut connection = BufReader::new((self.open)(&self.place).await?);
        let Place { user, password, database, .. } = &self.place;
        let number = database.to_string();
        let mut greeting: Vec<Vec<&[u8]>> = Vec::new();
        match (user, password) {
            (Some(user), Some(password)) => {
                greeting.push(vec![b"AUTH", user.as_bytes(), password.as_bytes()])
            }
            (None, Some(password)) => greeting.push(vec![b"AUTH", password.as_bytes()]),
            _ => {}
        }
        if *database != 0 {
            greeting.push(vec![b"SELECT", number.as_bytes()]);
        }
        for words in greeting {
            if let Reply::Refused(why) = exchange(&mut connection, &resp::command(&words)).await? {
                return Err(io::Error::other(format!("the store refuses: {why}")));
            }
        }
        Ok(connection)
    }
}

fn command(script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), count.as_bytes()];
    words.extend_from_slice(keys);
    words.extend_from_slice(args);
    resp::command(&words)
}

async fn exchange(connection: &mut Connection, command: &[u8]) -> io::Result<Reply> {
    connection.write_all(command).await?;
    connection.flush().await?;
    resp::read(connection).await
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;

    /// A store whose connections are given out by the test.
    fn store() -> (Arc<Store>, tokio::sync::mpsc::UnboundedReceiver<DuplexStream>) {
        let (far, given) = tokio::sync::mpsc::unbounded_channel();
        let open: Open = Arc::new(move |_| {
            let (near, distant) = duplex(1 << 16);
            let sent = far.send(distant).map_err(|_| io::Error::other("no more"));
            Box::pin(async move { sent.map(|()| Box::new(near) as Box<dyn Stream>) })
        });
        let place = Place::parse("redis://ada:pass@store/3").unwrap();
        (Arc::new(Store::new(place, open)), given)
    }

    async fn hear(from: &mut DuplexStream, text: &[u8]) {
        let mut heard = vec![0; text.len()];
        from.read_exact(&mut heard).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(text));
    }

    /// A connection is opened with user and database, and used again.
    #[tokio::test(start_paused = true)]
    async fn connections_are_kept() {
        let (store, mut given) = store();
        let calling = Arc::clone(&store);
        let call = tokio::spawn(async move {
            let first = calling.run("return 1", &[b"k"], &[]).await;
            (first, calling.run("return 2", &[], &[b"a"]).await)
        });
        let mut far = given.recv().await.unwrap();
        for (words, answer) in [
            (&[&b"AUTH"[..], b"ada", b"pass"][..], "+OK\r\n"),
            (&[b"SELECT", b"3"], "+OK\r\n"),
            (&[b"EVAL", b"return 1", b"1", b"k"], ":1\r\n"),
            (&[b"EVAL", b"return 2", b"0", b"a"], ":2\r\n"),
        ] {
            hear(&mut far, &resp::command(words)).await;
            far.write_all(answer.as_bytes()).await.unwrap();
        }
        assert_eq!(call.await.unwrap(), (Ok(Reply::Number(1)), Ok(Reply::Number(2))));
        assert!(given.try_recv().is_err() && store.failures() == 0);
    }

    /// F21: a store that does not answer costs half a second once, and the next nothing; half an answer is never taken
    /// for the next one's.
    #[tokio::test(start_paused = true)]
    async fn f21_a_silent_store_is_left_alone() {
        let (store, mut given) = store();
        let begun = Instant::now();
        let silent = store.run("return 1", &[], &[]).await.unwrap_err();
        assert!(silent.0.contains("500 ms") && begun.elapsed() == STORE_CALL, "{silent}");
        assert_eq!(store.run("return 1", &[], &[]).await.unwrap_err(), silent);
        assert_eq!((begun.elapsed(), store.failures()), (STORE_CALL, 1));
        assert_eq!(store.trouble(), Some(silent));
        tokio::time::advance(STORE_PAUSE).await;
        drop(given.recv().await);
        given.close();
        assert!(store.run("return 1", &[], &[]).await.is_err());
        assert_eq!(store.failures(), 2);
    }

    /// F21: a store that is full, or was made a replica, is as good as away.
    #[tokio::test(start_paused = true)]
    async fn f21_a_refusal_is_a_failure() {
        let (store, mut given) = store();
        let calling = Arc::clone(&store);
        let call = tokio::spawn(async move { calling.run("return 1", &[], &[]).await });
        let mut far = given.recv().await.unwrap();
        far.write_all(b"+OK\r\n+OK\r\n-OOM command not allowed\r\n").await.unwrap();
        assert_eq!(call.await.unwrap(), Err(Away("the store refuses: OOM command not allowed".into())));
        assert_eq!(store.failures(), 1);
    }

    /// F21: whoever asks for sessions, and however many do, the lease is renewed; waiting for each other is no failure of
    /// the store.
    #[tokio::test(start_paused = true)]
    async fn f21_the_lease_waits_for_nobody() {
        let (store, mut given) = store();
        let mut calls = Vec::new();
        for _ in 0..=STORE_CONNECTIONS {
            let calling = Arc::clone(&store);
            calls.push(tokio::spawn(async move { calling.run("return 1", &[], &[]).await }));
        }
        let mut silent = Vec::new();
        for _ in 0..STORE_CONNECTIONS {
            silent.push(given.recv().await.unwrap());
        }
        let (beating, mut beats) = (Arc::clone(&store), Vec::new());
        for answer in [":1\r\n", ":2\r\n"] {
            let beating = Arc::clone(&beating);
            let beat = tokio::spawn(async move { beating.run_alone("beat", &[], &[]).await });
            if beats.is_empty() {
                let mut far = given.recv().await.unwrap();
                far.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
                beats.push(far);
            }
            beats[0].write_all(answer.as_bytes()).await.unwrap();
            assert!(beat.await.unwrap().is_ok());
        }
        assert_eq!(store.failures(), 0);
        for call in calls {
            assert!(call.await.unwrap().is_err());
        }
        // All are told at once that it is away, but for the lease.
        assert_eq!(store.failures(), STORE_CONNECTIONS as u64);
        assert!(store.run("return 1", &[], &[]).await.is_err());
        beats[0].write_all(b":3\r\n").await.unwrap();
        assert_eq!(store.run_alone("beat", &[], &[]).await, Ok(Reply::Number(3)));
        assert_eq!(store.trouble(), None);
    }
}
