//! `cardan daemon status` and `cardan daemon stop`.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::daemon::dial::ask_running;
use crate::daemon::place::Place;
use crate::daemon::talk::{PROMPT, Say, Want, hear};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Form, clean, print, print_json, tell};

/// Longer than what runs is left to finish.
const ENDING: Duration = Duration::from_secs(60);

/// Shows all daemons of this user; fails where none is for `here`.
pub(super) async fn status(here: &Place, form: Form) -> Result<(), Failure> {
    let mut standing = Vec::new();
    let mut runs_here = false;
    for place in Place::all()? {
        // One that does not answer in time tells nothing, and is no reason not to tell of others.
        if let Ok(Ok(Some((_, Say::Standing(mut said))))) =
            timeout(PROMPT, ask_running(&Want::Status, &place)).await
        {
            runs_here |= place == *here;
            said["here"] = json!(place == *here);
            said["socket"] = json!(place.socket());
            said["log"] = json!(place.log());
            standing.push(said);
        }
    }
    match form {
        Form::Json => print_json(&json!({ "daemons": standing }).to_string())?,
        Form::Text => print(&standing.iter().map(lines).collect::<Vec<_>>().join("\n"))?,
    }
    match runs_here {
        true => Ok(()),
        false => Err(Failure::new(Exit::Unreachable, "no daemon runs for this configuration and folder")
            .next("a command with --daemon starts one")),
    }
}

fn lines(said: &Value) -> String {
    let text = |name: &str| clean(said[name].as_str().unwrap_or("?")).into_owned();
    let links = match said["links"].as_u64() {
        Some(0) | None => "nobody calls".to_owned(),
        Some(links) => format!("{links} call"),
    };
    let mut out = format!("daemon {} in {}: {links}", said["pid"], text("folder"));
    for server in said["servers"].as_array().into_iter().flatten() {
        let part = |name: &str| clean(server[name].as_str().unwrap_or("?")).replace('\n', " ");
        out += &format!("\n  {}: {}", part("name"), part("brief"));
    }
    out
}

/// Ends daemons, and waits until they have.
pub(super) async fn stop(places: &[Place]) -> Result<(), Failure> {
    let mut stopped = 0;
    for place in places {
        let lost = |error: io::Error| {
            let message = format!("the daemon at {} cannot be asked: {error}", place.socket().display());
            Failure::new(Exit::Unreachable, message)
        };
        let Some((link, _)) = ask_running(&Want::Stop, place).await.map_err(lost)? else { continue };
        stopped += 1;
        // The link ends with the daemon.
        if timeout(ENDING, hear::<Value>(&link)).await.is_err() {
            return Err(Failure::new(Exit::Timeout, "the daemon was asked to end and has not yet")
                .next("see whether a call goes on, with `cardan daemon status`"));
        }
    }
    if stopped == 0 {
        tell("no daemon runs");
    }
    Ok(())
}
