//! What a call costs: allocations counted, time as a ratio to an anchor in the same run, instructions
//! by callgrind. Each figure stands beside its budget; a budget that does not hold fails the run.
//!
//! `cargo xtask bench core`, `managed` (a part of it), `http`, `fleet`, `gateway` or `cli`. The soak is here too, `cargo xtask soak`: does the server
//! hold under load? And the work from which a build learns, for `cargo xtask dist`.

#![allow(clippy::print_stdout, reason = "its output is the point of the program")]

mod allocations;
mod cli;
mod crates;
mod fleet;
mod gateway;
mod harness;
mod http;
mod managed;
mod raw;
mod scan;
mod soak;
mod stdio;
mod train;
mod transports;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::harness::command;

/// One figure and its budget.
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    /// At most this; nothing: informative.
    budget: Option<f64>,
}

impl Figure {
    fn new(what: impl Into<String>, value: f64, unit: &'static str, budget: Option<f64>) -> Self {
        Self { what: what.into(), value, unit, budget }
    }

    fn holds(&self) -> bool {
        self.budget.is_none_or(|budget| self.value <= budget)
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let what = std::env::args().nth(1).unwrap_or_else(|| "core".to_owned());
    // The program to be measured.
    let given = std::env::args_os().nth(2).map(PathBuf::from);
    match &*what {
        "train" => {
            let alone = std::env::args_os().nth(3).context("where does what is seen of one call go?")?;
            return train::run(&command(given)?, Path::new(&alone)).map(|()| ExitCode::SUCCESS);
        }
        "soak" => return soak::run(std::env::args().skip(2)),
        "soak-server" => return soak::serve().map(|()| ExitCode::SUCCESS),
        _ => {}
    }
    let figures = match &*what {
        "core" => core()?,
        "managed" => managed::figures()?,
        "http" => http::figures()?,
        "fleet" => fleet::figures(&command(given)?)?,
        "gateway" => gateway::figures(&command(given)?)?,
        "cli" => cli::figures(&command(given)?)?,
        // What is counted from outside, by this very program.
        "calls" => return counted(),
        _ => anyhow::bail!("unknown bench {what}; there are: core, managed, http, fleet, gateway, cli, soak"),
    };
    anyhow::ensure!(!figures.is_empty(), "nothing was measured, see above for what is missing");
    println!("| figure | value | budget | |");
    println!("|---|--:|--:|---|");
    for figure in &figures {
        let rounded = |budget: f64| (budget * 100.0).round() / 100.0;
        let budget = figure.budget.map(|budget| format!("{} {}", rounded(budget), figure.unit));
        let budget = budget.unwrap_or_default();
        let verdict = if figure.holds() { "" } else { "over" };
        // Ratios lie close to one.
        let digits = if figure.unit == "times" { 2 } else { 1 };
        println!("| {} | {:.digits$} {} | {budget} | {verdict} |", figure.what, figure.value, figure.unit);
    }
    let over = figures.iter().filter(|figure| !figure.holds()).count();
    println!("{} passed, {over} failed", figures.len() - over);
    Ok(if over == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn counted() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args().skip(2);
    let (kind, calls) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    managed::calls(&kind, calls.parse()?)?;
    Ok(ExitCode::SUCCESS)
}

fn core() -> anyhow::Result<Vec<Figure>> {
    let mut figures = allocations::figures()?;
    figures.extend(scan::figures()?);
    figures.extend(crates::figures()?);
    figures.extend(managed::figures()?);
    figures.extend(stdio::figures()?);
    Ok(figures)
}
