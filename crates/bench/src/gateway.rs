//! A stdio server behind HTTP: what the bridge adds, beside one that forwards bytes and knows nothing, in the same run.

use std::path::Path;

use cardan_proto::era::Revision;

use crate::Figure;
use crate::harness::{Harness, example, field, least};

/// What each session on a shared upstream may take.
const SESSION_KIB: f64 = 40.0;

/// What a call may take longer than without a bridge, and what crates.io's mcp-proxy made it take longer where that was
/// decided. Machines differ by more than the one is below the other, so what counts is the one to the other in one run.
const ADDED_US: f64 = 25.0;
const THEIRS_US: f64 = 70.0;

/// What a bridge may cost that knows what it forwards, beside one that does not.
const KNOWING: f64 = 3.0;

/// What it may cost that client and server are not of one era.
const CROSSING: f64 = 1.5;

pub(crate) fn figures(cardan: &Path) -> anyhow::Result<Vec<Figure>> {
    let Some(harness) = Harness::find()? else { return Ok(Vec::new()) };
    let bridge = format!("{} bridge --listen {{addr}}", cardan.display());
    let child = format!("{} parse", harness.program("limit-stdio"));
    let mut figures = Vec::new();
    // The server behind it is a legacy one.
    for (revision, budget) in
        [(Revision::LATEST_LEGACY, KNOWING), (Revision::LATEST_MODERN, KNOWING * CROSSING)]
    {
        figures.extend(added(&harness, revision, budget, &bridge, &child)?);
    }
    figures.extend(crossing(&harness, &bridge)?);
    let shared = format!("{bridge} --sessions shared -- {child}");
    let idle = ["--transport", "http", "--scenario", "idle", "--sessions", "1000", "--seconds", "5"];
    let idle = harness.load(&shared, &idle)?;
    let what =
        format!("{} idle legacy sessions before one upstream: memory of each", field(&idle, "sessions")?);
    figures.push(Figure::new(what, field(&idle, "kib_per_session")?, "KiB", Some(SESSION_KIB)));
    Ok(figures)
}

fn load<'a>(date: &'a str, sessions: &'a str) -> [&'a str; 8] {
    ["--transport", "http", "--protocol", date, "--sessions", sessions, "--seconds", "1"]
}

/// What a bridge costs that all clients of a server share.
fn added(
    harness: &Harness,
    revision: Revision,
    budget: f64,
    bridge: &str,
    child: &str,
) -> anyhow::Result<[Figure; 5]> {
    let what = format!("legacy stdio behind HTTP, 64 B, {revision}");
    let ours = format!("{bridge} --sessions shared -- {child}");
    let floor = format!("{} bridge {{addr}} raw 64 -- {child}", harness.program("limit-http"));
    let busy = harness.ratio("server_cpu_us_per_call", least, &ours, &floor, &load(revision.date(), "16"))?;
    let alone = load(revision.date(), "1");
    let direct = format!("{} epoll {{addr}} parse", harness.program("limit-http"));
    let theirs = format!("{} {{port}} {child}", harness.mcp_proxy()?);
    // It knows the legacy era only, and puts the name of the server before those of tools.
    let other = ["--url", "http://127.0.0.1:{port}/", "--tool", "b/echo"];
    let other = [&load(Revision::LATEST_LEGACY.date(), "1")[..], &other].concat();
    let turns = [(&*direct, &alone[..]), (&*floor, &alone[..]), (&*ours, &alone[..]), (&*theirs, &other[..])];
    // Whoever else uses the machine only makes a turn slower, and often by more than what is asked for here.
    let [direct, floor, ours, theirs] = harness.turns("p50_us", turns)?.map(least);
    let share = (ours - direct) / (theirs - direct);
    Ok([
        Figure::new(format!("{what}: CPU at 16 sessions to forwarding bytes"), busy, "times", Some(budget)),
        Figure::new(format!("{what}: p50 over direct at one session"), ours - direct, "us", None),
        Figure::new(format!("{what}: the same to mcp-proxy's"), share, "times", Some(ADDED_US / THEIRS_US)),
        Figure::new(format!("{what}: p50 to direct"), ours / direct, "times", None),
        // Two more processes are woken, whoever does it: what that takes here.
        Figure::new(format!("{what}: p50 of forwarding bytes over direct"), floor - direct, "us", None),
    ])
}

/// What it costs that client and server are not of one era, beside a server of the client's era.
fn crossing(harness: &Harness, bridge: &str) -> anyhow::Result<Vec<Figure>> {
    let echo = example("echo", "")?;
    let mut figures = Vec::new();
    for (revision, same, other) in
        [(Revision::LATEST_LEGACY, "legacy", "modern"), (Revision::LATEST_MODERN, "modern", "legacy")]
    {
        let behind = |era: &str| format!("{bridge} --sessions shared --era {era} -- {echo}");
        let options = load(revision.date(), "16");
        let ratio =
            harness.ratio("server_cpu_us_per_call", least, &behind(other), &behind(same), &options)?;
        let what = format!("a {same} client before a {other} server: CPU to one of its era");
        figures.push(Figure::new(what, ratio, "times", Some(CROSSING)));
    }
    Ok(figures)
}
