//! Disks that are full, and power that is lost in the middle of writing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::modern;
use crate::common::{CARDAN, Scratch};
use crate::rig::{Running, World, demo};

/// Every file below a folder, with what is in it.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => drop(all.insert(path.display().to_string(), fs::read_to_string(&path).unwrap())),
        }
    }
    all
}

/// F32: where no file takes a byte, calls are answered all the same, it is told, and what was kept before is there still: lines
/// of calls, catalogs, approved tools.
#[test]
fn f32_a_full_disk_stops_no_call_and_truncates_nothing() {
    let world = World::new("disk-full", &["[gateway]\naudit = \"audit.jsonl\"\n", &*demo("alpha")].concat());
    let add = json!({ "a": 1, "b": 2 });
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    assert_eq!(modern(&gateway, "alpha__add", &add).answer().status, 200);
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
    let (kept, audit) = (PathBuf::from(world.0.file("home")), world.0.file("audit.jsonl"));
    let before = (files(&kept), fs::read_to_string(&audit).unwrap());
    assert!(before.0.len() >= 2 && before.1.contains("tools/call"), "{before:?}");

    // The signal would end the process; without it, writing fails as it does on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    let config = world.config();
    command.args(["-c", limited, CARDAN, "serve", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("HOME", world.0.file("home")).env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    command.stdin(Stdio::null());
    let gateway = Running::of(command);
    gateway.stands("ready");
    for _ in 0..3 {
        let answer = modern(&gateway, "alpha__add", &add).answer();
        assert!(answer.status == 200 && answer.body.contains("3"), "{answer:?}");
    }
    gateway.hears("calls cannot be written down");
    gateway.signal("TERM");
    assert_eq!(gateway.ends(), Some(0));
    assert_eq!((files(&kept), fs::read_to_string(&audit).unwrap()), before);
}

/// Steps of a process that writes a file.
const STEPS: [&str; 11] = [
    "openat",
    "write",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "chmod",
    "fchmodat",
];

/// Runs a command to the n-th of these steps, at which it is killed; true: it came to its end before.
fn ends_before(step: &str, count: u32, home: &str, words: &[&str]) -> bool {
    // Not every machine has all of them.
    let inject = format!("inject=?{step}:signal=KILL:when={count}");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, "--", CARDAN]).args(words);
    strace.env("HOME", home).env_remove("XDG_CONFIG_HOME");
    strace.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// Can processes be followed here? `cargo xtask test` asks the same, and says what is left out.
fn strace_works() -> bool {
    let probe = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    probe.is_ok_and(|probe| probe.status.success())
}

/// F33: whenever the process is killed while it writes, the file is the old one or the new one, and works.
#[test]
fn f33_a_file_is_the_old_one_or_the_new_one() {
    if !strace_works() {
        eprintln!("SKIPPED: strace cannot be used here, so no process can be ended at each step");
        return;
    }
    let scratch = Scratch::new("disk-power");
    let (home, folder) = (scratch.file("home"), scratch.file("project"));
    let file = format!("{folder}/cardan.toml");
    let afresh = |text: &str| {
        // Backups and drafts of runs before would be steps of their own.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::write(&file, text).unwrap();
    };
    let old = "# mine\n[servers.a]\ncommand = \"a\"\n";
    let words = ["config", "add", "b", "--config", &file, "--", "b"];
    afresh(old);
    let mut command = Command::new(CARDAN);
    command.args(words).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
    assert!(command.output().unwrap().status.success());
    let new = fs::read_to_string(&file).unwrap();
    assert!(new.starts_with(old) && new.contains("[servers.b]"), "{new}");
    let mut seen = [0, 0];
    for step in STEPS {
        for count in 1.. {
            afresh(old);
            let ended = ends_before(step, count, &home, &words);
            let now = fs::read_to_string(&file).unwrap();
            assert!(now == old || now == new, "killed at {step} {count}: {now:?}");
            if ended {
                assert_eq!(now, new, "{step} {count}");
                break;
            }
            assert!(count < 200, "it never came to its end");
            seen[usize::from(now == new)] += 1;
        }
    }
    assert!(seen[0] >= 5 && seen[1] >= 1, "killed before and after it was there: {seen:?}");
    assert!(files(Path::new(&home)).is_empty(), "a named file is trusted, so nothing is remembered of it");
}

/// F33: what is written reaches the disk before it gets its name.
#[test]
fn f33_a_file_is_on_the_disk_before_it_has_its_name() {
    if !strace_works() {
        eprintln!("SKIPPED: strace cannot be used here, so nobody sees what is asked of the disk");
        return;
    }
    let scratch = Scratch::new("disk-order");
    let (home, file, trace) = (scratch.file("home"), scratch.file("cardan.toml"), scratch.file("trace"));
    fs::write(&file, demo("alpha")).unwrap();
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-qq",
        "-y",
        "-o",
        &trace,
        "-e",
        "trace=fsync,rename,renameat,renameat2",
        "--",
        CARDAN,
    ]);
    strace
        .args(["servers", "--config", &file, "--wait", "60"])
        .env("HOME", &home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_CONFIG_HOME");
    let ran = strace.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let trace = fs::read_to_string(&trace).unwrap();
    let steps: Vec<&str> = trace.lines().filter(|line| line.contains("catalogs")).collect();
    let draft = steps.iter().position(|line| line.contains("fsync(") && line.contains(".draft"));
    let named = steps.iter().position(|line| line.contains("rename") && line.contains(".draft"));
    let folder = steps.iter().rposition(|line| line.contains("fsync(") && line.contains("catalogs>"));
    let (Some(draft), Some(named), Some(folder)) = (draft, named, folder) else { panic!("{trace}") };
    assert!(draft < named && named < folder, "{trace}");
}
