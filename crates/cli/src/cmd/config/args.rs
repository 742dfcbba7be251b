//! The command line of `cardan config`.

use std::path::PathBuf;

use cardan_config::Tool;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::{header, pair};
use crate::home::path;
use crate::output::Form;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Files, the nearest first: the one named by --config or CARDAN_CONFIG, alone; else cardan.toml in this folder or \
above it within the project, then the user's. Each may import the files of other tools.

Tools: claude-desktop, claude-code, vscode, cursor, windsurf, codex, gemini, opencode, inspector, mcporter, oh-my-pi

Examples:
  cardan config list
  cardan config explain weather
  cardan config add weather https://example.com/mcp --header 'X-Key: ${KEY}'
  cardan config import --from claude-code
  cardan config export --to cursor --write"
)]
pub(crate) struct ConfigArgs {
    /// Use this file and no other
    #[arg(long, value_name = "FILE", value_parser = path(), global = true)]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl ConfigArgs {
    pub(crate) fn form(&self) -> Form {
        match &self.verb {
            Verb::List(ListArgs { json: true, .. }) | Verb::Explain(ExplainArgs { json: true, .. }) => {
                Form::Json
            }
            _ => Form::Text,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the servers and where they come from
    List(ListArgs),
    /// Tell why: files and their order, what shadows what, what a server says
    Explain(ExplainArgs),
    /// Add a server to cardan.toml
    Add(AddArgs),
    /// Remove a server
    Remove(RemoveArgs),
    /// Copy servers from another tool's files into cardan.toml
    Import(ImportArgs),
    /// Copy servers into another tool's file
    Export(ExportArgs),
    /// Show what files that came with the project would run, and trust it
    Trust(TrustArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
A cardan.toml or another tool's file in a project may have been written by anyone. Its servers that start processes or send \
values of this machine elsewhere are used only when they are trusted, and again when anything about them has changed. Servers that \
`cardan config add` writes are trusted, as is every file that is named with --config.

Examples:
  cardan config trust
  cardan config trust files
  cardan config trust --all")]
pub(crate) struct TrustArgs {
    /// The servers to trust as they are now; without any, all that wait are shown
    pub(crate) names: Vec<String>,
    /// Trust all that wait
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cardan config list
  cardan config list --from claude-code
  cardan config list --json --config .vscode/mcp.json")]
pub(crate) struct ListArgs {
    /// Everything in the files of this tool, or in this file, other projects' servers too
    #[arg(long, value_name = "TOOL|FILE")]
    pub(crate) from: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Values that may be secret are not shown; of a variable, only whether it is set.

Examples:
  cardan config explain
  cardan config explain weather --json")]
pub(crate) struct ExplainArgs {
    /// The server; everything when left out
    pub(crate) name: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan config add [OPTIONS] <NAME> <URL>\n       \
                      cardan config add [OPTIONS] <NAME> -- <COMMAND>...",
    after_help = "\
Placeholders stay as they are and are expanded when the server is used: ${NAME}, ${NAME:-default}, ${input:id}, \
${file:path}, ${workspaceFolder}, ${userHome}.

Examples:
  cardan config add weather https://example.com/mcp --bearer-env WEATHER_TOKEN
  cardan config add files --scope project -- npx -y some-server .
  cardan config add old https://example.com/sse --type sse
  cardan config add db --env 'DB_URL=${DB_URL}' -- db-mcp"
)]
pub(crate) struct AddArgs {
    /// What it is called
    pub(crate) name: String,
    /// Its address, unless a command follows `--`
    pub(crate) url: Option<String>,
    /// stdio, http, sse, ws, unix, pipe or tcp, where the address does not say
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// A variable for the started server
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Where the server is started
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// A header for every HTTP request
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The variable with the bearer token
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) bearer_env: Option<String>,
    #[command(flatten)]
    pub(crate) write: Write,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Another tool's file is changed only when it is named with --from. A name that is there several times is not removed \
before it is said which is meant.

Examples:
  cardan config remove weather
  cardan config remove weather --from cursor
  cardan config remove weather --from claude-code --project .")]
pub(crate) struct RemoveArgs {
    /// The server
    pub(crate) name: String,
    /// The tool or the file to remove it from
    #[arg(long, value_name = "TOOL|FILE")]
    pub(crate) from: Option<String>,
    /// The one that is for this project alone
    #[arg(long, value_name = "DIR", requires = "from", conflicts_with = "global")]
    pub(crate) project: Option<String>,
    /// The one that is for all projects
    #[arg(long, requires = "from")]
    pub(crate) global: bool,
    /// Tell what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --from and --all it tells what could be imported.

Examples:
  cardan config import
  cardan config import --from claude-code
  cardan config import weather --from ~/.cursor/mcp.json --scope project
  cardan config import --all --dry-run")]
pub(crate) struct ImportArgs {
    /// Only these servers
    pub(crate) names: Vec<String>,
    /// The tool or the file to import from
    #[arg(long, value_name = "TOOL|FILE")]
    pub(crate) from: Option<String>,
    /// From every tool that has files here
    #[arg(long, conflicts_with = "from")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) write: Write,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is written without --write. The old file is kept beside the new one as NAME.bak.

Examples:
  cardan config export --to cursor
  cardan config export weather --to vscode --scope project --write
  cardan config export --to codex --file ./config.toml --write")]
pub(crate) struct ExportArgs {
    /// Only these servers
    pub(crate) names: Vec<String>,
    /// The tool to export to
    #[arg(long, value_name = "TOOL", value_parser = tool)]
    pub(crate) to: Tool,
    /// The file, instead of the tool's own
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) file: Option<PathBuf>,
    /// The tool's file in this project, or the user's
    #[arg(long, value_enum)]
    pub(crate) scope: Option<Scope>,
    /// Tell what would be done, and do nothing: this is what happens without --write
    #[arg(long, conflicts_with = "write")]
    pub(crate) dry_run: bool,
    /// Write the file
    #[arg(long)]
    pub(crate) write: bool,
    /// Replace servers of the same name
    #[arg(long)]
    pub(crate) force: bool,
}

/// How our own file is written.
#[derive(Debug, Args)]
pub(crate) struct Write {
    /// Which cardan.toml: this project's or the user's [default: the project's if there is one]
    #[arg(long, value_enum)]
    pub(crate) scope: Option<Scope>,
    /// Tell what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace servers of the same name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// For all of the user's projects
    User,
    /// For this project
    Project,
}

fn tool(id: &str) -> Result<Tool, String> {
    Tool::parse(id).ok_or_else(|| {
        let ids: Vec<&str> = Tool::ALL.iter().map(|tool| tool.id()).collect();
        format!("no such tool; there are {}", ids.join(", "))
    })
}
