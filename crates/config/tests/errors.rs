//! What is wrong is told with file, line and what would be right; one wrong server leaves the others usable.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::path::Path;

use cardan_config::{File, Tool};

#[track_caller]
fn told(name: &str, text: &str, expected: &[&str]) {
    let problems = match File::parse(Path::new(name), text, None) {
        Ok(file) => file.problems,
        Err(problem) => vec![problem],
    };
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected, "{text}");
}

const KINDS: &str = "accepted: stdio, http, streamable-http, streamableHttp, sse, ws, websocket, unix, pipe, tcp, local or remote";

/// S0-12: file, line, and what there is.
#[test]
fn s0_12_an_unknown_transport_names_the_accepted_ones_and_where_it_stood() {
    told(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\"type\": \"gopher\", \"url\": \"https://x\"}\n  }\n}",
        &[&format!(".mcp.json:3:19: server `a`: `type`: `gopher` is no transport; {KINDS}")],
    );
    told(
        "cardan.toml",
        "[servers.a]\nurl = \"gopher://x\"\n",
        &[
            "cardan.toml:2:7: server `a`: `url`: `gopher` is no scheme we know; accepted: http, https, ws, wss, unix, \
           pipe and tcp",
        ],
    );
}

#[test]
fn a_server_without_a_name_is_none() {
    told(
        "cardan.toml",
        "[servers.' ']\nurl = 'https://x'\n",
        &["cardan.toml:1:10: server ` `: a server without a name cannot be called; give it one"],
    );
}

#[test]
fn servers_that_cannot_be_reached_say_why() {
    let next = "give it a `command` or a `url`";
    told(
        ".mcp.json",
        r#"{"mcpServers": {"a": {}}}"#,
        &[&format!(".mcp.json:1:17: server `a`: it has no way to be reached; {next}")],
    );
    told(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"type": "http", "command": "x"}}}"#,
        &[".mcp.json:1:17: server `a`: it has no address; give it a `url`"],
    );
    told(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"url": "https://x", "command": "x"}}}"#,
        &[
            ".mcp.json:1:17: server `a`: it has both a `command` and a `url`; keep one of them, or say which with `type`",
        ],
    );
    told(
        ".mcp.json",
        r#"{"mcpServers": {"a": "npx", "b": {"command": "x"}}}"#,
        &[".mcp.json:1:22: server `a`: a server is a table, not text"],
    );
    told(".mcp.json", "[]", &[".mcp.json:1:1: the file holds a list, not a table of servers"]);
}

/// What mcporter imports from other tools is not dropped without a word.
#[test]
fn what_is_not_done_is_told() {
    let text = r#"{"imports": ["cursor"], "mcpServers": {"a": {"command": "x"}}}"#;
    let file = File::parse(Path::new("mcporter.json"), text, None).unwrap();
    assert_eq!((file.tool, &file.problems[..]), (Tool::Mcporter, &[][..]));
    let told: Vec<String> = file.ignored.iter().map(ToString::to_string).collect();
    let wanted = "mcporter.json:1:13: `imports`: what it imports is not read along; name the tools in `imports` of cardan.toml";
    assert_eq!(told, [wanted]);
    let none = File::parse(Path::new("mcporter.json"), r#"{"imports": [], "mcpServers": {}}"#, None).unwrap();
    assert_eq!(none.ignored, []);
}

#[test]
fn values_of_the_wrong_kind_say_which_is_wanted() {
    told(
        "cardan.toml",
        "[servers.a]\ncommand = \"x\"\nargs = { }\n",
        &[
            "cardan.toml:3:8: server `a`: `args`: a list of texts is expected, not a table; write each argument by itself, \
         such as [\"--port\", \"8080\"]",
        ],
    );
    // One text would be one argument, whatever its author meant.
    told(
        "cardan.toml",
        "[servers.a]\ncommand = \"\"\nargs = \"x y\"\n",
        &[
            "cardan.toml:2:11: server `a`: `command`: it names no program; accepted: the program to start, such as \"npx\"",
            "cardan.toml:3:8: server `a`: `args`: a list of texts is expected, not text; write each argument by itself, \
         such as [\"--port\", \"8080\"]",
        ],
    );
    told(
        "cardan.toml",
        "[servers.a]\ncommand = \"x\"\nstart_timeout = \"soon\"\nenabled = \"yes\"\n",
        &[
            "cardan.toml:3:17: server `a`: `start_timeout`: this is not a time; accepted: a number of seconds, or a \
         number with ms, s, m or h: 500ms, 10s, 2m, 1h",
            "cardan.toml:4:11: server `a`: `enabled`: true or false is expected, not text",
        ],
    );
    told(
        "cardan.toml",
        "[servers.a]\ncommand = \"x\"\nera = \"old\"\nconcurrency = 0\n",
        &[
            "cardan.toml:3:7: server `a`: `era`: `old` is none of the choices; accepted: auto, legacy or modern",
            "cardan.toml:4:15: server `a`: `concurrency`: a whole number above 0 is expected",
        ],
    );
    told(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "x", "env": ["A=1"]}}}"#,
        &[".mcp.json:1:46: server `a`: `env`: a table is expected, not a list"],
    );
}

/// S2-42: numbers of reconnection say where they are wrong, and what is accepted; in `[defaults]` too.
#[test]
fn s2_42_wrong_numbers_of_reconnection_say_what_is_accepted() {
    let accepted = [
        (
            "attempts = -1",
            1,
            "`attempts`: this is not a number that is good here; accepted: a whole number from 0 to 1000",
        ),
        (
            "burst = 0",
            1,
            "`burst`: this is not a number that is good here; accepted: a whole number from 1 to 1000",
        ),
        (
            "resends = 1001",
            1,
            "`resends`: this is not a number that is good here; accepted: a whole number from 0 to 1000",
        ),
        (
            "wait_min = 0",
            1,
            "`wait_min`: this is not a time that is good here; accepted: a time above 0, up to 24h",
        ),
        (
            "probe_every = '25h'",
            1,
            "`probe_every`: this is not a time that is good here; accepted: 0, or a time up to 24h",
        ),
        (
            "wait_max = 'soon'",
            1,
            "`wait_max`: this is not a time; accepted: a number of seconds, or a number with ms, s, m or h: 500ms, 10s, 2m, 1h",
        ),
        ("calls = 'hang'", 1, "`calls`: `hang` is none of the choices; accepted: wait or fail"),
        (
            "probe_within = '1m'\nprobe_busy_within = '5s'",
            2,
            "`probe_busy_within`: it is shorter than `probe_within`; make it as long at least, or `probe_within` shorter",
        ),
    ];
    for (wrong, line, expected) in accepted {
        let place = |first: usize| (first + line, wrong.lines().last().unwrap().find("= ").unwrap() + 3);
        let (at, column) = place(3);
        told(
            "cardan.toml",
            &format!("[servers.a]\ncommand = 'x'\n[servers.a.reconnect]\n{wrong}\n"),
            &[&format!("cardan.toml:{at}:{column}: server `a`: {expected}")],
        );
        let (at, column) = place(1);
        told(
            "cardan.toml",
            &format!("[defaults.reconnect]\n{wrong}\n"),
            &[&format!("cardan.toml:{at}:{column}: {expected}")],
        );
    }
    let file = File::parse(Path::new("cardan.toml"), "[servers.a.reconnect]\nwait = 1\n", None).unwrap();
    let told_of = file.problems[0].to_string();
    assert!(told_of.starts_with("cardan.toml:2:1: server `a`: `wait`: there is no such key; "), "{told_of}");
    assert!(told_of.contains("accepted: attempts, wait_min, "), "{told_of}");
    told(
        "cardan.toml",
        "[servers.a]\ncommand = 'x'\nreconnect = 5\n",
        &["cardan.toml:3:13: server `a`: `reconnect`: a table is expected, not a number"],
    );
}

/// In our own file an unknown key is a slip; in others' it is theirs.
#[test]
fn unknown_keys_are_errors_in_our_file_only() {
    let text = "[server.a]\ncommand = \"x\"\n";
    let top = "accepted: servers, defaults, imports, inputs, gateway, policy, telemetry, daemon, client or replicas";
    told(
        "cardan.toml",
        text,
        &[&format!("cardan.toml:1:2: `server`: there is no such key; did you mean `servers`? {top}")],
    );
    told("cardan.toml", "daemon = 1\n", &["cardan.toml:1:10: `daemon`: this is not true or false"]);
    let file = File::parse(Path::new("cardan.toml"), "[servers.a]\ncomand = \"x\"\n", None).unwrap();
    let told_of = file.problems[0].to_string();
    assert!(
        told_of.starts_with(
            "cardan.toml:2:1: server `a`: `comand`: there is no such key; did you mean `command`?"
        )
    );
    assert_eq!(file.problems.len(), 1, "what is missing because of the slip is not told again");
    told(
        "cardan.toml",
        "[defaults]\ncommand = \"x\"\n",
        &[
            "cardan.toml:2:1: `command`: there is no such key; accepted: start_timeout, call_timeout, era, revision, \
         dialect, env_policy, lazy, idle_stop, concurrency, sessions or reconnect",
        ],
    );
    told(
        "cardan.toml",
        "imports = [\"emacs\"]\n",
        &[
            "cardan.toml:1:12: `imports`: this is no tool whose files we read; accepted: claude-desktop, claude-code, \
         vscode, cursor, windsurf, codex, gemini, opencode, inspector, mcporter or oh-my-pi",
        ],
    );
    told(".mcp.json", r#"{"mcpServers": {"a": {"command": "x", "comand": 1}}}"#, &[]);
}

/// A slip in a rule says where it is and what is accepted, and its server is not used until it is right.
#[test]
fn slips_in_rules_are_told() {
    let accepted = "accepted: allow, deny, rename or describe";
    let name = "this is no name; accepted: 1 to 128 letters, digits, `_`, `-` or `.`";
    for (rules, told_of) in [
        ("tools = { hide = ['x'] }", format!("3:11: server `a`: `hide`: there is no such key; {accepted}")),
        (
            "prompts = { renam = {} }",
            format!("3:13: server `a`: `renam`: there is no such key; did you mean `rename`? {accepted}"),
        ),
        ("resources = ['x']", "3:13: server `a`: `resources`: a table is expected, not a list".to_owned()),
        (
            "prompts = { deny = 'x' }",
            "3:20: server `a`: `deny`: a list of texts is expected, not text".to_owned(),
        ),
        (
            "tools = { rename = ['x'] }",
            "3:20: server `a`: `rename`: a table is expected, not a list".to_owned(),
        ),
        (
            "tools = { rename = { x = 1 } }",
            "3:26: server `a`: `x`: text is expected, not a number".to_owned(),
        ),
        ("tools = { rename = { x = 'a b' } }", format!("3:26: server `a`: `x`: {name}")),
        ("tools = { rename = { x = '' } }", format!("3:26: server `a`: `x`: {name}")),
        (
            "prompts = { rename = { x = ' ' } }",
            "3:28: server `a`: `x`: this is no name; accepted: any text but none".to_owned(),
        ),
        (
            "tools = { rename = { x = 'z', y = 'z' } }",
            "3:35: server `a`: `y`: `x` gets the same name; give each a name of its own".to_owned(),
        ),
        (
            "tools = { describe = { x = ['y'] } }",
            "3:28: server `a`: `x`: text is expected, not a list".to_owned(),
        ),
    ] {
        told(
            "cardan.toml",
            &format!("[servers.a]\ncommand = 'x'\n{rules}\n"),
            &[&format!("cardan.toml:{told_of}")],
        );
    }
    told("cardan.toml", "[servers.a]\ncommand = 'x'\nresources.rename = { 'a:1' = 'z', 'a:2' = 'z' }\n", &[]);
}

#[test]
fn one_wrong_server_leaves_the_others_usable() {
    let text = r#"{"mcpServers": {"a": {"type": "x"}, "b": {"command": "y"}, "b": {"command": "z"}}}"#;
    let file = File::parse(Path::new(".mcp.json"), text, None).unwrap();
    assert_eq!(file.servers.len(), 1);
    assert_eq!(file.problems.len(), 2, "{:?}", file.problems);
    assert!(file.problems[1].message.contains("the last one counts"));
}

#[test]
fn malformed_files_name_the_place_and_repeat_nothing() {
    told(
        "a.json",
        "{\n  \"mcpServers\": {\n    \"a\": sk-secret\n  }\n}",
        &["a.json:3:10: a value is expected: text stands in double quotes"],
    );
    let problem = File::parse(Path::new("cardan.toml"), "[servers.a]\nkey = sk-secret\n", None).unwrap_err();
    let problem = problem.to_string();
    assert!(problem.starts_with("cardan.toml:2:7: ") && !problem.contains("secret"), "{problem}");
    let problem = File::read(Path::new("does-not-exist.toml"), Some(Tool::Cardan)).unwrap_err().to_string();
    assert!(problem.starts_with("does-not-exist.toml: cannot be read: "), "{problem}");
}
