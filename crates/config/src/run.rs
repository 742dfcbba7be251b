//! A line for the shell that prints a value: bounded in time and output, and ended with all it started.

use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cardan_proto::limits::config::{COMMAND_BYTES, COMMAND_POLL, COMMAND_TIME};
use cardan_proto::secret::Secret;

/// Runs a line, with more variables in its environment, and returns what it prints, without blanks around it.
pub(crate) fn shell(line: &str, env: &[(&str, &str)]) -> Result<Secret, String> {
    within(COMMAND_TIME, line, env)
}

fn within(time: Duration, line: &str, env: &[(&str, &str)]) -> Result<Secret, String> {
    let mut command = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
    command.args([if cfg!(windows) { "/C" } else { "-c" }, line]).envs(env.iter().copied());
    // What it says on stderr may be secret, and is its user's to read.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|error| format!("the shell cannot be started: {error}"))?;
    let stdout = child.stdout.take();
    let (done, outcome) = mpsc::channel();
    // The thread ends with the pipe, which ends with the group.
    thread::spawn(move || {
        let mut printed = Vec::new();
        let read = stdout.map(|stdout| stdout.take(COMMAND_BYTES + 1).read_to_end(&mut printed));
        let _ = done.send(read.is_some_and(|read| read.is_ok()).then_some(printed));
    });
    let late = || format!("its command has not ended after {} seconds", time.as_secs());
    let until = Instant::now() + time;
    let Ok(printed) = outcome.recv_timeout(time) else {
        end(&mut child);
        return Err(late());
    };
    let printed = printed.filter(|printed| printed.len() as u64 <= COMMAND_BYTES);
    let Some(printed) = printed else {
        // It may go on for ever, so how it would end is not waited for.
        end(&mut child);
        return Err("its command prints too much".to_owned());
    };
    let status = ended(&mut child, until).ok_or_else(late)?;
    if !status.success() {
        return Err(format!("its command failed: {status}"));
    }
    let text = String::from_utf8(printed).map_err(|_| "its command does not print UTF-8".to_owned())?;
    match text.trim() {
        "" => Err("its command prints nothing".to_owned()),
        value => Ok(Secret::new(value)),
    }
}

/// How it ended. A command may close its output and go on; it is not waited for longer than for its output.
fn ended(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        if has_ended(child) {
            // What it left behind ends with it. It is not reaped before, so that the group is still its own.
            end_group(child);
            return child.wait().ok();
        }
        if Instant::now() >= until {
            end(child);
            return None;
        }
        thread::park_timeout(COMMAND_POLL);
    }
}

fn end(child: &mut Child) {
    end_group(child);
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(unix)]
fn has_ended(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

#[cfg(not(unix))]
fn has_ended(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(_)))
}

#[cfg(unix)]
fn end_group(child: &Child) {
    let group = rustix::process::Pid::from_child(child);
    // Nobody left in it is as good.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}

#[cfg(not(unix))]
fn end_group(_: &Child) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Does a process run? One that nobody has reaped does not.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    /// At the bound of its output a command is heard, beyond it and beyond its time it is ended.
    #[test]
    fn commands_are_bounded_in_time_and_output() {
        let long = |bytes: u64| shell(&format!("head -c {bytes} /dev/zero | tr '\\0' x"), &[]);
        assert_eq!(long(COMMAND_BYTES).expect("it fits").expose().len() as u64, COMMAND_BYTES);
        assert_eq!(long(COMMAND_BYTES + 1).unwrap_err(), "its command prints too much");
        let ended = shell("yes", &[]);
        assert_eq!(ended.unwrap_err(), "its command prints too much", "it is not waited for");
        let late = within(Duration::from_millis(50), "exec sleep 1000", &[]);
        assert_eq!(late.unwrap_err(), "its command has not ended after 0 seconds");
    }

    #[test]
    fn what_a_command_leaves_behind_ends_with_it() {
        let printed = shell("sleep 1000 >/dev/null 2>&1 & echo $!", &[]).expect("it prints a number");
        let until = Instant::now() + Duration::from_secs(60);
        while runs(printed.expose()) {
            assert!(Instant::now() < until, "it still runs");
            thread::yield_now();
        }
    }
}
