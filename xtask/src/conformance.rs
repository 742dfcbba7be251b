//! `conformance`: the official suite, against the server and the client in `crates/conformance`.
//!
//! The suite says itself which scenarios there are and at which revisions; all of them are run, and then all once
//! more without a revision, which is how it reaches extensions. What counts is in `score`.

mod fixture;
mod score;
mod suite;

use std::path::Path;

use anyhow::{Result, bail};

use crate::{
    args::Args,
    peers,
    run::{cargo, say, show, succeed},
    walk,
};
use fixture::Fixture;
use score::{Report, Run};
use suite::{Listed, Role, Suite};

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

/// `conformance [--server|--client] [--revision R] [--scenario S]`
pub(crate) fn run(mut args: Args) -> Result<()> {
    let (server, client) = (args.flag("--server"), args.flag("--client"));
    let wanted = Wanted { revision: args.value("--revision")?, scenario: args.value("--scenario")? };
    args.finish()?;
    let root = walk::root();
    peers::set_up_one(&root, suite::PEER)?;
    let mut clean = true;
    if server || !client {
        clean &= judge(&root, Role::Server, &wanted)?;
    }
    if client {
        clean &= judge(&root, Role::Client, &wanted)?;
    }
    if clean { Ok(()) } else { bail!("the conformance suite found something, see above") }
}

/// Both roles, as a step of all tests.
pub(crate) fn both(root: &Path) -> Result<()> {
    let wanted = Wanted::default();
    // The client is judged however the server did.
    let (server, client) = (judge(root, Role::Server, &wanted)?, judge(root, Role::Client, &wanted)?);
    if server && client { Ok(()) } else { bail!("the conformance suite found something, see above") }
}

/// Runs one role and tells how it went. False: not well.
fn judge(root: &Path, role: Role, wanted: &Wanted) -> Result<bool> {
    let binary = format!("conformance-{}", role.name());
    succeed(cargo(root).args(["build", "--quiet", "-p", "cardan-conformance", "--bin", &binary]))?;
    let suite = Suite::new(root, role);
    let listed = suite.list()?;
    let mut report = Report::new(role);
    match role {
        Role::Server => serve(root, &suite, &listed, wanted, &mut report)?,
        Role::Client => call(root, &suite, &listed, wanted, &mut report)?,
    }
    if report.runs.is_empty() {
        bail!("no such scenario or revision; `--revision` takes one of {}", listed.revisions().join(", "));
    }
    if wanted.scenario.is_none() {
        report.compare(&std::fs::read_to_string(root.join("crates/conformance/score.txt"))?)?;
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
