//! The echo server over Streamable HTTP, in both eras, beside bare hyper with a typed parse of the same run,
//! and over the other transports.

use cardan_proto::era::Revision;

use crate::Figure;
use crate::harness::{Harness, example, field, least, median};
use crate::transports;

/// Sessions of the idle figure.
const IDLE: &str = "10000";
/// One hundredth of a processor, half of what F27 allows; it takes about a tenth of that.
const IDLE_CPU: f64 = 10_000.0;

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let program = example("echo_http", "http")?;
    let mut figures = match Harness::find()? {
        Some(harness) => harnessed(&harness, &program)?,
        None => Vec::new(),
    };
    figures.extend(transports::figures(&program)?);
    Ok(figures)
}

/// What takes the harness to measure.
fn harnessed(harness: &Harness, program: &str) -> anyhow::Result<Vec<Figure>> {
    let floor = format!("{} hyper {{addr}} typed", harness.program("limit-http"));
    let echo = format!("{program} {{addr}}");
    let mut figures = idle(harness, &echo)?;
    for revision in [Revision::LATEST_LEGACY, Revision::LATEST_MODERN] {
        let (instructions, allocations) = harness.icount("http", &echo, revision)?;
        let what = format!("HTTP echo of 64 B, {revision}");
        figures.push(Figure::new(format!("{what}: instructions"), instructions, "", Some(60_000.0)));
        figures.push(Figure::new(format!("{what}: allocations"), allocations, "", Some(35.0)));
        figures.extend(ratios(harness, &what, revision, &echo, &floor)?);
    }
    Ok(figures)
}

/// Sessions with nothing to do. Before the others, which leave ports behind that are not free for a while.
fn idle(harness: &Harness, echo: &str) -> anyhow::Result<Vec<Figure>> {
    let idle = ["--transport", "http", "--scenario", "idle", "--sessions", IDLE, "--seconds", "5"];
    let idle = harness.load(echo, &idle)?;
    let what = format!("{} idle legacy sessions with their stream", field(&idle, "sessions")?);
    let memory =
        Figure::new(format!("{what}: memory of each"), field(&idle, "kib_per_session")?, "KiB", Some(20.0));
    // A comment to each stream every fifteen seconds, which is a write to each socket: some hundreds per second.
    let cpu = field(&idle, "idle_cpu_us_per_s")?;
    Ok(vec![memory, Figure::new(format!("{what}: CPU"), cpu, "us/s", Some(IDLE_CPU))])
}

/// How we compare with bare hyper under load.
fn ratios(
    harness: &Harness,
    what: &str,
    revision: Revision,
    echo: &str,
    floor: &str,
) -> anyhow::Result<Vec<Figure>> {
    let load = |sessions, payload, seconds| {
        let date = revision.date();
        [
            "--transport",
            "http",
            "--protocol",
            date,
            "--sessions",
            sessions,
            "--payload",
            payload,
            "--seconds",
            seconds,
        ]
    };
    let cpu = "server_cpu_us_per_call";
    let busy = harness.ratio(cpu, least, echo, floor, &load("64", "64", "1"))?;
    let tail = harness.ratio("p99_us", median, echo, floor, &load("1000", "64", "2"))?;
    let large = harness.ratio(cpu, least, echo, floor, &load("4", "1048576", "2"))?;
    Ok(vec![
        Figure::new(format!("{what}: CPU at 64 sessions to bare hyper"), busy, "times", Some(2.0)),
        Figure::new(format!("{what}: p99 at 1,000 sessions to bare hyper"), tail, "times", Some(3.0)),
        Figure::new(format!("{what}, but 1 MiB: CPU to bare hyper"), large, "times", Some(1.0)),
    ])
}
