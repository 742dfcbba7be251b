//! docs/migrate.md: every line that it says to write does what it says, and what the line that it replaces does.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod page;
mod pair;
mod recorder;

use common::{CARDAN, Scratch, Serving, cardan};
use page::{Place, pairs};

#[test]
fn every_line_of_the_page_works() {
    let scratch = Scratch::new("migrate");
    let config = page::config(&scratch);
    let remote = Serving::start(&[]);
    let pairs = pairs();
    assert_eq!(pairs.len(), 12, "the page has changed");
    for pair in pairs {
        let place = Place { remote: &remote.address, config: &config, token: "any-token-will-do", port: 0 };
        let words = place.words(&pair.ours);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let add = ["add", "a=2", "b=3"];
        if words.contains(&"--stdio") {
            // A variable that is set; any will do for a server that asks for no token.
            let words = words.iter().skip(1).map(|word| if *word == "TOKEN" { "PATH" } else { word });
            let through: Vec<&str> = ["--", CARDAN].into_iter().chain(words).collect();
            cardan(&[&["call"], &add[..], &through].concat()).exits(0).prints("{\"sum\":5}\n");
            continue;
        }
        let serving = Serving::run(&words[1..]);
        let prefix = if words[1] == "serve" { "/servers/demo" } else { "" };
        for path in ["mcp", "sse"] {
            let url = format!("http://{}{prefix}/{path}", serving.address);
            cardan(&[&["call", url.as_str()], &add[..]].concat()).exits(0).prints("{\"sum\":5}\n");
        }
        let url = format!("ws://{}{prefix}/ws", serving.address);
        cardan(&[&["call", url.as_str()], &add[..]].concat()).exits(0).prints("{\"sum\":5}\n");
        assert_eq!(serving.stop(), Some(0));
    }
}

#[test]
fn what_supergateway_does_we_do() {
    pair::same("supergateway", 5);
}

#[test]
fn what_mcp_proxy_does_we_do() {
    pair::same("mcp-proxy", 5);
}

#[test]
fn what_mcp_remote_does_we_do() {
    pair::same("mcp-remote", 2);
}
