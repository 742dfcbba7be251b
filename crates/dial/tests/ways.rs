//! How a server is reached: redirects, proxies, TLS, headers, bounds, dialects.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Arc;

use cardan_client::{CallError, Client};
use cardan_dial::{Dial, Http, HttpError, Kind};
use cardan_proto::dialect::{CortexForm, Dialect};
use cardan_proto::http::redirect::CrossOrigin;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Wanted};
use cardan_proxy::Proxies;
use cardan_tls::TlsError;
use common::*;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn moved(status: u16, to: &str) -> Say {
    Say::Full(status, vec![("location", to.to_owned())], String::new())
}

/// S1-20, T7: a redirect within the origin takes the message and its headers along; one that leads elsewhere,
/// or loses the message, or never ends, is refused with its reason.
#[tokio::test(start_paused = true)]
async fn redirects_stay_at_home() {
    for (status, to, want) in [
        (307, "/new", Ok(())),
        (308, "http://server.test:80/new", Ok(())),
        (302, "/new", Err("307 or 308")),
        (307, "http://evil.test/mcp", Err("another origin")),
        (308, "https://server.test/new", Err("another origin")),
        (307, "/mcp", Err("too often")),
    ] {
        let stage = Stage::new(move |asked| match asked.target.as_str() {
            "/new" => discovered(asked),
            _ => moved(status, to),
        });
        let http = stage.http().bearer("secret").unwrap();
        let (client, _) = connect_as(&http, EraChoice::Auto, Limits::DEFAULT).await;
        match (client, want) {
            (Ok(_), Ok(())) => {
                let last = stage.asked().pop().unwrap();
                assert_eq!(
                    (last.line().as_str(), last.header("authorization")),
                    ("POST server/discover", Some("Bearer secret"))
                );
            }
            (Err(error), Err(want)) => assert!(error.contains(want), "{to}: {error}"),
            (got, _) => panic!("{to}: {:?}", got.err()),
        }
        assert_eq!(stage.dialled(), ["server.test:80"], "nothing goes elsewhere");
    }
}

/// S1-20, HTL-29: what the user adds is sent, never shown, and never wins over the protocol's own.
#[tokio::test(start_paused = true)]
async fn own_headers_are_sent_and_not_shown() {
    let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
    let http = stage.http_at("http://server.test/mcp?key=hidden");
    let http = http.header("X-Key", "hidden").unwrap().header("MCP-Method", "forged").unwrap();
    let http = http.bearer("hidden").unwrap();
    assert!(!format!("{http:?}").contains("hidden"), "{http:?}");
    connect(&http).await;
    let asked = &stage.asked()[0];
    assert_eq!(asked.header("x-key"), Some("hidden"));
    assert_eq!(asked.header("authorization"), Some("Bearer hidden"));
    assert_eq!(asked.header("mcp-method"), Some("server/discover"));
    for name in ["Host", "content-length", "transfer-encoding", "a b", ""] {
        assert_eq!(http.clone().header(name, "x").unwrap_err(), HttpError::Header { name: name.into() });
    }
    assert!(http.clone().bearer("new\r\nline").is_err());
    assert!(matches!(Http::new("ftp://x/"), Err(HttpError::Url { .. })));
}

/// S0-59: bodies and events beyond the bound are refused before they are kept.
#[tokio::test(start_paused = true)]
async fn answers_are_bounded() {
    for as_events in [false, true] {
        let stage = modern(move |asked| {
            let reply = result(asked, text(&"x".repeat(100_000)));
            if as_events { Say::Events(message(&reply)) } else { Say::Json(reply) }
        });
        let limits = Limits { frame_bytes: 50_000, event_bytes: 50_000, ..Limits::DEFAULT };
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, limits).await;
        let error = client.unwrap().call_tool("t", &json!({})).unwrap().await.unwrap_err();
        assert!(matches!(error, CallError::Violated(_) | CallError::Lost { .. }), "{error}");
        assert!(notebook.has("oversize"), "{:?}", notebook.lines());
    }
}

/// S1-27: a proxy is asked for whole URLs, with its own credentials, and never for this machine.
#[tokio::test(start_paused = true)]
async fn proxies_are_used_for_other_machines() {
    let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
    let proxies = || Proxies::Always("http://user:pw@proxy.test:3128".into());
    connect(&stage.http().proxies(proxies())).await;
    assert_eq!(stage.dialled(), ["proxy.test:3128"]);
    let asked = &stage.asked()[0];
    assert_eq!(asked.target, "http://server.test/mcp");
    assert_eq!(asked.host, "server.test");
    assert_eq!(asked.header("proxy-authorization"), Some("Basic dXNlcjpwdw=="));
    let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
    connect(&stage.http_at("http://127.0.0.1:9/mcp").proxies(proxies())).await;
    assert_eq!(stage.dialled(), ["127.0.0.1:9"]);
}

/// A way to a server that needs `rustls` on the other end.
struct Secure {
    stage: Stage,
    config: Arc<rustls::ServerConfig>,
    tunnel: bool,
}

impl Dial for Secure {
    fn dial(&self, host: &str, port: u16) -> cardan_dial::Dialing {
        let plain = self.stage.dial(host, port);
        let (config, tunnel) = (Arc::clone(&self.config), self.tunnel);
        Box::pin(async move {
            let mut plain = plain.await?;
            let (ours, mut theirs) = tokio::io::duplex(1 << 16);
            tokio::spawn(async move {
                if tunnel {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(theirs.read_u8().await.unwrap());
                    }
                    assert!(head.starts_with(b"CONNECT server.test:443 HTTP/1.1\r\n"));
                    theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                }
                let accepted = tokio_rustls::TlsAcceptor::from(config).accept(theirs).await;
                // A client that does not trust us hangs up.
                if let Ok(mut secure) = accepted {
                    let _ = tokio::io::copy_bidirectional(&mut secure, &mut plain).await;
                }
            });
            Ok(Box::new(ours) as Box<dyn cardan_dial::Stream>)
        })
    }
}

fn certificate(alpn: &[&[u8]]) -> (rustls::ServerConfig, String) {
    let made = rcgen::generate_simple_self_signed(vec!["server.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    (config, made.cert.pem())
}

/// A folder of this test's own.
fn scratch(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("cardan-dial-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// T7: where a GET may be led to another origin, it goes there without anything of ours; a certificate cannot be left
/// behind, so with one it does not go at all.
#[tokio::test(start_paused = true)]
async fn t7_a_certificate_goes_to_no_other_origin() {
    let made = rcgen::generate_simple_self_signed(vec!["client.test".to_owned()]).unwrap();
    let folder = scratch("identity");
    let (certificate, key) = (folder.join("own.pem"), folder.join("own.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let identity = cardan_tls::Identity::read(&certificate, &key).unwrap();
    let shown = cardan_tls::Trust::default().identity(identity);
    for (trust, went) in [(cardan_tls::Trust::default(), true), (shown, false)] {
        let stage = Stage::new(|asked| match (asked.verb.as_str(), asked.method(), asked.host.as_str()) {
            (_, "server/discover", _) => Say::Status(400, ""),
            (_, "initialize", _) => welcome(asked, None),
            ("GET", _, "other.test") => Say::Status(405, ""),
            ("GET", ..) => moved(307, "http://other.test/mcp"),
            _ => Say::Status(202, ""),
        });
        let http = stage.http().cross_origin(CrossOrigin::Strip).trust(trust);
        let _client = connect(&http).await;
        pass(std::time::Duration::from_secs(5)).await;
        assert_eq!(
            stage.dialled().iter().any(|place| place == "other.test:80"),
            went,
            "{:?}",
            stage.dialled()
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// S1-25: a server that offers HTTP/2 gets it: many calls at once share one connection.
#[tokio::test]
async fn http2_carries_many_calls_on_one_connection() {
    let stage = modern(|asked| Say::Json(result(asked, text("ok")))).speaking(Speaks::Http2);
    let (config, pem) = certificate(&[b"h2"]);
    let folder = scratch("h2");
    std::fs::write(folder.join("roots.pem"), pem).unwrap();
    let secure = Secure { stage: stage.clone(), config: Arc::new(config), tunnel: false };
    let http = Http::new("https://server.test/mcp").unwrap().dial(Arc::new(secure)).proxies(Proxies::Direct);
    let client = connect(&http.roots(&folder.join("roots.pem")).unwrap()).await;
    let calls: Vec<_> = (0..50).map(|_| client.call_tool("t", &json!({})).unwrap()).collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(stage.dialled(), ["server.test:443"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// S1-27, S1-C13: certificates are checked against the machine's trust and the user's own file; through a
/// proxy too.
#[tokio::test]
async fn tls_trusts_what_the_user_adds() {
    let (config, pem) = certificate(&[]);
    let folder = scratch("tls");
    let roots = folder.join("roots.pem");
    std::fs::write(&roots, pem).unwrap();
    for tunnel in [false, true] {
        let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
        let secure = Secure { stage: stage.clone(), config: Arc::new(config.clone()), tunnel };
        let proxies = if tunnel { Proxies::Always("http://proxy.test:1".into()) } else { Proxies::Direct };
        let http = Http::new("https://server.test/mcp").unwrap().dial(Arc::new(secure)).proxies(proxies);
        let trusting = http.clone().roots(&roots).unwrap();
        connect(&trusting).await;
        assert_eq!(stage.dialled(), [if tunnel { "proxy.test:1" } else { "server.test:443" }]);
        let (stranger, _) = connect_as(&http, EraChoice::Auto, Limits::DEFAULT).await;
        let error = stranger.unwrap_err();
        assert!(error.contains("certificate") || error.contains("TLS"), "{error}");
    }
    assert!(matches!(trusting_nothing(&folder), Err(HttpError::Tls(TlsError::Unreadable { .. }))));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// S1-27: what is trusted adds up, in whichever order it is said.
#[tokio::test]
async fn s1_27_roots_and_trust_add_up() {
    let (config, pem) = certificate(&[]);
    let folder = scratch("sum");
    let roots = folder.join("roots.pem");
    std::fs::write(&roots, pem).unwrap();
    let (_, other) = certificate(&[]);
    std::fs::write(folder.join("other.pem"), other).unwrap();
    let other = cardan_tls::Trust::default().roots(&folder.join("other.pem")).unwrap();
    for before in [true, false] {
        let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
        let secure = Secure { stage: stage.clone(), config: Arc::new(config.clone()), tunnel: false };
        let http =
            Http::new("https://server.test/mcp").unwrap().dial(Arc::new(secure)).proxies(Proxies::Direct);
        let http = match before {
            true => http.roots(&roots).unwrap().trust(other.clone()),
            false => http.trust(other.clone()).roots(&roots).unwrap(),
        };
        connect(&http).await;
        assert_eq!(stage.dialled(), ["server.test:443"]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn trusting_nothing(folder: &std::path::Path) -> Result<Http, HttpError> {
    Http::new("https://server.test/").unwrap().roots(&folder.join("none.pem"))
}

async fn cortex(stage: &Stage) -> Result<serde_json::Value, CallError> {
    let http = stage.http().kind(Kind::Cortex);
    let client = Client::builder("t", "1").dialect(Dialect::Cortex(CortexForm::Envelope));
    let client = client.connect(async || http.link()).await.unwrap();
    let result = client.call_tool("t", &json!({ "a": 1 }))?.await?;
    Ok(serde_json::to_value(&result.content).unwrap())
}

/// S1-18, S1-21, S1-22, S1-28, S1-29, S1-30, S1-31, S1-32, S1-34, S1-35, S1-C15, S1-C17: the cortex dialect
/// over HTTP: one POST, a reply whole or in parts.
#[tokio::test(start_paused = true)]
async fn cortex_replies_come_whole_or_in_parts() {
    let whole =
        Stage::new(|asked| Say::Json(result(asked, json!({ "content": [{ "type": "text", "text": "a" }] }))));
    assert_eq!(cortex(&whole).await.unwrap(), json!([{ "type": "text", "text": "a" }]));
    assert_eq!(whole.lines(), ["POST tools/call"], "no handshake, no probe, no push lane");
    assert_eq!(whole.asked()[0].header("mcp-protocol-version"), None);
    assert_eq!(whole.asked()[0].body["params"], json!({ "name": "t", "arguments": { "a": 1 } }));
    let part = |text: &str| {
        format!(
            ": beat\n\nevent: result\ndata: {}\n\n",
            json!({ "content": [{ "type": "text", "text": text }] })
        )
    };
    let in_parts = Stage::new(move |_| Say::Events(part("a") + &part("b")));
    let both = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
    assert_eq!(cortex(&in_parts).await.unwrap(), both, "the last part is the end");
    let completed = Stage::new(move |asked| {
        let all = result(asked, json!({ "content": [{ "type": "text", "text": "ab" }] }));
        Say::Events(part("a") + &part("b") + &format!("event: complete\ndata: {all}\n\n"))
    });
    assert_eq!(cortex(&completed).await.unwrap(), json!([{ "type": "text", "text": "ab" }]));
    let cut = Stage::new(move |_| Say::Cut(part("a")));
    assert!(matches!(cortex(&cut).await, Err(CallError::Lost { .. })), "a part of a reply is none");
}

/// S1-31: each part of a cortex reply is told as progress, so that it puts off the idle deadline and the caller
/// sees the work go on.
#[tokio::test(start_paused = true)]
async fn s1_31_parts_of_a_cortex_reply_are_progress() {
    let part = |text: &str| {
        format!("event: result\ndata: {}\n\n", json!({ "content": [{ "type": "text", "text": text }] }))
    };
    let stage = Stage::new(move |_| {
        let (tell, live) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            for text in ["a", "b", "c"] {
                pass(std::time::Duration::from_secs(20)).await;
                tell.send(part(text)).unwrap();
            }
        });
        Say::Live(live)
    });
    let http = stage.http().kind(Kind::Cortex);
    let builder = Client::builder("t", "1").dialect(Dialect::Cortex(CortexForm::Envelope));
    let notebook = Notebook::default();
    let seen = notebook.clone();
    let client = builder.observe(move |event| seen.write(event)).connect(async || http.link()).await.unwrap();
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut running = client.call_tool_with("t", &json!({}), options).unwrap();
    let mut told = Vec::new();
    while let Some(progress) = running.progress().await {
        told.push(progress.progress);
    }
    assert_eq!(told, [1.0, 2.0, 3.0]);
    assert_eq!(running.await.unwrap().content.len(), 3);
    // Who did not ask is not bothered, and the parts are signs of life all the same.
    assert_eq!(client.call_tool("t", &json!({})).unwrap().await.unwrap().content.len(), 3);
    assert!(!notebook.has("progress-unknown"), "{:?}", notebook.lines());
}

/// S1-23, S1-33, S1-C11: errors of the cortex dialect, as event, as body and as bare status.
#[tokio::test(start_paused = true)]
async fn cortex_errors_are_told() {
    let event =
        Stage::new(|asked| Say::Events(format!("event: error\ndata: {}\n\n", fault(asked, -32000, "no"))));
    assert!(matches!(cortex(&event).await, Err(CallError::Fault(fault)) if fault.code == -32000));
    let body = Stage::new(|asked| Say::Full(500, vec![], fault(asked, -32001, "no").to_string()));
    assert!(matches!(cortex(&body).await, Err(CallError::Fault(fault)) if fault.code == -32001));
    let bare = Stage::new(|_| Say::Status(502, "bad gateway"));
    let error = cortex(&bare).await.unwrap_err();
    assert!(error.to_string().contains("502") && error.to_string().contains("bad gateway"), "{error}");
}

/// S2-6, S2-8, S2-9: the tutorial dialect: a stream that announces nothing, messages with `x-client-id`, bare
/// data events.
#[tokio::test(start_paused = true)]
async fn the_tutorial_dialect_posts_beside_its_stream() {
    let lane = std::sync::Mutex::new(None::<tokio::sync::mpsc::UnboundedSender<String>>);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.target.as_str()) {
        ("GET", "/sse") => {
            let (tell, live) = tokio::sync::mpsc::unbounded_channel();
            *lane.lock().unwrap() = Some(tell);
            Say::Live(live)
        }
        ("POST", "/message") => {
            assert_eq!(asked.header("x-client-id"), Some("7"));
            let reply = match asked.method() {
                "initialize" => json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "old", "version": "1" } }),
                _ => json!({ "content": [] }),
            };
            if asked.body.get("id").is_some() {
                lane.lock().unwrap().as_ref().unwrap().send(message(&result(asked, reply))).unwrap();
            }
            Say::Full(
                202,
                vec![("content-type", "application/json".into())],
                "{\"status\":\"accepted\"}".into(),
            )
        }
        other => panic!("{other:?}"),
    });
    let kind = Kind::Tutorial { post: "/message".into(), client_id: Some("7".into()) };
    let http = stage.http_at("http://server.test/sse").kind(kind);
    let client = Client::builder("t", "1").dialect(Dialect::Tutorial);
    let client = client.connect(async || http.link()).await.unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert_eq!(stage.lines(), ["GET", "POST initialize", "POST initialized", "POST tools/call"]);
    client.close("done").await;
    assert_eq!(stage.of("shutdown").len(), 1);
    let foreign = Kind::Tutorial { post: "http://evil.test/".into(), client_id: None };
    assert!(stage.http().kind(foreign).link().is_err());
}
