//! The two halves are apart: what decides knows no world, what moves bytes decides nothing.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What a crate ships with, tests left out.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let rest = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let listed = rest.take_while(|line| !line.starts_with('['));
    let names = listed.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).map(str::to_owned).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(sources(&path)) } else { found.push(path) }
    }
    found
}

/// S0-1: the core is made of plain data and parsers; links name no call, id, era or deadline of one.
#[test]
fn protocol_and_transport_are_apart() {
    let pure = ["base64", "bytes", "http", "memchr", "serde", "serde_json", "simdutf8"];
    let core = dependencies("proto");
    assert!(core.contains(&"serde_json".to_owned()), "the manifest was read: {core:?}");
    assert!(core.iter().all(|name| pure.contains(&&**name)), "{core:?}");

    let above = [
        "CallId",
        "Ticket",
        "Revision",
        "EraChoice",
        "Session",
        "Method",
        "Envelope",
        "call_idle_timeout",
        "call_total_timeout",
        "probe_timeout",
    ];
    let files = sources(&crates().join("transport").join("src"));
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let words = || line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let named = above.iter().find(|name| words().any(|word| word == **name));
            assert_eq!(named, None, "{}: {line}", file.display());
        }
    }
}
