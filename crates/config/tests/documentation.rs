//! Every example in `docs/configuration.md` is what it says it is.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::path::Path;

use cardan_config::{File, Tool};

const PAGE: &str = include_str!("../../../docs/configuration.md");

/// A fenced block: its language, the words behind it, and its text.
fn blocks() -> Vec<(&'static str, Vec<&'static str>, String)> {
    let mut blocks = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut words = info.split(' ');
        blocks.push((words.next().unwrap(), words.collect(), text.join("\n") + "\n"));
    }
    blocks
}

#[test]
fn every_example_is_accepted_or_wrong_as_it_says() {
    let blocks = blocks();
    let mut tools = Vec::new();
    for (at, (language, words, text)) in blocks.iter().enumerate() {
        let [name, rest @ ..] = &words[..] else { continue };
        assert!(matches!(*language, "toml" | "json"), "{language}");
        let file = File::parse(Path::new(name), text, None).unwrap_or_else(|problem| panic!("{problem}"));
        if rest == ["wrong"] {
            let told = file.problems[0].to_string();
            assert!(told.starts_with(blocks[at + 1].2.trim_end()), "{told}");
        } else {
            assert_eq!(file.problems, [], "{text}");
            assert!(!file.servers.is_empty(), "{text}");
            tools.push(file.tool);
        }
    }
    for tool in Tool::ALL {
        assert!(tools.contains(&tool), "{tool} has no example");
        assert!(PAGE.contains(&format!("`{tool}`")) || tool == Tool::Cardan, "{tool} is not in the table");
    }
}

/// Examples of files that several tools could have are read as the one that the page says.
#[test]
fn examples_are_read_as_the_tool_that_is_meant() {
    let tool_of = |name: &str| {
        let (_, _, text) = blocks().into_iter().find(|(_, words, _)| words.first() == Some(&name)).unwrap();
        File::parse(Path::new(name), &text, None).unwrap().tool
    };
    for (name, tool) in [
        (".claude.json", Tool::ClaudeCode),
        ("plugin.json", Tool::ClaudeCode),
        ("settings.json", Tool::VsCode),
        (".copilot/mcp-config.json", Tool::VsCode),
        ("opencode.json", Tool::OpenCode),
    ] {
        assert_eq!(tool_of(name), tool, "{name}");
    }
    let (_, _, claude) =
        blocks().into_iter().find(|(_, words, _)| words.first() == Some(&".claude.json")).unwrap();
    let file = File::parse(Path::new(".claude.json"), &claude, None).unwrap();
    let projects: Vec<_> = file.servers.iter().map(|server| server.origin.project.is_some()).collect();
    assert_eq!(projects, [false, true]);
}

/// Every key is in the table, and every key in the table exists.
#[test]
fn every_key_is_documented() {
    let text = "[servers.a]\nno_such_key = 1\n";
    let file = File::parse(Path::new("cardan.toml"), text, None).unwrap();
    let next = file.problems[0].next.clone().unwrap();
    let keys = next.strip_prefix("accepted: ").unwrap().replace(" or ", ", ");
    for key in keys.split(", ") {
        assert!(PAGE.contains(&format!("`{key}`")), "{key} is not documented");
    }
    let rules = keys_of("tools");
    for (table, key) in keys_of("reconnect")
        .iter()
        .map(|key| ("reconnect", key))
        .chain(rules.iter().map(|key| ("tools", key)))
    {
        let documented = |line: &str| {
            line.starts_with("| `") && line.split('|').nth(1).unwrap().contains(&format!("`{key}`"))
        };
        assert!(PAGE.lines().any(documented), "{table}.{key} is not documented");
    }
    let rows =
        PAGE.lines().filter_map(|line| line.strip_prefix("| `")).filter(|row| row.matches('|').count() == 3);
    for row in rows.take_while(|row| !row.starts_with("${")) {
        for key in row.split('|').next().unwrap().split(',').map(|key| key.trim().trim_matches('`')) {
            let exists = keys.split(", ").any(|known| known == key) || rules.iter().any(|known| known == key);
            assert!(exists, "{key} does not exist");
        }
    }
}

/// As a slip in the table tells them.
fn keys_of(table: &str) -> Vec<String> {
    let text = format!("[servers.a.{table}]\nno_such_key = 1\n");
    let file = File::parse(Path::new("cardan.toml"), &text, None).unwrap();
    let next = file.problems[0].next.clone().unwrap();
    let keys = next.strip_prefix("accepted: ").unwrap().replace(" or ", ", ");
    keys.split(", ").map(str::to_owned).collect()
}
