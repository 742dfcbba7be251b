//! `~` in paths, which a shell replaces only where a word begins with it: not in `key=@~/file`, and in few shells in `--config=~/file`.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::cmd::config::variable;

/// Where a path leads: `~` and what is below it is the user's.
pub(crate) fn at_home(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    let home = variable("HOME").filter(|home| !home.is_empty());
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => Path::new(&home).join(below),
        _ => path.to_owned(),
    }
}

/// Reads every path that is the value of an option.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(at_home)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn only_the_users_own_home_is_replaced() {
        let home = variable("HOME").expect("a home");
        for (written, path) in [
            ("~/x y/z", format!("{home}/x y/z")),
            ("~other/x", "~other/x".to_owned()),
            ("./~/x", "./~/x".to_owned()),
            ("/~", "/~".to_owned()),
        ] {
            assert_eq!(at_home(written), PathBuf::from(path), "{written}");
        }
    }

    #[test]
    fn options_with_paths_know_home() {
        let words = ["cardan", "list", "--config=~/x", "--ca=~/x", "--root=~/x", "--cwd=~/x", "s"];
        let Command::List(args) = Cli::try_parse_from(words).expect("a command").command else {
            panic!("no list")
        };
        let home = Some(at_home("~/x"));
        assert_eq!((&args.server.config, &args.server.ca, &args.server.cwd), (&home, &home, &home));
        assert_eq!(args.options.roots.first(), home.as_ref());
    }
}
