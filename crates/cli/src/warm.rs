//! Whether a command goes through the daemon, and what it has there: a session with a server that runs already.

use std::io;
use std::time::Duration;

use cardan_client::{CallError, Client, Connector};
use cardan_config::Search;
use cardan_gateway::relay::Explain;
use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::finding::{Finding, Strictness};
use cardan_proto::limits::Limits;
use cardan_proto::model::Tool;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Cause, Deadline, Delivery, Stage};
use cardan_transport::socket::SocketLink;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::args::Options;
use crate::cmd::config::variable;
use crate::daemon::dial::{ask, ask_running};
use crate::daemon::place::Place;
use crate::daemon::talk::{Known, PROMPT, Say, Want};
use crate::failure::{Failure, unpack_finding};
use crate::named::Named;
use crate::output::tell;

/// The variable that says whether commands go through the daemon.
const VARIABLE: &str = "CARDAN_DAEMON";

/// Does a command go through the daemon?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The command line says so.
    Said,
    /// It is usual here.
    Usual,
    /// No.
    No,
}

impl Wish {
    /// The command line goes before the variable, and that before the configuration.
    pub(crate) fn of(options: &Options, configured: Option<bool>) -> Self {
        let usual = |on: bool| if on { Self::Usual } else { Self::No };
        match (options.daemon, options.no_daemon) {
            (true, _) => Self::Said,
            (false, true) => Self::No,
            (false, false) => match variable(VARIABLE) {
                Some(said) => usual(!matches!(said.as_str(), "" | "0" | "false" | "no" | "off")),
                None => usual(configured.unwrap_or(false)),
            },
        }
    }

    /// Tells whoever asked for the daemon why it is not used.
    pub(crate) fn cold(self, why: &str) {
        if self == Self::Said {
            tell(&format!("not through the daemon: {why}"));
        }
    }
}

/// A session that goes through the daemon.
pub(crate) struct Warm {
    place: Place,
    search: Search,
    known: Known,
    /// By what failures are known that the daemon tells.
    token: String,
    /// The tool that is to be called, as the server has told of it.
    tool: Option<Tool>,
    /// How long any one call may take.
    deadline: Option<(Deadline, Duration)>,
}

impl Warm {
    /// Opens a session with a server through the daemon; nothing: the way without it is to be taken.
    pub(crate) async fn open(
        named: &Named,
        connector: &Connector,
        limits: &Limits,
        options: &Options,
        tool: Option<&str>,
    ) -> Result<Option<(Client, Self)>, Failure> {
        let wish = Wish::of(options, named.daemon());
        if wish == Wish::No {
            return Ok(None);
        }
        if let Some(why) = aside(options) {
            wish.cold(why);
            return Ok(None);
        }
        let limits = named.bounded(limits, options);
        match timeout(limits.open_timeout, Self::begin(named, connector, &limits, tool)).await {
            Err(_) => Err(Failure::of_cause(Cause::OpenTimeout)),
            Ok(Ok(opened)) => Ok(Some(opened)),
            Ok(Err(why)) => {
                if let Some(why) = why {
                    wish.cold(&why);
                }
                Ok(None)
            }
        }
    }

    /// An error says why it goes the other way, where that is not told by going there.
    async fn begin(
        named: &Named,
        connector: &Connector,
        limits: &Limits,
        tool: Option<&str>,
    ) -> Result<(Client, Self), Option<String>> {
        let place = Place::of(named.search()).map_err(|failure| Some(failure.message().to_owned()))?;
        let known = named.known();
        // Whoever has little time has some left for the other way of knowing.
        let patience = PROMPT.min(limits.open_timeout * 3 / 4);
        let want = Want::Serve { known: known.clone(), tool: tool.map(str::to_owned) };
        let asked = ask(&want, &place, named.search(), patience).await;
        let (stream, said) = asked.map_err(|error| Some(unreached(&error)))?;
        let (revision, greeting, token, tool) = match said {
            Say::Ready { revision, greeting, token, tool } => (revision, greeting, token, tool),
            Say::Cold { why } => return Err(why),
            _ => return Err(Some("it does not answer what was asked".to_owned())),
        };
        let connector = match greeting {
            Some(greeting) => connector.clone().greeted(greeting.into()),
            None => connector.clone(),
        };
        let client = session(stream, &revision, connector, limits).await.map_err(Some)?;
        let bounds =
            [(Deadline::Idle, limits.call_idle_timeout), (Deadline::Total, limits.call_total_timeout)];
        let deadline =
            bounds.into_iter().filter(|(_, after)| !after.is_zero()).min_by_key(|(_, after)| *after);
        let tool = tool.and_then(|told| serde_json::from_str(&told).ok());
        Ok((client, Self { place, search: named.search().clone(), known, token, tool, deadline }))
    }

    /// The tool that is to be called, if the daemon knows it.
    pub(crate) fn tool(&self) -> Option<&Tool> {
        self.tool.as_ref()
    }

    /// Asks the server itself whether it lives: the session ends at the daemon.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let Some((deadline, after)) = self.deadline else { return self.pinged().await };
        let (delivery, stage) = (Delivery::Sent, Stage::Sent);
        let late = || Failure::from(CallError::TimedOut { deadline, after, delivery, stage, seen_bytes: 0 });
        timeout(after, self.pinged()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn pinged(&self) -> Result<(), Failure> {
        let lost = |error: io::Error| Failure::of_cause(Cause::Io(unreached(&error).into()));
        let want = Want::Ping(self.known.clone());
        match ask(&want, &self.place, &self.search, PROMPT).await.map_err(lost)?.1 {
            Say::Alive => Ok(()),
            Say::Failed { failure } => {
                let told = Failure::unpack(&failure);
                Err(told.unwrap_or_else(|| Failure::of_cause(Cause::ClosedByPeer)))
            }
            _ => Err(Failure::of_cause(Cause::ClosedByPeer)),
        }
    }

    /// What the server said last on stderr, and did wrong during a call that was given up, as far as the daemon can tell.
    pub(crate) async fn last_words(&self) -> (Box<str>, Vec<Finding>) {
        match ask_running(&Want::LastWords(self.known.clone()), &self.place).await {
            Ok(Some((_, Say::Words { stderr, found }))) => {
                (stderr.into(), found.iter().filter_map(unpack_finding).collect())
            }
            _ => Default::default(),
        }
    }

    /// What the daemon knows of a call that brought no reply; nothing: it is the server's own word.
    pub(crate) fn failure(&self, error: &CallError) -> Option<Failure> {
        // The link leads to the daemon: what ends there is not the server's own end.
        if let CallError::Lost { cause: Cause::ClosedByPeer | Cause::Io(_), delivery, .. } = error {
            return Some(Failure::of_daemon(error, *delivery, self.place.log().as_deref()));
        }
        let CallError::Fault(fault) = error else { return None };
        let data: Value = serde_json::from_slice(fault.data.as_deref()?).ok()?;
        let told = &data[Explain::MEMBER];
        (told["token"] == self.token).then(|| Failure::unpack(told))?
    }
}

/// A session with a server that a daemon has running; nothing where there is none, and nothing is started for it.
pub(crate) async fn peek(named: &Named) -> Option<Client> {
    let place = Place::of(named.search()).ok()?;
    let (stream, said) = ask_running(&Want::Peek(named.known()), &place).await.ok()??;
    let Say::Ready { revision, .. } = said else { return None };
    let connector = Client::builder("cardan", env!("CARGO_PKG_VERSION"));
    session(stream, &revision, connector, &Limits::DEFAULT).await.ok()
}

/// Opens a session in the revision that the server speaks, so that it is as with the server itself.
async fn session(
    stream: UnixStream,
    revision: &str,
    connector: Connector,
    limits: &Limits,
) -> Result<Client, String> {
    let revision = Revision::parse(revision).ok_or("it is of another make")?;
    let era = match revision.era() {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    };
    let connector = connector.limits(limits.clone()).era(era).revisions(Revisions::only(revision));
    let opened = connector.connect_link(SocketLink::unix(stream, limits)).await;
    opened.map_err(|error| error.to_string())
}

/// What is asked for concerns the session with the server itself, which the daemon has.
fn aside(options: &Options) -> Option<&'static str> {
    match () {
        () if options.era() != EraChoice::Auto => Some("--era is about the session with the server"),
        () if options.strictness() != Strictness::Standard => {
            Some("--strict and --lenient are about the session with the server")
        }
        () if options.verbose => Some("--verbose shows what the server's own process says"),
        () if options.trace => Some("--trace shows what passes between us and the server"),
        () if options.dry_run => Some("--dry-run shows what the server itself would get"),
        () => None,
    }
}

fn unreached(error: &io::Error) -> String {
    format!("it cannot be reached: {error}")
}
