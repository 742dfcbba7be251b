//! Progress: one line at a terminal that leaves nothing behind, a few lines elsewhere.

use std::fs::File;
use std::time::{Duration, Instant};

use super::common::pty::{CTRL_C, Pty};
use super::common::{CARDAN, Scratch, cardan, demo, has_python};
use super::server;

/// CLI-12: a bar, what is going on, since when and until when; and before the result it is gone.
#[test]
fn a_bar_is_drawn_and_gone() {
    let words = ["call", "slow", "steps=4", "delay_ms=120", "--timeout", "90", "--", CARDAN, "demo"];
    for columns in [70, 40] {
        let mut seat = Pty::new(columns).start(&words);
        seat.sees(" of 4").sees(" s of 90 s");
        let shown = seat.end().exits(0);
        assert_eq!(shown.left(), "done");
        let drawn = shown.written();
        assert!(drawn.contains('█') && (columns < 70 || drawn.contains("step ")), "{drawn}");
        let draws: Vec<String> = drawn.split("␍␛[2K").map(colourless).collect();
        // The last column stays free, or the cursor would wrap.
        let fits = |draw: &String| draw.trim_end().chars().count() < usize::from(columns);
        assert!(draws.len() > 2 && draws.iter().all(fits), "{draws:#?}");
    }
}

/// CLI-12: opening has one deadline, of which asking for the era is a part; while what hangs is ended nothing is counted on.
#[test]
fn cli_12_opening_ends_when_it_says() {
    let begun = Instant::now();
    let shown = Pty::new(80).run(&["list", "--timeout", "3", "--", "sleep", "100"]).exits(12);
    let took = begun.elapsed();
    // Two seconds are for the process to end by itself.
    assert!(took < Duration::from_millis(7500), "{took:?}");
    let drawn = shown.written();
    assert!(drawn.contains("2 s of 3 s"), "{drawn}");
    assert!((4..9).all(|late| !drawn.contains(&format!("{late} s of 3 s"))), "{drawn}");
}

/// What is seen of something drawn in colours.
fn colourless(drawn: &str) -> String {
    let mut parts = drawn.split("␛[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |seen, part| seen + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// CLI-12: what is configured for a server is the deadline that is shown, and progress puts it off.
#[test]
fn cli_12_progress_puts_the_deadline_off() {
    let scratch = Scratch::new("deadline");
    let config = scratch.file("cardan.toml");
    let server = format!("[servers.demo]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\ncall_timeout = 40\n");
    std::fs::write(&config, server).unwrap();
    let words = ["call", "demo", "slow", "steps=2", "delay_ms=1100", "--config", &config];
    let mut seat = Pty::new(100).start(&words);
    seat.sees("waiting for the answer").sees(" s of 40 s").sees("1 of 2").sees(" s of 41 s");
    seat.end().exits(0);
}

/// CLI-12: a call with progress outlives the deadline that it began with, and ends at the one that its last step left.
#[test]
fn cli_12_a_call_ends_at_the_deadline_in_force() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("outlived");
    let config = scratch.file("cardan.toml");
    let [_, program, script, manner] = server("neat");
    let look = format!("command = '{program}'\nargs = ['{script}', '{manner}']\ncall_timeout = '2500ms'\n");
    std::fs::write(&config, format!("[servers.look]\n{look}")).unwrap();
    let begun = Instant::now();
    let ran = cardan(&["call", "look", "pace", "--no-check", "--config", &config]).exits(12);
    let took = begun.elapsed();
    // Three steps of a second, and then the silence that is too long.
    ran.tells(&["progress: 2\n", "no sign of life", "running, as its progress showed"]);
    assert!(took >= Duration::from_millis(5500), "{took:?}");
}

/// CLI-12: as long as nothing is told, something turns.
#[test]
fn something_turns_while_nothing_is_told() {
    let words = ["call", "slow", "steps=1", "delay_ms=60000", "--", CARDAN, "demo"];
    let mut seat = Pty::new(80).start(&words);
    seat.sees("waiting for the answer").sees("waiting for the answer").types(CTRL_C);
    let shown = seat.end().exits(130);
    assert!(!shown.left().contains("waiting for the answer"), "{}", shown.left());
}

/// CLI-13: Ctrl-C is typed, and reaches the call that runs.
#[test]
fn ctrl_c_at_the_terminal_interrupts() {
    let words = ["call", "slow", "steps=9999", "delay_ms=20", "--", CARDAN, "demo"];
    let mut seat = Pty::new(80).start(&words);
    seat.sees(" of 9999").types(CTRL_C);
    seat.end().exits(130);
}

/// CLI-21: log notes stand above the line, in the colour of their level.
#[test]
fn log_notes_stand_above_the_line() {
    if !has_python() {
        return;
    }
    let words = [&["call", "steps"][..], &server("neat")].concat();
    let shown = Pty::new(80).run(&words).exits(0);
    let left = shown.left();
    assert_eq!(left, "warning: disk: nearly full\nerror: {\"text\": \"full\"}\ndone");
    assert!(shown.written().contains("␛[33mwarning␛[0m: ␛[2mdisk: ␛[0mnearly full\n"), "{}", shown.written());
}

/// CLI-12: where stderr is no terminal, the first and the last are told, and of a flood not much more.
#[test]
fn a_flood_is_a_few_lines() {
    let ran = demo(&["call", "slow", "steps=400", "delay_ms=0"]).exits(0).prints("done\n");
    let told: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("progress: ")).collect();
    assert_eq!(told.first(), Some(&"progress: 1 of 400, step 1 of 400"));
    assert_eq!(told.last(), Some(&"progress: 400 of 400, step 400 of 400"));
    assert!(told.len() < 60, "{}", told.len());
    assert_eq!(demo(&["call", "slow", "steps=3", "delay_ms=0", "--quiet"]).exits(0).stderr, "");
}

/// Each stream is looked at by itself: a result in a file is plain while the terminal shows a bar.
#[test]
fn streams_differ() {
    let scratch = Scratch::new("streams");
    let file = scratch.file("out");
    let words = ["call", "slow", "steps=3", "delay_ms=120", "--", CARDAN, "demo"];
    let shown = Pty::new(80).stdout(File::create(&file).unwrap()).run(&words).exits(0);
    assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), shown.left().as_str()), ("done\n", ""));
    assert!(shown.written().contains(" of 3"));
    let shown = Pty::new(80).stderr(File::create(&file).unwrap()).run(&words).exits(0);
    assert_eq!(shown.written(), "done\n");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("progress: 1 of 3"));
    let shown = Pty::new(80).env("TERM", "dumb").run(&words).exits(0);
    assert!(shown.written().starts_with("progress: 1 of 3, step 1 of 3\n"), "{}", shown.written());
}
