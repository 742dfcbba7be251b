//! The command line: every command, option and example.

mod later;
mod serving;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use cardan_proto::era::Revision;
use cardan_proto::finding::Strictness;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::LogLevel;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub(crate) use self::later::Later;
pub(crate) use self::serving::{BridgeArgs, DemoArgs, Listening, ServeArgs};
use crate::cmd::complete::CompleteArgs;
use crate::cmd::completions::CompletionsArgs;
use crate::cmd::config::args::ConfigArgs;
use crate::cmd::daemon::args::DaemonArgs;
use crate::cmd::key::KeyArgs;
use crate::cmd::listen::ListenArgs;
use crate::cmd::manual::ManualArgs;
use crate::cmd::pin::PinArgs;
use crate::cmd::ping::PingArgs;
use crate::cmd::raw::RawArgs;
use crate::cmd::search::SearchArgs;
use crate::cmd::servers::args::ServersArgs;
use crate::home::path;
use crate::look::Tagging;
use crate::look::args::{ContentArgs, LookArgs, OUTPUT, asked};
use crate::output::Form;
use crate::warm::Wish;

/// Speaks the Model Context Protocol with any server, of any revision.
#[derive(Debug, Parser)]
#[command(name = "cardan", version, long_version = VERSION.as_str(), after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `--version` says; `-V` says the first line of it.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let dates = Revision::ALL.map(|revision| {
        let era = format!("{:?}", revision.era()).to_lowercase();
        format!("{} ({era})", revision.date())
    });
    format!("{}\nrevisions: {}", env!("CARGO_PKG_VERSION"), dates.join(", "))
});

/// Longer lines of prose are hard to read, however wide a terminal is.
const MAX_HELP_COLUMNS: usize = 100;

impl Cli {
    /// Reads the command line. Help and errors are in the colours that it asks for.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::command().max_term_width(MAX_HELP_COLUMNS).color(asked(words).into());
        let matches = command.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

const EXAMPLES: &str = "\
Examples:
  cardan serve
  cardan bridge -- npx -y some-server
  cardan bridge --stdio https://example.com/mcp
  cardan list -- cardan demo
  cardan call echo message=hi -- cardan demo
  cardan call add a=2 b=3 --json -- cardan demo
  cardan read demo://clock -- cardan demo
  cardan info unix:///run/user/1000/demo.sock
  cardan list https://example.com/mcp --bearer-env TOKEN
  cardan call weather forecast city=Bonn
  cardan info ws://127.0.0.1:2273/ws
  cardan config import --from claude-code
  cardan servers --watch

Exit codes:
  0 ok, 1 usage or not written, 3 not authorized, 4 unreachable,
  5 tool error or not found, 10 JSON-RPC error, 11 protocol violation,
  12 timeout, 13 server exited, 14 input required, 130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Call a tool and print its result
    Call(Later<CallArgs>),
    /// List tools, resources, templates and prompts
    List(Later<ListArgs>),
    /// Read a resource
    Read(Later<ReadArgs>),
    /// Fill in a prompt
    Prompt(Later<PromptArgs>),
    /// Show what a server is and can do
    Info(Later<InfoArgs>),
    /// Show what a server proposes for an argument
    Complete(Later<CompleteArgs>),
    /// Show changes and log notes of a server as they come
    Listen(Later<ListenArgs>),
    /// Ask a server whether it lives
    Ping(Later<PingArgs>),
    /// Call any method
    Raw(Later<RawArgs>),
    /// Serve all configured servers as one, or the built-in demo server, by every transport at once
    Serve(Later<ServeArgs>),
    /// Put one server behind another transport, for clients of every revision
    Bridge(Later<BridgeArgs>),
    /// Serve the built-in demo server over stdin and stdout, or a socket
    Demo(Later<DemoArgs>),
    /// Show and change which servers are configured, here and in other tools
    Config(Later<ConfigArgs>),
    /// Start the configured servers and show how each stands
    Servers(Later<ServersArgs>),
    /// Find tools, prompts and resources across all configured servers
    Search(Later<SearchArgs>),
    /// Show and approve tools that have changed since they were first seen
    Pin(Later<PinArgs>),
    /// Make a token for clients of a gateway
    Key(Later<KeyArgs>),
    /// Keep configured servers running, so that commands find them there
    Daemon(Later<DaemonArgs>),
    /// Print what a shell needs to complete these commands
    Completions(Later<CompletionsArgs>),
    /// Write a manual page for each command
    #[command(hide = true)]
    Manual(Later<ManualArgs>),
}

impl Command {
    /// Whether stdout tells everything.
    pub(crate) fn tagging(&self) -> Tagging {
        let lines = match self {
            Self::Call(args) => &args.content.lines,
            Self::Read(args) => &args.content.lines,
            Self::Prompt(args) => &args.content.lines,
            Self::Listen(args) => &args.lines,
            _ => return Tagging::Result,
        };
        if lines.jsonl { Tagging::Lines } else { Tagging::Result }
    }

    /// How the outcome is told.
    pub(crate) fn form(&self) -> Form {
        if self.tagging() == Tagging::Lines {
            return Form::Json;
        }
        let options = match self {
            Self::Call(args) => &args.options,
            Self::List(args) => &args.options,
            Self::Read(args) => &args.options,
            Self::Prompt(args) => &args.options,
            Self::Info(args) => &args.options,
            Self::Complete(args) => &args.options,
            Self::Listen(args) => &args.options,
            Self::Ping(args) => &args.options,
            Self::Raw(args) => &args.options,
            Self::Config(args) => return args.form(),
            Self::Servers(args) => return args.form(),
            Self::Daemon(args) => return args.form(),
            Self::Search(args) => return args.form(),
            Self::Completions(_)
            | Self::Demo(_)
            | Self::Pin(_)
            | Self::Key(_)
            | Self::Serve(_)
            | Self::Bridge(_)
            | Self::Manual(_) => {
                return Form::Text;
            }
        };
        options.form()
    }
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan call [OPTIONS] <TOOL> [KEY=VALUE]... -- <COMMAND>...\n       \
                      cardan call [OPTIONS] <SERVER> <TOOL> [KEY=VALUE]...",
    after_help = "\
How arguments are written:
  key=value   typed by the tool's schema: text, numbers, true and false,
              JSON for lists and objects; a list also grows by repeating its key
  key=@file   the contents of a file (@@ is a plain @)
  key=-       what stdin holds
  key:=json   any JSON, also from a file with key:=@file
  'tool(key: \"text\", other: 1)' is the tool with its arguments in one word

What is required and not given is asked for on a terminal, unless --no-input is set.

Examples:
  cardan call add a=2 b=3 -- cardan demo
  cardan call 'add(a: 2, b: 3)' -- cardan demo
  cardan call echo message=@letter.txt -- cardan demo
  cardan call picture -o pictures/ -- cardan demo
  cardan call slow --jsonl -- cardan demo
  cardan call ask question='Your name?' --answer answer=Ada -- cardan demo
  cardan call tcp://127.0.0.1:7000 slow steps=5 --timeout 10
  echo '{\"message\":\"hi\"}' | cardan call echo --args - -- cardan demo"
)]
pub(crate) struct CallArgs {
    /// The tool and its arguments; first the server, unless a command follows `--`
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// All arguments as one JSON object; @file reads a file, - reads stdin. Words replace what it says of their keys
    #[arg(long, value_name = "JSON", help_heading = INPUT)]
    pub(crate) args: Option<String>,
    /// Check neither the arguments against the tool's schema nor its structured result against its output schema
    #[arg(long, help_heading = INPUT)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan list [OPTIONS] [KIND] -- <COMMAND>...\n       \
                      cardan list [OPTIONS] <SERVER> [KIND]",
    after_help = "\
KIND is tools, resources, templates or prompts; all of them when left out.

Examples:
  cardan list -- cardan demo
  cardan list tools --json -- cardan demo
  cardan list tcp://127.0.0.1:7000 prompts"
)]
pub(crate) struct ListArgs {
    /// What to list; first the server, unless a command follows `--`
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan read [OPTIONS] <URI> -- <COMMAND>...\n       \
                      cardan read [OPTIONS] <SERVER> <URI>",
    after_help = "\
Examples:
  cardan read demo://clock -- cardan demo
  cardan read demo://file/poem --json -- cardan demo"
)]
pub(crate) struct ReadArgs {
    /// The resource's address; first the server, unless a command follows `--`
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan prompt [OPTIONS] <NAME> [KEY=VALUE]... -- <COMMAND>...\n       \
                      cardan prompt [OPTIONS] <SERVER> <NAME> [KEY=VALUE]...",
    after_help = "\
Examples:
  cardan prompt greet name=Ada -- cardan demo
  cardan prompt greet name=@name.txt --json -- cardan demo"
)]
pub(crate) struct PromptArgs {
    /// The prompt and its arguments; first the server, unless a command follows `--`
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// All arguments as one JSON object; @file reads a file, - reads stdin. Words replace what it says of their keys
    #[arg(long, value_name = "JSON", help_heading = INPUT)]
    pub(crate) args: Option<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan info [OPTIONS] -- <COMMAND>...\n       cardan info [OPTIONS] <SERVER>",
    after_help = "\
Examples:
  cardan info -- cardan demo
  cardan info --era legacy --json -- cardan demo"
)]
pub(crate) struct InfoArgs {
    /// The server, unless a command follows `--`
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// The headings under which `--help` has the options, beside [`OUTPUT`]. Clap has one of its own for words, `Arguments`.
const INPUT: &str = "Input";
const ANSWERS: &str = "Answers to what the server asks";
const CONNECTION: &str = "Connection";
const SERVER: &str = "Server";

/// How to talk, and how to tell.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print the raw result as one line of JSON
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Longest wait for any one answer; 0 waits for ever [default: 30 s of silence, 600 s in all]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = CONNECTION)]
    pub(crate) timeout: Option<Duration>,
    /// How the session is opened
    #[arg(long, value_enum, default_value_t, help_heading = CONNECTION)]
    era: EraName,
    /// End the session when the server deviates from the protocol
    #[arg(long, conflicts_with = "lenient", help_heading = CONNECTION)]
    strict: bool,
    /// Repair what the server does wrong, where it can be repaired
    #[arg(long, help_heading = CONNECTION)]
    lenient: bool,
    /// Show the server's stderr and every deviation as they come
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) verbose: bool,
    /// Show every message that passes, with its time and direction
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) trace: bool,
    /// Print the call that would be sent (the first of several) instead of sending it; the session is opened, and schemas are
    /// looked up
    #[arg(long, help_heading = CONNECTION)]
    pub(crate) dry_run: bool,
    /// Show no progress
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Log notes to ask for: debug, info, notice, warning, error, critical, alert or emergency
    #[arg(long, value_name = "LEVEL", value_parser = level, help_heading = OUTPUT)]
    pub(crate) log_level: Option<LogLevel>,
    /// Answer a field of a form that the server shows
    #[arg(long = "answer", value_name = "KEY=VALUE", value_parser = pair, help_heading = ANSWERS)]
    pub(crate) answers: Vec<(String, String)>,
    /// Agree to visit the addresses that the server gives; they are printed, not opened
    #[arg(long, help_heading = ANSWERS)]
    pub(crate) accept_urls: bool,
    /// Open an address in the browser once you said yes to it on the terminal ($BROWSER, or the desktop's)
    #[arg(long, conflicts_with = "accept_urls", help_heading = ANSWERS)]
    pub(crate) open: bool,
    /// Answer what the server asks of a model with this line for the shell: it gets the request as JSON on stdin and
    /// prints text, or the result as JSON [env: CARDAN_SAMPLING_COMMAND]
    #[arg(long, value_name = "COMMAND", help_heading = ANSWERS)]
    pub(crate) sampling_command: Option<String>,
    /// Never ask anything on the terminal
    #[arg(long, help_heading = ANSWERS)]
    pub(crate) no_input: bool,
    /// A directory that the server may look at
    #[arg(long = "root", value_name = "DIR", value_parser = path(), help_heading = ANSWERS)]
    pub(crate) roots: Vec<PathBuf>,
    /// Reach a configured server through the daemon, which keeps it running; it is started if there is none
    #[arg(long, help_heading = CONNECTION)]
    pub(crate) daemon: bool,
    /// Start or dial the server for this command alone, whatever is usual
    #[arg(long, conflicts_with = "daemon", help_heading = CONNECTION)]
    pub(crate) no_daemon: bool,
}

impl Options {
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Text }
    }

    pub(crate) fn era(&self) -> EraChoice {
        self.era.into()
    }

    /// For commands that have to do with the server itself.
    pub(crate) fn direct(mut self) -> Self {
        Wish::of(&self, None).cold("this command has to do with the server itself");
        (self.daemon, self.no_daemon) = (false, true);
        self
    }

    pub(crate) fn strictness(&self) -> Strictness {
        match (self.strict, self.lenient) {
            (true, _) => Strictness::Strict,
            (false, true) => Strictness::Lenient,
            (false, false) => Strictness::Standard,
        }
    }
}

/// The server to start, or how to reach one that runs.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// Look a server's name up in this file and no other
    #[arg(long, value_name = "FILE", value_parser = path(), help_heading = SERVER)]
    pub(crate) config: Option<PathBuf>,
    /// Send a header with every HTTP request
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header, help_heading = SERVER)]
    pub(crate) headers: Vec<(String, String)>,
    /// Send the bearer token in this environment variable
    #[arg(long, value_name = "VARIABLE", help_heading = SERVER)]
    pub(crate) bearer_env: Option<String>,
    /// Trust the certificates in this PEM file beside the machine's own
    #[arg(long, value_name = "FILE", value_parser = path(), help_heading = SERVER)]
    pub(crate) ca: Option<PathBuf>,
    /// Show this certificate (PEM) to servers that ask for one
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "client_key", help_heading = SERVER)]
    pub(crate) client_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "client_cert", help_heading = SERVER)]
    pub(crate) client_key: Option<PathBuf>,
    /// Believe any certificate: whoever is on the way can read and change everything
    #[arg(long, help_heading = SERVER)]
    pub(crate) insecure: bool,
    /// Set a variable in the started server's environment; it inherits ours
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = pair, help_heading = SERVER)]
    pub(crate) env: Vec<(String, String)>,
    /// Where the server is started
    #[arg(long, value_name = "DIR", value_parser = path(), help_heading = SERVER)]
    pub(crate) cwd: Option<PathBuf>,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraName {
    /// Probe, and fall back to the handshake
    #[default]
    Auto,
    /// Only the handshake
    Legacy,
    /// Only the probe
    Modern,
}

impl From<EraName> for EraChoice {
    fn from(era: EraName) -> Self {
        match era {
            EraName::Auto => Self::Auto,
            EraName::Legacy => Self::Legacy,
            EraName::Modern => Self::Modern,
        }
    }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds);
    time.map(|time| time.min(EVER)).map_err(|_| "not a time that can be waited for".to_owned())
}

/// Nobody waits for a century. Times of this length can be multiplied, and added to any clock.
const EVER: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

fn level(text: &str) -> Result<LogLevel, String> {
    LogLevel::parse(text).ok_or_else(|| "no such level".to_owned())
}

pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.trim().to_owned())),
        _ => Err("write it as name: value".to_owned()),
    }
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is written, reckoning with it does not overflow.
    #[test]
    fn times_can_be_reckoned_with() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for long in ["1e19", "1.8446744073709550e19", "1e10"] {
            let time = seconds(long).unwrap();
            assert!((std::time::Instant::now() + time * 8).checked_add(time).is_some(), "{long}");
        }
        for wrong in ["1e20", "-1", "inf", "nan", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
        let cli = Cli::try_parse_from(["cardan", "call", "add", "a=-2", "--json", "--", "server", "--flag"]);
        let Command::Call(args) = cli.unwrap().command else { panic!("not a call") };
        assert_eq!(args.words, ["add", "a=-2"]);
        assert_eq!(args.server.command, ["server", "--flag"]);
        assert_eq!(args.options.form(), Form::Json);
    }
}
