//! `cardan completions`: what a shell needs so that Tab works.

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Commands, options, configured servers, tools, their arguments and values, addresses and prompts are completed. Servers are not \
started for it: what they offer is known from `cardan list NAME`, and from when they last ran with `cardan servers`, `cardan serve` or \
--daemon.

Examples:
  source <(cardan completions bash)
  source <(cardan completions zsh)
  cardan completions fish | source

To keep it, put that line into ~/.bashrc, ~/.zshrc (behind compinit) or ~/.config/fish/config.fish.")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    output::print(match args.shell {
        Shell::Bash => include_str!("cardan.bash"),
        Shell::Zsh => include_str!("cardan.zsh"),
        Shell::Fish => include_str!("cardan.fish"),
    })
}
