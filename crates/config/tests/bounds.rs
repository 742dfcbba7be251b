//! What happens at the bounds of configuration.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::closest::closest;
use cardan_config::file::{Saved, replace};
use cardan_config::text::{Grammar, Text};
use cardan_config::{File, Tool};
use cardan_proto::limits::config::{BACKUPS, FILE_BYTES, NAME_CHARS, TEXT_DEPTH, TREE_DEPTH};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config-bounds").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let path = folder("large").join("cardan.toml");
    // It takes no room on disk, and nobody reads it to the end.
    fs::File::create(&path).unwrap().set_len(FILE_BYTES + 1).unwrap();
    let told = File::read(&path, Some(Tool::Cardan)).unwrap_err().to_string();
    assert!(told.ends_with("cannot be read: it is longer than 67108864 bytes"), "{told}");
}

/// The table of the file is one of them.
#[test]
fn a_tree_is_as_deep_as_allowed_and_no_deeper() {
    let nested = |depth: usize| format!("{{\"x\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    let read = |text: &str| File::parse(Path::new(".mcp.json"), text, None);
    assert!(read(&nested(TREE_DEPTH - 1)).is_ok());
    assert!(read(&nested(TREE_DEPTH)).is_ok());
    let problem = read(&nested(TREE_DEPTH + 1)).unwrap_err();
    assert_eq!((problem.line, problem.column), (1, 7 + TREE_DEPTH), "{problem}");
    for depth in [TREE_DEPTH * 100, TREE_DEPTH * 10_000] {
        let toml = format!("x = {}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(File::parse(Path::new("cardan.toml"), &toml, None).is_err(), "it ends, and says so");
    }
}

#[test]
fn defaults_in_defaults_end_as_text() {
    let nested = |depth: usize| format!("{}end{}", "${A:-".repeat(depth), "}".repeat(depth));
    let show = |depth: usize| Text::parse(&nested(depth), Grammar::Cardan).show(&|_| "text".to_owned());
    assert!(!show(TEXT_DEPTH).contains("texttext") && show(TEXT_DEPTH).contains("text"));
    // What lies deeper is one literal, and is written back as it was.
    let deep = Text::parse(&nested(TEXT_DEPTH + 1), Grammar::Cardan);
    assert_eq!(show(TEXT_DEPTH + 1).matches("${A:-").count(), TEXT_DEPTH, "{deep:?}");
}

#[test]
fn long_names_are_like_nothing() {
    let name = "n".repeat(NAME_CHARS);
    let slip = format!("m{}", &name[1..]);
    assert_eq!(closest(&slip, [name.as_str()]), Some(name.as_str()));
    let longer = format!("{name}n");
    assert_eq!(closest(&slip, [longer.as_str()]), None);
}

/// With every name for a backup taken, the file stays as it is.
#[test]
fn backups_are_bounded() {
    let folder = folder("backups");
    let path = folder.join("cardan.toml");
    fs::write(&path, "old").unwrap();
    fs::write(folder.join("cardan.toml.bak"), "").unwrap();
    (1..BACKUPS - 1)
        .for_each(|number| fs::write(folder.join(format!("cardan.toml.bak.{number}")), "").unwrap());
    let last = folder.join(format!("cardan.toml.bak.{}", BACKUPS - 1));
    assert_eq!(
        replace(&path, Some("old"), "new").unwrap(),
        Saved::Backup(fs::canonicalize(&folder).unwrap().join(last.file_name().unwrap()))
    );
    let told = replace(&path, Some("new"), "newer").unwrap_err().to_string();
    assert_eq!(told, "there are too many backups of this file already");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    fs::remove_dir_all(folder).unwrap();
}
