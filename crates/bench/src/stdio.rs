//! The echo server over real pipes: instructions and allocations per call by callgrind, CPU as a ratio
//! to the one-pass typed floor of the same run.

use cardan_proto::era::Revision;

use crate::Figure;
use crate::harness::{Harness, example, least};

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let Some(harness) = Harness::find()? else { return Ok(Vec::new()) };
    let floor = format!("{} typed", harness.program("limit-stdio"));
    let echo = example("echo", "")?;
    let mut figures = Vec::new();
    // A modern call is a third longer and its result carries metadata: a quarter more may be spent on it.
    for (revision, instructions) in [(Revision::V2025_06_18, 20_000.0), (Revision::LATEST_MODERN, 25_000.0)] {
        let counted = harness.icount("stdio", &echo, revision)?;
        let what = format!("stdio echo of 64 B, {revision}");
        figures.push(Figure::new(format!("{what}: instructions"), counted.0, "", Some(instructions)));
        figures.push(Figure::new(format!("{what}: allocations"), counted.1, "", Some(12.0)));
    }
    let options = ["--transport", "stdio", "--inflight", "64", "--seconds", "1"];
    let ratio = harness.ratio("server_cpu_us_per_call", least, &echo, &floor, &options)?;
    let what = "stdio echo at 64 in flight: CPU to the typed floor";
    figures.push(Figure::new(what, ratio, "times", Some(4.0)));
    Ok(figures)
}
