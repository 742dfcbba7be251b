//! A file of each tool's documented shape is read, goes through our own file and back, and loses nothing.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::path::{Path, PathBuf};

use cardan_config::edit::{Change, edit};
use cardan_config::server::Way;
use cardan_config::text::Part;
use cardan_config::write::write;
use cardan_config::{File, Server, Tool};

/// The files, and whose they are.
const FILES: [(&str, Tool, &[&str]); 15] = [
    ("claude-desktop/claude_desktop_config.json", Tool::ClaudeDesktop, &["filesystem", "weather"]),
    ("claude-code/.mcp.json", Tool::ClaudeCode, &["files", "tracker", "internal", "old", "live"]),
    ("claude-code/.claude.json", Tool::ClaudeCode, &["everywhere", "here"]),
    ("claude-code/plugin.json", Tool::ClaudeCode, &["database"]),
    ("vscode/.vscode/mcp.json", Tool::VsCode, &["tracker", "local-http", "remote", "old"]),
    ("cursor/.cursor/mcp.json", Tool::Cursor, &["local", "remote"]),
    ("windsurf/mcp_config.json", Tool::Windsurf, &["git", "issues"]),
    ("codex/.codex/config.toml", Tool::Codex, &["docs", "figma design"]),
    ("gemini/.gemini/settings.json", Tool::Gemini, &["python", "http", "sse", "typed", "experimental"]),
    ("opencode/opencode.jsonc", Tool::OpenCode, &["everything", "sentry"]),
    ("opencode-one/opencode.json", Tool::OpenCode, &["local", "jira"]),
    ("inspector/.mcp-inspector/mcp.json", Tool::Inspector, &["everything", "modern"]),
    ("mcporter/config/mcporter.json", Tool::Mcporter, &["linear", "chrome", "vault"]),
    ("oh-my-pi/.omp/mcp.json", Tool::OhMyPi, &["github", "slack", "off"]),
    ("cardan/cardan.toml", Tool::Cardan, &["everything", "remote", "old", "live", "socket", "pipe", "port"]),
];

fn load(name: &str) -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    File::read(&path, None).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Every tool's file is known by its name, and every server in it is understood.
#[test]
fn each_tools_file_is_read() {
    for (name, tool, servers) in FILES {
        let file = load(name);
        assert_eq!(file.tool, tool, "{name}");
        assert_eq!(file.problems, [], "{name}");
        let names: Vec<&str> = file.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, servers, "{name}");
        assert!(file.servers.iter().all(|server| server.origin.line > 0), "{name}");
    }
}

/// By its shape alone, a file is taken for one that reads it the same.
#[test]
fn files_are_known_by_their_shape() {
    for (name, tool, _) in FILES {
        let ending = Path::new(name).extension().unwrap().to_string_lossy().into_owned();
        let path = PathBuf::from(format!("unnamed.{ending}"));
        let file = File::parse(&path, load(name).text(), None).unwrap();
        let same = [Tool::ClaudeDesktop, Tool::ClaudeCode, Tool::Cursor];
        assert!(file.tool == tool || same.contains(&tool), "{name} is taken for {}", file.tool);
    }
}

/// CLI-34: import: what goes into `cardan.toml` is all there, and so it is when it goes back to the tool.
#[test]
fn nothing_is_lost_on_the_way_to_our_file_and_back() {
    for (name, tool, _) in FILES {
        for server in load(name).servers {
            let ours = through(&server, Tool::Cardan);
            assert_eq!(ours.differences(&server), [""; 0], "{name} {} into cardan.toml", server.name);
            // What the lists of Gemini and oh-my-pi switch off has no switch of its own there.
            if tool != Tool::Gemini || server.enabled {
                let back = through(&ours, tool);
                assert_eq!(back.differences(&server), [""; 0], "{name} {} back to {tool}", server.name);
            }
        }
    }
}

/// The server after it was written to an empty file of a tool and read again.
fn through(server: &Server, tool: Tool) -> Server {
    let path = Path::new("file");
    let edited = edit(path, "", tool, Change::Add(server)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(edited.lost, [""; 0], "{} for {tool}", server.name);
    let file = File::parse(path, &edited.text, Some(tool)).unwrap();
    assert_eq!(file.problems, [], "{}", edited.text);
    file.servers.into_iter().next().unwrap()
}

/// Export: what a tool cannot say is named, and what it can say is said.
#[test]
fn what_a_tool_cannot_say_is_named() {
    let servers = load("cardan/cardan.toml").servers;
    let find = |name: &str| servers.iter().find(|server| server.name == name).unwrap();
    let written = write(find("remote"), Tool::Cursor).unwrap();
    assert_eq!(written.lost, ["header X-Key: Cursor cannot spell its placeholders", "headers helper", "ca"]);
    assert_eq!(write(find("live"), Tool::Codex).unwrap_err(), "Codex has no way to say `ws`");
    assert_eq!(write(find("socket"), Tool::VsCode).unwrap_err(), "VS Code has no way to say `unix`");
    let lost = write(find("everything"), Tool::ClaudeCode).unwrap().lost;
    assert!(lost.contains(&"dev of VS Code".to_owned()) && lost.contains(&"era".to_owned()), "{lost:?}");
    assert!(lost.contains(&"env file".to_owned()), "{lost:?}");
    for rules in ["which prompts are offered", "the new names of tools", "the descriptions of prompts"] {
        assert!(lost.contains(&rules.to_owned()), "{rules}: {lost:?}");
    }
}

/// S0-10, S0-11: `type` in all its spellings or none; `sse` is a transport of its own.
#[test]
fn s0_10_transports_are_named_or_inferred() {
    for (members, kind) in [
        (r#""command": "x""#, "stdio"),
        (r#""type": "stdio", "command": "x""#, "stdio"),
        (r#""type": "local", "command": ["x", "y"]"#, "stdio"),
        (r#""url": "https://x/mcp""#, "http"),
        (r#""type": "http", "url": "https://x/mcp""#, "http"),
        (r#""type": "streamable-http", "url": "https://x/mcp""#, "http"),
        (r#""type": "streamableHttp", "url": "https://x/mcp""#, "http"),
        (r#""type": "Streamable_HTTP", "url": "https://x/mcp""#, "http"),
        (r#""type": "remote", "url": "https://x/mcp""#, "http"),
        (r#""transport": "http", "url": "https://x/mcp""#, "http"),
        (r#""type": "sse", "url": "https://x/sse""#, "sse"),
        (r#""type": "ws", "url": "wss://x/mcp""#, "ws"),
        (r#""type": "websocket", "url": "wss://x/mcp""#, "ws"),
        (r#""url": "ws://x/mcp""#, "ws"),
        (r#""url": "${URL}""#, "http"),
        (r#""serverUrl": "https://x/mcp""#, "http"),
        (r#""type": "unix", "url": "/run/x.sock""#, "unix"),
        (r#""url": "unix:///run/x.sock""#, "unix"),
        (r#""url": "unix:///run/x.sock#/mcp""#, "http"),
        (r#""type": "pipe", "url": "pipe:///x""#, "pipe"),
        (r#""type": "tcp", "url": "127.0.0.1:7""#, "tcp"),
        (r#""url": "tcp://127.0.0.1:7""#, "tcp"),
    ] {
        let text = format!("{{\"mcpServers\": {{\"a\": {{{members}}}}}}}");
        let file = File::parse(Path::new(".mcp.json"), &text, None).unwrap();
        assert_eq!(file.problems, [], "{members}");
        assert_eq!(file.servers[0].way.kind(), kind, "{members}");
    }
}

/// S0-30, S1-7, S1-8: command, args, env and cwd; null removes a variable.
#[test]
fn s1_8_null_removes_a_variable() {
    let file = load("vscode/.vscode/mcp.json");
    let Way::Command(launch) = &file.servers[0].way else { panic!("not a command") };
    assert_eq!(launch.program.as_literal(), Some("npx"));
    assert_eq!(launch.args.len(), 4);
    assert_eq!(launch.env[2], ("NODE_OPTIONS".to_owned(), None));
    assert!(launch.cwd.is_some() && launch.env_files.len() == 1);
    assert_eq!(file.inputs[0].id, "tracker-key");
    assert!(file.inputs[0].password);
}

/// Some of what only one tool says.
#[test]
fn peculiarities_mean_what_their_tool_means() {
    let server = |file: &str, at: usize| load(file).servers.swap_remove(at);
    let codex = server("codex/.codex/config.toml", 0);
    let Way::Command(launch) = &codex.way else { panic!("not a command") };
    assert_eq!(launch.pass, ["DOCS_TOKEN"]);
    assert_eq!(launch.env[0].1.as_ref().unwrap().as_literal(), Some("${literal}"));
    assert_eq!(codex.settings.call_timeout.unwrap().as_millis(), 45_500);
    let figma = server("codex/.codex/config.toml", 1);
    let remote = figma.way.remote().unwrap();
    assert_eq!(remote.bearer_env.as_deref(), Some("FIGMA_TOKEN"));
    assert_eq!(remote.headers[1].1.as_variable(), Some("FIGMA_TEAM"));
    assert!(!figma.enabled);
    assert!(!server("gemini/.gemini/settings.json", 4).enabled);
    assert_eq!(server("gemini/.gemini/settings.json", 2).way.kind(), "sse");
    assert!(!server("windsurf/mcp_config.json", 0).enabled);
    assert!(!server("oh-my-pi/.omp/mcp.json", 2).enabled);
    let slack = server("oh-my-pi/.omp/mcp.json", 1);
    assert!(matches!(slack.way.remote().unwrap().headers[0].1.parts[..], [Part::Command(_)]));
    let here = server("claude-code/.claude.json", 1);
    assert_eq!(here.origin.project.as_deref(), Some(Path::new("/home/ada/project")));
    assert!(!server("opencode/opencode.jsonc", 1).enabled);
    let ours = load("cardan/cardan.toml");
    assert_eq!(ours.imports, [Tool::ClaudeCode, Tool::Cursor]);
    assert!(ours.table("gateway").is_some() && ours.table("policy").is_some());
    assert_eq!(ours.position(&ours.table("gateway").unwrap().span).0, 63);
}

/// S1-48: an entry with a kind of transport, a command or an `endpoint`, and a time for each request is understood, and goes
/// into our own file.
#[test]
fn s1_48_entries_with_an_endpoint_are_imported() {
    let text = r#"{ "mcpServers": {
        "local": { "transport": "stdio", "command": "run", "args": ["-v"], "env": { "A": "1" }, "requestTimeout": 5000 },
        "plain": { "transport": "http", "endpoint": "https://example.com/mcp", "headers": { "X-Team": "blue" } },
        "streamed": { "transport": "streamableHttp", "endpoint": "https://example.com/mcp", "timeoutMs": 2500 },
        "old": { "transport": "sse", "endpoint": "https://example.com/sse" },
        "live": { "type": "ws", "endpoint": "wss://example.com/ws" }
    } }"#;
    let file = File::parse(Path::new("mcp.json"), text, None).unwrap();
    assert_eq!(file.problems, []);
    let kinds: Vec<_> = file.servers.iter().map(|server| (server.name.as_str(), server.way.kind())).collect();
    assert_eq!(
        kinds,
        [("local", "stdio"), ("plain", "http"), ("streamed", "http"), ("old", "sse"), ("live", "ws")]
    );
    let wait = |at: usize| file.servers[at].settings.call_timeout.map(|wait| wait.as_millis());
    assert_eq!((wait(0), wait(1), wait(2)), (Some(5000), None, Some(2500)));
    for server in &file.servers {
        let ours = edit(Path::new("cardan.toml"), "", Tool::Cardan, Change::Add(server)).unwrap();
        assert_eq!(ours.lost, Vec::<String>::new(), "{}", server.name);
        let again = File::parse(Path::new("cardan.toml"), &ours.text, None).unwrap();
        assert_eq!(again.problems, [], "{}", ours.text);
        assert_eq!(again.servers[0].digest(), server.digest(), "{}", ours.text);
    }
}
