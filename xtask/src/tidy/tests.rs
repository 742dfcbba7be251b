use super::*;

fn untidy(path: &str, text: &str) -> Vec<String> {
    let file = File { path: path.to_owned(), text: text.to_owned() };
    told(&file, check(&file))
        .map(|line| line.trim().strip_prefix(path).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn exceptions_name_a_rule_and_a_reason() {
    for except in &EXCEPTIONS {
        assert!(rules::ALL.iter().any(|rule| rule.name == except.rule), "{}", except.rule);
        assert!(!except.reason.is_empty(), "{}", except.path);
    }
}

#[test]
fn long_files_are_refused_unless_they_are_tests() {
    let text = "x\n".repeat(601);
    assert_eq!(untidy("crates/a/src/a.rs", &text), [": 601 lines, the wall is 600; split by concern"]);
    assert!(untidy("crates/a/tests/a.rs", &text).is_empty());
    assert!(untidy("crates/a/src/a.rs", &"x\n".repeat(600)).is_empty());
}

/// S0-1: what is above knows no sockets, processes, threads or clocks.
#[test]
fn the_core_names_no_world() {
    for code in [
        "use tokio::sync;",
        "std::net::TcpStream",
        "std::process::exit(1)",
        "std::thread::spawn",
        "Instant::now()",
        "SystemTime::now()",
    ] {
        assert_eq!(untidy("crates/proto/src/a.rs", code).len(), 1, "{code}");
        assert!(untidy("crates/runtime/src/a.rs", code).is_empty(), "{code}");
    }
    assert!(
        untidy("crates/proto/src/a.rs", "// tokio\nlet a = \"tokio\";\nnot_tokio(std::net::IpAddr)")
            .is_empty()
    );
    assert!(untidy("crates/proto/src/a.rs", "#[test]\nfn a() { Instant::now(); }").is_empty());
}

#[test]
fn revisions_are_spelled_in_the_era_module_alone() {
    let code = "let a = \"2025-06-18\"; // 2025-06-18";
    assert_eq!(untidy("crates/cli/src/a.rs", code).len(), 1);
    assert!(untidy("crates/proto/src/era/revision.rs", code).is_empty());
    assert!(untidy("crates/proto/tests/a.rs", code).is_empty());
    assert!(untidy("crates/cli/src/a.rs", "// 2025-06-18\nlet a = \"no calls (2025-06-18)\";").is_empty());
}

/// S0-1: what is below knows no methods.
#[test]
fn methods_are_spelled_in_one_table() {
    for literal in ["tools/call", "notifications/tools/list_changed", "initialize", "server/discover"] {
        let code = format!("let a = b\"{literal}\";");
        assert_eq!(untidy("crates/proto/src/session/mod.rs", &code).len(), 1, "{literal}");
        assert_eq!(untidy("crates/transport/src/a.rs", &code).len(), 1, "{literal}");
        assert!(untidy("crates/proto/src/model/method.rs", &code).is_empty(), "{literal}");
        assert!(untidy("crates/cli/src/a.rs", &code).is_empty(), "{literal}");
    }
    for literal in ["application/json", "tools/", "see tools/call", "text/event-stream"] {
        assert!(untidy("crates/proto/src/a.rs", &format!("f(\"{literal}\")")).is_empty(), "{literal}");
    }
}

#[test]
fn codes_are_spelled_in_one_file() {
    assert_eq!(untidy("crates/proto/src/era/modern.rs", "Fault::new(-32602)").len(), 1);
    assert_eq!(untidy("crates/runtime/src/a.rs", "code == -32_603").len(), 1);
    assert_eq!(untidy("crates/transport/src/a.rs", "code == -32_603").len(), 1);
    assert!(untidy("crates/proto/src/jsonrpc/fault.rs", "const A: i64 = -32602;").is_empty());
    assert!(untidy("crates/proto/src/a.rs", "let a = 32602; let b = -326020; // -32602").is_empty());
}

#[test]
fn nothing_is_put_off() {
    for code in ["todo!()", "unimplemented!()", "#[ignore]", "#[ignore = \"slow\"]"] {
        assert_eq!(untidy("crates/a/tests/a.rs", code).len(), 1, "{code}");
    }
    assert!(untidy("crates/a/src/a.rs", "// todo!() and #[ignore]").is_empty());
}

#[test]
fn tests_do_not_sleep() {
    assert_eq!(untidy("crates/a/tests/a.rs", "tokio::time::sleep(x).await;").len(), 1);
    assert_eq!(
        untidy("crates/a/tests/a.rs", "#[tokio::test(start_paused = true)]\nstd::thread::sleep(x);").len(),
        1
    );
    assert!(
        untidy("crates/a/tests/a.rs", "#[tokio::test(start_paused = true)]\ntokio::time::sleep(x).await;")
            .is_empty()
    );
    assert!(untidy("crates/a/src/a.rs", "tokio::time::sleep(x).await;").is_empty());
}

#[test]
fn only_the_facade_passes_names_on() {
    assert_eq!(untidy("crates/client/src/lib.rs", "pub use cardan_proto::Call;").len(), 1);
    assert!(untidy("crates/cardan/src/lib.rs", "pub use cardan_proto::Call;").is_empty());
    assert!(untidy("crates/client/src/lib.rs", "use cardan_proto::Call;\npub use crate::a::B;").is_empty());
}

/// The repository itself; a breach fails the tests, not only the chore.
#[test]
fn we_are_tidy() {
    let all: Vec<String> = sources().unwrap().iter().flat_map(|file| told(file, check(file))).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}
