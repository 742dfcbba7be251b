//! `cardan serve`: the built-in server on one port, by every HTTP transport at once.

use std::io;
use std::net::SocketAddr;

use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};

use crate::args::ServeArgs;
use crate::demo;
use crate::failure::Failure;
use crate::output::tell;
use crate::stop::Stop;

pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    let wanted = address(&args.listen)?;
    let mut stop = Stop::watch()?;
    let listener = Listener::bind(wanted).await.map_err(|error| unbound(wanted, &error))?;
    let address = listener.address().map_err(|error| unbound(wanted, &error))?;
    let allow = Allow::bound(address.ip(), Ports::Any, &args.hosts, &args.origins)
        .map_err(|error| Failure::usage(error.to_string()).next("name the host with --allow-host"))?;
    let endpoint = Endpoint::new(demo::server(), Options::new(allow));
    tell(&greeting(address));
    listener.serve(endpoint, stop.wait()).await;
    Ok(())
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!("--listen {text}: not an address"))
            .next("write an IP address and a port, such as 127.0.0.1:2273 or [::1]:0")
    })
}

fn unbound(address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::usage(format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.next("stop what listens there, or take a free port with --listen 127.0.0.1:0")
        }
        io::ErrorKind::PermissionDenied => failure.next("take a port above 1023"),
        _ => failure.next("take an address of this machine"),
    }
}

fn greeting(address: SocketAddr) -> String {
    format!(
        "cardan serves its demo server at
  http://{address}/mcp  Streamable HTTP, every revision
  http://{address}/sse  old HTTP+SSE
  ws://{address}/ws     WebSocket
try
  cardan info http://{address}/mcp
  cardan call http://{address}/mcp echo message=hello
  cardan call ws://{address}/ws slow steps=5 delay_ms=200
end with Ctrl-C"
    )
}
