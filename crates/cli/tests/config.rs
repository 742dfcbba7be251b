//! `cardan config`, as a user drives it: in a project and a home of its own.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{CARDAN, Ran, finish};

/// A project inside a home.
struct World {
    home: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config-cli").join(name);
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("project/.git")).unwrap();
        Self { home }
    }

    fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.home.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn config(&self, words: &[&str]) -> Ran {
        self.run(&[&["config"], words].concat(), &[])
    }

    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> Ran {
        self.run_at(&self.project(), words, variables)
    }

    fn run_at(&self, folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ran {
        let child = Command::new(CARDAN)
            .args(words)
            .envs(variables.iter().copied())
            .current_dir(folder)
            .env("HOME", &self.home)
            .env("WEATHER_KEY", "key-canary")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CARDAN_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ran = finish(child);
        assert!(!format!("{ran:?}").contains("canary"), "a secret is shown: {ran:#?}");
        ran
    }
}

#[test]
fn servers_are_added_listed_explained_and_removed() {
    let world = World::new("add");
    world
        .config(&["list"])
        .exits(0)
        .prints("no server is configured; add one with `cardan config add`, or see `cardan config import`\n");
    let header = "X-Key: ${WEATHER_KEY}";
    world
        .config(&["add", "weather", "https://example.com/mcp", "--header", header, "--scope", "project"])
        .exits(0)
        .prints("weather  https://example.com/mcp  cardan.toml\n")
        .tells(&["cardan.toml is new"]);
    let weather =
        "[servers.weather]\nurl = \"https://example.com/mcp\"\nheaders = { X-Key = \"${WEATHER_KEY}\" }\n";
    assert_eq!(world.text("project/cardan.toml"), weather);
    world
        .config(&["add", "files", "--env", "LOG=debug", "--", "npx", "-y", "files-mcp"])
        .exits(0)
        .tells(&["cardan.toml is written, the old one is cardan.toml.bak"]);
    world.config(&["list"]).exits(0).prints(
        "weather  http   https://example.com/mcp  cardan.toml:1\n\
         files    stdio  npx -y files-mcp         cardan.toml:5\n",
    );
    let explained = world.config(&["explain", "weather", "--json"]).exits(0).json();
    assert_eq!(explained["variables"]["WEATHER_KEY"], "set");
    assert_eq!(explained["headers"]["X-Key"], "${WEATHER_KEY}");
    assert_eq!(explained["line"], 1);
    let explained = world.config(&["explain", "files"]).exits(0);
    assert!(explained.stdout.contains("env\n  LOG  [redacted]\n"), "{explained:#?}");
    world
        .config(&["add", "files", "https://x/mcp"])
        .exits(1)
        .tells(&["cardan.toml: a server `files` is there already, in line 5", "replace it with --force"]);
    world.config(&["remove", "fils"]).exits(1).tells(&["did you mean `files`?"]);
    world.config(&["remove", "files"]).exits(0).prints("files  cardan.toml\n");
    assert_eq!(world.text("project/cardan.toml"), weather, "what was added is gone without a trace");
    assert!(world.project().join("cardan.toml.bak.1").is_file(), "older backups stay");
}

/// S2-42: numbers of reconnection are shown, each with where it comes from; other tools have no words for them.
#[test]
fn s2_42_numbers_of_reconnection_are_explained() {
    let world = World::new("reconnect");
    let text = "[defaults.reconnect]\nwait_max = '10s'\nattempts = 3\n\
                [servers.a]\ncommand = 'x'\n[servers.a.reconnect]\nattempts = 20\n";
    world.put(".config/cardan/cardan.toml", text);
    let explained = world.config(&["explain", "a", "--json"]).exits(0).json();
    assert_eq!(explained["reconnect"], serde_json::json!({ "attempts": 20, "wait_max": "10s" }));
    assert_eq!(explained["from_defaults"], serde_json::json!(["reconnect.wait_max"]));
    world.config(&["export", "--to", "cursor"]).exits(0).tells(&["the numbers of reconnection"]);
}

/// What is kept and not enforced is called so.
#[test]
fn isolation_is_said_not_to_be_enforced() {
    let world = World::new("isolation");
    let isolated = "isolation = { network = \"none\" }";
    world.put(
        "project/cardan.toml",
        &format!("[servers.a]\ncommand = \"x\"\n{isolated}\n[servers.b]\ncommand = \"x\"\n"),
    );
    let explained = world.config(&["explain", "a", "--json"]).exits(0).json();
    assert_eq!(explained["not_enforced"][0], "isolation");
    let explained = world.config(&["explain", "b", "--json"]).exits(0).json();
    assert!(explained.get("not_enforced").is_none());
}

#[test]
fn literal_secrets_are_warned_of_and_never_shown() {
    let world = World::new("secret");
    world
        .config(&["add", "a", "--env", "API_TOKEN=tok-canary", "--", "x", "--password", "canary-too"])
        .exits(0)
        .tells(&["warning: the value of API_TOKEN looks like a secret", "write '${API_TOKEN}' instead"]);
    world.config(&["add", "b", "https://x/mcp", "--header", "Authorization: Bearer canary"]).exits(0);
    for words in
        [&["list"][..], &["list", "--json"], &["explain"], &["explain", "a"], &["explain", "b", "--json"]]
    {
        world.config(words).exits(0);
    }
    world.config(&["export", "--to", "cursor"]).exits(0).tells(&["write it with --write"]);
    assert!(!world.home.join(".cursor").exists(), "nothing is written unasked");
}

/// CLI-33, CLI-34: taken over from other tools, and written for them.
#[test]
fn servers_come_from_other_tools_and_go_to_them() {
    let world = World::new("exchange");
    let claude = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"alwaysLoad\": true}, \"b\": {\"url\": \"https://b/mcp\", \
                  \"type\": \"sse\"}}}";
    world.put("project/.mcp.json", claude);
    let cursor = "{\n  // mine\n  \"mcpServers\": {\n    \"c\": { \"command\": \"y\" } // last\n  }\n}\n";
    world.put(".cursor/mcp.json", cursor);
    let offered = world.config(&["import"]).exits(0);
    for line in ["claude-code  .mcp.json\n  a  x\n  b  https://b/mcp\n", "cursor  ", "  c  y\n"] {
        assert!(offered.stdout.contains(line), "{offered:#?}");
    }
    let import = ["import", "--from", "claude-code", "--scope", "project"];
    world
        .config(&[&import[..], &["--dry-run"]].concat())
        .exits(0)
        .tells(&["cardan.toml would be written; nothing was"]);
    assert!(!world.project().join("cardan.toml").exists());
    world.config(&import).exits(0).prints("a  .mcp.json:1\nb  .mcp.json:1\n");
    assert_eq!(
        world.text("project/cardan.toml"),
        "[servers.a]\ncommand = \"x\"\nextra = { claude-code = { alwaysLoad = true } }\n\n\
         [servers.b]\ntype = \"sse\"\nurl = \"https://b/mcp\"\n"
    );
    assert_eq!(world.text("project/.mcp.json"), claude, "the source is as it was");
    world.config(&import).exits(0).tells(&["`a` stays: a server `a` is there already, in line 1"]);
    world
        .config(&["export", "--to", "cursor", "--write"])
        .exits(0)
        .tells(&["warning: `a` loses alwaysLoad of Claude Code"]);
    let written = world.text(".cursor/mcp.json");
    assert!(written.starts_with(
        "{\n  // mine\n  \"mcpServers\": {\n    \"c\": { \"command\": \"y\" }, // last\n    \"a\": {"
    ));
    assert_eq!(world.text(".cursor/mcp.json.bak"), cursor);
    world.config(&["remove", "a", "--from", "cursor"]).exits(0);
    world.config(&["remove", "b", "--from", "cursor"]).exits(0);
    assert_eq!(world.text(".cursor/mcp.json"), cursor, "what was exported is gone without a trace");
}

/// CLI-33, CLI-34: a process with arguments and variables and, where the tool has addresses, one with a header come back from each tool's own
/// file as they went there. What else each tool can say is tried in `cardan-config`, with files of its documented shape.
#[test]
fn cli_34_every_tool_is_written_and_read_without_loss() {
    let tools = [
        "claude-desktop",
        "claude-code",
        "vscode",
        "cursor",
        "windsurf",
        "codex",
        "gemini",
        "opencode",
        "inspector",
        "mcporter",
        "oh-my-pi",
    ];
    for tool in tools {
        let world = World::new(&format!("exchange-{tool}"));
        let scope = ["--scope", "project"];
        let local = ["add", "local", "--env", "MODE=a b", "--", "some-server", "--flag", "x y"];
        world.config(&[&local[..1], &scope, &local[1..]].concat()).exits(0);
        // The first of all writes processes only.
        if tool != "claude-desktop" {
            let remote = ["add", "remote", "https://example.com/mcp", "--header", "X-Plain: yes, plain"];
            world.config(&[&remote[..], &scope].concat()).exits(0);
        }
        let ours = world.text("project/cardan.toml");
        world.config(&["export", "--to", tool, "--scope", "user", "--write"]).exits(0);
        fs::remove_file(world.project().join("cardan.toml")).unwrap();
        let listed = world.config(&["list", "--from", tool]).exits(0);
        assert!(listed.stdout.contains("local") && listed.stdout.contains("some-server"), "{listed:#?}");
        let import = world.config(&[&["import", "--from", tool][..], &scope].concat()).exits(0);
        assert!(!import.stderr.contains("warning"), "{tool}: {import:#?}");
        assert_eq!(world.text("project/cardan.toml"), ours, "{tool}");
    }
}

/// CLI-37: placeholders, as our own file and other tools' spell them, are filled in when the server is used: from variables with
/// and without a default, from files of values and of variables, from folders and from what answers an input. Of commands it is told what to do instead.
#[test]
fn cli_37_placeholders_are_filled_in() {
    let world = World::new("placeholders");
    world.put("key.txt", "from-file\n");
    // Tells in its last words what it was given; of what is in a file, only that, since it is hidden.
    let script = "case $C in from-file) C=filled ;; esac; echo $A $B $C $D >&2; exit 3";
    let cases = [
        (
            "cardan.toml",
            "[servers.s]\ncommand = \"sh\"\nargs = [\"-c\", \"SCRIPT\"]\nenv = { A = \"${HERE}\", B = \
          \"${NOT_SET_ANYWHERE:-else}\", C = \"${file:HOME/key.txt}\", D = \"${userHome}\" }\n",
        ),
        (
            "mcp.json",
            r#"{"mcpServers": {"s": {"command": "sh", "args": ["-c", "SCRIPT"], "env": {"A": "${HERE}", "B":
          "${NOT_SET_ANYWHERE:-else}", "C": "from-file", "D": "HOME"}}}}"#,
        ),
        (
            "opencode.json",
            r#"{"mcp": {"s": {"type": "local", "command": ["sh", "-c", "SCRIPT"], "environment": {"A":
          "{env:HERE}", "B": "else", "C": "{file:HOME/key.txt}", "D": "HOME"}}}}"#,
        ),
        (
            ".vscode/mcp.json",
            r#"{"servers": {"s": {"type": "stdio", "command": "sh", "args": ["-c", "SCRIPT"], "env": {"A":
          "${env:HERE}", "B": "else", "C": "from-file", "D": "${userHome}"}}}}"#,
        ),
    ];
    let home = world.home.display().to_string();
    for (file, text) in cases {
        world.put(&format!("project/{file}"), &text.replace("SCRIPT", script).replace("HOME", &home));
        let ran = world.run(&["info", "s", "--config", file], &[("HERE", "from-here")]).exits(13);
        assert!(ran.stderr.contains(&format!("| from-here else filled {home}")), "{file}: {ran:#?}");
    }
    let script = "case $FILED-$ASKED in from-file-from-input) echo filled >&2 ;; esac; exit 3";
    world.put("vars.env", "FILED=from-file\n");
    let server = format!("command = 'sh'\nargs = ['-c', '{script}']\nenv_file = '{home}/vars.env'\n");
    world.put(
        "project/cardan.toml",
        &format!("[servers.s]\n{server}env = {{ ASKED = '${{input:who-is-it}}' }}\n"),
    );
    let info = ["info", "s", "--config", "cardan.toml"];
    world.run(&info, &[("CARDAN_INPUT_WHO_IS_IT", "from-input")]).exits(13).tells(&["| filled"]);
    world.run(&info, &[]).exits(1).tells(&["the input `who-is-it` has no answer", "CARDAN_INPUT_WHO_IS_IT"]);
    world.put("project/cardan.toml", "[servers.s]\ncommand = \"sh\"\nenv = { A = \"${command:ls}\" }\n");
    world.run(&info, &[]).exits(1).tells(&["`A`", "next: "]);
}

/// What is asked for comes along, and where it cannot, that is told.
#[test]
fn inputs_are_declared_or_missed() {
    let world = World::new("inputs");
    let servers =
        "\"servers\": {\"a\": {\"type\": \"stdio\", \"command\": \"x\", \"env\": {\"K\": \"${input:key}\"}}}";
    let inputs = "\"inputs\": [{\"id\": \"key\", \"type\": \"promptString\", \"password\": true}]";
    world.put("project/.vscode/mcp.json", &format!("{{{inputs}, {servers}}}"));
    world.config(&["import", "--from", "vscode", "--scope", "project"]).exits(0);
    let ours = world.text("project/cardan.toml");
    assert!(ours.contains("[inputs.key]\n") && ours.contains("K = \"${input:key}\""), "{ours}");
    let export = ["export", "--to", "vscode", "--file", "other.json", "--write"];
    world.config(&export).exits(0).tells(&["`a` asks for `key`, which other.json must declare"]);
}

/// Claude Code keeps servers for single projects in the user's file: they are listed, and removed where that is
/// said; what is meant is never guessed.
#[test]
fn servers_for_single_projects_are_listed_and_removed() {
    let world = World::new("projects");
    let home = world.home.display().to_string();
    let global = "\"both\": {\"command\": \"one\"}";
    let here = "\"both\": {\"command\": \"two\"}, \"mine\": {\"command\": \"three\"}";
    let there = "\"both\": {\"command\": \"four\"}, \"odd\": {\"comand\": \"five\"}";
    let file = |global: &str, here: &str, there: &str| {
        format!(
            "{{\n  \"mcpServers\": {{{global}}},\n  \"projects\": {{\n    \"{home}/project\": {{\"mcpServers\": {{{here}}}}},\n    \
             \"/other\": {{\"history\": [1], \"mcpServers\": {{{there}}}}}\n  }}\n}}\n"
        )
    };
    world.put(".claude.json", &file(global, here, there));
    let listed = world.config(&["list", "--from", "claude-code"]).exits(0);
    assert_eq!(
        listed.stdout,
        format!(
            "both  stdio  one    {home}/.claude.json:2\n\
             both  stdio  two    {home}/.claude.json:4 (for {home}/project)\n\
             mine  stdio  three  {home}/.claude.json:4 (for {home}/project)\n\
             both  stdio  four   {home}/.claude.json:5 (for /other)\n"
        )
    );
    let listed = world.config(&["list", "--from", "claude-code", "--json"]).exits(0).json();
    assert_eq!(listed["servers"][3]["project"], "/other");
    world.config(&["remove", "both", "--from", "claude-code"]).exits(1).tells(&[
        "`both` is there several times",
        &format!("{home}/.claude.json:2 (for all projects)"),
        &format!("{home}/.claude.json:4 (for {home}/project)"),
        &format!("{home}/.claude.json:5 (for /other)"),
        "say which with --from FILE, --project DIR or --global",
    ]);
    assert_eq!(world.text(".claude.json"), file(global, here, there), "nothing was guessed");
    world
        .config(&["remove", "both", "--from", "claude-code", "--project", "/nowhere"])
        .exits(1)
        .tells(&["there is no server `both` for /nowhere"]);
    let removed = world.config(&["remove", "both", "--from", "claude-code", "--project", "."]).exits(0);
    assert_eq!(removed.stdout, format!("both  {home}/.claude.json:4 (for {home}/project)\n"));
    let mine = "\"mine\": {\"command\": \"three\"}";
    assert_eq!(world.text(".claude.json"), file(global, mine, there));
    world.config(&["remove", "both", "--from", "claude-code", "--global"]).exits(0);
    // Only one is left, so nothing needs to be said, and one that cannot be used can be removed all the same.
    for name in ["both", "odd", "mine"] {
        world.config(&["remove", name, "--from", "claude-code"]).exits(0);
    }
    assert_eq!(world.text(".claude.json"), file("", "", ""));
    world.config(&["remove", "bth", "--from", "claude-code"]).exits(1).tells(&["there is no server `bth`"]);
}

/// The same where the file itself is the configuration.
#[test]
fn a_server_for_this_project_is_removed_from_the_named_file() {
    let world = World::new("projects-named");
    let home = world.home.display().to_string();
    let file =
        |here: &str| format!("{{\"projects\": {{\"{home}/project\": {{\"mcpServers\": {{{here}}}}}}}}}");
    world.put(".claude.json", &file("\"mine\": {\"command\": \"x\"}"));
    let named = format!("{home}/.claude.json");
    let explained = world.config(&["explain", "mine", "--json", "--config", &named]).exits(0).json();
    assert_eq!(explained["project"], format!("{home}/project"));
    world.config(&["remove", "mine", "--config", &named]).exits(0);
    assert_eq!(world.text(".claude.json"), file(""));
}

/// CLI-35: at home the files of the project are those of the user: each is there once.
#[test]
fn at_home_each_file_is_read_once() {
    let world = World::new("at-home");
    // Else the project would be one of the folders around it.
    fs::create_dir(world.home.join(".git")).unwrap();
    world.put(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    let run = |words: &[&str]| world.run_at(&world.home, words, &[]).exits(0);
    let offered = run(&["config", "import"]);
    assert_eq!(offered.stdout.matches("mcp.json").count(), 1, "{offered:#?}");
    for from in [&["--all"][..], &["--from", "cursor"]] {
        let imported = run(&[&["config", "import", "--dry-run"], from].concat());
        assert!(!imported.stderr.contains("is left out"), "{imported:#?}");
    }
}

/// What a user gets wrong, or has to know, is told where it happens.
#[test]
fn slips_are_told_with_what_to_do() {
    let world = World::new("slips");
    world.put("project/.mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    world.put(
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"y\"}, \"b\": {\"command\": \"z\"}}}",
    );
    // Of two servers with one name, the other is not dropped in silence.
    let imported = world.config(&["import", "--all", "--scope", "project"]).exits(0);
    let left_out = "(cursor) is left out: the one in";
    assert!(imported.stderr.contains("`a` in ") && imported.stderr.contains(left_out), "{imported:#?}");
    assert!(imported.stdout.starts_with("a  .mcp.json:1\nb  "), "{imported:#?}");
    world
        .config(&["export", "a", "--to", "cursor", "--write"])
        .exits(0)
        .tells(&["`a` is left out: a server `a` is there already, in line 1; replace it with --force"]);
    world
        .config(&["import", "--from", "cursr"])
        .exits(1)
        .tells(&["`cursr` is no tool, and there is no such file", "did you mean `cursor`?"]);
    world
        .config(&["list", "--from", "./nowhere.json"])
        .exits(1)
        .tells(&["tools are cardan, claude-desktop,"]);
    world.config(&["add", "", "https://x/mcp"]).exits(1).tells(&["a server without a name cannot be called"]);
    // Which answers are missing, and how they are given.
    let toml = "[inputs.key]\npassword = true\n[inputs.mode]\ndefault = 'read'\n\
                [servers.c]\ncommand = 'x'\nenv = { K = '${input:key}', M = '${input:mode}' }\n";
    world.put("project/cardan.toml", toml);
    let explained = world.config(&["explain", "c", "--json"]).exits(0).json();
    assert_eq!(explained["inputs"]["key"], "not answered; set CARDAN_INPUT_KEY");
    assert_eq!(explained["inputs"]["mode"], "answered");
}

/// CLI-35: where an entry comes from, and what it shadows.
#[test]
fn precedence_is_explained() {
    let world = World::new("explain");
    world.put("project/cardan.toml", "[servers.a]\ncommand = \"near\"\n");
    world.put(
        ".config/cardan/cardan.toml",
        "imports = [\"cursor\"]\n[defaults]\nlazy = true\n[servers.a]\ncommand = \"far\"\n",
    );
    world.put(
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"z\"}, \"b\": {\"command\": \"y\"}, \"c\": {}}}",
    );
    let told = world.config(&["explain"]).exits(0).tells(&["server `c`: it has no way to be reached"]);
    for text in ["of this project", "of the user", "imported by ", "shadowed by"] {
        assert!(told.stdout.contains(text), "{text}: {told:#?}");
    }
    let one = world.config(&["explain", "a", "--json"]).exits(0).json();
    assert_eq!(one["shadows"].as_array().unwrap().len(), 2);
    assert_eq!(one["from_defaults"][0], "lazy");
    world.config(&["remove", "b"]).exits(1).tells(&["belongs to Cursor", "--from cursor"]);
    world.config(&["list", "--config", "absent.toml"]).exits(1).tells(&["absent.toml: cannot be read"]);
    world.put("project/broken.toml", "[servers.a]\ncommand = \n");
    world.config(&["add", "x", "https://x", "--config", "broken.toml"]).exits(1).tells(&["is not rewritten"]);
    assert_eq!(world.text("project/broken.toml"), "[servers.a]\ncommand = \n");
}

/// CLI-33: of a file that cannot be used it is said what is wrong, where, and what to do, whoever needs it.
#[test]
fn cli_33_a_file_that_cannot_be_used_is_told_with_a_way_on() {
    let world = World::new("unusable");
    world.put("project/broken.toml", "[servers.a]\ncommand = \n");
    fs::write(world.project().join("bytes.toml"), b"\xff\xfe").unwrap();
    for (file, what, next) in [
        (
            "absent.toml",
            "absent.toml: cannot be read",
            "make the file with `cardan config add NAME --config ",
        ),
        ("broken.toml", "broken.toml:2:", "mend it there; `cardan config explain`"),
        ("bytes.toml", "bytes.toml: cannot be read", "plain file of text that you may read"),
    ] {
        for command in [&["config", "list"][..], &["list", "a"], &["servers"], &["search", "x"], &["serve"]] {
            world
                .run(&[command, &["--config", file]].concat(), &[])
                .exits(1)
                .tells(&[what, "  next: ", next]);
        }
    }
}

#[test]
fn help_has_examples() {
    let world = World::new("help");
    for verb in ["list", "explain", "add", "remove", "import", "export"] {
        let help = world.config(&[verb, "--help"]).exits(0);
        assert!(help.stdout.contains("Examples:\n  cardan config "), "{help:#?}");
    }
}
