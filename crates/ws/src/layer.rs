//! The WebSocket itself, as both ends set it up: bounded messages in, frames of bounded size out.

use cardan_proto::limits::Limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_websockets::{ClientBuilder, Config, ServerBuilder, WebSocketStream};

/// A server's end, on a stream whose handshake is done.
pub fn server<S: AsyncRead + AsyncWrite + Unpin>(stream: S, limits: &Limits) -> WebSocketStream<S> {
    ServerBuilder::new().config(config(limits)).limits(bounds(limits)).serve(stream)
}

/// A client's end, on a stream whose handshake is done.
pub fn client<S: AsyncRead + AsyncWrite + Unpin>(stream: S, limits: &Limits) -> WebSocketStream<S> {
    ClientBuilder::new().config(config(limits)).limits(bounds(limits)).take_over(stream)
}

fn config(limits: &Limits) -> Config {
    Config::default().frame_size(limits.socket_frame_bytes.max(1))
}

fn bounds(limits: &Limits) -> tokio_websockets::Limits {
    tokio_websockets::Limits::default().max_payload_len(Some(limits.socket_message_bytes))
}
