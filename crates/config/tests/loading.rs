//! Several files make one configuration, and it is expanded when it is needed.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::file::{Saved, replace};
use cardan_config::load::Reason;
use cardan_config::resolve::{Commands, Reach, Resolved, Surroundings};
use cardan_config::tool::Folders;
use cardan_config::{Config, File, Problem, Search, Server};
use cardan_proto::secret::Secret;

/// A folder of its own, empty.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn search(home: &Path, cwd: &Path) -> Search {
    let folders = Folders {
        home: Some(home.to_owned()),
        config: Some(home.join(".config")),
        xdg: Some(home.join(".config")),
    };
    Search { file: None, cwd: cwd.to_owned(), folders }
}

#[test]
fn the_nearest_file_wins_and_the_shadowed_are_remembered() {
    let home = folder("nearest");
    let project = home.join("project");
    put(&project.join(".git/HEAD"), "");
    put(&home.join("cardan.toml"), "[servers.above]\ncommand = \"anybody's\"\n");
    put(&project.join("cardan.toml"), "[servers.p]\ncommand = \"project\"\n");
    put(
        &home.join(".config/cardan/cardan.toml"),
        "imports = [\"claude-code\", \"cursor\"]\n[defaults]\nlazy = true\nconcurrency = 2\n[servers.a]\ncommand = \"user\"\n[servers.b]\ncommand = \"user\"\n",
    );
    put(
        &project.join(".mcp.json"),
        r#"{"mcpServers": {"c": {"command": "claude"}, "a": {"command": "claude"}}}"#,
    );
    put(&home.join(".cursor/mcp.json"), r#"{"mcpServers": {"c": {"command": "cursor"}}}"#);
    let deep = project.join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let claude = format!(
        r#"{{"mcpServers": {{"d": {{"command": "all"}}}}, "projects": {{"{}": {{"mcpServers": {{"d": {{"command": "here"}}}}}},
        "/elsewhere": {{"mcpServers": {{"e": {{"command": "x"}}}}}}}}}}"#,
        project.display()
    );
    put(&home.join(".claude.json"), &claude);
    let config = Config::load(&search(&home, &deep));
    assert_eq!(config.problems, []);
    let seen: Vec<_> =
        config.servers.iter().map(|s| (s.name.as_str(), cardan_config::show::summary(s))).collect();
    let expected = [("p", "project"), ("a", "user"), ("b", "user"), ("d", "here"), ("c", "cursor")];
    assert_eq!(seen, expected.map(|(name, program)| (name, program.to_owned())));
    let shadowed: Vec<_> = config.shadowed.iter().map(|(s, _)| cardan_config::show::summary(s)).collect();
    assert_eq!(shadowed, ["all", "claude", "claude"]);
    assert_eq!(config.defaults.lazy, Some(true));
    assert_eq!(config.settings(config.server("a").unwrap()).concurrency, Some(2));
    let reasons: Vec<_> = config.sources.iter().map(|source| source.reason.clone()).collect();
    let by = home.join(".config/cardan/cardan.toml");
    let imported = || Reason::Imported { by: by.clone() };
    assert_eq!(reasons, [Reason::Project, Reason::User, imported(), imported(), imported()]);
    let wrong = config.server("e").unwrap_err().to_string();
    assert!(wrong.contains("server `e`: no server of this name is configured"), "{wrong}");
}

/// A file of our own that cannot be read is told apart from those of others: it may say who is let in.
#[test]
fn our_own_files_that_cannot_be_read_are_told_apart() {
    let home = folder("unread");
    let project = home.join("project");
    put(&project.join(".git/HEAD"), "");
    put(&home.join(".config/cardan/cardan.toml"), "imports = [\"cursor\"]\n[servers.a]\ncommand = \"x\"\n");
    put(&project.join(".cursor/mcp.json"), "{");
    put(&project.join("cardan.toml"), "[policy.'*'\n");
    let config = Config::load(&search(&home, &project));
    let unread: Vec<_> = config.unread.iter().map(|problem| problem.file.clone()).collect();
    assert_eq!(unread, [project.join("cardan.toml")]);
    assert_eq!((config.problems.len(), config.servers.len()), (2, 1));
}

#[test]
fn a_named_file_is_read_alone_whoevers_it_is() {
    let home = folder("named");
    put(&home.join("cardan.toml"), "[servers.a]\ncommand = \"x\"\n");
    put(&home.join("mine.json"), r#"{"servers": {"b": {"url": "https://x"}}}"#);
    let mut search = search(&home, &home);
    search.file = Some("mine.json".into());
    let config = Config::load(&search);
    assert_eq!(config.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["b"]);
    search.file = Some("absent.toml".into());
    assert!(Config::load(&search).problems[0].to_string().contains("absent.toml: cannot be read"));
    let env = |name: &str| (name == "CARDAN_CONFIG").then(|| "named.toml".to_owned());
    assert_eq!(Search::of(None, home.clone(), &env).file, Some("named.toml".into()));
    assert_eq!(Search::of(Some("other.toml".into()), home, &env).file, Some("other.toml".into()));
}

fn resolve(text: &str, commands: Commands) -> Result<Resolved, Problem> {
    let file = File::parse(Path::new("cardan.toml"), text, None).unwrap();
    assert_eq!(file.problems, []);
    let env = |name: &str| match name {
        "TOKEN" => Some("tok-canary".to_owned()),
        "EMPTY" => Some(String::new()),
        "NAME" => Some("ada".to_owned()),
        _ => None,
    };
    let inputs = |id: &str| (id == "key").then(|| Secret::new("key-canary"));
    file.servers[0].resolve(&Surroundings {
        env: &env,
        inputs: &inputs,
        home: Some(Path::new("/home/ada")),
        workspace: Some(Path::new(env!("CARGO_MANIFEST_DIR"))),
        commands,
    })
}

#[test]
fn text_is_expanded_for_this_machine() {
    let text = "[servers.a]\ncommand = \"~/bin/${NAME}\"\nargs = [\"${EMPTY:-d-${NAME}}\", \"${EMPTY}\", \"$${NAME}\"]\n\
                cwd = \"${workspaceFolder}\"\nenv_pass = [\"TOKEN\", \"UNSET\"]\nenv_file = \"tests/fixtures/some.env\"\n\
                env = { KEY = \"${input:key}\", GONE = \"${env:TOKEN}\" }\nenv_unset = [\"OLD\"]\n";
    let resolved = resolve(text, Commands::Refuse).unwrap();
    let Reach::Command { program, args, env, cwd } = &resolved.reach else { panic!("not a command") };
    assert_eq!(program.expose(), "/home/ada/bin/ada");
    assert_eq!(args.iter().map(Secret::expose).collect::<Vec<_>>(), ["d-ada", "", "${NAME}"]);
    assert_eq!(cwd.as_deref(), Some(Path::new(env!("CARGO_MANIFEST_DIR"))));
    let seen: Vec<_> =
        env.iter().map(|(name, value)| (name.as_str(), value.as_ref().map(Secret::expose))).collect();
    let expected = [
        ("TOKEN", Some("tok-canary")),
        ("FROM_FILE", Some("file value")),
        ("KEY", Some("key-canary")),
        ("GONE", Some("tok-canary")),
        ("OLD", None),
    ];
    assert_eq!(seen, expected);
    assert!(!format!("{resolved:?}").contains("canary"));
    assert_eq!(resolved.redactor.redact("a tok-canary b key-canary"), "a [redacted] b [redacted]");
}

/// CLI-38: headers come from the file, from a variable and from a helper command, together.
#[test]
fn headers_bearer_and_helper_come_together() {
    let text = "[servers.a]\nurl = \"https://x/mcp\"\nbearer_env = \"TOKEN\"\nheaders = { X = \"${command:echo printed}\" }\n\
                headers_helper = \"printf '{\\\"X-Name\\\": \\\"%s\\\"}' \\\"$CARDAN_SERVER_NAME\\\"\"\n";
    let resolved = resolve(text, Commands::Run).unwrap();
    let Reach::Http(endpoint) = &resolved.reach else { panic!("not over HTTP") };
    let seen: Vec<_> = endpoint.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(seen, [("X", "printed"), ("Authorization", "Bearer tok-canary")]);
    let more = endpoint.helper.as_ref().unwrap().run().unwrap();
    assert_eq!((more[0].0.as_str(), more[0].1.expose()), ("X-Name", "a"));
    let refused = resolve(text, Commands::Refuse).unwrap_err().to_string();
    assert_eq!(
        refused,
        "cardan.toml:4:13: server `a`: `X`: a command would have to be run for this value; commands are \
         not run yet, so put the value into a variable or a file"
    );
}

#[test]
fn what_cannot_be_expanded_names_file_line_server_field_and_variable() {
    for (line, told) in [
        (
            "env = { TOKEN = \"${UNSET_TOKEN}\" }",
            "cardan.toml:3:9: server `a`: `TOKEN`: the variable UNSET_TOKEN is not set; set it, or give it a default: \
             ${UNSET_TOKEN:-default}",
        ),
        (
            "args = [\"${input:other-key}\"]",
            "cardan.toml:3:1: server `a`: `args`: the input `other-key` has no answer; set CARDAN_INPUT_OTHER_KEY",
        ),
        (
            "args = [\"${config:x}\"]",
            "cardan.toml:3:1: server `a`: `args`: there is a placeholder that we do not know; accepted: ${NAME}, \
             ${NAME:-default}, ${env:NAME}, ${input:id}, ${file:path}, ${workspaceFolder} and ${userHome}",
        ),
    ] {
        let text = format!("[servers.a]\ncommand = \"x\"\n{line}\n");
        assert_eq!(resolve(&text, Commands::Refuse).unwrap_err().to_string(), told);
    }
    let failed = "[servers.a]\ncommand = \"x\"\nargs = [\"${command:exit 3}\"]\n";
    let told = resolve(failed, Commands::Run).unwrap_err().to_string();
    assert!(told.ends_with("its command failed: exit status: 3"), "{told}");
}

fn servers(text: &str) -> Vec<Server> {
    File::parse(Path::new("cardan.toml"), text, None).unwrap().servers
}

#[test]
fn the_digest_is_of_what_is_said_and_not_of_how() {
    let one = servers("[servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nenv = { A = \"${B}\", C = \"d\" }\n");
    let two = servers(
        "servers.a = { env = { C = 'd', A = \"${env:B}\" }, args = [\n\"1\" ], command = 'x', lazy = true, reconnect = { attempts = 1 } }\n",
    );
    let json = r#"{"mcpServers": {"b": {"env": {"C": "d", "A": "${B}"}, "command": "x", "args": ["1"]}}}"#;
    let other = File::parse(Path::new("a.json"), json, None).unwrap().servers;
    assert_eq!(one[0].digest(), two[0].digest());
    assert_eq!(one[0].digest(), other[0].digest());
    assert_eq!(one[0].digest().to_string().len(), 64);
    for changed in [
        "[servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nenv = { A = \"${B}\", C = \"e\" }\n",
        "[servers.a]\ncommand = \"x\"\nargs = [\"1\", \"\"]\nenv = { A = \"${B}\", C = \"d\" }\n",
        "[servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nenv = { A = \"$${B}\", C = \"d\" }\n",
        "[servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nera = \"legacy\"\nenv = { A = \"${B}\", C = \"d\" }\n",
    ] {
        assert_ne!(one[0].digest(), servers(changed)[0].digest(), "{changed}");
    }
}

#[test]
fn files_are_replaced_whole_with_backups_that_are_never_lost() {
    let path = folder("replace").join("sub/a.json");
    assert_eq!(replace(&path, None, "one").unwrap(), Saved::New);
    assert!(replace(&path, None, "again").is_err(), "what is there is not overwritten blindly");
    let backup = |ending: &str| {
        Saved::Backup(fs::canonicalize(&path).unwrap().with_file_name(format!("a.json{ending}")))
    };
    assert_eq!(replace(&path, Some("one"), "two").unwrap(), backup(".bak"));
    assert_eq!(replace(&path, Some("two"), "three").unwrap(), backup(".bak.1"));
    assert!(replace(&path, Some("two"), "four").unwrap_err().to_string().contains("has changed"));
    let read = |ending: &str| fs::read_to_string(path.with_file_name(format!("a.json{ending}"))).unwrap();
    assert_eq!((read(""), read(".bak"), read(".bak.1")), ("three".into(), "one".into(), "two".into()));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 3, "no draft is left");
}

#[cfg(unix)]
#[test]
fn permissions_stay_and_symlinks_stay_symlinks() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("links");
    let (real, link) = (folder.join("real.json"), folder.join("link.json"));
    put(&real, "one");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    replace(&link, Some("one"), "two").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "two");
    for file in [&real, &folder.join("real.json.bak")] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
