//! Echoes text and binary messages, as server or client: what the Autobahn test suite talks to.
//!
//! `echo_ws server 127.0.0.1:9002` serves until it is killed, and tells on stderr where.
//! `echo_ws client ws://127.0.0.1:9001 NAME` runs all cases that the suite's server has for it.

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use cardan_proto::http::upgrade;
use cardan_proto::limits::Limits;
use cardan_ws::dial::{Dial, open};
use cardan_ws::{key, layer};
use futures_util::{SinkExt, StreamExt};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_websockets::WebSocketStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address] => serve(address).await,
        ["client", url, name] => run_cases(url, name).await,
        _ => Err("say `server ADDRESS` or `client URL NAME`".into()),
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    eprintln!("echoes at ws://{}", listener.local_addr()?);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    // A case may well break off.
                    let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).with_upgrades().await;
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    let upgraded = hyper::upgrade::on(&mut request);
    let accept = match upgrade::offer(request.method(), request.version(), request.headers()) {
        Ok(offer) => HeaderValue::try_from(key::accept(offer.key)),
        Err(refused) => {
            *response.status_mut() = refused.status();
            return Ok(response);
        }
    };
    let Ok(accept) = accept else { return Ok(response) };
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(upgrade::WEBSOCKET));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    tokio::spawn(async move {
        if let Ok(stream) = upgraded.await {
            echo(layer::server(TokioIo::new(stream), &Limits::DEFAULT)).await;
        }
    });
    Ok(response)
}

async fn run_cases(url: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let options = Dial::new(&Limits::DEFAULT);
    let dial = async |path: String| {
        let stream = open(&format!("{url}{path}"), &options).await?;
        Ok::<_, Box<dyn Error>>(layer::client(stream, &Limits::DEFAULT))
    };
    let mut told = dial("/getCaseCount".to_owned()).await?;
    let count = told.next().await.ok_or("the suite does not tell how many cases it has")??;
    let count: usize = count.as_text().unwrap_or_default().parse()?;
    for case in 1..=count {
        echo(dial(format!("/runCase?case={case}&agent={name}")).await?).await;
    }
    dial(format!("/updateReports?agent={name}")).await?.close().await?;
    eprintln!("{count} cases");
    Ok(())
}

/// Sends back what comes, until the other side closes or breaks the protocol.
async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>) {
    while let Some(Ok(message)) = socket.next().await {
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            break;
        }
    }
    let _ = socket.close().await;
}
