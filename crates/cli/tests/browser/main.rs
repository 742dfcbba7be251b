//! Pages in a real browser that call our server: those that are allowed by name can, over every transport, and no others.
//!
//! The browser and the SDK are set up by `cargo xtask test` (or `cargo xtask peers`); without them each test says that it was
//! skipped, and fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod page;

use std::process::Command;

use common::{CARDAN, Serving, cardan};
use page::{Page, installed};
use serde_json::json;

/// HTTP-3, T2: a page that is allowed by name speaks both eras with `fetch`, reads what it needs of headers, statuses and streams, and
/// is served over the older transport and over WebSocket.
#[test]
fn t2_a_page_that_is_allowed_speaks_both_eras() {
    if !installed() {
        return;
    }
    let page = Page::new("allowed", include_str!("fetch.mjs"));
    let serving = Serving::start(&["--allow-origin", &page.origin]);
    let told = page.visit(&serving.address);
    let legacy = json!({
        "opened": [200, "cardan-demo"],
        "session": true,
        "noted": 202,
        "streamed": ["text/event-stream", ["notifications/progress", "notifications/progress", "reply"]],
        "pushed": [200, "text/event-stream"],
        "ended": 204,
        "gone": 404,
    });
    assert_eq!(told["legacy"], legacy, "{told:#}");
    let modern =
        json!({ "sum": [200, 5], "differs": [400, -32020], "streamed": ["text/event-stream", "reply"] });
    assert_eq!(told["modern"], modern, "{told:#}");
    assert_eq!(told["events"], "reached", "{told:#}");
    assert_eq!(told["socket"], "reached", "{told:#}");
}

/// HTTP-3, T2: the browser asks without a token whether the page may call, and the page reads how to get one.
#[test]
fn t2_a_page_shows_its_token() {
    if !installed() {
        return;
    }
    let page = Page::new("token", include_str!("token.mjs"));
    let mut command = Command::new(CARDAN);
    command.env("KEY", "a token of some length");
    let words = ["bridge", "--listen", "127.0.0.1:0", "--key-env", "KEY", "--allow-origin", &page.origin];
    let serving = Serving::of(command, &[&words[..], &["--", CARDAN, "demo"]].concat());
    let told = page.visit(&serving.address);
    assert_eq!(told, json!({ "without": [401, "Bearer"], "wrong": [401, "Bearer"], "with": [200, 5] }));
}

/// HTTP-3, T2: a page that is not allowed reaches nothing by any transport, be it of the same site or of another, and what it
/// sends without asking is not done.
#[test]
fn t2_a_page_that_is_not_allowed_is_refused() {
    if !installed() {
        return;
    }
    let allowed = Page::new("named", "");
    let serving = Serving::start(&["--allow-origin", &allowed.origin]);
    for name in ["127.0.0.1", "localhost"] {
        let page = Page::new(&format!("stranger-{name}"), include_str!("stranger.mjs"));
        let told = page.called(name).visit(&serving.address);
        let refused = json!({
            "legacy": "TypeError",
            "modern": "TypeError",
            "push": "TypeError",
            "end": "TypeError",
            "unasked": ["opaque", 0],
            "events": "error",
            "socket": "error",
        });
        assert_eq!(told, refused, "{name}");
    }
    let url = format!("http://{}/mcp", serving.address);
    cardan(&["call", &url, "count"]).exits(0).prints("1\n");
}

/// HTTP-3, T2: so it is with a client that somebody else wrote for browsers.
#[test]
fn t2_the_typescript_sdk_works_in_a_page() {
    let Some(modules) = page::modules("node-v2") else { return };
    if !installed() {
        return;
    }
    let page = Page::new("sdk", include_str!("sdk.mjs")).with(modules);
    let serving = Serving::start(&["--allow-origin", &page.origin]);
    let told = page.visit(&serving.address);
    let (modern, legacy) = ("2026-07-28", "2025-11-25");
    for (mode, version) in [("legacy", legacy), ("modern", modern), ("auto", modern)] {
        let wanted = json!({ "version": version, "listed": true, "sum": 5, "progress": [1, 2] });
        assert_eq!(told[mode], wanted, "{mode}: {told:#}");
    }
}
