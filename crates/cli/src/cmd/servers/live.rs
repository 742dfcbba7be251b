//! `cardan servers --watch`: every change as it happens. On a terminal the table is drawn anew in its place, elsewhere
//! each change is a line.

use std::time::Duration;

use cardan_gateway::fleet::{Event, Fleet, Reloaded, Upstream, What};
use cardan_gateway::reload::{Following, Turn};
use cardan_proto::session::event::Change;
use cardan_proto::upkeep::condition::Transition;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval};

use super::row::{Row, table};
use super::servers;
use crate::failure::Failure;
use crate::hangup::{Hangup, Hangups};
use crate::interrupt::Interrupts;
use crate::look::Surface;
use crate::look::style::Style;
use crate::look::table::Frame;
use crate::look::text::Line;
use crate::output::{Form, Reader, clean, json_line, show, write};

/// How often a drawn table shows how long things have been so. The state itself is told, never asked for.
const TICK: Duration = Duration::from_secs(1);

/// Shows what happens until the user has seen enough, or whoever reads has.
pub(super) async fn watch(
    fleet: &Fleet,
    mut following: Following,
    form: Form,
    interrupts: &Interrupts,
    mut hangups: Hangups,
) -> Result<(), Failure> {
    let mut events = fleet.events();
    let mut screen = Screen::new(form);
    let mut reader = screen.begin(fleet)?;
    let mut clock = interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while reader == Reader::There {
        reader = tokio::select! {
            event = events.recv() => match event {
                Ok(event) => {
                    // A drawn table shows how all stand by now, so a burst is drawn once.
                    while screen.is_drawn() && events.try_recv().is_ok() {}
                    screen.happened(fleet, &event)?
                }
                Err(RecvError::Lagged(_)) => screen.begin(fleet)?,
                Err(RecvError::Closed) => break,
            },
            Some(turn) = following.next() => screen.turned(fleet, &turn)?,
            _ = clock.tick(), if screen.is_drawn() => screen.draw(fleet)?,
            hangup = hangups.next() => match hangup {
                Hangup::Reload => {
                    following.retry_now();
                    Reader::There
                }
                Hangup::Gone => break,
            },
            () = interrupts.first() => break,
        };
    }
    following.stop().await;
    Ok(())
}

/// How changes are shown.
enum Screen {
    /// Drawn anew, with what was last said of the configuration.
    Drawn { frame: Frame, note: Option<String> },
    /// Line by line.
    Lines,
    /// The same for programs.
    Json,
}

impl Screen {
    fn new(form: Form) -> Self {
        match (form, Surface::stdout().can_redraw()) {
            (Form::Json, _) => Self::Json,
            (Form::Text, true) => Self::Drawn { frame: Frame::default(), note: None },
            (Form::Text, false) => Self::Lines,
        }
    }

    fn is_drawn(&self) -> bool {
        matches!(self, Self::Drawn { .. })
    }

    /// Everything, from nothing.
    fn begin(&mut self, fleet: &Fleet) -> Result<Reader, Failure> {
        match self {
            Self::Drawn { .. } => self.draw(fleet),
            Self::Lines => show(&table(&Row::all(fleet), None)),
            Self::Json => {
                let mut all = servers(&Row::all(fleet));
                all["event"] = json!("servers");
                write(&json_line(&all.to_string()))
            }
        }
    }

    fn happened(&mut self, fleet: &Fleet, event: &Event) -> Result<Reader, Failure> {
        let upstream = fleet.upstream(&event.server);
        let row = upstream.as_ref().map(|upstream| Row::of(upstream));
        match self {
            Self::Drawn { .. } => self.draw(fleet),
            Self::Lines => write(&clean(&line(event, row.as_ref()))),
            Self::Json => write(&json_line(&value(event, upstream.as_deref(), row.as_ref()).to_string())),
        }
    }

    /// The configuration changed, or was meant to.
    fn turned(&mut self, fleet: &Fleet, turn: &Turn) -> Result<Reader, Failure> {
        match self {
            Self::Drawn { note, .. } => {
                *note = Some(turn_line(turn));
                self.draw(fleet)
            }
            Self::Lines => write(&clean(&turn_line(turn))),
            Self::Json => write(&json_line(&turn_value(turn).to_string())),
        }
    }

    /// Draws the table in the place of the last one.
    fn draw(&mut self, fleet: &Fleet) -> Result<Reader, Failure> {
        let Self::Drawn { frame, note } = self else { return Ok(Reader::There) };
        let stdout = Surface::stdout();
        let mut lines = table(&Row::all(fleet), stdout.columns());
        lines.extend(note.as_ref().map(|note| Line::of(Style::Warning, note)));
        write(&frame.draw(lines, stdout))
    }
}

/// What happened, for people.
pub(crate) fn line(event: &Event, row: Option<&Row>) -> String {
    let name = &event.server;
    match &event.what {
        What::Condition(transition) => {
            // The fleet has taken secrets out of the cause that it keeps.
            let cause = transition.cause.as_ref().and_then(|_| row?.cause());
            let cause = cause.map_or_else(String::new, |cause| format!(", {cause}"));
            format!("{name}: {}{cause}", transition.to)
        }
        What::Added => format!("{name}: added"),
        What::Removed => format!("{name}: removed"),
        What::Changed(change) => format!("{name}: other {}", list(change)),
        What::Stopped => format!("{name}: stopped, nobody uses it"),
        What::Unlisted(why) => format!("{name}: {why}"),
        _ => format!("{name}: something happened that has no name here"),
    }
}

fn value(event: &Event, upstream: Option<&Upstream>, row: Option<&Row>) -> Value {
    let mut value = match &event.what {
        What::Condition(transition) => stepped(transition, upstream),
        What::Added => json!({ "event": "added" }),
        What::Removed => json!({ "event": "removed" }),
        What::Changed(change) => json!({ "event": "changed", "list": list(change) }),
        What::Stopped => json!({ "event": "stopped" }),
        What::Unlisted(why) => json!({ "event": "unlisted", "why": &**why }),
        _ => json!({ "event": "other" }),
    };
    value["name"] = json!(&*event.server);
    // How it stands by now, which may be later than the event.
    value["server"] = row.map(Row::json).unwrap_or_default();
    value
}

/// A transition with what belongs to it, whatever has happened since.
fn stepped(transition: &Transition, upstream: Option<&Upstream>) -> Value {
    let cause = match upstream {
        Some(upstream) => upstream.why(transition),
        // The fleet has taken secrets out of its parts.
        None => transition.cause.as_ref().map(|cause| cause.to_string().into()),
    };
    json!({
        "event": "state",
        "from": transition.from.to_string(),
        "to": transition.to.to_string(),
        "cause": cause.as_deref(),
        "attempt": transition.attempt,
        "at_ms": u64::try_from(transition.at.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

fn list(change: &Change) -> &'static str {
    match change {
        Change::Tools => "tools",
        Change::Prompts => "prompts",
        Change::Resources => "resources",
        _ => "contents",
    }
}

/// What became of a change of the configuration, for people.
pub(crate) fn turn_line(turn: &Turn) -> String {
    match turn {
        Turn::Refused(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("configuration: refused, the old one stays in force: {}", problems.join("; "))
        }
        Turn::Taken(Reloaded { added, removed, restarted, .. }) => {
            let parts = [("added", added), ("removed", removed), ("restarted", restarted)];
            let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
            let parts: Vec<_> = parts.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
            let parts = if parts.is_empty() { "no server is touched".to_owned() } else { parts.join("; ") };
            format!("configuration: taken over, {parts}")
        }
    }
}

fn turn_value(turn: &Turn) -> Value {
    match turn {
        Turn::Refused(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            json!({ "event": "configuration", "outcome": "refused", "problems": problems })
        }
        Turn::Taken(Reloaded { added, removed, restarted, kept }) => json!({
            "event": "configuration",
            "outcome": "taken",
            "added": added,
            "removed": removed,
            "restarted": restarted,
            "kept": kept,
        }),
    }
}
