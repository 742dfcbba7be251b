//! S1-C5: no output shows a secret, wherever in a file it stands.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::path::Path;

use cardan_config::{Config, File, Tool, json, show};
use proptest::prelude::*;

/// Everything that is ever printed about a file.
fn outputs(name: &str, text: &str) -> String {
    let file = match File::parse(Path::new(name), text, None) {
        Ok(file) => file,
        Err(problem) => return format!("{problem} {problem:?}"),
    };
    let config = Config { servers: file.servers.clone(), inputs: file.inputs.clone(), ..Config::default() };
    let mut out = format!("{file:?} {config:?} {:?}", file.root());
    for problem in &file.problems {
        out += &format!("{problem} {problem:?}");
    }
    for server in &file.servers {
        let shown = show::server(server, &config);
        out += &format!("{server:?} {} {} {:?}", json::line(&shown), show::summary(server), server.digest());
        for tool in Tool::ALL {
            if let Ok(written) = cardan_config::write::write(server, tool) {
                out += &format!("{:?} {:?}", written, written.lost);
            }
        }
    }
    out
}

/// Where a secret may stand.
const PLACES: [&str; 24] = [
    r#""command": "x", "env": {"A": "@"}"#,
    r#""command": "x", "env": {"A": "${B:-@}"}"#,
    r#""command": "x", "env": {"A": "pre-@-post ${C}"}"#,
    r#""command": "x", "env": {"A": ["@"]}"#,
    r#""command": "x", "env": "@""#,
    r#""command": "x", "env": {"A": "${unknown thing @}"}"#,
    r#""command": "x", "args": ["--token=@"]"#,
    r#""command": "x", "args": ["--api-key", "@"]"#,
    r#""command": "x", "args": ["--auth=bob:@"]"#,
    r#""command": "x", "args": ["-p", "@"]"#,
    r#""command": "x", "args": ["key=@"]"#,
    r#""command": "x", "args": ["--pass=@${MORE}@"]"#,
    r#""command": "x", "args": ["--header", "Authorization: Bearer @"]"#,
    r#""command": "x", "sandbox": {"password": "@", "more": ["@"]}"#,
    r#""command": "x", "timeout": "@""#,
    r#""url": "https://x/mcp?key=@""#,
    r#""url": "https://user:@@x/mcp""#,
    r#""url": "${URL:-https://x}/mcp?a=${A}&b=@""#,
    r#""url": "https://x", "headers": {"Authorization": "Bearer @"}"#,
    r#""url": "https://x", "headers": {"X-Anything": "@"}"#,
    r#""url": "https://x", "headersHelper": "print --password @""#,
    r#""url": "https://x", "oauth": {"clientSecret": "@"}"#,
    r#""type": "@!", "url": "https://x""#,
    r#""command": "x", "note": @"#,
];

proptest! {
    #[test]
    fn no_output_shows_a_secret(secret in "[a-zA-Z0-9]{8,24}", place in 0..PLACES.len()) {
        let canary = format!("canary{secret}");
        let text = format!("{{\"mcpServers\": {{\"a\": {{{}}}}}}}", PLACES[place].replace('@', &canary));
        // Between `:` and `@` of an address, the sign is the address's own.
        let text = text.replace(&format!("user:{canary}{canary}x"), &format!("user:{canary}@x"));
        for name in [".mcp.json", ".cursor/mcp.json", ".omp/mcp.json", "config/mcporter.json", "opencode.json"] {
            let out = outputs(name, &text);
            prop_assert!(!out.contains("canary"), "{} shows it: {}\n{}", name, text, out);
        }
    }
}

/// What stands in for an answer is as secret as the answer.
#[test]
fn defaults_of_inputs_are_hidden() {
    let json = r#"{"inputs": [{"id": "key", "type": "promptString", "default": "canary-1"}],
        "servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}"#;
    let toml =
        "[inputs.key]\ndefault = 'canary-1'\n[servers.a]\ncommand = 'x'\nenv = { K = '${input:key}' }\n";
    for (name, text) in [(".vscode/mcp.json", json), ("cardan.toml", toml)] {
        let file = File::parse(Path::new(name), text, None).unwrap();
        assert_eq!(file.inputs[0].default.as_deref(), Some("canary-1"), "{name}");
        let out = outputs(name, text);
        assert!(!out.contains("canary") && out.contains("key"), "{name}: {out}");
    }
}

#[test]
fn well_known_keys_are_hidden_wherever_they_stand() {
    let keys = [
        "sk-proj-canary1234567",
        "ghp_canary0123456789abcdef",
        "xoxb-canary-123456",
        "eyJhbGciOiJIUzI1NiJ9canary",
        "q8Zk2canaryVx71LmP0sT4wYb",
    ];
    for key in keys {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"command": "run", "args": ["{key}", "x/{key}"]}}, "b": {{"url": "https://h/{key}/mcp"}}}}}}"#
        );
        let out = outputs(".mcp.json", &text);
        assert!(!out.contains("canary"), "{out}");
    }
    // Where a name belongs, some write the value.
    for key in keys {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"baseUrl": "https://h", "bearerTokenEnv": "{key}"}}}}, "imports": []}}"#
        );
        let out = outputs("config/mcporter.json", &text);
        assert!(!out.contains("canary") && out.contains("the name of a variable is expected"), "{out}");
        let text = format!("[mcp_servers.a]\nurl = \"https://h\"\nenv_http_headers = {{ X = \"{key}\" }}\n");
        assert!(!outputs(".codex/config.toml", &text).contains("canary"));
    }
    for plain in [
        "@modelcontextprotocol/server-filesystem",
        "/home/ada/notes",
        "--port=8080",
        "production",
        "us-east-1",
    ] {
        assert!(!show::looks_secret(plain), "{plain}");
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "run", "args": ["{plain}"]}}}}}}"#);
        assert!(outputs(".mcp.json", &text).contains(plain), "{plain}");
    }
}
