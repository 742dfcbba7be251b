//! `tidy`: the invariants of ARCHITECTURE.md that no compiler checks.

mod rules;
mod spell;

use anyhow::{Result, bail};

use crate::{
    args::Args,
    lex,
    run::say,
    scope::{self, Scope},
    walk::{self, File},
};

/// A line that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// From 1; 0 for the file as a whole.
    line: usize,
    /// What is wrong and what to do.
    what: String,
}

/// A rule that must bend somewhere, with the reason.
struct Exception {
    path: &'static str,
    rule: &'static str,
    /// Read by people, and by the test that wants one for each.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside the exception it explains"))]
    reason: &'static str,
}

/// Keep this short: each row is a debt.
const EXCEPTIONS: [Exception; 0] = [];

/// Checks every source file.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let files = sources()?;
    let breaches: Vec<String> = files.iter().flat_map(|file| told(file, check(file))).collect();
    if !breaches.is_empty() {
        bail!("untidy\n{}", breaches.join("\n"));
    }
    say(&format!("tidy: {} files keep {} rules", files.len(), rules::ALL.len()));
    Ok(())
}

fn sources() -> Result<Vec<File>> {
    let root = walk::root();
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz", "tests"] {
        files.extend(walk::files(&root, folder, &[".rs"])?);
    }
    Ok(files)
}

fn told(file: &File, breaches: Vec<Breach>) -> impl Iterator<Item = String> {
    breaches.into_iter().map(|breach| match breach.line {
        0 => format!("  {}: {}", file.path, breach.what),
        line => format!("  {}:{line}: {}", file.path, breach.what),
    })
}

fn check(file: &File) -> Vec<Breach> {
    let lines = lex::lines(&file.text);
    let mut scopes = scope::scopes(&lines);
    if file.is_test() {
        scopes.fill(Scope::Test);
    }
    let source = rules::Source { file, lines: &lines, scopes: &scopes };
    let mut out = Vec::new();
    for rule in &rules::ALL {
        if !EXCEPTIONS.iter().any(|except| except.path == file.path && except.rule == rule.name) {
            out.extend((rule.check)(&source));
        }
    }
    out
}

#[cfg(test)]
mod tests;
