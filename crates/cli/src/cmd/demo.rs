//! `cardan demo`: the built-in server over stdio or a socket.

use cardan_proto::limits::Limits;
use cardan_proto::session::event::Cause;
use cardan_transport::socket::{Listener, Reach, SocketError, SocketLink};
use tokio::task::JoinSet;

use super::pipes;
use crate::args::DemoArgs;
use crate::demo;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::tell;

/// For someone who starts the server by hand.
const HINT: &str = "serving MCP on stdin and stdout, a message per line; end with Ctrl-D
clients start this command themselves, so rather try:
  cardan info -- cardan demo
  cardan call echo message=hello -- cardan demo
  cardan call slow steps=5 delay_ms=200 -- cardan demo";

pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let server = demo::server(Limits::DEFAULT);
    let stop = Interrupts::watch()?;
    let listener = match (args.unix, args.tcp) {
        (Some(path), _) => {
            let listener = Listener::bind_unix(&path).await.map_err(unserved)?;
            tell(&format!("listening on unix://{}", path.display()));
            listener
        }
        (None, Some(address)) => {
            let listener = Listener::bind_tcp(address, Reach::Loopback).await.map_err(unserved)?;
            tell(&format!("listening on tcp://{}", listener.tcp_address().unwrap_or(address)));
            listener
        }
        (None, None) => {
            return pipes::serve(
                server.limits(),
                HINT,
                &stop,
                |link| server.serve(link),
                || server.close("asked to stop"),
            )
            .await;
        }
    };
    let serve = |link| {
        let server = server.clone();
        async move { server.serve(link).await }
    };
    over_sockets(&listener, server.limits(), &stop, serve, || server.close("asked to stop")).await
}

/// Serves every link that comes until a signal comes; then what runs may still finish.
pub(super) async fn over_sockets<F: Future<Output = Cause> + Send + 'static>(
    listener: &Listener,
    limits: &Limits,
    stop: &Interrupts,
    serve: impl Fn(SocketLink) -> F,
    close: impl FnOnce(),
) -> Result<(), Failure> {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            link = listener.accept(limits) => {
                links.spawn(serve(link.map_err(unserved)?));
            }
            Some(_) = links.join_next() => {}
            () = stop.first() => break,
        }
    }
    close();
    tokio::select! {
        () = async { while links.join_next().await.is_some() {} } => {}
        () = stop.second() => {}
    }
    Ok(())
}

pub(super) fn unserved(error: SocketError) -> Failure {
    Failure::usage(error.to_string())
}
