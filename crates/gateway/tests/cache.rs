//! Catalogs on disk: kept, aged, shared, and never trusted blindly.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cardan_gateway::cache::{CatalogCache, Kept};
use cardan_gateway::catalog::{Catalog, Kind, List};
use cardan_proto::era::Revision;
use cardan_proto::limits::fleet::{CATALOG_AGE, CATALOG_BYTES};
use cardan_proto::model::raw::Raw;
use cardan_proto::session::event::Change;
use common::Scratch;

fn list(kind: Kind, entries: &str, ttl_ms: Option<u64>) -> List {
    List { ttl_ms, ..List::of(kind, serde_json::from_str(entries).unwrap()).unwrap() }
}

fn catalog() -> Catalog {
    let mut catalog =
        Catalog::new(Revision::LATEST_MODERN, Some(Raw::parse(r#"{"instructions":"be kind"}"#).unwrap()));
    catalog.tools =
        list(Kind::Tools, r#"[{"name":"add","x-number":1.0,"inputSchema":{"type":"object"}}]"#, Some(60_000));
    catalog.resources = list(Kind::Resources, r#"[{"uri":"file:///a","name":"a"}]"#, None);
    catalog.templates = list(Kind::Templates, r#"[{"uriTemplate":"file:///{path}","name":"any"}]"#, Some(0));
    catalog
}

/// S0-80: what was told is there again after a restart, byte by byte, and says how long it holds.
#[test]
fn s0_80_a_catalog_comes_back_as_it_was() {
    let scratch = Scratch::new("kept");
    let cache = CatalogCache::new(scratch.path().join("deep/catalogs"));
    assert_eq!(cache.load("00ff"), None, "nothing is there yet, not even the directory");
    let kept = Kept::now("files", catalog());
    cache.save("00ff", &kept).unwrap();
    let back = CatalogCache::new(scratch.path().join("deep/catalogs")).load("00ff").unwrap();
    assert_eq!(back, kept);
    let tool = &back.catalog.tools.entries[0];
    assert_eq!(tool.key(), "add");
    assert_eq!(tool.raw().as_str(), r#"{"name":"add","x-number":1.0,"inputSchema":{"type":"object"}}"#);
    assert_eq!(back.catalog.resources.entries[0].key(), "file:///a");
    assert_eq!(back.catalog.templates.entries[0].key(), "file:///{path}");
    assert!(back.told.age(Kind::Tools).unwrap() < Duration::from_secs(3600));
    assert!(back.holds(Kind::Tools), "for a minute");
    assert!(!back.holds(Kind::Resources) && !back.holds(Kind::Templates), "no hint, and zero");
    assert_eq!(cache.load("00fe"), None);
    cache.remove("00ff");
    assert_eq!(cache.load("00ff"), None);
}

/// A file says what its owner works on: nobody else reads it, and nothing is left beside it.
#[test]
fn what_is_kept_is_for_its_owner() {
    let scratch = Scratch::new("private");
    let dir = scratch.path().join("catalogs");
    let cache = CatalogCache::new(&dir);
    for _ in 0..3 {
        cache.save("ab", &Kept::now("files", catalog())).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("ab.json"))), (0o700, 0o600));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

/// What cannot be read is absent: broken, of another make, with an entry that has no name.
#[test]
fn what_cannot_be_read_is_absent() {
    let scratch = Scratch::new("broken");
    let cache = CatalogCache::new(scratch.path());
    cache.save("ab", &Kept::now("files", catalog())).unwrap();
    let path = scratch.path().join("ab.json");
    let good = fs::read_to_string(&path).unwrap();
    let broken = [
        String::new(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"format\":3", "\"format\":2"),
        good.replace("2026-07-28", "1999-01-01"),
        good.replace("\"name\":\"add\",", ""),
        "\u{0}".repeat(100),
    ];
    for text in broken {
        assert_ne!(text, good);
        fs::write(&path, &text).unwrap();
        assert_eq!(cache.load("ab"), None, "{text}");
    }
    fs::write(&path, &good).unwrap();
    assert!(cache.load("ab").is_some());
}

/// What was not told again for too long is removed, drafts that were left behind too; the rest stays. What is too large is
/// as good as absent.
#[test]
fn old_and_large_catalogs_are_bounded() {
    let scratch = Scratch::new("bounds");
    let cache = CatalogCache::new(scratch.path());
    for digest in ["aa", "bb", "cc"] {
        cache.save(digest, &Kept::now("s", catalog())).unwrap();
    }
    let now = SystemTime::now();
    let open = |file: &str| {
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(scratch.path().join(file))
            .unwrap()
    };
    let minute = Duration::from_secs(60);
    open("aa.json").set_modified(now - CATALOG_AGE - minute).unwrap();
    open("bb.json").set_modified(now - CATALOG_AGE + minute).unwrap();
    open("dd.0.draft").set_modified(now - CATALOG_AGE - minute).unwrap();
    cache.prune();
    assert!(
        cache.load("aa").is_none()
            && cache.load("bb").is_some()
            && !scratch.path().join("dd.0.draft").exists()
    );
    // Blanks behind it change nothing of what it says.
    let file = open("cc.json");
    let mut text = fs::read_to_string(scratch.path().join("cc.json")).unwrap();
    let most = usize::try_from(CATALOG_BYTES).unwrap();
    text.extend(std::iter::repeat_n(' ', most - text.len()));
    fs::write(scratch.path().join("cc.json"), &text).unwrap();
    assert!(cache.load("cc").is_some(), "at the bound it is read");
    file.set_len(CATALOG_BYTES + 1).unwrap();
    assert!(cache.load("cc").is_none());
}

/// Only a plain name becomes a path.
#[test]
fn a_digest_cannot_leave_the_directory() {
    let scratch = Scratch::new("escape");
    let cache = CatalogCache::new(scratch.path().join("catalogs"));
    for digest in ["", "../ab", "a/b", "ab.json", "é"] {
        assert!(cache.save(digest, &Kept::now("x", catalog())).is_err(), "{digest:?}");
        assert_eq!(cache.load(digest), None);
        cache.remove(digest);
    }
    assert!(!scratch.path().join("catalogs").exists());
}

/// A catalog that was told in the future holds nothing back: the clock was wrong.
#[test]
fn f20_a_clock_that_was_wrong_makes_nothing_hold() {
    let scratch = Scratch::new("future");
    let cache = CatalogCache::new(scratch.path());
    cache.save("ab", &Kept::now("files", catalog())).unwrap();
    let path = scratch.path().join("ab.json");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find("\"told_ms\":[").unwrap() + "\"told_ms\":[".len();
    let to = from + text[from..].find(',').unwrap();
    fs::write(&path, format!("{}99999999999999{}", &text[..from], &text[to..])).unwrap();
    let kept = cache.load("ab").unwrap();
    assert_eq!(kept.told.age(Kind::Tools), Some(Duration::ZERO));
    assert!(!kept.holds(Kind::Tools));
}

/// The user's directory follows the usual variables; a relative one is not used.
#[test]
fn the_directory_follows_the_usual_variables() {
    let of = |set: &'static [(&str, &str)]| {
        CatalogCache::of_user(|name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
        .map(|cache| format!("{cache:?}"))
    };
    assert!(of(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]).unwrap().contains("/c/cardan/catalogs"));
    assert!(of(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]).unwrap().contains("/h/.cache/cardan/catalogs"));
    assert_eq!(of(&[]), None);
}

/// A change is told once for what differs, and order counts.
#[test]
fn changes_are_what_differs() {
    let old = catalog();
    assert_eq!(old.changes_since(&old), []);
    let mut new = catalog();
    new.templates = List::default();
    assert_eq!(new.changes_since(&old), [Change::Resources]);
    new.tools.ttl_ms = None;
    assert_eq!(new.changes_since(&old), [Change::Resources], "how long it holds is no change");
    new.tools = list(Kind::Tools, r#"[{"name":"add","inputSchema":{"type":"array"}}]"#, None);
    new.prompts = list(Kind::Prompts, r#"[{"name":"p"}]"#, None);
    assert_eq!(new.changes_since(&old), [Change::Tools, Change::Prompts, Change::Resources]);
}
