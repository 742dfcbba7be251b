//! Who may come in: hosts, origins, tokens, media types, sizes, and the order in which they are judged.

use std::net::{IpAddr, Ipv4Addr};

use cardan_proto::http::ingress::AcceptRule;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use serde_json::json;

use crate::rig::{JSON, LEGACY, MODERN, Rig, STREAM, initialize, modern_headers, modern_tool};
use crate::wire::Headers;

/// Every route, with the method it has.
const ROUTES: [(&str, &str); 7] = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/message?sessionId=x"),
    ("GET", "/"),
    ("GET", "/.well-known/oauth-protected-resource"),
];

/// T1, HTTP-19, HTTP-2, SSE0-5: a name that is not ours gets 403 on every route, before anything else is
/// looked at.
#[tokio::test]
async fn foreign_hosts_are_refused_on_every_route() {
    let rig = Rig::start().await;
    let port = rig.address.port();
    let foreign = [
        format!("evil.example:{port}"),
        "evil.example".to_owned(),
        format!("localhost.evil:{port}"),
        format!("127.0.0.1.evil:{port}"),
        format!("0.0.0.0:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("[::ffff:9.9.9.9]:{port}"),
        format!("user@127.0.0.1:{port}"),
        "127.0.0.1:port".to_owned(),
        String::new(),
    ];
    for (method, path) in ROUTES {
        for host in &foreign {
            let head = rig.send(method, path, &[("Host", host), JSON], b"").await.head().await;
            assert_eq!(head.status, 403, "{method} {path} as {host:?}");
        }
        let own = format!("127.0.0.1:{port}");
        let head =
            rig.send(method, path, &[("Host", &own), ("Host", "evil.example")], b"").await.head().await;
        assert!(matches!(head.status, 400 | 403), "{method} {path} with two hosts: {}", head.status);
    }
    assert_eq!(rig.signals.unseen(), None);
}

/// T1: the name in an absolute request target counts as well, and must agree with the header.
#[tokio::test]
async fn a_name_in_the_target_must_agree() {
    let rig = Rig::start().await;
    let own = rig.address.to_string();
    for (target, host, want) in [
        (format!("http://evil.example{}", "/mcp"), own.as_str(), 403),
        (format!("http://{own}/mcp"), "evil.example", 403),
        (format!("http://{own}/mcp"), own.as_str(), 405),
    ] {
        let head = rig.send("PUT", &target, &[("Host", host)], b"").await.head().await;
        assert_eq!(head.status, want, "{target} as {host}");
    }
}

/// HTTP-4, T1: a server that binds beyond the loopback address must say by which names it goes.
#[test]
fn a_public_address_needs_names() {
    for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))] {
        let bound = |hosts: &[&str]| Allow::bound::<&str, &str>(address, Ports::Any, hosts, &[]);
        assert!(bound(&[]).is_err() && bound(&["0.0.0.0"]).is_err(), "{address}");
        assert!(bound(&["mcp.example"]).is_ok());
    }
}

/// HTTP-19: the loopback names are ours, however they are written.
#[tokio::test]
async fn local_hosts_are_served() {
    let rig = Rig::start().await;
    let port = rig.address.port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        format!("[::1]:{port}"),
    ] {
        let answer = rig.post(&[("Host", &host)], &initialize(LEGACY)).await.answer().await;
        assert_eq!(answer.status(), 200, "{host}");
    }
}

/// HTTP-2, HTTP-3, T2, SSE0-5: a page of elsewhere gets 403 on every route and no leave to look at the
/// answer; no page at all, our own, and one that is allowed by name are let in.
#[tokio::test]
async fn foreign_origins_are_refused_on_every_route() {
    let rig = Rig::start().await;
    let own = format!("http://{}", rig.address);
    let other_port = format!("http://127.0.0.1:{}", rig.address.port().wrapping_add(1));
    let foreign =
        ["null", "https://evil.example", "http://page.example", "https://page.example.evil", "", &other_port];
    for (method, path) in ROUTES {
        for origin in foreign {
            let head = rig.send(method, path, &[("Origin", origin), JSON], b"").await.head().await;
            assert_eq!(head.status, 403, "{method} {path} from {origin:?}");
            assert!(!head.has("access-control-allow-origin"));
        }
        let headers = [("Origin", own.as_str()), ("Origin", "https://evil.example"), JSON];
        assert_eq!(rig.send(method, path, &headers, b"").await.head().await.status, 403);
        let head = rig.send(method, path, &[("Sec-Fetch-Site", "cross-site"), JSON], b"").await.head().await;
        assert_eq!(head.status, 403, "{method} {path} across sites");
    }
    for origin in [own.as_str(), "https://page.example"] {
        let answer = rig.post(&[("Origin", origin)], &initialize(LEGACY)).await.answer().await;
        assert_eq!(answer.status(), 200, "{origin}");
    }
    let headers = [("Origin", "https://page.example"), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(rig.post(&headers, &initialize(LEGACY)).await.answer().await.status(), 200);
}

/// HTTP-3, T2: a browser lets a page of another origin call us, and read what we answer, where that page is allowed by name: it
/// asks first, without a token. Others are told nothing of the kind.
#[tokio::test]
async fn pages_that_are_allowed_may_read_the_answers() {
    let rig = Rig::start().await;
    let page = ("Origin", "https://page.example");
    let wants = "authorization, content-type, mcp-param-region, mcp-protocol-version, mcp-session-id";
    let asks = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", wants),
        ("Access-Control-Request-Private-Network", "true"),
        ("Sec-Fetch-Site", "cross-site"),
    ];
    for (method, path) in ROUTES {
        let asked = [&[page][..], &asks].concat();
        let head = rig.send("OPTIONS", path, &asked, b"").await.head().await;
        assert_eq!((head.status, head.header("access-control-allow-origin")), (204, page.1), "{path}");
        assert_eq!(head.header("access-control-allow-headers"), wants, "{path}");
        assert_eq!(head.header("access-control-allow-private-network"), "true", "{path}");
        assert_eq!(head.header("vary"), "origin", "{path}");
        for named in ["GET", "POST", "DELETE"] {
            assert!(head.header("access-control-allow-methods").contains(named), "{path}");
        }
        // Whatever the answer is, the page may read it.
        let head = rig.send(method, path, &[page, JSON], b"").await.head().await;
        assert_eq!(head.header("access-control-allow-origin"), page.1, "{method} {path} {}", head.status);
        for origin in ["https://evil.example", "null"] {
            let asked = [&[("Origin", origin)][..], &asks].concat();
            let head = rig.send("OPTIONS", path, &asked, b"").await.head().await;
            assert!(head.status >= 400 && !head.has("access-control-allow-origin"), "{path} {}", head.status);
        }
        let asked = [&[page, ("Host", "evil.example")][..], &asks].concat();
        assert_eq!(rig.send("OPTIONS", path, &asked, b"").await.head().await.status, 403, "{path}");
    }
    let answer = rig.post(&[page], &initialize(LEGACY)).await.answer().await;
    assert_eq!((answer.status(), answer.header("access-control-allow-origin")), (200, page.1));
    assert!(answer.header("access-control-expose-headers").contains("Mcp-Session-Id"));
    let answer = rig.post(&[], &initialize(LEGACY)).await.answer().await;
    assert_eq!((answer.status(), answer.header("access-control-allow-origin")), (200, ""));
}

/// T2, S1-19, S1-C10: a page may post these types without being asked, so none of them is taken.
#[tokio::test]
async fn only_json_is_taken() {
    let rig = Rig::start().await;
    let body = initialize(LEGACY).to_string();
    for path in ["/mcp", "/message?sessionId=x"] {
        for content in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/plain;application/json",
            "",
        ] {
            let answer = rig.ask("POST", path, &[("Content-Type", content)], body.as_bytes()).await;
            assert_eq!(answer.fault(), (415, code::INVALID_REQUEST), "{path} {content:?}");
        }
        let answer = rig.ask("POST", path, &[], body.as_bytes()).await;
        assert_eq!(answer.fault(), (415, code::INVALID_REQUEST), "{path} without a type");
    }
    let answer = rig
        .ask("POST", "/mcp", &[("Content-Type", "Application/JSON; charset=utf-8")], body.as_bytes())
        .await;
    assert_eq!(answer.status(), 200);
}

/// HTTP-7: an endpoint may insist on both types.
#[tokio::test]
async fn both_types_can_be_insisted_on() {
    let rig = Rig::with(Limits::DEFAULT, |options| options.accept(AcceptRule::Both)).await;
    for (accept, want) in
        [("application/json", 406), ("text/event-stream", 406), ("text/event-stream, application/json", 200)]
    {
        let answer = rig.post(&[("Accept", accept)], &initialize(LEGACY)).await.answer().await;
        assert_eq!(answer.status(), want, "{accept}");
    }
}

/// HTTP-5, SEC-8, HTL-30: the token is judged on every route that serves, in both eras; the challenge says
/// where to get one.
#[tokio::test]
async fn tokens_are_judged_on_every_route() {
    let rig = Rig::guarded().await;
    let body = initialize(LEGACY).to_string();
    for (method, path) in [("POST", "/mcp"), ("GET", "/sse"), ("POST", "/message?sessionId=x")] {
        for (authorization, status, error) in [
            (None, 401, ""),
            (Some("Basic YWRhOmFkYQ=="), 401, ""),
            (Some("Bearer wrong"), 401, "error=\"invalid_token\""),
            (Some("Bearer guest"), 403, "error=\"insufficient_scope\""),
        ] {
            let mut headers = vec![JSON];
            headers.extend(authorization.map(|value| ("Authorization", value)));
            let answer = rig.ask(method, path, &headers, body.as_bytes()).await;
            assert_eq!(answer.status(), status, "{method} {path} {authorization:?}");
            let challenge = answer.header("www-authenticate");
            assert!(
                challenge.starts_with("Bearer ") && challenge.contains("resource_metadata="),
                "{challenge}"
            );
            assert!(challenge.contains(error), "{challenge}");
        }
    }
    let message = modern_tool(1, "echo", json!({ "text": "hi" }));
    assert_eq!(rig.modern(&message).await.answer().await.status(), 401);
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Authorization", "bearer  ada"));
    assert_eq!(rig.post(&headers, &message).await.answer().await.status(), 200);
}

/// HTTP-2, HTTP-5: of several things that are wrong, the earliest check speaks: host and origin, method,
/// token, size, media types, JSON, shape, era.
#[tokio::test]
async fn checks_come_in_their_order() {
    let mut limits = Limits::DEFAULT;
    limits.body_bytes = 512;
    let rig = Rig::with(limits, |options| options.verify(crate::rig::people)).await;
    let large = "x".repeat(600);
    let bad_shape = "{}";
    // Each row mends the first thing that is wrong in the row before.
    let table: [(&str, Headers<'_>, &str, u16); 9] = [
        ("PUT", &[("Origin", "null"), ("Accept", "text/html")], &large, 403),
        ("PUT", &[("Accept", "text/html")], &large, 405),
        ("POST", &[("Accept", "text/html")], &large, 401),
        ("POST", &[("Authorization", "Bearer ada"), ("Accept", "text/html")], &large, 413),
        ("POST", &[("Authorization", "Bearer ada"), ("Accept", "text/html")], "{", 415),
        ("POST", &[("Authorization", "Bearer ada"), JSON, ("Accept", "text/html")], "{", 406),
        ("POST", &[("Authorization", "Bearer ada"), JSON], "{", 400),
        ("POST", &[("Authorization", "Bearer ada"), JSON], bad_shape, 400),
        ("POST", &[("Authorization", "Bearer ada"), JSON, ("MCP-Protocol-Version", MODERN)], bad_shape, 400),
    ];
    for (method, headers, body, want) in table {
        let head = rig.send(method, "/mcp", headers, body.as_bytes()).await.head().await;
        assert_eq!(head.status, want, "{method} {headers:?}");
    }
    let good: &[(&str, &str)] = &[("Authorization", "Bearer ada"), JSON];
    assert_eq!(rig.ask("POST", "/mcp", good, b"{").await.fault(), (400, code::PARSE));
    assert_eq!(rig.ask("POST", "/mcp", good, b"{}").await.fault(), (400, code::INVALID_REQUEST));
}

/// T19: a body that announces to be too large is refused before it is sent, one that does not while it is
/// read; either way the rest is not waited for.
#[tokio::test]
async fn large_bodies_are_refused() {
    let rig = Rig::limited(|limits| limits.body_bytes = 1024).await;
    let mut sse = rig.send("GET", "/sse", &[STREAM], b"").await.events().await;
    let address = String::from_utf8(sse.event().await.unwrap().data.to_vec()).unwrap();
    for path in ["/mcp", address.as_str()] {
        let announced = [JSON, ("Content-Length", "1000000000")];
        let mut wire = rig.send("POST", path, &announced, &[b' '; 2048]).await;
        assert_eq!(wire.answer().await.fault(), (413, code::INVALID_REQUEST), "{path}");
        let mut wire = rig.send("POST", path, &[JSON, ("Transfer-Encoding", "chunked")], b"").await;
        wire.send(format!("400\r\n{}\r\n", " ".repeat(1024)).as_bytes()).await;
        wire.send(b"1\r\n \r\n").await;
        assert_eq!(wire.answer().await.fault(), (413, code::INVALID_REQUEST), "{path} in chunks");
    }
}

/// T19: a body just within the bound is read, whole or in pieces.
#[tokio::test]
async fn bodies_within_the_bound_are_read() {
    let message = modern_tool(1, "echo", json!({ "text": "h\u{f6}" })).to_string();
    let rig = Rig::limited(|limits| limits.body_bytes = message.len()).await;
    let headers = modern_headers(&serde_json::from_str(&message).unwrap());
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(JSON);
    assert_eq!(rig.ask("POST", "/mcp", &headers, message.as_bytes()).await.status(), 200);
    headers.push(("Transfer-Encoding", "chunked"));
    let mut wire = rig.send("POST", "/mcp", &headers, b"").await;
    for byte in message.as_bytes() {
        wire.send(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']).await;
    }
    wire.send(b"0\r\n\r\n").await;
    assert_eq!(wire.answer().await.status(), 200);
}

/// T19: a head that is too large gets 431: in all, in one header, in their number.
#[tokio::test]
async fn large_heads_are_refused() {
    let rig = Rig::limited(|limits| limits.head_bytes = 16 << 10).await;
    let body = initialize(LEGACY).to_string();
    let some = "x".repeat(17 << 10);
    let answer = rig.ask("POST", "/mcp", &[JSON, ("X-Large", &some)], body.as_bytes()).await;
    assert_eq!(answer.fault(), (431, code::INVALID_REQUEST));
    for path in ["/sse", "/message?sessionId=x"] {
        let method = if path == "/sse" { "GET" } else { "POST" };
        let head = rig.send(method, path, &[JSON, ("X-Large", &some)], b"").await.head().await;
        assert_eq!(head.status, 431, "{path}");
    }
    let much = "x".repeat(40 << 10);
    let head = rig.send("POST", "/mcp", &[("X-Large", &much)], b"").await.head().await;
    assert_eq!(head.status, 431);
    let many: Vec<_> = (0..200).map(|_| ("X-Many", "x")).collect();
    let head = rig.send("POST", "/mcp", &many, b"").await.head().await;
    assert_eq!(head.status, 431);
}

/// F35, T21: what is no HTTP at all is told so or closed, and the next client is served.
#[tokio::test]
async fn what_is_no_http_harms_nothing() {
    let rig = Rig::start().await;
    for bytes in [&b"\x16\x03\x01\x00\xa5\x01\x00\x00"[..], b"hello\r\n\r\n", b"GET\r\n\r\n"] {
        let mut wire = rig.wire().await;
        wire.send(bytes).await;
        assert_eq!(wire.head().await.status, 400, "{bytes:?}");
        wire.closed().await;
    }
    let mut wire = rig.wire().await;
    wire.send(b"PRI * HTTP/2.0\r\n\r\nno\r\n\r\n, and never will be").await;
    while wire.try_read().await {}
    rig.open(LEGACY).await;
}
