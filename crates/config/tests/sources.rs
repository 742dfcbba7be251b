//! Files that values come from: found, bounded, and only plain ones.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::resolve::{Commands, Resolved, Surroundings};
use cardan_config::{File, Problem, Tool};
use cardan_proto::limits::config::VALUE_FILE_BYTES;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config-sources").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn resolved(text: &str, workspace: &Path) -> (Result<Resolved, Problem>, Vec<PathBuf>) {
    let file = File::parse(Path::new("cardan.toml"), text, Some(Tool::Cardan)).unwrap();
    assert_eq!(file.problems, []);
    file.servers[0].resolve_traced(&Surroundings {
        env: &|_| None,
        inputs: &|_| None,
        home: Some(workspace),
        workspace: Some(workspace),
        commands: Commands::Refuse,
    })
}

#[test]
fn sources_are_told_up_to_the_one_that_is_missing() {
    let folder = folder("told");
    fs::write(folder.join("one"), "A=1\n").unwrap();
    fs::write(folder.join("pin"), "1234\n").unwrap();
    let text = "[servers.a]\ncommand = 'x'\nargs = ['${file:~/pin}']\nenv_file = ['one', 'two', 'three']\n";
    let (outcome, sources) = resolved(text, &folder);
    assert_eq!(sources, [folder.join("pin"), folder.join("one"), folder.join("two")]);
    let told = outcome.unwrap_err().to_string();
    assert!(
        told.starts_with("cardan.toml:4:1: server `a`: `env_file`: ") && told.contains("two cannot be read")
    );
}

/// At the bound a file is read, beyond it and where it is no plain file its server says so.
#[test]
fn sources_are_bounded_and_plain() {
    let folder = folder("bounded");
    let text = "[servers.a]\ncommand = '${file:~/value}'\n";
    let most = usize::try_from(VALUE_FILE_BYTES).unwrap();
    fs::write(folder.join("value"), "x".repeat(most)).unwrap();
    assert!(resolved(text, &folder).0.is_ok());
    fs::write(folder.join("value"), "x".repeat(most + 1)).unwrap();
    let told = resolved(text, &folder).0.unwrap_err().to_string();
    assert!(told.ends_with("it is longer than 1048576 bytes"), "{told}");
    fs::remove_file(folder.join("value")).unwrap();
    fs::create_dir(folder.join("value")).unwrap();
    let told = resolved(text, &folder).0.unwrap_err().to_string();
    assert!(told.ends_with("value cannot be read: it is no plain file"), "{told}");
}

/// S1-C5: what cannot be expanded is told by the names of variables, headers and files; their values are not repeated,
/// however short.
#[test]
fn problems_do_not_repeat_values() {
    let folder = folder("unrepeated");
    fs::write(folder.join("broken"), "GOOD=zq1\nzq2 is no variable\n").unwrap();
    let command = |more: &str| format!("[servers.a]\ncommand = 'x'\n{more}\n");
    let remote = |more: &str| format!("[servers.a]\nurl = 'https://x/mcp'\n{more}\n");
    for (text, told) in [
        (command("env = { A = 'zq1', B = 'zq2 ${MISSING}' }"), "`B`: the variable MISSING is not set"),
        (
            command("env = { A = '${MISSING:-zq1}${command:echo zq2}' }"),
            "`A`: a command would have to be run",
        ),
        (command("env = { A = 'zq1 ${file:nowhere}' }"), "`A`: nowhere cannot be read"),
        (command("env = { A = 'zq1 ${input:pin}' }"), "`A`: the input `pin` has no answer"),
        (command("env = { A = 'zq1 ${what is zq2}' }"), "`A`: there is a placeholder that we do not know"),
        (command("env_file = 'broken'"), "broken:2: NAME=VALUE is expected"),
        (remote("headers = { X = 'zq1 ${MISSING}' }"), "`X`: the variable MISSING is not set"),
        (
            remote("headers = { X = 'zq1' }\nbearer_env = 'MISSING'"),
            "`bearer_env`: the variable MISSING is not set; set it to the token",
        ),
    ] {
        let problem = resolved(&text, &folder).0.unwrap_err();
        let all = format!("{problem} {problem:?}");
        assert!(all.contains(told) && !all.contains("zq"), "{text}: {all}");
    }
}
