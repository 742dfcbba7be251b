//! `cardan listen`: what changes at a server, and what it logs, as it happens.

use cardan_client::Listen;
use cardan_proto::era::Era;
use cardan_proto::model::capability::{ListCapability, ServerCapabilities};
use cardan_proto::session::event::{Change, Delivery, Interest};
use clap::Args;

use crate::args::{Options, Server};
use crate::connect::Connection;
use crate::ear::Ear;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::args::LinesArgs;
use crate::output::tell;
use crate::target::Target;

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan listen [OPTIONS] [WHAT]... -- <COMMAND>...\n       \
                      cardan listen [OPTIONS] <SERVER> [WHAT]...",
    after_help = "\
WHAT is tools, resources, prompts or a resource's address; all three lists when left out. Changes go to stdout, a line each; \
log notes and other notes to stderr, all in the order in which they come. What the server does not tell is named; where it tells no changes but logs, those are shown alone. It ends \
with Ctrl-C, and when the server leaves.

Examples:
  cardan listen https://example.com/mcp
  cardan listen weather tools file:///etc/motd --json
  cardan listen --log-level debug -- cardan demo"
)]
pub(crate) struct ListenArgs {
    /// What to listen to; first the server, unless a command follows `--`
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) lines: LinesArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: ListenArgs) -> Result<(), Failure> {
    let ListenArgs { words, lines: _, options, server } = args;
    let options = options.direct();
    let (target, words) = Target::split(words, server)?;
    let wanted = interest(&words)?;
    let ear = Ear::new(wanted, options.form());
    let connection = Connection::open_listening(&target, &options, ear.clone()).await?;
    let outcome = listen(&connection, &ear).await;
    // Who watches ends the watching: that is no failure.
    match connection.finish(outcome).await {
        Err(failure) if failure.exit() == Exit::Interrupted => Ok(()),
        outcome => outcome,
    }
}

fn interest(words: &[String]) -> Result<Interest, Failure> {
    let all = words.is_empty();
    let mut interest = Interest { tools: all, prompts: all, resources: all, ..Interest::default() };
    for word in words {
        match word.as_str() {
            "tools" => interest.tools = true,
            "prompts" => interest.prompts = true,
            "resources" => interest.resources = true,
            uri if uri.contains(':') => interest.uris.push(uri.into()),
            other => {
                return Err(Failure::usage(format!("`{other}` cannot be listened to"))
                    .next("write tools, resources, prompts or a resource's address"));
            }
        }
    }
    Ok(interest)
}

async fn listen(connection: &Connection, ear: &Ear) -> Result<(), Failure> {
    let offered = offered(ear.wanted(), &connection.client().server().capabilities);
    if offered == Interest::default() {
        return logs(connection, ear).await;
    }
    ear.offered(&offered);
    let mut listen = connection.client().listen(offered);
    let agreed = connection.unless_interrupted(listen.ready()).await?;
    if connection.is_rehearsal() {
        return unsent();
    }
    if ear.stands(&agreed) == Interest::default() {
        return Err(nothing(connection));
    }
    // The ear tells changes where they happen; here they only show that the listen has not ended.
    while tokio::select! {
        change = next(connection, &mut listen) => change?.is_some(),
        ended = ear.ended() => return ended,
    } {}
    match connection.client().ended() {
        Some(cause) => Err(Failure::of_cause(cause).delivered(Delivery::Sent)),
        None => {
            tell("the server has ended the listen");
            Ok(())
        }
    }
}

/// Where no change is told there may be logs: those of the modern era belong to calls, and there are none.
async fn logs(connection: &Connection, ear: &Ear) -> Result<(), Failure> {
    let client = connection.client();
    let logs = client.server().capabilities.logging.is_some();
    if !logs || client.settled().revision.era() == Era::Modern {
        return Err(nothing(connection));
    }
    tell(&format!("{}; its log notes are shown", ear.standing(&Interest::default())));
    if connection.is_rehearsal() {
        return unsent();
    }
    tokio::select! {
        cause = connection.unless_interrupted(async { Ok(client.until_ended().await) }) => Err(Failure::of_cause(cause?)),
        ended = ear.ended() => ended,
    }
}

/// The end of a rehearsal in which nothing was held back: a legacy server tells its lists and logs unasked.
fn unsent() -> Result<(), Failure> {
    tell("no message would be sent: the server tells this unasked");
    Ok(())
}

fn nothing(connection: &Connection) -> Failure {
    Failure::new(Exit::NotFound, "the server tells changes of nothing that was asked for")
        .next(format!("see what it can with `{}`", connection.command("info", "")))
}

/// What of it the server declares to tell.
fn offered(wanted: &Interest, can: &ServerCapabilities) -> Interest {
    let resources = can.resources.as_ref();
    let subscribe = resources.is_some_and(|resources| resources.subscribe == Some(true));
    let tells = |list: Option<&ListCapability>| list.is_some_and(|list| list.list_changed == Some(true));
    Interest {
        tools: wanted.tools && tells(can.tools.as_ref()),
        prompts: wanted.prompts && tells(can.prompts.as_ref()),
        resources: wanted.resources
            && resources.is_some_and(|resources| resources.list_changed == Some(true)),
        uris: if subscribe { wanted.uris.clone() } else { Default::default() },
        ..wanted.clone()
    }
}

async fn next(connection: &Connection, listen: &mut Listen) -> Result<Option<Change>, Failure> {
    connection.unless_interrupted(async { Ok(listen.next().await) }).await
}
