//! docs/migrate.md: every line that it says to write does what it says.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{CARDAN, Scratch, Serving, cardan};

/// What the page says to write, word by word.
fn lines() -> Vec<Vec<String>> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migrate.md")).unwrap();
    page.lines().filter_map(|line| line.strip_prefix("cardan ")).map(words).collect()
}

/// As a shell splits them; the page has no other quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, piece) in line.split('"').enumerate() {
        match at % 2 {
            1 => words.push(piece.to_owned()),
            _ => words.extend(piece.split_whitespace().map(str::to_owned)),
        }
    }
    words
}

/// Puts what is here in the place of what the page makes up.
fn real(words: Vec<String>, address: &str, config: &str) -> Vec<String> {
    let mut real = Vec::new();
    for word in words {
        match word.as_str() {
            "npx" | "uvx" => real.push(CARDAN.to_owned()),
            "-y" => {}
            "some-server" => real.push("demo".to_owned()),
            "servers.json" => real.push(config.to_owned()),
            word if word.starts_with("127.0.0.1:") => real.push("127.0.0.1:0".to_owned()),
            word => real.push(word.replace("https://example.com", &format!("http://{address}"))),
        }
    }
    real
}

#[test]
fn every_line_of_the_page_works() {
    let scratch = Scratch::new("migrate");
    let config = scratch.file("servers.json");
    let server = serde_json::json!({ "mcpServers": { "demo": { "command": CARDAN, "args": ["demo"] } } });
    std::fs::write(&config, server.to_string()).unwrap();
    let remote = Serving::start(&[]);
    let lines = lines();
    assert_eq!(lines.len(), 12, "the page has changed");
    for line in lines {
        let words = real(line, &remote.address, &config);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let add = ["add", "a=2", "b=3"];
        if words.contains(&"--stdio") {
            // A variable that is set; any will do for a server that asks for no token.
            let words = words.iter().map(|word| if *word == "TOKEN" { "PATH" } else { word });
            let through: Vec<&str> = ["--", CARDAN].into_iter().chain(words).collect();
            cardan(&[&["call"], &add[..], &through].concat()).exits(0).prints("{\"sum\":5}\n");
            continue;
        }
        let serving = Serving::run(&words);
        let prefix = if words[0] == "serve" { "/servers/demo" } else { "" };
        for path in ["mcp", "sse"] {
            let url = format!("http://{}{prefix}/{path}", serving.address);
            cardan(&[&["call", url.as_str()], &add[..]].concat()).exits(0).prints("{\"sum\":5}\n");
        }
        let url = format!("ws://{}{prefix}/ws", serving.address);
        cardan(&[&["call", url.as_str()], &add[..]].concat()).exits(0).prints("{\"sum\":5}\n");
        assert_eq!(serving.stop(), Some(0));
    }
}
