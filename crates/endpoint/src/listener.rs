//! Accepts connections and serves an endpoint on them, until it is told to stop.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardan_proto::limits::Limits;
use cardan_runtime::service::Host;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::stall::Stall;

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
}

impl Listener {
    /// Binds an address. Port 0 picks a free one.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await? })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` is done, then drains: what runs is finished, within the limit's time.
    pub async fn serve<H: Host>(self, endpoint: Endpoint<H>, stop: impl Future<Output = ()>) {
        let limits = endpoint.host().config().limits.clone();
        let server = server(&limits);
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let permit = tokio::select! {
                () = &mut stop => break,
                permit = Arc::clone(&room).acquire_owned() => permit,
            };
            let stream = tokio::select! {
                () = &mut stop => break,
                stream = accept(&self.socket) => stream,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let _ = stream.set_nodelay(true);
            let io = TokioIo::new(Stall::new(stream, limits.stall_timeout));
            let connection = server.serve_connection_with_upgrades(io, endpoint.clone()).into_owned();
            let connection = graceful.watch(connection);
            connections.spawn(async move {
                // Clients break off as they like; that concerns nobody else.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.socket);
        endpoint.host().close("the server is shutting down");
        let _ = tokio::time::timeout(limits.drain_timeout, graceful.shutdown()).await;
        connections.shutdown().await;
    }
}

/// The next connection. An error concerns one connection, or a lack of descriptors that will pass.
async fn accept(socket: &TcpListener) -> TcpStream {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// How connections are served.
fn server(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .pipeline_flush(true)
        .max_buf_size(limits.head_bytes.max(16 << 10) * 2);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(limits.keep_alive_interval)
        .keep_alive_timeout(limits.stall_timeout);
    builder
}
