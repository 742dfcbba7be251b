//! Starting other programs, with a line that says so.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Says what we are doing.
pub(crate) fn say(text: &str) {
    show(&format!("xtask: {text}\n"));
}

/// Prints a result. Whoever reads it may stop early, as `head` does.
pub(crate) fn show(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// The cargo that started us.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Ours, from the cargo that started us: some crates are built anew whenever it changes.
    command.current_dir(root).env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Runs to success, output passed through.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let line = spelled(command);
    say(&line);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Builds programs of the workspace.
pub(crate) fn build(root: &Path, which: &[&str]) -> Result<()> {
    succeed(cargo(root).args(["build", "--quiet"]).args(which))
}

/// Whether the command runs and succeeds, nothing shown.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// What a person would type.
fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    let mut line = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_spelled_as_typed() {
        assert_eq!(spelled(Command::new("/usr/bin/npm").args(["ci", "--no-audit"])), "npm ci --no-audit");
    }

    #[test]
    fn failure_names_the_command() {
        let missing = succeed(&mut Command::new("cardan-no-such-program")).unwrap_err().to_string();
        assert_eq!(missing, "cannot start `cardan-no-such-program`");
        assert!(!works(&mut Command::new("cardan-no-such-program")));
    }
}
