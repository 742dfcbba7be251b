//! Servers behind a front that refuse, stay silent or die: what their clients are told, and what others notice.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client, way};
use cardan_gateway::fleet::{Health, Making, Spec};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::model::tool::CallToolResult;
use cardan_proto::secret::{Redactor, Secret};
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, CallOptions, Called, Cause, Change, Interest, Rounds, Wanted};
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_runtime::cx::CallCx;
use cardan_runtime::memory;
use cardan_runtime::service::{Handler, Service};
use cardan_server::{Cx, Server, Stop};
use fronting::{at, front, spec};
use relaying::{answering, making_legacy, plain, revisions, soon};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

const TOKEN: &str = "tok-1234567890";

/// A server with one tool.
fn small(name: &'static str) -> Server {
    Server::builder(name, "1").tool("who", "tells its name", move || async move { name }).build()
}

/// A call whose caller waits as good as for ever.
async fn patient(client: &Client, tool: &str) -> Result<CallToolResult, CallError> {
    let never = Some(Duration::ZERO);
    let options = CallOptions { idle: never, total: never, progress: Wanted::Yes, ..CallOptions::default() };
    let call = client.call_tool_with(tool, &json!({}), options).unwrap();
    tokio::time::timeout(Duration::from_secs(3600), call).await.expect("it ends within an hour")
}

/// A server that is configured with a time for its calls has that long in silence, however long the client waits; what
/// tells how far it is may go on.
#[tokio::test(start_paused = true)]
async fn silence_is_bounded_where_the_server_says_so() {
    for era in ERAS {
        for upstream in ERAS {
            let server = Server::builder("slow", "1")
                .revisions(revisions(upstream))
                .tool("hang", "never ends", |_: Cx| std::future::pending::<Result<String, Stop>>())
                .tool("steps", "takes a while", |cx: Cx| async move {
                    for step in 1..=5 {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        cx.progress(f64::from(step), None, None);
                    }
                    Ok::<_, Stop>("done")
                })
                .build();
            let mut slow = spec("slow", &server).0;
            slow.call_timeout = Some(Duration::from_secs(90));
            let front = front(vec![slow]);
            let client = at(&front, era, plain()).await;
            let told = patient(&client, "slow__hang").await.unwrap_err().to_string();
            assert!(told.contains("did not answer in time"), "{era:?} {upstream:?} {told}");
            let done = patient(&client, "slow__steps").await.unwrap();
            assert_eq!(done.content[0].as_text(), Some("done"), "{era:?} {upstream:?}");
        }
    }
}

/// A parked call whose server dies, or whose client stays away, leaves its place to others.
#[tokio::test(start_paused = true)]
async fn a_parked_call_leaves_its_place() {
    for crash in [true, false] {
        let server = Server::builder("asking", "1")
            .revisions(revisions(Era::Legacy))
            .tool("ask", "asks", |cx: Cx| async move {
                cx.elicit("who", &Form::new("who?").string("name"))?;
                Ok::<_, Stop>("done")
            })
            .tool("who", "tells its name", async || "asking")
            .build();
        let (mut asking, dialled) = spec("asking", &server);
        asking.concurrency = Some(1);
        let front = front(vec![asking]);
        let client = at(&front, Era::Modern, answering("ada")).await;
        let params = Bytes::from(json!({"name": "asking__ask", "arguments": {}}).to_string());
        let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
        let asked = client.raw(Method::ToolsCall, Some(params), options).await.unwrap();
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        if crash {
            dialled.crash();
        }
        let began = Instant::now();
        let done = loop {
            match patient(&client, "asking__who").await {
                // It waited for a place as long as one does.
                Err(CallError::Fault(fault)) if fault.code == code::BUSY => {}
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(done.content[0].as_text(), Some("asking"));
        let ttl = Limits::DEFAULT.request_state_ttl;
        assert!(began.elapsed() <= if crash { ttl / 2 } else { ttl }, "{:?}", began.elapsed());
    }
}

/// A legacy server that lists one resource, refuses all but that, and may have another that it does not list.
struct Refusing(Option<&'static str>);

impl Service for Refusing {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        let answer = match called.call.method {
            Method::ResourcesList => {
                Answer::Done(Bytes::from_static(b"{\"resources\":[{\"uri\":\"x://a\",\"name\":\"a\"}]}"))
            }
            Method::ResourcesTemplatesList => Answer::Done(Bytes::from_static(b"{\"resourceTemplates\":[]}")),
            Method::ResourcesRead if called.call.params.text(Param::Uri).as_deref() == self.0 => {
                Answer::Done(Bytes::from_static(b"{\"contents\":[{\"uri\":\"y://b\",\"text\":\"here\"}]}"))
            }
            _ => Answer::Fault(Fault::internal("this is refused")),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn refusing(capabilities: &str) -> Spec {
    lone("refusing", capabilities, Refusing(None))
}

fn lone(name: &str, capabilities: &str, service: Refusing) -> Spec {
    let capabilities = serde_json::from_str(capabilities).unwrap();
    let (making, _) = making_legacy(service, name, &capabilities, Interests::Kept);
    Spec::new(name, "http", format!("digest of {name}"), making)
}

/// What cannot be listened to is not told as changed, whatever happens to other servers.
#[tokio::test]
async fn nothing_is_told_of_what_is_not_listened_to() {
    for capabilities in ["{\"resources\":{}}", "{\"resources\":{\"subscribe\":true}}"] {
        let mut specs = vec![refusing(capabilities)];
        let front = front(specs.clone());
        let client = at(&front, Era::Modern, plain()).await;
        soon("resources", client.all_resources()).await.unwrap();
        let interest = Interest { tools: true, uris: vec!["x://a".into()], ..Interest::default() };
        let mut listen = client.listen(interest);
        soon("ready", listen.ready()).await.unwrap();
        for name in ["one", "two", "three"] {
            specs.push(spec(name, &small(name)).0);
            front.fleet().reload(specs.clone()).await;
            let told = soon("a change", listen.next()).await;
            assert_eq!(told, Some(Change::Tools), "{capabilities} {name}");
        }
        front.end("done").await;
    }
}

/// A server that has no lists is not waited for: neither for the list nor for the call.
#[tokio::test(start_paused = true)]
async fn a_server_without_lists_is_not_waited_for() {
    let front = front(vec![spec("bare", &Server::builder("bare", "1").build()).0]);
    for era in ERAS {
        let client = at(&front.alone("bare").unwrap(), era, plain()).await;
        let began = Instant::now();
        let unknown = patient(&client, "who").await.unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_secs(5), "{era:?} {:?} {unknown}", began.elapsed());
    }
}

/// What no server lists is read where it is, whatever those say who do not have it.
#[tokio::test]
async fn a_guess_that_fails_leads_to_the_next() {
    let having = Refusing(Some("y://b"));
    let resources = "{\"resources\":{}}";
    let front = front(vec![refusing(resources), lone("having", resources, having)]);
    for era in ERAS {
        let client = at(&front, era, plain()).await;
        let read = soon("read", client.read("y://b")).await.unwrap();
        assert_eq!(serde_json::to_value(read).unwrap()["contents"][0]["text"], "here", "{era:?}");
        let none = soon("read", client.read("x://a")).await.unwrap_err();
        assert!(none.to_string().contains("this is refused"), "who lists it is believed: {none}");
    }
    front.end("done").await;
}

/// What a server quotes of our credentials when it refuses us is told to no client.
#[tokio::test(start_paused = true)]
async fn secrets_reach_no_client() {
    let dials = AtomicUsize::new(0);
    let way = way(move || {
        std::future::ready(match dials.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let (ours, theirs) = memory::pair(&Limits::DEFAULT);
                tokio::spawn(async move { small("one").serve(theirs).await });
                Ok(ours)
            }
            _ => Err(std::io::Error::other(format!("Incorrect API key: {TOKEN}"))),
        })
    });
    let making = Making { connector: Client::builder("gateway", "1"), way, policy: Policy::CHILD };
    let mut spec = Spec::new("one", "http", "digest of one", making);
    spec.secrets = Redactor::new([Secret::new(TOKEN)]);
    let front = front(vec![spec]);
    // A legacy client needs a session of its own.
    let client = at(&front, Era::Legacy, plain()).await;
    let told = patient(&client, "one__who").await.unwrap_err().to_string();
    assert!(told.contains("Incorrect API key"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
}

/// S0-79, F14: a server that was given up is started again by a later call, and whoever called in vain is told so.
#[tokio::test(start_paused = true)]
async fn s0_79_a_later_call_starts_what_was_given_up() {
    let (broken, serving) =
        (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Option<JoinHandle<Cause>>>>::default());
    let (breaks, runs) = (Arc::clone(&broken), Arc::clone(&serving));
    let way = way(move || {
        std::future::ready(match breaks.load(Ordering::SeqCst) {
            true => Err(std::io::Error::other("no luck")),
            false => {
                let (ours, theirs) = memory::pair(&Limits::DEFAULT);
                let task = tokio::spawn(async move { small("one").serve(theirs).await });
                *runs.lock().unwrap() = Some(task);
                Ok(ours)
            }
        })
    });
    let backoff = Backoff { attempts: 0, ..Policy::CHILD.backoff };
    let policy = Policy { backoff, quiet: None, ..Policy::CHILD };
    let making = Making { connector: Client::builder("gateway", "1"), way, policy };
    let front = front(vec![Spec::new("one", "http", "digest of one", making)]);
    let client = at(&front, Era::Modern, plain()).await;
    patient(&client, "one__who").await.unwrap();
    let mut events = front.fleet().events();
    broken.store(true, Ordering::SeqCst);
    serving.lock().unwrap().take().unwrap().abort();
    while front.fleet().status()[0].health != Health::Kept(Condition::Suspended { until: None }) {
        events.recv().await.unwrap();
    }
    let told = patient(&client, "one__who").await.unwrap_err().to_string();
    assert!(told.contains("no luck") && told.contains("mend it; a later call starts it again"), "{told}");
    broken.store(false, Ordering::SeqCst);
    patient(&client, "one__who").await.unwrap_err();
    tokio::time::sleep(policy.backoff.max).await;
    patient(&client, "one__who").await.unwrap();
}
