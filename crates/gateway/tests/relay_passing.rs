//! What passes a relay is not changed, not understood and not made up; and what is lost is told.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_client::CallError;
use cardan_gateway::relay::{Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{Answer, CallOptions, Called, Change, Event, Interest};
use cardan_runtime::cx::CallCx;
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::{Handler, Service};
use cardan_server::{Cx, Server, Stop};
use relaying::{CELLS, Cell, choice, connect, making, plain, relay, revisions, soon, text};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Answers every call with its own params, and keeps what it is told.
struct Mirror {
    notes: mpsc::UnboundedSender<Note>,
}

impl Service for Mirror {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        cx.peer()
            .note(Method::Other("notifications/custom".into()), Some(Bytes::from_static(b"{\"n\":2.50}")));
        let raw = called.call.params.raw().cloned().unwrap_or_else(|| Bytes::from_static(b"{}"));
        let answer = match called.call.method.name() {
            "custom/fault" => {
                let data = Some(Bytes::from_static(b"{\"n\":1.50}"));
                Answer::Fault(Fault { code: 7, message: "seven".into(), data })
            }
            _ => Answer::Done(raw),
        };
        Box::pin(std::future::ready(answer))
    }

    fn note(&self, note: Note) {
        let _ = self.notes.send(note);
    }
}

async fn mirror(era: Era) -> (Relay, mpsc::UnboundedReceiver<Note>) {
    let (notes, told) = mpsc::unbounded_channel();
    let identity = Bytes::from_static(b"{\"name\":\"mirror\",\"version\":\"1\",\"odd\":1.50}");
    let mut config = Config::new(
        Role::Server,
        identity,
        Bytes::from_static(b"{\"tools\":{},\"experimental\":{\"x\":{}}}"),
    );
    config.revisions = revisions(era);
    let config = Arc::new(config);
    let (making, _) = making(move |link| {
        let service = Arc::new(Mirror { notes: notes.clone() });
        let (driver, _) = Driver::new(link, service, Arc::clone(&config));
        async move { drop(driver.await) }
    });
    (Relay::start(making, Options::default()).await.unwrap(), told)
}

/// S0-72, BASE-33: payloads cross byte for byte: spelling of numbers, order, unknown members and unknown methods.
#[tokio::test]
async fn payloads_cross_byte_for_byte() {
    const ODD: &str =
        r#""z":1.50,"a":[1e2,-0.0],"name":"x","big":123456789012345678901234567890,"\u00e9":"\u00e9""#;
    for cell in CELLS {
        let (relay, _told) = mirror(cell.server).await;
        let client = connect(&relay, cell.client, plain()).await;
        let greeting = client.settled().greeting.clone().unwrap();
        let greeting = String::from_utf8_lossy(&greeting);
        assert!(
            greeting.contains(r#""odd":1.50"#) && greeting.contains(r#""experimental":{"x":{}}"#),
            "{cell:?}"
        );
        for method in [Method::ToolsCall, Method::Other("custom/thing".into())] {
            let params = Bytes::from(format!("{{{ODD}}}"));
            let raw = client.raw(method, Some(params), CallOptions::default()).await.unwrap();
            let raw = String::from_utf8_lossy(&raw);
            assert!(raw.contains(ODD), "{cell:?} {raw}");
        }
        let odd = Method::Other("custom/fault".into());
        let error = client.raw(odd, None, CallOptions::default()).await.unwrap_err();
        let CallError::Fault(fault) = error else { panic!("{cell:?} {error}") };
        assert_eq!(
            (fault.code, &*fault.message, fault.data.unwrap()),
            (7, "seven", Bytes::from_static(b"{\"n\":1.50}"))
        );
    }
}

/// Notes that nobody here knows pass between legacy sides, both ways.
#[tokio::test]
async fn unknown_notes_pass() {
    let (relay, mut told) = mirror(Era::Legacy).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (kept, news) = (Arc::clone(&heard), Arc::new(Notify::new()));
    let rung = Arc::clone(&news);
    let connector = plain().observe(move |event| {
        if let Event::Noted(note) = event {
            kept.lock().unwrap().push((note.method.to_string(), note.params.raw().cloned()));
            rung.notify_one();
        }
    });
    let client = connect(&relay, Era::Legacy, connector).await;
    client.raw(Method::ToolsCall, None, CallOptions::default()).await.unwrap();
    client.note(Method::Other("notifications/mine".into()), Some(Bytes::from_static(b"{\"n\":1.50}")));
    let note = soon("the note", told.recv()).await.unwrap();
    assert_eq!(
        (note.method.name(), note.params.raw().unwrap().as_ref()),
        ("notifications/mine", br#"{"n":1.50}"#.as_slice())
    );
    soon("a note", news.notified()).await;
    let expected = ("notifications/custom".to_owned(), Some(Bytes::from_static(b"{\"n\":2.50}")));
    assert_eq!(heard.lock().unwrap()[0], expected);
    client.roots_changed();
    assert_eq!(soon("roots", told.recv()).await.unwrap().method, Method::RootsListChanged);
}

/// Answers no call, and keeps why it need not.
struct Waiting {
    begun: Arc<Notify>,
    reasons: mpsc::UnboundedSender<Box<str>>,
}

impl Service for Waiting {
    fn call(&self, _: CallCx, _: Called) -> Handler<Answer> {
        self.begun.notify_one();
        Box::pin(std::future::pending())
    }

    fn event(&self, event: &Event) {
        if let Event::Withdrawn { reason, .. } = event {
            let _ = self.reasons.send(reason.clone());
        }
    }
}

/// S0-87, CAN-9: why a client gives up a call is what its server reads, as the client wrote it and up to a bound. Where the
/// client leaves without a word, the words are ours.
#[tokio::test]
async fn s0_87_the_reason_of_a_cancel_crosses() {
    let long: &'static str = "\u{e9}".repeat(1000).leak();
    for cell in CELLS {
        let (begun, (reasons, mut told)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
        let service = Arc::new(Waiting { begun: Arc::clone(&begun), reasons });
        let identity = Bytes::from_static(b"{\"name\":\"waiting\",\"version\":\"1\"}");
        let mut config = Config::new(Role::Server, identity, Bytes::from_static(b"{\"tools\":{}}"));
        config.revisions = revisions(cell.server);
        let config = Arc::new(config);
        let (making, _) = making(move |link| {
            let (driver, _) = Driver::new(link, Arc::clone(&service), Arc::clone(&config));
            async move { drop(driver.await) }
        });
        let options = Options { isolation: cell.isolation, ..Options::default() };
        let relay = Relay::start(making, options).await.unwrap();
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let served = relay.clone();
        let serving = tokio::spawn(async move { served.serve(theirs).await });
        let client = plain().era(choice(cell.client)).connect_link(ours).await.unwrap();
        let start = || {
            client.start(
                Method::ToolsCall,
                Some(Bytes::from_static(b"{\"name\":\"x\"}")),
                CallOptions::default(),
            )
        };
        for (given, expected) in [
            ("the user said \"stop\"\n", "the user said \"stop\"\n"),
            (long, &long[..Limits::DEFAULT.reason_bytes]),
        ] {
            let call = start();
            soon("begun", begun.notified()).await;
            call.cancel(given);
            assert_eq!(&*soon("the reason", told.recv()).await.unwrap(), expected, "{cell:?}");
        }
        let _left = start();
        soon("begun", begun.notified()).await;
        serving.abort();
        assert_eq!(&*soon("the reason", told.recv()).await.unwrap(), "the caller lost interest", "{cell:?}");
    }
}

/// A server whose tool never ends, and one that counts.
fn fragile(era: Era, begun: &Arc<Notify>, runs: &Arc<AtomicUsize>) -> Server {
    let (begun, runs) = (Arc::clone(begun), Arc::clone(runs));
    Server::builder("fragile", "1")
        .revisions(revisions(era))
        .tool("hang", "never ends", move |_: Cx| {
            runs.fetch_add(1, Ordering::SeqCst);
            begun.notify_one();
            async { std::future::pending::<Result<String, Stop>>().await }
        })
        .tool("echo", "works", async || "here")
        .build()
}

/// S0-73: a call that is lost with the upstream says that it may have been executed and is not made twice;
/// the next one finds the upstream again, and listens stand again.
#[tokio::test(start_paused = true)]
async fn a_crash_is_told_and_healed() {
    for cell in CELLS {
        let (begun, runs) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let server = fragile(cell.server, &begun, &runs);
        let (relay, dialled) = relay(&server).await;
        let client = connect(&relay, cell.client, plain()).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        soon("ready", listen.ready()).await.unwrap();
        let call = client.call_tool("hang", &json!({})).unwrap();
        begun.notified().await;
        dialled.crash();
        let error = soon("the loss", call).await.unwrap_err();
        let CallError::Fault(fault) = error else { panic!("{cell:?} {error}") };
        let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
        assert_eq!((&data["outcome"], &data["mayHaveExecuted"]), (&json!("lost"), &json!(true)), "{cell:?}");
        assert_eq!(text(&client, "echo", json!({})).await, "here", "{cell:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{cell:?}");
        server.add_tool("more", "came later", async || "more");
        while soon("a change", listen.next()).await.unwrap() != Change::Tools {}
    }
}

/// The client's own capabilities are what the server sees, and nothing more.
#[tokio::test]
async fn servers_see_what_the_client_declared() {
    for Cell { client, server, isolation } in CELLS {
        let behind = Server::builder("caps", "1")
            .revisions(revisions(server))
            .tool("caps", "tells", |cx: Cx| async move {
                let caps = cx.client();
                Ok::<_, Stop>(format!("{} {} {} {}", caps.form, caps.url, caps.sampling, caps.roots))
            })
            .build();
        let (relay, _) = relaying::relay_sharing(&behind, isolation).await;
        let all = connect(&relay, client, relaying::answering("ada")).await;
        assert_eq!(text(&all, "caps", json!({})).await, "true true true true", "{client:?} {server:?}");
        let none = connect(&relay, client, plain()).await;
        assert_eq!(text(&none, "caps", json!({})).await, "false false false false", "{client:?} {server:?}");
    }
}

/// Legacy clients beyond the bound are told to come later; when one leaves, another may come.
#[tokio::test]
async fn guests_are_bounded() {
    let (begun, runs) = (Arc::default(), Arc::default());
    let options = Options { guests: 1, ..Options::default() };
    let (relay, _) = relaying::relay_with(&fragile(Era::Legacy, &begun, &runs), options).await;
    let first = connect(&relay, Era::Legacy, plain()).await;
    assert_eq!(text(&first, "echo", json!({})).await, "here");
    let second = connect(&relay, Era::Legacy, plain()).await;
    let busy = second.call_tool("echo", &json!({})).unwrap().await.unwrap_err();
    assert!(busy.to_string().contains("too many clients"), "{busy}");
    first.close("done").await;
    let third = soon("a seat", async {
        loop {
            let third = connect(&relay, Era::Legacy, plain()).await;
            if third.call_tool("echo", &json!({})).unwrap().await.is_ok() {
                return third;
            }
            tokio::task::yield_now().await;
        }
    });
    third.await;
}

/// After a loss the upstream may be another: sessions to come are told what it says of itself now.
#[tokio::test]
async fn what_the_upstream_says_of_itself_is_read_again() {
    use cardan_proto::upkeep::policy::{Backoff, Policy};
    for cell in CELLS {
        let dials = Arc::new(AtomicUsize::new(0));
        let (mut making, dialled) = making(move |link| {
            let name = format!("version {}", dials.fetch_add(1, Ordering::SeqCst));
            let server = Server::builder(name, "1").revisions(revisions(cell.server));
            let server = server.tool("who", "tells", async || "me").build();
            async move { drop(server.serve(link).await) }
        });
        let (min, max) = (std::time::Duration::from_millis(1), std::time::Duration::from_millis(5));
        making.policy = Policy { backoff: Backoff { min, max, attempts: 100 }, ..Policy::CHILD };
        let relay = Relay::start(making, Options::default()).await.unwrap();
        let name = |client: &cardan_client::Client| client.server().implementation.unwrap().name;
        assert_eq!(name(&connect(&relay, cell.client, plain()).await), "version 0");
        dialled.crash();
        soon("the new one", async {
            while name(&connect(&relay, cell.client, plain()).await) == "version 0" {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
