//! Content: rendered at a terminal, raw elsewhere, saved where that is wanted.

use std::fs;
use std::path::Path;

use super::common::pty::Pty;
use super::common::{CARDAN, Ran, Scratch, cardan, demo, has_python};
use super::server;

fn neat(words: &[&str]) -> Ran {
    cardan(&[words, &server("neat")].concat())
}

/// Elsewhere than at a terminal text is as the server wrote it.
#[test]
fn text_is_raw_in_a_pipe_and_rendered_when_wanted() {
    if !has_python() {
        return;
    }
    let raw = neat(&["read", "look://page"]).exits(0).stdout;
    assert!(raw.starts_with("# A page\n\nSome **strong** and *slanted* text"), "{raw}");
    let rendered = neat(&["read", "look://page", "--markdown"]).exits(0).stdout;
    assert!(rendered.starts_with("# A page\n\nSome strong and slanted text"), "{rendered}");
    let colored = neat(&["call", "data", "--color", "always"]).exits(0).stdout;
    assert_eq!(colored, "{\"name\": \"\\u72ac\", \"legs\": 4, \"wild\": false}\n");
}

#[test]
fn text_is_raw_at_a_terminal_too_when_wanted() {
    if !has_python() {
        return;
    }
    let words =
        [&["call", "page", "--raw-text", "--quiet", "--color", "never"][..], &server("neat")].concat();
    let shown = Pty::new(80).run(&words).exits(0);
    assert!(shown.written().starts_with("# A page\n\nSome **strong**"), "{}", shown.written());
    let words = [&["call", "page", "--quiet"][..], &server("neat")].concat();
    let shown = Pty::new(80).run(&words).exits(0);
    assert!(shown.left().starts_with("A page\n\nSome strong"), "what plainly is Markdown: {}", shown.left());
    let dumb = Pty::new(80).env("TERM", "dumb").run(&words).exits(0);
    assert!(!dumb.bytes.contains(&0x1b), "{}", dumb.written());
}

/// The width of a terminal that is not there is nobody's business.
#[test]
fn columns_are_not_believed() {
    let run = |columns: &str| {
        let mut command = std::process::Command::new(CARDAN);
        command.args(["list", "--", CARDAN, "demo"]).env("COLUMNS", columns);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(run("20"), run("200"));
    assert!(run("20").lines().any(|line| line.len() > 60));
    demo(&["list", "--color", "sometimes"]).exits(1);
    let help = Pty::new(80).run(&["--color", "never", "--help"]).exits(0);
    assert!(!help.bytes.contains(&0x1b), "{}", help.written());
}

fn names(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// CLI-56: a file for each, by names of ours, and nothing that is there is lost.
#[test]
fn media_are_saved_in_a_directory() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("media");
    let folder = scratch.file("new/");
    neat(&["call", "media", "-o", &folder]).exits(0).tells(&["image-1.png: image, image/png, 70 bytes"]);
    assert_eq!(names(&folder), ["audio-2.wav", "blob-3.pdf", "image-1.png"]);
    assert_eq!(fs::read(scratch.file("new/blob-3.pdf")).unwrap(), b"%PDF");
    assert_eq!(fs::read(scratch.file("new/audio-2.wav")).unwrap().len(), 2000);
    // Again: other names, unless files may be replaced.
    neat(&["call", "media", "-o", &folder]).exits(0).tells(&["image-1-2.png"]);
    assert_eq!(names(&folder).len(), 6);
    neat(&["call", "media", "-o", &folder, "--overwrite", "--json"]).exits(0).tells(&["image-1.png"]);
    assert_eq!(names(&folder).len(), 6);
}

/// CLI-56: one thing can be a file of any name; what was called for is printed whatever becomes of it.
#[test]
fn one_thing_is_saved_as_a_file() {
    let scratch = Scratch::new("file");
    let file = scratch.file("mine");
    demo(&["call", "picture", "--output", &file]).exits(0).tells(&["saved ", "98 bytes"]);
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
    // What cannot be saved is not called for.
    demo(&["call", "sound", "--output", &file]).exits(1).prints("").tells(&["exists", "--overwrite"]);
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"), "it is as it was");
    demo(&["call", "sound", "--output", &file, "--overwrite"]).exits(0);
    assert!(fs::read(&file).unwrap().starts_with(b"RIFF"));
    let new = scratch.file("new");
    demo(&["call", "echo", "message=x", "-o", &new]).exits(0).prints("x\n").tells(&["nothing to save"]);
    for wrong in ["no/such/file", "mine/"] {
        demo(&["call", "picture", "-o", &scratch.file(wrong)]).exits(1).prints("").tells(&["cannot save"]);
    }
    if has_python() {
        neat(&["call", "media", "-o", &scratch.file("one")])
            .exits(1)
            .tells(&["3 cannot be saved as one file"]);
        assert!(!Path::new(&scratch.file("one")).exists());
        let told = neat(&["call", "media", "-o", &scratch.file("one"), "--json"]).exits(1).stderr;
        let told: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert_eq!(told["error"]["delivery"], "sent", "the tool has run");
    }
    if Path::new("/dev/full").exists() {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = std::process::Command::new(CARDAN)
            .args(["call", "count", "--json", "--", CARDAN, "demo"])
            .stdout(full)
            .output()
            .unwrap();
        let told: serde_json::Value = serde_json::from_slice(&ran.stderr).unwrap();
        assert_eq!((ran.status.code(), &told["error"]["delivery"]), (Some(1), &"sent".into()), "{told}");
    }
}

/// CLI-56: what stands for nothing is not saved, and the exit code says so; the others are.
#[test]
fn what_is_no_base64_is_not_saved() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("spoiled");
    let folder = scratch.file("new/");
    let words = ["call", "media", "-o", &folder];
    let told = cardan(&[&words[..], &server("spoiled")].concat()).exits(1);
    told.tells(&[
        "not saved: image",
        "not written: 1 of 3 could not be saved",
        "delivery: the server had it",
    ]);
    assert_eq!(names(&folder), ["audio-2.wav", "blob-3.pdf"]);
}

/// CLI-56: stdout has the result, so that files cannot go there; nor is one called so by mistake.
#[test]
fn stdout_is_no_place_for_files() {
    for more in [&[][..], &["--overwrite"]] {
        let ran = demo(&[&["call", "picture", "-o", "-"], more].concat()).exits(1).prints("");
        ran.tells(&["usage: cannot save to -", "./-"]);
    }
    assert!(!Path::new("-").exists());
}

/// CLI-56: a link in the place of a file is not followed.
#[test]
fn a_link_is_not_followed() {
    let scratch = Scratch::new("link");
    let (link, aim) = (scratch.file("image-1.png"), scratch.file("aim"));
    std::os::unix::fs::symlink(&aim, &link).unwrap();
    demo(&["call", "picture", "-o", &scratch.file("")]).exits(0).tells(&["image-1-2.png"]);
    assert!(!Path::new(&aim).exists());
}

/// CLI-56: images are drawn where the terminal says that it can, and only there.
#[test]
fn images_are_drawn() {
    let words = ["call", "picture", "--quiet", "--", CARDAN, "demo"];
    let shown = Pty::new(80).env("KITTY_WINDOW_ID", "1").run(&words).exits(0).written();
    assert!(shown.starts_with("␛_Ga=T,f=100,m=0;iVBOR") && shown.ends_with("␛\\\n"), "{shown}");
    let shown = Pty::new(80).env("TERM_PROGRAM", "iTerm.app").run(&words).exits(0).written();
    assert!(shown.starts_with("␛]1337;File=inline=1;"), "{shown}");
    let never = ["call", "picture", "--images", "never", "--", CARDAN, "demo"];
    for shown in [
        Pty::new(80).env("KITTY_WINDOW_ID", "1").run(&never),
        Pty::new(80).env("KITTY_WINDOW_ID", "1").env("TMUX", "x").run(&words),
        Pty::new(80).run(&words),
    ] {
        assert_eq!(shown.exits(0).left(), "[image, image/png, 98 bytes; save it with --output]");
    }
}
