//! A TCP proxy that does harm at a chosen byte, between any client and any server.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What happens to the connection whose byte it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both ends see a reset.
    Reset,
    /// Both ends see a proper end.
    Close,
    /// Nothing is taken any more, in either direction; it stays open.
    Stall,
    /// Everything is taken and nothing arrives, in either direction; it stays open.
    Swallow,
}

/// Harm, once, after so many bytes in one direction, over all connections since it was armed.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub way: Way,
    pub after: usize,
    pub fault: Fault,
}

/// How bytes are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    AsTheyCome,
    OneByOne,
}

/// What becomes of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    /// Accepted, and closed at once.
    Slammed,
}

/// Changes bytes on their way, but not their number.
pub type Rewrite = fn(Way, &mut [u8]);

/// What passed in each direction since it was last armed.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub up: Vec<u8>,
    pub down: Vec<u8>,
    pub accepted: usize,
    pub fired: bool,
}

impl Seen {
    pub fn of(&self, way: Way) -> &[u8] {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// How often `what` went up.
    pub fn times_up(&self, what: &str) -> usize {
        String::from_utf8_lossy(&self.up).matches(what).count()
    }
}

struct Plan {
    target: SocketAddr,
    cut: Option<Cut>,
    pace: Pace,
    door: Door,
    rewrite: Option<Rewrite>,
}

/// The proxy. It ends with its value, and all connections with it.
pub struct Proxy {
    pub address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    seen: Arc<watch::Sender<Seen>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Plan { target, cut: None, pace: Pace::AsTheyCome, door: Door::Open, rewrite: None };
        let (plan, seen) = (Arc::new(Mutex::new(plan)), Arc::new(watch::Sender::new(Seen::default())));
        let (own, log) = (Arc::clone(&plan), Arc::clone(&seen));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                while connections.try_join_next().is_some() {}
                log.send_modify(|seen| seen.accepted += 1);
                let (door, target) = {
                    let plan = own.lock().unwrap();
                    (plan.door, plan.target)
                };
                if door == Door::Slammed {
                    continue;
                }
                let (plan, log) = (Arc::clone(&own), Arc::clone(&log));
                connections.spawn(async move {
                    // A server that is not there is a connection that ends.
                    if let Ok(server) = TcpStream::connect(target).await {
                        carry(client, server, &plan, &log).await;
                    }
                });
            }
        });
        Self { address, plan, seen, accepting }
    }

    /// From now on bytes are counted, and this happens.
    pub fn arm(&self, cut: Option<Cut>) {
        self.plan.lock().unwrap().cut = cut;
        self.seen.send_replace(Seen::default());
    }

    pub fn pace(&self, pace: Pace) {
        self.plan.lock().unwrap().pace = pace;
    }

    pub fn door(&self, door: Door) {
        self.plan.lock().unwrap().door = door;
    }

    pub fn rewrite(&self, rewrite: Rewrite) {
        self.plan.lock().unwrap().rewrite = Some(rewrite);
    }

    /// New connections lead there.
    pub fn retarget(&self, target: SocketAddr) {
        self.plan.lock().unwrap().target = target;
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Ends it, and all connections with it.
    pub fn end(&self) {
        self.accepting.abort();
    }

    /// Waits until what passed is as wanted.
    pub async fn until(&self, wanted: impl FnMut(&Seen) -> bool) {
        self.seen.subscribe().wait_for(wanted).await.unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// How the carrying ended.
enum End {
    Gone,
    Harm(Fault),
}

async fn carry(mut client: TcpStream, mut server: TcpStream, plan: &Mutex<Plan>, seen: &watch::Sender<Seen>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let end = pump(&mut client, &mut server, plan, seen).await;
    match end {
        End::Gone | End::Harm(Fault::Close) => {}
        End::Harm(Fault::Reset) => {
            // What was passed on is on its way before the reset is.
            tokio::task::yield_now().await;
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        End::Harm(Fault::Stall) => std::future::pending().await,
        End::Harm(Fault::Swallow) => {
            let (mut up, mut down) = (tokio::io::sink(), tokio::io::sink());
            let _ =
                tokio::join!(tokio::io::copy(&mut client, &mut up), tokio::io::copy(&mut server, &mut down));
            std::future::pending::<()>().await;
        }
    }
}

async fn pump(
    client: &mut TcpStream,
    server: &mut TcpStream,
    plan: &Mutex<Plan>,
    seen: &watch::Sender<Seen>,
) -> End {
    let (mut up, mut down) = (vec![0; 4096], vec![0; 4096]);
    loop {
        let (way, read) = tokio::select! {
            read = client.read(&mut up) => (Way::Up, read),
            read = server.read(&mut down) => (Way::Down, read),
        };
        let Ok(length @ 1..) = read else { return End::Gone };
        let (bytes, to) = match way {
            Way::Up => (&mut up[..length], &mut *server),
            Way::Down => (&mut down[..length], &mut *client),
        };
        let (pass, fault, pace) = weigh(way, bytes, plan, seen);
        if write(to, &bytes[..pass], pace).await.is_err() {
            return End::Gone;
        }
        if let Some(fault) = fault {
            return End::Harm(fault);
        }
    }
}

/// How much of it passes, and what happens then.
fn weigh(
    way: Way,
    bytes: &mut [u8],
    plan: &Mutex<Plan>,
    seen: &watch::Sender<Seen>,
) -> (usize, Option<Fault>, Pace) {
    let mut plan = plan.lock().unwrap();
    if let Some(rewrite) = plan.rewrite {
        rewrite(way, bytes);
    }
    let before = seen.borrow().of(way).len();
    let due = plan.cut.filter(|cut| cut.way == way && before + bytes.len() >= cut.after);
    let pass = due.map_or(bytes.len(), |cut| cut.after.saturating_sub(before));
    if due.is_some() {
        plan.cut = None;
    }
    seen.send_modify(|seen| {
        match way {
            Way::Up => seen.up.extend_from_slice(&bytes[..pass]),
            Way::Down => seen.down.extend_from_slice(&bytes[..pass]),
        }
        seen.fired |= due.is_some();
    });
    (pass, due.map(|cut| cut.fault), plan.pace)
}

async fn write(to: &mut TcpStream, bytes: &[u8], pace: Pace) -> std::io::Result<()> {
    match pace {
        Pace::AsTheyCome => to.write_all(bytes).await,
        Pace::OneByOne => {
            for byte in bytes {
                to.write_all(&[*byte]).await?;
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    }
}

/// Where to cut an exchange of these bytes: every `step`th place, and all around the ends of heads and events.
pub fn places(bytes: &[u8], step: usize) -> Vec<usize> {
    let mut places: std::collections::BTreeSet<usize> = (0..=bytes.len()).step_by(step).collect();
    let mut around = |at: usize| places.extend(at.saturating_sub(2)..=(at + 2).min(bytes.len()));
    around(0);
    around(bytes.len());
    for end in [&b"\r\n\r\n"[..], b"\n\n"] {
        for at in 0..bytes.len().saturating_sub(end.len() - 1) {
            if bytes[at..].starts_with(end) {
                around(at + end.len());
            }
        }
    }
    places.into_iter().collect()
}
