//! Starting a server: what it sees of us, and why it may not start.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::task::Poll;
use std::time::{Duration, Instant};

use cardan_proto::limits::Limits;
use cardan_transport::error::SpawnError;
use cardan_transport::guard::Guard;
use cardan_transport::spawn::{EnvPolicy, Spawn};
use common::{close, frame, python, recv, sh};
use serde_json::json;

/// A directory of this test's own, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("cardan-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The error, which must come at once and leave no descriptor behind.
fn refused(spawn: &Spawn) -> SpawnError {
    let start = Instant::now();
    let error = spawn.spawn(&Limits::DEFAULT).expect_err("it cannot start");
    assert!(start.elapsed() < Duration::from_millis(100), "F31: {:?}", start.elapsed());
    error
}

/// F31, S0-30, S1-7: a program that is nowhere; the error says where was looked.
#[tokio::test]
async fn f31_not_found_tells_the_searched_path() {
    let error = refused(&Spawn::new("no-such-server").env("PATH", "/nowhere:/usr/bin"));
    assert!(
        matches!(&error, SpawnError::NotFound { searched: Some(path), .. } if &**path == "/nowhere:/usr/bin")
    );
    let text = error.to_string();
    assert!(text.contains("`no-such-server`") && text.contains("/nowhere:/usr/bin"), "{text}");

    let error = refused(&Spawn::new("no-such-server").env_policy(EnvPolicy::Clean));
    assert!(error.to_string().contains("no PATH is set"), "{error}");
    let error = refused(&Spawn::new("./no-such-server"));
    assert!(matches!(error, SpawnError::NotFound { searched: None, .. }), "{error:?}");
}

/// F31, S0-30: files that cannot be run, each with its own advice.
#[tokio::test]
async fn f31_not_executable_tells_why() {
    let scratch = Scratch::new("exec");
    scratch.file("plain", "#!/bin/sh\n", 0o644);
    scratch.file("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    scratch.file("garbage", "\u{1}\u{2}\u{3} neither\n", 0o755);
    fs::create_dir(scratch.0.join("directory")).unwrap();
    for (name, advice) in [
        ("plain", "chmod +x"),
        ("no-interpreter", "interpreter"),
        ("garbage", "neither a program"),
        ("directory", "is a directory"),
    ] {
        let by_path = refused(&Spawn::new(scratch.0.join(name)));
        let by_name = refused(&Spawn::new(name).env("PATH", &scratch.0));
        for error in [by_path, by_name] {
            assert!(matches!(error, SpawnError::NotExecutable { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains(advice), "{name}: {error}");
        }
    }
}

/// F31, S0-30: a directory that cannot be entered is not taken for a missing program.
#[tokio::test]
async fn f31_bad_cwd_is_told_apart() {
    let scratch = Scratch::new("cwd");
    let file = scratch.file("file", "", 0o644);
    for cwd in [PathBuf::from("/no/such/directory"), file] {
        let error = refused(&sh("").cwd(&cwd));
        assert!(matches!(&error, SpawnError::BadCwd { cwd: told, .. } if *told == cwd), "{error:?}");
    }
}

/// F31: a start that fails a hundred times leaks nothing.
#[tokio::test]
async fn f31_failed_starts_leak_no_descriptor() {
    let scratch = Scratch::new("leak");
    let garbage = scratch.file("garbage", "\u{1}\u{2}\n", 0o755);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    refused(&Spawn::new(&garbage));
    let before = open();
    for _ in 0..100 {
        refused(&Spawn::new(&garbage).guard(Guard::Off));
    }
    // Other tests of this binary open a few at the same time.
    assert!(open() < before + 50, "{before} before, {} after", open());
}

/// S0-30: relative commands start in the child's directory, as a shell would have it.
#[tokio::test]
async fn s0_30_command_arguments_and_directory() {
    let scratch = Scratch::new("relative");
    scratch.file("server", "#!/bin/sh\necho '{\"name\":\"'$1'\",\"cwd\":\"'$PWD'\"}'\nread line\n", 0o755);
    let spawn = Spawn::new("./server").arg("one two").cwd(&scratch.0).guard(Guard::Off);
    let mut link = spawn.spawn(&Limits::DEFAULT).unwrap();
    let cwd = scratch.0.canonicalize().unwrap();
    assert_eq!(frame(&mut link).await, json!({ "name": "one two", "cwd": cwd }));
    close(&mut link).await;
}

/// F1, F31: who is started aside holds up nobody on the thread that wants it, and is the same; so is why it cannot start.
#[test]
fn f1_who_is_started_aside_holds_up_nobody() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        // No start gets through while this lasts, as if the machine were busy.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let spawn = sh("echo '{\"up\":true}'; read line").guard(Guard::Off);
        let mut starting = Box::pin(spawn.spawn_aside(&Limits::DEFAULT));
        let first = std::future::poll_fn(|cx| Poll::Ready(starting.as_mut().poll(cx).is_pending())).await;
        assert!(first, "this thread goes on");
        release.send(()).unwrap();
        let mut link = starting.await.unwrap();
        assert_eq!(frame(&mut link).await, json!({ "up": true }));
        close(&mut link).await;
        busy.await.unwrap().unwrap();
        let error = Spawn::new("./no-such-server").spawn_aside(&Limits::DEFAULT).await.expect_err("no file");
        assert!(matches!(error, SpawnError::NotFound { searched: None, .. }), "{error:?}");
    });
}

/// The environment that a child reports, by names.
async fn seen(spawn: Spawn) -> serde_json::Map<String, serde_json::Value> {
    let mut link = spawn.spawn(&Limits::DEFAULT).unwrap();
    let environment = frame(&mut link).await;
    close(&mut link).await;
    environment.as_object().unwrap().clone()
}

const REPORT_ENV: &str = "send(dict(os.environ)); sys.stdin.read()";

/// T26, S1-C6, S0-30: by default only what programs need; no secret of ours goes along.
#[tokio::test]
async fn t26_the_minimal_environment_holds_no_secrets() {
    // Cargo sets this for every test, so it stands for any variable that is none of the child's business.
    let ours = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(ours).is_some());
    let minimal = seen(python(REPORT_ENV)).await;
    assert!(minimal.contains_key("PATH"));
    for name in minimal.keys().filter(|name| *name != "LC_CTYPE") {
        assert!(EnvPolicy::Minimal.passes(OsStr::new(name)), "{name} went along");
    }
    assert!(!minimal.contains_key(ours));
    assert!(seen(python(REPORT_ENV).env_policy(EnvPolicy::Inherit)).await.contains_key(ours));

    let clean = seen(python(REPORT_ENV).env_policy(EnvPolicy::Clean)).await;
    assert!(clean.keys().all(|name| name == "LC_CTYPE"), "{clean:?}");
}

/// S1-8, STD-16: additions come last, none removes; credentials travel this way.
#[tokio::test]
async fn s1_8_additions_are_merged_and_none_removes() {
    let spawn = python(REPORT_ENV)
        .env("API_KEY", "from the configuration")
        .env("HOME", "/elsewhere")
        .change_env("USER", None)
        .change_env("TERM", Some("dumb".into()));
    assert!(!format!("{spawn:?}").contains("from the configuration"), "values stay out of logs");
    assert!(!spawn.environment().contains_key(OsStr::new("USER")));
    let seen = seen(spawn).await;
    assert_eq!((&seen["API_KEY"], &seen["HOME"]), (&json!("from the configuration"), &json!("/elsewhere")));
    assert_eq!((seen.get("USER"), seen.get("TERM")), (None, Some(&json!("dumb"))));
}

/// S1-C5: a secret that a command is given as an argument is known by what names it, as in a configuration.
#[test]
fn s1_c5_secrets_in_arguments_are_hidden() {
    let spawn =
        python("").args(["--auth=bob:hunter22", "-p", "tiger-lily", "--token", "s3cr3t-x", "-p", "8080"]);
    let told = "bob:hunter22 and tiger-lily and s3cr3t-x at 8080";
    assert_eq!(spawn.redactor().redact(told), "[redacted] and [redacted] and [redacted] at 8080");
}

/// S1-C5: the directory of the shell that started us stands in every path that a server tells, and is no secret.
#[test]
fn s1_c5_where_a_shell_is_is_not_hidden() {
    let spawn = python("")
        .env("PWD", "/home/ada/project")
        .env("OLDPWD", "/home/ada/before")
        .env("DB_PWD", "tiger-lily");
    let told = "no file /home/ada/project/x, nor /home/ada/before/x, for tiger-lily";
    let clean = "no file /home/ada/project/x, nor /home/ada/before/x, for [redacted]";
    assert_eq!(spawn.redactor().redact(told), clean);
}

/// T26: the child holds its three pipes and nothing that we opened, nor what its siblings have.
#[tokio::test]
async fn t26_the_child_has_three_descriptors() {
    let script = "fds = [int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]\nsend(sorted(fds)); sys.stdin.read()";
    // Whoever started us may have left us descriptors that every child of ours inherits.
    let script_alone = format!("{}\n{script}", common::SERVER_PY);
    let bare =
        std::process::Command::new(common::python3()).args(["-S", "-c", &script_alone]).output().unwrap();
    let inherited: serde_json::Value = serde_json::from_slice(&bare.stdout).unwrap();

    let _file = fs::File::open("/dev/null").unwrap();
    let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sibling = sh("read line").guard(Guard::On).spawn(&Limits::DEFAULT).unwrap();
    let mut link = python(script).guard(Guard::On).spawn(&Limits::DEFAULT).unwrap();
    assert_eq!(frame(&mut link).await, inherited);
    close(&mut link).await;
    close(&mut sibling).await;
}

/// S0-30, S0-34: the child leads a group of its own, so that signals meant for it miss us.
#[tokio::test]
async fn the_child_leads_its_own_group() {
    let mut link = sh("echo '[0]'; read line").spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    let id = link.id().unwrap();
    assert_eq!(common::members(id).iter().map(|p| p.pid).collect::<Vec<_>>(), [id]);
    close(&mut link).await;
    assert_eq!(link.id(), None);
}

/// S0-45: a link is used once; what it was made from makes the next.
#[tokio::test]
async fn s0_45_one_spawn_makes_many_links() {
    let spawn = sh("echo '{}'; read line");
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut link = spawn.spawn(&Limits::DEFAULT).unwrap();
        recv(&mut link).await;
        ids.push(link.id().unwrap());
        close(&mut link).await;
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}
