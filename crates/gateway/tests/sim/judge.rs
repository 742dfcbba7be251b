//! What must be true of one server when everything has come to rest.

use std::time::Duration;

use cardan_gateway::fleet::{Event, Health, Known, Status, What};
use cardan_gateway::merge::Naming;
use cardan_proto::session::event::Change;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_sim::story::Story;
use tokio::time::Instant;

use crate::site::{Cached, Holds, Log, Plan, Site, Start};
use crate::{REST, TICKS};

/// How exactly the age of a file is judged: the real clock goes on while others use the machine.
const SLACK: Duration = Duration::from_secs(60);

/// Everything for which there is this simulation.
pub(crate) const CASES: [&str; 22] = [
    "a fast start",
    "a slow start",
    "a start after failures",
    "one that never answers",
    "one that says nothing",
    "one that fails",
    "one that is configured wrongly",
    "a crash",
    "nothing known",
    "known from before, and the same",
    "known from before, and another",
    "a stranger's catalog",
    "a catalog that nobody can read",
    "a list that does not say for how long it holds",
    "a list whose time was over before",
    "a list that holds",
    "a list whose time is over in between",
    "a list that is asked for again when its time is over",
    "one that sleeps",
    "one that waits for its turn",
    "one that a call starts in the next process",
    "a sick one that is known",
];

/// What is listed of a server before it is there.
pub(crate) fn known(plan: &Plan) -> Option<String> {
    plan.known().filter(|_| plan.start != Start::Broken).map(|tool| shown(plan, &tool))
}

/// What is listed of a server at rest: what it told, or else what is known.
pub(crate) fn offered(site: &Site) -> Option<String> {
    let told = !site.log.lock().unwrap().lists.is_empty();
    if told { Some(shown(&site.plan, &site.plan.tool())) } else { known(&site.plan) }
}

fn shown(plan: &Plan, tool: &str) -> String {
    format!("{}{}{tool}", plan.name, Naming::SEPARATOR)
}

/// Judges one server by what it saw and by what was told of it.
pub(crate) fn site(story: &mut Story, site: &Site, status: &Status, events: &[Event], end: Instant) {
    let (plan, log) = (&*site.plan, &*site.log.lock().unwrap());
    meet(story, plan, log);
    let own: Vec<_> =
        events.iter().filter(|event| *event.server == *plan.name).map(|event| &event.what).collect();
    let transitions: Vec<_> = own
        .iter()
        .filter_map(|what| match what {
            What::Condition(transition) => Some(transition),
            _ => None,
        })
        .collect();
    story.tell(format!("{plan:?}"));
    story.tell(format!("{}: {} lists, {} ups", plan.name, log.lists.len(), log.ups.len()));
    for transition in transitions.iter().filter(|_| plan.takes().is_some()) {
        story.tell(format!("{}: {} to {}", plan.name, word(transition.from), word(transition.to)));
    }
    told(story, plan, log, status, &transitions);
    let changes = own.iter().filter(|what| matches!(what, What::Changed(Change::Tools))).count();
    let due = usize::from(!log.lists.is_empty() && plan.known() != Some(plan.tool()));
    story.demand(changes == due, || format!("{}: {changes} changes told, not {due}: {plan:?}", plan.name));
    if let Err(wrong) = lists(plan, log, end) {
        story.demand(false, || format!("{}: {wrong}: {plan:?}, {:?}", plan.name, since(log)));
    }
}

/// Every transition is told, one after the other, up to how it stands.
fn told(story: &mut Story, plan: &Plan, log: &Log, status: &Status, transitions: &[&Transition]) {
    let name = &plan.name;
    let mut stands = Condition::DISCONNECTED;
    for transition in transitions {
        let from = transition.from;
        story.demand(from == stands, || format!("{name}: from {from} is told, and it was {stands}"));
        stands = transition.to;
    }
    let health = match plan.start {
        Start::Broken => Health::Misconfigured,
        _ => Health::Kept(stands),
    };
    story.demand(status.health == health, || {
        format!("{name}: {health} was told, and it is {}", status.health)
    });
    let ups = transitions.iter().filter(|step| step.to.is_up() && !step.from.is_up()).count();
    let all = (ups, status.connects as usize) == (log.ups.len(), log.ups.len());
    let (connects, seen) = (status.connects, log.ups.len());
    story.demand(all, || format!("{name}: up {seen} times, {ups} were told, {connects} are counted"));
    let well = plan.takes().is_some();
    story.demand(status.health.is_up() == well, || format!("{name}: it is {}: {plan:?}", status.health));
    let known = match (log.lists.is_empty(), plan.known()) {
        (false, _) => status.known == Known::Told,
        (true, Some(_)) if plan.start != Start::Broken => matches!(status.known, Known::Cached(_)),
        (true, _) => status.known == Known::Nothing,
    };
    story.demand(known, || format!("{name}: known as {:?}: {plan:?}", status.known));
}

/// Lists are asked for when a link is up, unless what is known holds, and again when their time is over.
fn lists(plan: &Plan, log: &Log, end: Instant) -> Result<(), String> {
    let mut asked = log.lists.iter().copied().peekable();
    for (link, up) in log.ups.iter().copied().enumerate() {
        let down = plan.crash.filter(|_| link == 0).map_or(end, |crash| (up + crash).min(end));
        let mut due = match plan.cached {
            Cached::Same(Holds::Longer) | Cached::Other(Holds::Longer) if link == 0 => None,
            Cached::Same(Holds::For(left)) | Cached::Other(Holds::For(left)) if link == 0 => {
                Some((up + left - SLACK, up + left + TICKS))
            }
            _ => Some((up, up + TICKS)),
        };
        // What was listed over a connection is listed again by the connection itself, to tell what is new, beside the fleet.
        let beside = link > 0 && log.lists.iter().any(|at| *at < up);
        while let Some((from, to)) = due.filter(|(from, _)| *from <= down) {
            match asked.next_if(|at| *at <= to.min(down)) {
                Some(at) if at < from => return Err(format!("a list {:?} too early", from - at)),
                Some(at) => {
                    due = plan.fresh().map(|fresh| (at + fresh, at + fresh + TICKS));
                    if beside && from == up {
                        asked.next_if(|again| *again <= to);
                    }
                }
                None if to < down => return Err("a list was not asked for".into()),
                // It may have been cut off.
                None => due = None,
            }
        }
    }
    match asked.count() {
        0 => Ok(()),
        count => Err(format!("{count} lists for no reason")),
    }
}

/// When lists were asked for, in milliseconds since it was first up.
fn since(log: &Log) -> Vec<u128> {
    let up = log.ups.first();
    log.lists.iter().filter_map(|at| Some(at.duration_since(*up?).as_millis())).collect()
}

fn word(condition: Condition) -> &'static str {
    Health::Kept(condition).word()
}

fn meet(story: &mut Story, plan: &Plan, log: &Log) {
    story.meet(match plan.start {
        Start::Well { failures: 0, each } if each < Duration::from_millis(250) => "a fast start",
        Start::Well { failures: 0, .. } => "a slow start",
        Start::Well { .. } => "a start after failures",
        Start::Never => "one that never answers",
        Start::Mute => "one that says nothing",
        Start::Fails(_) => "one that fails",
        Start::Broken => "one that is configured wrongly",
    });
    story.meet(match plan.cached {
        Cached::Nothing => "nothing known",
        Cached::Same(_) => "known from before, and the same",
        Cached::Other(_) => "known from before, and another",
        Cached::Foreign => "a stranger's catalog",
        Cached::Garbage => "a catalog that nobody can read",
    });
    if log.ups.len() > 1 {
        story.meet("a crash");
    }
    let well = plan.takes().is_some();
    if let Cached::Same(holds) | Cached::Other(holds) = plan.cached {
        story.meet(match holds {
            _ if !well => "a sick one that is known",
            Holds::Unsaid => "a list that does not say for how long it holds",
            Holds::Expired => "a list whose time was over before",
            Holds::Longer => "a list that holds",
            Holds::For(_) => "a list whose time is over in between",
        });
    }
    if well && log.ups.len() == 1 && plan.fresh().is_some_and(|fresh| fresh < REST) && log.lists.len() > 1 {
        story.meet("a list that is asked for again when its time is over");
    }
}
