//! docs/command-line.md and README.md: their examples show what happens, and the exit codes are the ones there are.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use common::pty::Pty;
use common::{CARDAN, Scratch, cardan, demo, finish, has_python, odd_server, peer, signal, start};

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md")).unwrap()
}

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap()
}

/// What stands in the blocks of one kind.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let start = format!("```{kind}\n");
    page.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Where `cardan` is found as `cardan`.
fn path() -> String {
    let folder = Path::new(CARDAN).parent().unwrap().to_str().unwrap();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// CLI-46, CLI-15, CLI-16: what the page types prints what the page shows.
#[test]
fn every_example_of_the_page_shows_what_happens() {
    let mut examples = 0;
    for block in [blocks(&page(), "console"), blocks(&readme(), "console")].concat() {
        for example in block.split("$ ").filter(|example| !example.is_empty()) {
            let (line, shown) = example.split_once('\n').unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec 2>&1; {line}")]).env("PATH", path()).stdin(Stdio::null());
            let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
            assert_eq!(sorted(&printed), sorted(shown), "{line}");
            examples += 1;
        }
    }
    assert_eq!(examples, 12, "the pages have changed");
}

/// A newcomer's lines do what they are there for, with the servers as npm has them.
#[test]
fn the_first_lines_of_a_newcomer_work() {
    let scope = "node_modules/@modelcontextprotocol";
    let Some(everything) = peer("node-everything", &format!("{scope}/server-everything/dist/index.js"))
    else {
        return;
    };
    let installed = format!("{:?}", everything).replace('"', "");
    let scratch = Scratch::new("newcomer");
    std::fs::write(scratch.file("found.txt"), "").unwrap();
    let text = readme();
    let typed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("cargo run -r -- ")).collect();
    assert_eq!(typed.len(), 4, "two lines for each server");
    for (line, shown) in typed.into_iter().zip(["get-sum", "5", "list_directory", "found.txt"]) {
        let (words, server) = line.split_once("npx -y @modelcontextprotocol/").unwrap();
        let (name, rest) = server.split_once(' ').unwrap_or((server, ""));
        let started = installed.replace("server-everything", name);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cardan {words} {started} {rest}")]).env("PATH", path());
        let ran = command.current_dir(&*scratch.file("")).stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success() && printed.contains(shown), "{line}: {printed}");
    }
}

/// Stdout and stderr may be told in either order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// CLI-14: the conversation of the page, to the letter.
#[test]
fn cli_14_the_conversation_of_the_page_is_as_shown() {
    let blocks = blocks(&page(), "terminal");
    let [conversation] = blocks.as_slice() else { panic!("the page has changed") };
    let (_, shown) = conversation.split_once('\n').unwrap();
    let words = ["call", "ask", "question=Who are you?", "--", CARDAN, "demo"];
    let mut seat = Pty::new(100).start(&words);
    seat.sees("answer: ").types("Ada\r").sees("[c]ancel: ").types("y\r");
    assert_eq!(seat.end().exits(0).left(), shown.trim_end());
}

/// The exit codes of the page.
fn codes() -> BTreeMap<i32, String> {
    let page = page();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Some((cells.get(1)?.parse().ok()?, cells[2].to_owned()))
    });
    rows.collect()
}

/// CLI-48: the help and the page tell the same codes by the same words.
#[test]
fn cli_48_the_help_lists_the_exit_codes_of_the_page() {
    let help = cardan(&["--help"]).exits(0).stdout;
    let (_, listed) = help.split_once("Exit codes:\n").unwrap();
    let listed = listed.replace('\n', " ");
    let told = listed.split(',').map(|entry| entry.trim().split_once(' ').unwrap());
    let told: BTreeMap<i32, String> =
        told.map(|(code, word)| (code.parse().unwrap(), word.to_owned())).collect();
    assert_eq!(told, codes());
}

/// CLI-48: two codes are shared by failures that are told apart by their words.
#[test]
fn cli_48_shared_codes_are_provoked_in_each_way() {
    demo(&["call", "picture", "--output", "/dev/null/x/"]).exits(1).tells(&["cardan: not written: "]);
    some_down().exits(4).tells(&["cardan: not all up: ", "next: "]);
}

/// CLI-48: every code that the page promises can be brought about.
#[test]
fn cli_48_every_exit_code_is_provoked() {
    for code in codes().into_keys() {
        let ran = match code {
            0 => demo(&["call", "echo", "message=hi"]),
            1 => demo(&["call", "echo"]),
            3 => cardan(&["info", &unwilling()]),
            4 => cardan(&["info", "tcp://127.0.0.1:1"]),
            5 => demo(&["call", "fail", "message=no"]),
            10 => demo(&["call", "panic"]),
            11 if !has_python() => continue,
            11 => {
                let scratch = Scratch::new("code-11");
                cardan(&[&["call", "odd"], &odd_server("both", &scratch.file("log"))[..]].concat())
            }
            12 => cardan(&["info", "--timeout", "0.3", "--", "sleep", "60"]),
            13 => cardan(&["info", "--", "false"]),
            14 => demo(&["call", "ask", "question=who?"]),
            130 => interrupted(),
            other => panic!("nothing is known that exits with {other}"),
        };
        ran.exits(code);
    }
}

/// The address of a server that lets nobody in.
fn unwilling() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let no = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.get_mut().write_all(no.as_bytes());
        }
    });
    format!("http://{address}/mcp")
}

fn some_down() -> common::Ran {
    let scratch = Scratch::new("code-4");
    let config = scratch.file("cardan.toml");
    std::fs::write(&config, "[servers.gone]\ncommand = \"cardan-no-such-server\"\n").unwrap();
    cardan(&["servers", "--config", &config, "--wait", "20"])
}

fn interrupted() -> common::Ran {
    let mut child = start(&["call", "slow", "steps=1000", "delay_ms=20", "--", CARDAN, "demo"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    signal(&child, "INT");
    finish(child)
}
