//! Changes touch nothing but what they are about.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::path::Path;

use cardan_config::edit::{Change, EditError, edit};
use cardan_config::server::{Launch, Remote, Server, Way};
use cardan_config::{File, Text, Tool};
use proptest::prelude::*;

fn server(name: &str) -> Server {
    let env = vec![
        ("TOKEN".to_owned(), Some(Text::variable("MY_TOKEN"))),
        ("M".to_owned(), Some(Text::literal("x"))),
    ];
    let launch = Launch {
        program: Text::literal("npx"),
        args: vec![Text::literal("-y"), Text::literal("new \"mcp\"")],
        env,
        ..Launch::default()
    };
    Server::new(name, Way::Command(launch))
}

fn changed(text: &str, tool: Tool, change: Change<'_>) -> Result<String, EditError> {
    edit(Path::new("file"), text, tool, change).map(|edited| edited.text)
}

/// Adds, then removes; the bytes are as they were.
#[track_caller]
fn there_and_back(text: &str, tool: Tool) -> String {
    let added =
        changed(text, tool, Change::Add(&server("new"))).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(
        File::parse(Path::new("file"), &added, Some(tool)).unwrap().servers.iter().any(|s| s.name == "new")
    );
    let removed =
        changed(&added, tool, Change::Remove("new")).unwrap_or_else(|error| panic!("{error}: {added}"));
    assert_eq!(removed, text, "added:\n{added}");
    added
}

#[test]
fn a_server_is_added_in_the_style_of_the_file() {
    let text = "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" } // last\n\t}\n}\n";
    let expected = "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" }, // last\n\t\t\"new\": {\n\
                    \t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\"-y\", \"new \\\"mcp\\\"\"],\n\t\t\t\"env\": {\n\
                    \t\t\t\t\"TOKEN\": \"${MY_TOKEN}\",\n\t\t\t\t\"M\": \"x\"\n\t\t\t}\n\t\t}\n\t}\n}\n";
    assert_eq!(there_and_back(text, Tool::ClaudeCode), expected);
}

#[test]
fn what_was_added_can_be_removed_without_a_trace() {
    for text in [
        "{\"mcpServers\":{}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"},}}",
        "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n}}",
        "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"}, // c\n  // end\n}}",
        "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"} /* c\n d */\n}}",
        "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"}}}",
        "{\r\n  \"mcpServers\": {\r\n    \"a\": {\"command\": \"x\"}\r\n  }\r\n}\r\n",
        "\u{feff}{\n  \"mcpServers\": {},\n  \"other\": 1.50\n}",
    ] {
        there_and_back(text, Tool::ClaudeCode);
    }
    for text in [
        "",
        "\n",
        "# only a comment\n",
        "# no newline",
        "[gateway]\nnaming = \"never\"\n\n\n",
        "[servers]\n",
        "servers = {}\n",
        "servers = { a = { command = \"x\" } } # c\n",
        "[servers.a]\ncommand = \"x\"\n# trailing",
        "[servers.a]\r\ncommand = \"x\"\r\n",
        "imports = []\n[servers]\na = { command = \"x\" }\n[policy]\n",
    ] {
        there_and_back(text, Tool::Cardan);
    }
}

/// All fixtures: what is not changed keeps its bytes; removing one leaves the others.
#[test]
fn every_fixture_can_be_changed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in [
        "claude-desktop/claude_desktop_config.json",
        "claude-code/.mcp.json",
        "vscode/.vscode/mcp.json",
        "cursor/.cursor/mcp.json",
        "windsurf/mcp_config.json",
        "codex/.codex/config.toml",
        "gemini/.gemini/settings.json",
        "opencode/opencode.jsonc",
        "opencode-one/opencode.json",
        "inspector/.mcp-inspector/mcp.json",
        "mcporter/config/mcporter.json",
        "oh-my-pi/.omp/mcp.json",
        "cardan/cardan.toml",
    ] {
        let file = File::read(&root.join(name), None).unwrap();
        there_and_back(file.text(), file.tool);
        for server in &file.servers {
            let text = changed(file.text(), file.tool, Change::Remove(&server.name)).unwrap();
            let left = File::parse(&file.path, &text, None).unwrap();
            assert_eq!(left.servers.len(), file.servers.len() - 1, "{name} without {}: {text}", server.name);
            assert!(!left.servers.iter().any(|other| other.name == server.name));
        }
    }
}

#[test]
fn tables_that_are_spread_are_removed_whole() {
    let text = "[mcp_servers.a]\ncommand = \"x\" # a\n\n[mcp_servers.b]\ncommand = \"y\"\n\n# a again\n\
                [mcp_servers.a.env]\nK = \"v\"\n\n# for the rest\n[other]\nz = \"[mcp_servers.a]\"\n";
    let expected =
        "[mcp_servers.b]\ncommand = \"y\"\n\n# a again\n# for the rest\n[other]\nz = \"[mcp_servers.a]\"\n";
    assert_eq!(changed(text, Tool::Codex, Change::Remove("a")).unwrap(), expected);
}

#[test]
fn a_server_is_replaced_where_it_stands() {
    let text =
        "{\"mcpServers\": {\n  \"new\": {\"command\": \"old\"}, // c\n  \"b\": {\"command\": \"x\"}\n}}";
    let replaced = changed(text, Tool::ClaudeCode, Change::Replace(&server("new"))).unwrap();
    assert!(replaced.contains("}, // c\n  \"b\"") && !replaced.contains("old"), "{replaced}");
    let text = "[servers.new]\nurl = \"https://old\"\n\n[servers.b]\ncommand = \"x\"\n";
    let replaced = changed(text, Tool::Cardan, Change::Replace(&server("new"))).unwrap();
    assert!(replaced.starts_with("[servers.b]") && !replaced.contains("old"), "{replaced}");
}

#[test]
fn files_that_cannot_be_changed_are_left_alone() {
    let exists = "{\n\"mcpServers\": {\n\"new\": {}}}";
    for (text, tool, change, told) in [
        (exists, Tool::ClaudeCode, Change::Add(&server("new")), "a server `new` is there already, in line 3"),
        (
            "{\"mcpServers\": {\"weather\": {\"command\": \"x\"}}}",
            Tool::ClaudeCode,
            Change::Remove("wheather"),
            "there is no server `wheather`; did you mean `weather`?",
        ),
        (
            "{\"mcpServers\": {",
            Tool::ClaudeCode,
            Change::Add(&server("new")),
            "file:1:17: an object does not end; a file that cannot be read is not rewritten",
        ),
        (
            "{\"mcpServers\": []}",
            Tool::ClaudeCode,
            Change::Add(&server("new")),
            "file:1:16: the servers are a list, not a table; a file that cannot be read is not rewritten",
        ),
        (
            "servers.new.command = \"x\"\n",
            Tool::Cardan,
            Change::Remove("new"),
            "line 1 cannot be changed by us: it is written with dotted keys; change it by hand",
        ),
        (
            "{\"mcpServers\": {\"a\": {}, \"a\": {}}}",
            Tool::ClaudeCode,
            Change::Remove("a"),
            "line 1 cannot be changed by us: the name is given twice; change it by hand",
        ),
    ] {
        assert_eq!(changed(text, tool, change).unwrap_err().to_string(), told);
    }
}

/// A value in some layout.
fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("1.50".to_owned()),
        "[a-z${}/\\[ ]{0,6}".prop_map(|text| format!("\"{text}\"")),
        Just("{}".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            (prop::collection::vec(inner, 1..3), space()).prop_map(|(items, space)| {
                let members = items.iter().enumerate().map(|(n, item)| format!("{space}\"k{n}\":{item}"));
                format!("{{{}{space}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("\n  ".to_owned()),
        Just("\n\n\t".to_owned()),
        Just(" /* c */ ".to_owned()),
        Just(" // c\n ".to_owned()),
        Just(" /* c\n */\n".to_owned()),
    ]
}

/// A file with servers before which, between which and after which anything may stand.
fn json_file() -> impl Strategy<Value = String> {
    let member = (space(), space(), json_value(), space());
    let members = prop::collection::vec(member, 1..4);
    (space(), members, any::<bool>(), space(), json_value()).prop_map(
        |(start, members, comma, end, other)| {
            let count = members.len();
            let servers = members.into_iter().enumerate().map(|(n, (one, two, value, three))| {
                let comma = if n + 1 < count || comma { "," } else { "" };
                format!("{one}\"s{n}\":{two}{{\"command\": \"x\", \"y\": {value}}}{three}{comma}")
            });
            let servers = servers.collect::<String>();
            format!("{start}{{{start}\"other\":{other},\"mcpServers\":{{{servers}{end}}}{end}}}")
        },
    )
}

fn toml_file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("\n"),
        Just("# comment\n"),
        Just("  # [servers.new]\n"),
        Just("[servers.a]\ncommand = \"x\" # c\n"),
        Just("[servers.a.env]\nA = \"1\"\n\n"),
        Just("[servers.b]\nurl = '''\nhttps://x\n[servers.new]'''\n"),
        Just("[gateway]\n"),
        Just("[[inputs.more]]\nx = { y = 1, z = [1,\n 2] }\n"),
        Just("\n\n[policy.x]\ntools = {}"),
    ];
    prop::collection::vec(line, 0..5).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn adding_then_removing_restores_json(text in json_file()) {
        there_and_back(&text, Tool::ClaudeCode);
    }

    #[test]
    fn adding_then_removing_restores_toml(text in toml_file()) {
        // Not every heap of lines is TOML.
        if File::parse(Path::new("file"), &text, Some(Tool::Cardan)).is_ok() {
            there_and_back(&text, Tool::Cardan);
        }
    }

    #[test]
    fn removing_takes_one_server_and_nothing_else(text in json_file()) {
        let old = File::parse(Path::new("file"), &text, Some(Tool::ClaudeCode)).unwrap();
        for server in &old.servers {
            let left = changed(&text, Tool::ClaudeCode, Change::Remove(&server.name));
            let left = left.unwrap_or_else(|error| panic!("{error}: {text}"));
            let new = File::parse(Path::new("file"), &left, Some(Tool::ClaudeCode)).unwrap();
            prop_assert_eq!(new.servers.len() + 1, old.servers.len());
        }
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), tool in 0..12_usize) {
        let text = String::from_utf8_lossy(&bytes);
        let tool = Tool::ALL[tool];
        if let Ok(file) = File::parse(Path::new("file"), &text, Some(tool)) {
            let _ = (format!("{file:?}"), changed(&text, tool, Change::Add(&server("new"))));
        }
    }
}

/// What is sent over the network is written as each tool has it.
#[test]
fn addresses_are_written_as_each_tool_has_them() {
    let headers =
        vec![("Authorization".to_owned(), Text::parse("Bearer ${T}", cardan_config::text::Grammar::Cardan))];
    let remote = Remote { url: Text::literal("https://x/mcp"), headers, ..Remote::default() };
    let server = Server::new("r", Way::Http(remote));
    for (tool, expected) in [
        (
            Tool::Cardan,
            "[servers.r]\nurl = \"https://x/mcp\"\nheaders = { Authorization = \"Bearer ${T}\" }\n",
        ),
        (Tool::Codex, "[mcp_servers.r]\nurl = \"https://x/mcp\"\nbearer_token_env_var = \"T\"\n"),
        (
            Tool::ClaudeCode,
            "{\n  \"mcpServers\": {\n    \"r\": {\n      \"type\": \"http\",\n      \"url\": \"https://x/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer ${T}\"\n      }\n    }\n  }\n}\n",
        ),
        (
            Tool::Windsurf,
            "{\n  \"mcpServers\": {\n    \"r\": {\n      \"serverUrl\": \"https://x/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer ${env:T}\"\n      }\n    }\n  }\n}\n",
        ),
        (
            Tool::OpenCode,
            "{\n  \"mcp\": {\n    \"servers\": {\n      \"r\": {\n        \"type\": \"remote\",\n        \"url\": \"https://x/mcp\",\n        \"headers\": {\n          \"Authorization\": \"Bearer {env:T}\"\n        }\n      }\n    }\n  }\n}\n",
        ),
    ] {
        assert_eq!(changed("", tool, Change::Add(&server)).unwrap(), expected, "{tool}");
    }
}
