//! `cardan key NAME`: a new token for a gateway, shown once.

use cardan_gateway::keys::{hash, token};
use clap::Args;

use crate::failure::Failure;
use crate::output::{self, tell_page};

#[derive(Debug, Args)]
#[command(after_help = "\
The token goes to stdout and is kept nowhere. What goes into cardan.toml goes to stderr: it holds the token's hash, from which \
nobody gets the token back. A gateway with keys asks every client for a token, and NAME is whom [policy.NAME] is about.

Examples:
  cardan key ada
  cardan key ci > token.txt")]
pub(crate) struct KeyArgs {
    /// Whom the token stands for
    #[arg(value_parser = name)]
    name: String,
}

fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("write letters, digits, -, _, . and @".to_owned()),
    }
}

pub(crate) fn run(args: &KeyArgs) -> Result<(), Failure> {
    let token = token().map_err(|error| Failure::usage(format!("no token can be made: {error}")))?;
    output::print(&token)?;
    tell_page(&format!(
        "in cardan.toml:\n\n[[gateway.keys]]\nname = \"{}\"\nhash = \"{}\"",
        args.name,
        hash(&token)
    ));
    Ok(())
}
