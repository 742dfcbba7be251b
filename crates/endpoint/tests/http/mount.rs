//! The endpoint inside other people's servers: as a tower service, in axum, and over HTTP/2.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use cardan_endpoint::{Body, Endpoint, Options};
use cardan_proto::limits::Limits;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tower_service::Service;

use crate::rig::{
    JSON, LEGACY, Rig, Step, allow, builder, initialize, listen_to_tools, modern_headers, modern_tool, said,
    within,
};
use crate::wire::Wire;

pub(crate) fn request(uri: &str, message: &Value) -> Request<Full<Bytes>> {
    let mut request = Request::post(uri).header("content-type", "application/json");
    for (name, value) in modern_headers(message) {
        request = request.header(name, value);
    }
    request.body(Full::new(Bytes::from(message.to_string()))).unwrap()
}

async fn json_of<B>(response: Response<B>) -> Value
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    assert_eq!(response.status(), StatusCode::OK);
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// HTTP-12, HTM-16: as a service of tower, with bodies in memory; a dropped future is a cancel.
#[tokio::test]
async fn it_is_a_tower_service() {
    let (builder, signals) = builder(Limits::DEFAULT);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
    let mut service = Endpoint::new(builder.build(), Options::new(allow(address)));
    std::future::poll_fn(|cx| Service::<Request<Full<Bytes>>>::poll_ready(&mut service, cx)).await.unwrap();
    let echo = request("http://localhost/mcp", &modern_tool(1, "echo", json!({ "text": "hi" })));
    let response: Response<Body> = Service::call(&mut service, echo).await.unwrap();
    assert_eq!(said(&json_of(response).await), "hi");
    let hold = request("http://localhost/mcp", &modern_tool(2, "hold", json!({})));
    let calling = tokio::spawn(Service::call(&mut service, hold));
    signals.expect(Step::Entered).await;
    calling.abort();
    signals.expect(Step::Dropped).await;
    let foreign = request("http://evil.example/mcp", &modern_tool(3, "hold", json!({})));
    let response: Response<Body> = Service::call(&mut service, foreign).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
}

/// HTTP-1: mounted in axum beside other routes, both eras and streams included.
#[tokio::test]
async fn it_mounts_in_axum() {
    let socket = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let (builder, signals) = builder(Limits::DEFAULT);
    let endpoint = Endpoint::new(builder.build(), Options::new(allow(address)));
    let app = axum::Router::new()
        .route("/health", axum::routing::get(async || "well"))
        .route_service("/mcp", endpoint);
    let serving = tokio::spawn(async move { axum::serve(socket, app).await });
    let mut wire = Wire::connect(address).await;
    wire.request("GET", "/health", &[], b"").await;
    assert_eq!(wire.answer().await.body, "well");
    wire.request("POST", "/mcp", &[JSON], initialize(LEGACY).to_string().as_bytes()).await;
    let answer = wire.answer().await;
    assert_eq!(answer.json()["result"]["protocolVersion"], LEGACY);
    assert!(answer.head.has("mcp-session-id"));
    let message = modern_tool(1, "steps", json!({}));
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(JSON);
    wire.request("POST", "/mcp", &headers, message.to_string().as_bytes()).await;
    let mut events = wire.events().await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    signals.go.notify_one();
    assert_eq!(events.message().await["params"]["progress"], 2.0);
    events.reply(1).await;
    events.ends().await;
    serving.abort();
}

/// An HTTP/2 connection.
async fn http2_to(rig: &Rig) -> http2::SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Reads until an event that says this has ended.
async fn hear(body: &mut hyper::body::Incoming, what: &str) {
    let mut heard = String::new();
    while !(heard.contains(what) && heard.ends_with("\n\n")) {
        let piece = within(body.frame()).await.expect("more").unwrap().into_data().unwrap();
        heard.push_str(std::str::from_utf8(&piece).unwrap());
    }
}

/// HTTP-12, HTM-16, S1-25: many calls at once over one connection; a stream that is reset is a cancel of its
/// own call alone.
#[tokio::test]
async fn it_speaks_http2() {
    let rig = Rig::start().await;
    let uri = format!("http://{}/mcp", rig.address);
    let mut sender = http2_to(&rig).await;
    let held = tokio::spawn(sender.send_request(request(&uri, &modern_tool(1, "hold", json!({})))));
    rig.signals.expect(Step::Entered).await;
    let listen = within(sender.send_request(request(&uri, &listen_to_tools(2)))).await.unwrap();
    let mut listen = listen.into_body();
    hear(&mut listen, "acknowledged").await;
    let echo =
        within(sender.send_request(request(&uri, &modern_tool(3, "echo", json!({ "text": "hi" }))))).await;
    assert_eq!(said(&json_of(echo.unwrap()).await), "hi");
    held.abort();
    rig.signals.expect(Step::Dropped).await;
    rig.server.changed(&cardan_proto::session::event::Change::Tools);
    hear(&mut listen, "list_changed").await;
}

/// T1, T2: over HTTP/2 the authority is the host, and the guard is the same.
#[tokio::test]
async fn the_guard_holds_over_http2() {
    let rig = Rig::start().await;
    let own = rig.address.to_string();
    let mut sender = http2_to(&rig).await;
    let message = modern_tool(1, "hold", json!({}));
    for path in ["/mcp", "/sse", "/message", "/"] {
        let foreign = request(&format!("http://evil.example{path}"), &message);
        assert_eq!(sender.send_request(foreign).await.unwrap().status(), 403, "{path}");
        let mut differing = request(&format!("http://{own}{path}"), &message);
        differing.headers_mut().insert("host", "evil.example".parse().unwrap());
        assert_eq!(sender.send_request(differing).await.unwrap().status(), 403, "{path}");
        let mut page = request(&format!("http://{own}{path}"), &message);
        page.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
        assert_eq!(sender.send_request(page).await.unwrap().status(), 403, "{path}");
    }
    assert_eq!(rig.signals.unseen(), None);
}

/// S1-25: what runs over HTTP/2 is finished when the server stops.
#[tokio::test]
async fn http2_is_drained() {
    let mut rig = Rig::start().await;
    let uri = format!("http://{}/mcp", rig.address);
    let mut sender = http2_to(&rig).await;
    let held = tokio::spawn(sender.send_request(request(&uri, &modern_tool(1, "hold", json!({})))));
    rig.signals.expect(Step::Entered).await;
    rig.stopping();
    rig.refuses().await;
    rig.signals.go.notify_one();
    let response = within(held).await.unwrap().unwrap();
    assert_eq!(said(&json_of(response).await), "held");
    drop(sender);
    rig.stopped().await;
}
