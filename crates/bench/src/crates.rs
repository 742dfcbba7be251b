//! How many crates a server with typed tools over stdio needs, and whether any of them builds C.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::Figure;

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let server = tree(&["cardan-server", "cardan-transport"])?;
    let both = tree(&["cardan-server", "cardan-client", "cardan-transport"])?;
    let builds_c =
        both.iter().filter(|name| matches!(name.as_str(), "cc" | "cmake" | "bindgen" | "pkg-config")).count();
    Ok(vec![
        Figure::new("crates of a stdio server with typed tools", server.len() as f64, "crates", Some(45.0)),
        Figure::new("crates that build C in client and server", builds_c as f64, "crates", Some(0.0)),
    ])
}

/// Names in the tree, build dependencies included.
fn tree(packages: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command.output().context("cannot run cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}
