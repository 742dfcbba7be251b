//! The table of numbers by which a connection is kept.

use std::time::Duration;

use cardan_proto::limits::config::{RECONNECT_COUNT, RECONNECT_TIME};

use super::{fields, unknown_key};
use crate::keys::Unit;
use crate::problem::{Problem, Scene};
use crate::reconnect::{CALLS, PAIRS, Reconnect, Slot, Zero};
use crate::tree::{Entry, Node, Value};

/// Reads the table; the first thing that is wrong with it is told.
pub(super) fn read(scene: Scene<'_>, member: &Entry) -> Result<Reconnect, Problem> {
    fields::map(scene, &member.key, &member.node)?;
    let mut read = Reconnect::default();
    for entry in member.node.entries() {
        let (key, node) = (entry.key.as_str(), &entry.node);
        let names = Reconnect::default().slots().map(|(name, _)| name);
        let Some((_, slot)) = read.slots().into_iter().find(|(name, _)| *name == key) else {
            return Err(unknown_key(scene, entry, names));
        };
        match slot {
            Slot::Count(place, least) => *place = Some(count(scene, key, node, least)?),
            Slot::Time(place, zero) => *place = Some(time(scene, key, node, zero)?),
            Slot::Calls(place) => *place = Some(fields::named(scene, key, node, &CALLS)?),
        }
    }
    in_order(scene, &member.node, &mut read)?;
    Ok(read)
}

fn count(scene: Scene<'_>, key: &str, node: &Node, least: u32) -> Result<u32, Problem> {
    let number = match &node.value {
        Value::Number(number) => number.parse().ok(),
        _ => None,
    };
    number.filter(|number| (least..=RECONNECT_COUNT).contains(number)).ok_or_else(|| {
        let problem = scene.problem(&node.span, Some(key), "this is not a number that is good here");
        problem.next(format!("accepted: a whole number from {least} to {RECONNECT_COUNT}"))
    })
}

fn time(scene: Scene<'_>, key: &str, node: &Node, zero: Zero) -> Result<Duration, Problem> {
    let time = fields::time(scene, key, node, Unit::Any)?;
    let hours = RECONNECT_TIME.as_secs() / 3600;
    let (fits, accepted) = match zero {
        Zero::Allowed => (true, format!("accepted: 0, or a time up to {hours}h")),
        Zero::Refused => (!time.is_zero(), format!("accepted: a time above 0, up to {hours}h")),
    };
    if fits && time <= RECONNECT_TIME {
        return Ok(time);
    }
    Err(scene.problem(&node.span, Some(key), "this is not a time that is good here").next(accepted))
}

/// Two times that were said in the wrong order are a slip.
fn in_order(scene: Scene<'_>, table: &Node, read: &mut Reconnect) -> Result<(), Problem> {
    let said: Vec<(&str, Duration)> = read
        .slots()
        .into_iter()
        .filter_map(|(name, slot)| match slot {
            Slot::Time(place, _) => place.filter(|time| !time.is_zero()).map(|time| (name, time)),
            Slot::Count(..) | Slot::Calls(_) => None,
        })
        .collect();
    let time_of = |key: &str| said.iter().find(|(name, _)| *name == key).map(|(_, time)| *time);
    for (shorter, longer) in PAIRS {
        if let (Some(min), Some(max), Some(at)) = (time_of(shorter), time_of(longer), table.member(longer))
            && max < min
        {
            let problem = scene.problem(&at.span, Some(longer), format!("it is shorter than `{shorter}`"));
            return Err(problem.next(format!("make it as long at least, or `{shorter}` shorter")));
        }
    }
    Ok(())
}
