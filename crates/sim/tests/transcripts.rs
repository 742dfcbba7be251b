//! Every transcript of the repository, played against the core.

use std::path::{Path, PathBuf};

use cardan_sim::transcript::{parse, run};

fn transcripts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let mut files = Vec::new();
    for folder in ["legacy", "modern", "mixed", "bad"] {
        let folder = root.join(folder);
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        files.extend(entries.map(|entry| entry.expect("a folder can be read").path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

#[test]
fn every_transcript_holds() {
    let files = transcripts();
    assert!(files.len() >= 20, "only {} transcripts", files.len());
    let mut failures = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        if let Err(failure) = parse(&text).and_then(|transcript| run(&transcript)) {
            failures.push(format!("{}: {failure}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A runner that accepts anything would prove nothing.
#[test]
fn wrong_transcripts_fail_where_they_are_wrong() {
    let head = "# rows: PNG-1\n# role: server\n> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    for (tail, line) in [
        ("", 3),
        ("< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n", 4),
        ("~ 1s\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", 4),
        ("< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n! noise\n", 5),
        ("< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n> nonsense\n< \"*\"\n", 6),
        ("< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n= 1 done {}\n", 5),
        ("< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n@ dance\n", 5),
    ] {
        let transcript = parse(&format!("{head}{tail}")).unwrap();
        assert_eq!(run(&transcript).unwrap_err().line, line, "{tail}");
    }
}
