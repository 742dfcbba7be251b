//! T30: whatever a server says, wherever it says it, a terminal obeys only us.

use super::common::pty::Pty;
use super::common::{Scratch, has_python};
use super::server;

/// All commands, so that every text of the server is shown somewhere.
const COMMANDS: [&[&str]; 26] = [
    &["list"],
    &["list", "-v"],
    &["info"],
    &["call", "page"],
    &["call", "page", "--markdown"],
    &["call", "page", "--raw-text"],
    &["call", "data"],
    &["call", "structure"],
    &["call", "media"],
    &["call", "fault"],
    &["call", "failed"],
    &["call", "steps", "-v"],
    &["call", "bytes", "-v", "--strict"],
    &["call", "die"],
    &["read", "look://page"],
    &["prompt", "greet"],
    &["call", "page", "--trace"],
    &["call", "form", "--no-input"],
    &["call", "form", "--no-input", "--answer", "name=c", "-v"],
    &["call", "visit", "--no-input"],
    &["call", "visit", "--accept-urls"],
    &["call", "sample", "--sampling-command", "cat"],
    &["listen", "look://page"],
    &["raw", "tools/list"],
    &["complete", "greet", "tone=A"],
    &["call", "pge"],
];

/// Nothing but our own colours and the clearing of our own line is in what the terminal was sent.
#[track_caller]
fn only_ours(bytes: &[u8], words: &[&str]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() || is_turning(c)) {
        let (seen, tail) = rest.split_at(at);
        let ours = ["\r\n", "\n", "\t", "\r\x1b[2K"].into_iter().find(|ours| tail.starts_with(ours));
        let ours = ours.map_or_else(|| color(tail), |ours| Some(ours.len()));
        let Some(length) = ours else {
            let around = |text: &str| text.chars().take(60).collect::<String>();
            let before: String = seen.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{words:?}: a sequence that is not ours: {before:?} then {:?}", around(tail));
        };
        rest = &tail[length..];
    }
}

fn is_turning(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How long a colour of ours is that a text begins with. The server's own, 45, is none of them.
fn color(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\x1b[")?;
    let end = codes.find('m')?;
    let ours = ["0", "1", "1;4", "2", "3", "4;34", "9", "31", "32", "33", "34", "35", "36"];
    ours.contains(&&codes[..end]).then_some(end + 3)
}

/// T30: in every place where a text can stand.
#[test]
fn nothing_foreign_is_obeyed() {
    if !has_python() {
        return;
    }
    for words in COMMANDS {
        let words = [words, &server("hostile")].concat();
        let shown = Pty::new(80).run(&words);
        only_ours(&shown.bytes, &words);
        assert!(!shown.bytes.is_empty(), "{words:?}");
    }
}

/// T30: the same where a person is asked, up to the last question.
#[test]
fn questions_are_as_clean() {
    if !has_python() {
        return;
    }
    let rows: [(&str, &[(&str, &str)]); 3] = [
        ("form", &[("x: ", "3\r"), ("is not one of", "1\r"), ("Send it?", "y\r")]),
        ("visit", &[("Do you agree", "y\r")]),
        ("sample", &[("Answer in its place?", "y\r"), ("> ", "No.\r"), ("> ", "\r"), ("Send it?", "y\r")]),
    ];
    for (tool, talk) in rows {
        let words = [&["call", tool, "--quiet"][..], &server("hostile")].concat();
        let mut seat = Pty::new(80).start(&words);
        for (seen, typed) in talk {
            seat.sees(seen).types(typed);
        }
        let shown = seat.end().exits(0);
        only_ours(&shown.bytes, &words);
    }
}

/// T30: the same for commands that speak with all configured servers, or tell what those said before.
#[test]
fn configured_servers_are_as_clean() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("hostile");
    let config = scratch.file("cardan.toml");
    let command =
        server("hostile")[1..].iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    std::fs::write(&config, format!("[servers.looks]\ncommand = [{command}]\n")).unwrap();
    let commands: [&[&str]; 4] =
        [&["servers"], &["list", "looks"], &["search", "a"], &["search", "page", "--json"]];
    for words in commands {
        let words = [words, &["--config", &config]].concat();
        let shown = Pty::new(60).env("XDG_CACHE_HOME", &scratch.file("cache")).run(&words);
        only_ours(&shown.bytes, &words);
        assert_eq!(shown.code, Some(0), "{words:?}: {}", shown.written());
        // Tables and findings fit, so that no word of a server begins a row.
        if words[0] != "search" || !words.contains(&"--json") {
            let long = shown.left().lines().find(|line| line.chars().count() > 60).map(str::to_owned);
            assert_eq!(long, None, "{words:?}");
        }
    }
}

/// T30, F25: the same for texts of ten million characters, which are cut where nobody could read them.
#[test]
fn vast_texts_are_bearable() {
    if !has_python() {
        return;
    }
    for (words, exit) in [
        (&["list", "tools"][..], 0),
        (&["call", "data"], 0),
        (&["call", "fault"], 10),
        (&["call", "steps"], 0),
        (&["call", "die"], 13),
    ] {
        let words = [words, &["--timeout", "55"], &server("vast")].concat();
        let shown = Pty::new(80).run(&words);
        only_ours(&shown.bytes, &words);
        assert_eq!(shown.code, Some(exit), "{words:?}");
    }
}

/// T30: the same where the terminal is not ours to see: a pipe may end in one.
#[test]
fn a_pipe_is_as_clean() {
    if !has_python() {
        return;
    }
    for words in COMMANDS {
        // Programs get the same text, whatever is asked for.
        let json = matches!(words, ["list" | "info"] | ["call", "page" | "fault"]);
        for form in [&[][..], &["--json"]].into_iter().take(1 + usize::from(json)) {
            let words = [words, form, &server("hostile")].concat();
            let ran = super::common::cardan(&words);
            for text in [ran.stdout, ran.stderr] {
                only_ours(text.as_bytes(), &words);
                assert!(!text.contains('\x1b'), "{words:?}: {text:?}");
            }
        }
    }
}

/// T30: no line of a server passes for one of ours where there are no rows to wrap into either.
#[test]
fn a_line_of_a_server_begins_no_line_in_a_pipe() {
    if !has_python() {
        return;
    }
    for words in [&["list"][..], &["info"], &["call", "media"], &["complete", "greet", "tone=A"]] {
        let ran = super::common::cardan(&[words, &server("breaks")].concat()).exits(0);
        assert!(ran.stdout.contains("forged"), "{words:?}: {ran:?}");
        let forged = ran.stdout.lines().find(|line| line.starts_with("forged"));
        assert_eq!(forged, None, "{words:?}: {ran:?}");
    }
    let values = super::common::cardan(&[&["complete", "greet", "tone=A"][..], &server("breaks")].concat());
    values.prints("Ada\\nforged  row\nBob\\nforged  row\n");
}

/// A description is never cut where nobody sees how wide it is, however many lines it has.
#[test]
fn a_pipe_has_descriptions_in_full() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("full");
    let config = scratch.file("cardan.toml");
    let command = server("neat")[1..].iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    std::fs::write(&config, format!("[servers.looks]\ncommand = [{command}]\n")).unwrap();
    for words in [&["list", "looks", "tools"][..], &["servers"], &["search", "remove_tree"]] {
        let mut run = std::process::Command::new(super::common::CARDAN);
        run.args(words).args(["--config", &config]).env("XDG_CACHE_HOME", scratch.file("cache"));
        let told = String::from_utf8(run.output().unwrap().stdout).unwrap();
        let full = "tidy up. See also the tool that moves things";
        assert!(words == ["servers"] || told.contains(full), "{words:?}: {told}");
    }
}
