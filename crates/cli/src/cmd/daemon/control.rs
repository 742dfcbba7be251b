//! `cardan daemon status` and `cardan daemon stop`.

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

/// Ends daemons, and waits until they have. One that does not is no reason to leave others.
pub(super) async fn stop(places: &[Place]) -> Result<(), Failure> {
    let (mut stopped, mut failed) = (0, Vec::new());
    for place in places {
        match stop_one(place).await {
            Ok(Ended::Now) => stopped += 1,
            Ok(Ended::Before) => {}
            Err(failure) => failed.push(failure),
        }
    }
    let Some(last) = failed.pop() else {
        match stopped {
            0 => tell("no daemon runs"),
            1 => tell("the daemon has ended"),
            many => tell(&format!("{many} daemons have ended")),
        }
        return Ok(());
    };
    for failure in failed {
        tell(failure.message());
    }
    Err(last)
}

/// When a daemon has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Because we asked it to.
    Now,
    /// None was there.
    Before,
}

async fn stop_one(place: &Place) -> Result<Ended, Failure> {
    let at = place.socket().display().to_string();
    let lost = |why: &str| {
        Failure::new(Exit::Unreachable, format!("the daemon at {at} cannot be asked: {why}"))
            .next("see its log, or end its process by hand")
    };
    let asked = match timeout(PROMPT, ask_running(&Want::Stop, place)).await {
        Err(_) => return Err(lost("it does not answer")),
        Ok(asked) => asked.map_err(|error| lost(&error.to_string()))?,
    };
    let Some((link, _)) = asked else { return Ok(Ended::Before) };
    // The link ends with the daemon.
    match timeout(ENDING, hear::<Value>(&link)).await {
        Ok(_) => Ok(Ended::Now),
        Err(_) => {
            let message = format!("the daemon at {at} was asked to end and has not yet");
            Err(Failure::new(Exit::Timeout, message)
                .next("see whether a call goes on, with `cardan daemon status`"))
        }
    }
}
