//! The lines of the page, and what stands here for what it makes up.

use std::path::PathBuf;

use crate::common::{CARDAN, Scratch};

/// A line, and the one that replaces it, word by word.
pub(crate) struct Pair {
    pub(crate) old: Vec<String>,
    pub(crate) ours: Vec<String>,
}

/// All that the page has, in its order.
pub(crate) fn pairs() -> Vec<Pair> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migrate.md")).unwrap();
    let blocks = page.split("```").skip(1).step_by(2);
    let pairs = blocks.map(|block| match block.lines().collect::<Vec<_>>()[..] {
        ["sh", old, ours] => Pair { old: words(old), ours: words(ours) },
        _ => panic!("not a line and the one that replaces it: {block}"),
    });
    pairs.collect()
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

/// What the page calls `servers.json`.
pub(crate) fn config(scratch: &Scratch) -> String {
    let config = scratch.file("servers.json");
    let server = serde_json::json!({ "mcpServers": { "demo": { "command": CARDAN, "args": ["demo"] } } });
    std::fs::write(&config, server.to_string()).unwrap();
    config
}

/// What stands for the names that the page makes up.
pub(crate) struct Place<'a> {
    /// For `https://example.com`: host and port.
    pub(crate) remote: &'a str,
    pub(crate) config: &'a str,
    pub(crate) token: &'a str,
    /// For every port that the page listens on.
    pub(crate) port: u16,
}

impl Place<'_> {
    /// Puts what is here in the place of what the page makes up.
    pub(crate) fn words(&self, line: &[String]) -> Vec<String> {
        // The page's own programs come by a launcher, which is not needed here.
        let line = match line {
            [launcher, yes, rest @ ..] if launcher == "npx" && yes == "-y" => rest,
            line => line,
        };
        let mut real: Vec<String> = Vec::new();
        for word in line {
            let word = word
                .replace("npx -y some-server", &format!("{CARDAN} demo"))
                .replace("https://example.com", &format!("http://{}", self.remote))
                .replace("secret-token", self.token)
                .replace("$TOKEN", self.token);
            match word.as_str() {
                "cardan" | "npx" | "uvx" => real.push(CARDAN.to_owned()),
                "-y" => {}
                "some-server" => real.push("demo".to_owned()),
                "servers.json" => real.push(self.config.to_owned()),
                "8000" | "8080" => real.push(self.port.to_string()),
                "supergateway" | "mcp-remote" | "mcp-proxy" => real.push(installed(&word)),
                word if word.starts_with("127.0.0.1:") => real.push(format!("127.0.0.1:{}", self.port)),
                _ => real.push(word),
            }
        }
        real
    }
}

/// Where `cargo xtask peers` puts the program of this name.
fn installed(name: &str) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let folder = match name {
        "mcp-proxy" => root.join("target/peers/python-bridges/bin"),
        _ => root.join("peers/node-bridges/node_modules/.bin"),
    };
    folder.join(name).to_str().unwrap().to_owned()
}
