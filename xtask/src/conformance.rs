//! `conformance`: the official suite, against the server and the client in `crates/conformance`.
//!
//! The suite says itself which scenarios there are and at which revisions; all of them are run, and then all once
//! more without a revision, which is how it reaches extensions. What counts is in `score`. With `--through` the server
//! stands behind `cardan bridge`, see `through`.

mod fixture;
mod score;
mod suite;
mod through;

use std::path::Path;

use anyhow::{Result, bail};

use crate::{
    args::Args,
    peers,
    run::{build, say, show},
    walk,
};
use fixture::Fixture;
use score::{Report, Run};
use suite::{Listed, Role, Suite};
use through::Behind;

/// The client scenarios that need an authorization server, by the beginning of their names.
const AUTHORIZATION: &str = "auth/";

/// The run, and the form of replies, in which a reply that is there at once is one message and no stream.
const SHORT: &str = "short";

/// What to run.
#[derive(Debug, Default)]
struct Wanted {
    revision: Option<String>,
    scenario: Option<String>,
}

impl Wanted {
    fn takes(&self, revision: &str) -> bool {
        self.revision.as_deref().is_none_or(|wanted| wanted == revision)
    }

    fn takes_scenario(&self, name: &str) -> bool {
        self.scenario.as_deref().is_none_or(|wanted| wanted == name)
    }
}

/// `conformance [--server|--client|--through [--behind B]] [--revision R] [--scenario S]`
pub(crate) fn run(mut args: Args) -> Result<()> {
    let (server, client, through) = (args.flag("--server"), args.flag("--client"), args.flag("--through"));
    let behind = args.value("--behind")?;
    let wanted = Wanted { revision: args.value("--revision")?, scenario: args.value("--scenario")? };
    args.finish()?;
    let root = walk::root();
    peers::set_up_one(&root, suite::PEER)?;
    let ours = ["-p", "cardan-conformance", "--bin", "conformance-server", "--bin", "conformance-client"];
    build(&root, &ours)?;
    if through || behind.is_some() {
        build(&root, &["-p", "cardan-cli", "--bin", "cardan"])?;
    }
    let mut clean = true;
    if through || behind.is_some() {
        clean &= judge_through(&root, &through::chosen(behind.as_deref())?, &wanted)?;
        show(&through::granted());
    }
    if server || !(client || through || behind.is_some()) {
        clean &= judge(&root, Role::Server, &wanted)?;
    }
    if client {
        clean &= judge(&root, Role::Client, &wanted)?;
    }
    if clean { Ok(()) } else { bail!("the conformance suite found something, see above") }
}

/// Both roles, as a step of all tests. What is run was built with them.
pub(crate) fn both(root: &Path) -> Result<()> {
    let wanted = Wanted::default();
    // The client is judged however the server did.
    let (server, client) = (judge(root, Role::Server, &wanted)?, judge(root, Role::Client, &wanted)?);
    if server && client { Ok(()) } else { bail!("the conformance suite found something, see above") }
}

/// A part of `--through`, likewise.
pub(crate) fn through(root: &Path) -> Result<()> {
    let listed = Suite::new(root, Role::Server).list()?;
    let newest = listed.revisions().last().copied().unwrap_or_default();
    let mut clean = true;
    for (behind, label) in through::quick(newest) {
        let wanted = Wanted { revision: Some(label.to_owned()), scenario: None };
        clean &= judge_through(root, &[behind], &wanted)?;
    }
    show(&through::granted());
    if clean { Ok(()) } else { bail!("the conformance suite found something, see above") }
}

/// The same for our server behind a bridge, once for each way in which it may stand there.
fn judge_through(root: &Path, behind: &[Behind], wanted: &Wanted) -> Result<bool> {
    let suite = Suite::new(root, Role::Server);
    let listed = suite.list()?;
    let score = std::fs::read_to_string(root.join("crates/conformance/score.txt"))?;
    let mut clean = true;
    for behind in behind {
        let mut report = Report::new(&behind.name());
        bridge(root, &suite, &listed, wanted, *behind, &mut report)?;
        clean &= tell(report, &listed, wanted, &score)?;
    }
    Ok(clean)
}

/// Every scenario against a bridge before our server: at each revision, and once without one.
fn bridge(
    root: &Path,
    suite: &Suite,
    listed: &Listed,
    wanted: &Wanted,
    behind: Behind,
    report: &mut Report,
) -> Result<()> {
    let bridge = behind.start(root)?;
    // All at once are those of the revisions once more, and extensions.
    let all = behind.has_extensions().then_some(None);
    for revision in listed.revisions().into_iter().map(Some).chain(all) {
        let label = revision.unwrap_or(suite::ALL);
        let expected = listed.at(revision).filter(|name| wanted.takes_scenario(name)).collect::<Vec<_>>();
        if !wanted.takes(label) || expected.is_empty() {
            continue;
        }
        say(&format!("conformance: {}, {label}, {} scenarios", report.name, expected.len()));
        let kept = format!("{}/{label}", report.name);
        let found = suite.server(&bridge.url(), revision, wanted.scenario.as_deref(), &kept)?;
        report.runs.push(behind.grant(Run::new(label, &expected, found)));
    }
    Ok(())
}

/// Runs one role and tells how it went. False: not well.
fn judge(root: &Path, role: Role, wanted: &Wanted) -> Result<bool> {
    let suite = Suite::new(root, role);
    let listed = suite.list()?;
    let mut report = Report::new(role.name());
    match role {
        Role::Server => serve(root, &suite, &listed, wanted, &mut report)?,
        Role::Client => call(root, &suite, &listed, wanted, &mut report)?,
    }
    let score = std::fs::read_to_string(root.join("crates/conformance/score.txt"))?;
    tell(report, &listed, wanted, &score)
}

/// Holds a report against the score and shows it. False: it is not clean.
fn tell(mut report: Report, listed: &Listed, wanted: &Wanted, score: &str) -> Result<bool> {
    if report.runs.is_empty() {
        bail!("no such scenario or revision; `--revision` takes one of {}", listed.revisions().join(", "));
    }
    if wanted.scenario.is_none() {
        report.compare(score)?;
    }
    show(&report.table());
    show(&report.complaints());
    show(&report.summary());
    Ok(report.is_clean())
}

/// Every scenario against our server: at each revision, and once without one.
fn serve(root: &Path, suite: &Suite, listed: &Listed, wanted: &Wanted, report: &mut Report) -> Result<()> {
    let server = Fixture::start(root, "events")?;
    for revision in listed.revisions().into_iter().map(Some).chain([None]) {
        let label = revision.unwrap_or(suite::ALL);
        let expected = listed.at(revision).filter(|name| wanted.takes_scenario(name)).collect::<Vec<_>>();
        if !wanted.takes(label) || expected.is_empty() {
            continue;
        }
        say(&format!("conformance: server, {label}, {} scenarios", expected.len()));
        let found = suite.server(server.url(), revision, wanted.scenario.as_deref(), label)?;
        report.runs.push(Run::new(label, &expected, found));
    }
    // Once more as endpoints are set up unless told otherwise.
    let expected = listed.all().filter(|name| wanted.takes_scenario(name)).collect::<Vec<_>>();
    if wanted.takes(SHORT) && !expected.is_empty() {
        say(&format!("conformance: server with short replies, {} scenarios", expected.len()));
        let server = Fixture::start(root, SHORT)?;
        let found = suite.server(server.url(), None, wanted.scenario.as_deref(), SHORT)?;
        report.runs.push(Run::new(SHORT, &expected, found).without(score::STREAMS));
    }
    Ok(())
}

/// Every scenario against our client, one after the other: the suite would start all at once.
fn call(root: &Path, suite: &Suite, listed: &Listed, wanted: &Wanted, report: &mut Report) -> Result<()> {
    let client = fixture::path(root, "conformance-client");
    let revisions = listed.revisions();
    let newest = revisions.last().copied().unwrap_or_default();
    for label in revisions.into_iter().chain([suite::EXTENSION]) {
        let named = |name: &&str| wanted.takes_scenario(name) && !name.starts_with(AUTHORIZATION);
        let expected = listed.at(Some(label)).filter(named).collect::<Vec<_>>();
        // Extensions belong to no revision; ours are those of the newest.
        let revision = if label == suite::EXTENSION { newest } else { label };
        if !wanted.takes(label) || expected.is_empty() {
            continue;
        }
        say(&format!("conformance: client, {label}, {} scenarios", expected.len()));
        let mut found = Vec::new();
        for name in &expected {
            found.extend(suite.client(&client, revision, name, label)?);
        }
        report.runs.push(Run::new(label, &expected, found));
    }
    report.put_off = listed.all().filter(|name| name.starts_with(AUTHORIZATION)).map(str::to_owned).collect();
    Ok(())
}

#[cfg(test)]
mod tests;
