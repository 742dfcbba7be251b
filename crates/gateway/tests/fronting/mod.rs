//! Servers of ours with names of their own, a fleet of them, and a front before it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and a failed step is a failed test"
)]

pub(crate) mod behalf;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cardan_client::{Client, Connector, way};
use cardan_gateway::fleet::{self, Fleet, Making, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::model::form::Form;
use cardan_proto::model::sampling::{CreateMessageParams, SamplingMessage};
use cardan_proto::model::{Prompt, PromptMessage, Resource, ResourceContents, ResourceTemplate};
use cardan_proto::session::event::{Change, LogLevel};
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_runtime::memory::{self, MemoryLink};
use cardan_server::builder::Builder;
use cardan_server::{Cx, Json, Server, Stop, schemars, serde};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::relaying::{Dialled, choice, making, revisions};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Text {
    text: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(crate = "cardan_server::serde")]
#[schemars(crate = "cardan_server::schemars")]
struct Length {
    length: usize,
}

/// What a server and its test tell each other.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    pub(crate) begun: Arc<Notify>,
    pub(crate) dropped: Arc<Notify>,
}

struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A server that says its name with everything.
pub(crate) fn server(name: &'static str, era: Era, stage: &Stage) -> Server {
    let stage = stage.clone();
    let changed = format!("{name}://a");
    let builder = Server::builder(name, "1")
        .instructions(format!("be kind to {name}"))
        .revisions(revisions(era))
        .logging()
        .page_size(3)
        .tool("echo", "says it back", async |args: Text| args.text)
        .tool("who", "tells its name", move || async move { name })
        .tool("length", "measures", async |args: Text| Json(Length { length: args.text.len() }))
        .tool("fault", "faults", async || {
            Err::<String, _>(Stop::from(Fault::new(1234, "so it is").with_data(&json!({"n": 1.5}))))
        })
        .tool("steps", "tells how far it is", move |cx: Cx| async move {
            for step in 1..=20 {
                cx.progress(f64::from(step), Some(20.0), Some(&format!("{name} {step}")));
                tokio::task::yield_now().await;
            }
            Ok::<_, Stop>("done")
        })
        .tool("log", "logs", move |cx: Cx| async move {
            cx.log(LogLevel::Debug, None, &"quiet");
            cx.log(LogLevel::Warning, Some(name), &json!({"n": 1}));
            Ok::<_, Stop>("done")
        })
        .tool("hang", "never ends", move |_: Cx| {
            let stage = stage.clone();
            async move {
                let _told = Told(stage.dropped);
                stage.begun.notify_one();
                std::future::pending::<()>().await;
                Ok::<_, Stop>("never")
            }
        })
        .tool("ask", "asks for everything", move |cx: Cx| async move {
            let answer = cx.elicit("who", &Form::new(format!("{name} asks: who?")).string("name"))?;
            let params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
            let sampled = cx.sample("model", &params)?;
            let roots = cx.roots("roots")?;
            let filled = json!(answer.content.unwrap_or_default())["name"].clone();
            Ok::<_, Stop>(format!("{name} {filled} {} {}", sampled.model, roots[0].uri))
        })
        .tool("update", "tells that its resource changed", move |cx: Cx| {
            let uri = changed.clone();
            async move {
                cx.changed(&Change::Resource(uri.as_str().into()));
                Ok::<_, Stop>("updated")
            }
        })
        .tool("grow", "gets one more tool", move |cx: Cx| async move {
            cx.server().add_tool("more", "came later", move || async move { name });
            Ok::<_, Stop>("grown")
        });
    reading(name, builder).build()
}

/// What there is beside tools.
fn reading(name: &'static str, builder: Builder) -> Builder {
    let uri = format!("{name}://a");
    let read = uri.clone();
    builder
        .resource(Resource::new(uri, name), move |_| {
            let text = ResourceContents::text(read.clone(), format!("hello from {name}"));
            async move { Ok(vec![text]) }
        })
        .template(
            ResourceTemplate::new(format!("{name}://t/{{key}}"), "notes"),
            move |_, variables: cardan_server::Variables, _| async move {
                match variables["key"].as_str() {
                    "none" => Err(Stop::from(Fault::resource_not_found(&format!("{name}://t/none")))),
                    key => {
                        Ok(vec![ResourceContents::text(format!("{name}://t/{key}"), format!("{name} {key}"))])
                    }
                }
            },
        )
        .complete(&format!("{name}://t/{{key}}"), "key", move |typed, _| vec![format!("{typed}-{name}")])
        .prompt(Prompt::new("greet").required("whom", "whom"), move |arguments, _| async move {
            Ok(vec![PromptMessage::user(format!("{name} greets {}", arguments["whom"]))])
        })
        .complete("greet", "whom", move |typed, _| vec![format!("{typed}+{name}")])
}

/// How `server` is reached, as one of a fleet. Every link leads to the same server.
pub(crate) fn spec(name: &str, server: &Server) -> (Spec, Dialled) {
    let server = server.clone();
    let (making, dialled) = making(move |link: MemoryLink| {
        let server = server.clone();
        async move { drop(server.serve(link).await) }
    });
    (Spec::new(name, "http", format!("digest of {name}"), making), dialled)
}

/// The same, of a server that is there when it may be.
pub(crate) fn late(name: &str, server: Server, leave: &Arc<Semaphore>) -> Spec {
    let leave = Arc::clone(leave);
    let way = way(move || {
        let (server, leave) = (server.clone(), Arc::clone(&leave));
        async move {
            leave.acquire().await.unwrap().forget();
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            tokio::spawn(async move { server.serve(theirs).await });
            Ok::<_, Infallible>(ours)
        }
    });
    let making = Making { connector: Client::builder("fleet", "1"), way, policy: Policy::CHILD };
    Spec::new(name, "http", format!("digest of {name}"), making)
}

/// A server that nobody reaches, which is known soon.
pub(crate) fn dead(name: &str) -> Spec {
    let way = way(|| std::future::ready(Err::<MemoryLink, _>(std::io::Error::other("nobody there"))));
    let short = Duration::from_millis(5);
    let backoff = Backoff { min: short, max: short, ..Policy::CHILD.backoff };
    let policy = Policy { backoff, ..Policy::CHILD };
    let making = Making { connector: Client::builder("fleet", "1"), way, policy };
    Spec::new(name, "http", format!("digest of {name}"), making)
}

/// A server that never answers.
pub(crate) fn mute(name: &str) -> Spec {
    let way = way(std::future::pending::<Result<MemoryLink, Infallible>>);
    let making = Making { connector: Client::builder("fleet", "1"), way, policy: Policy::CHILD };
    Spec::new(name, "http", format!("digest of {name}"), making)
}

pub(crate) fn front(specs: Vec<Spec>) -> Front {
    Front::start(Fleet::start(specs, fleet::Options::default()), Options::default())
}

/// Two servers of these eras, `one` and `two`, one that is dead and one that is mute.
pub(crate) fn four(one: Era, two: Era) -> (Front, Stage, Stage) {
    let (first, second) = (Stage::default(), Stage::default());
    let specs = vec![
        dead("dead"),
        spec("one", &server("one", one, &first)).0,
        mute("mute"),
        spec("two", &server("two", two, &second)).0,
    ];
    (front(specs), first, second)
}

/// A client of this era at the front.
pub(crate) async fn at(front: &Front, era: Era, connector: Connector) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let front = front.clone();
    tokio::spawn(async move { front.serve(theirs).await });
    connector.era(choice(era)).connect_link(ours).await.unwrap()
}
