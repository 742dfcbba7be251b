//! What a person sees at a terminal.

mod common;

use common::CARDAN;
use common::pty::{CTRL_C, Pty};

/// CLI-13: Ctrl-C is typed, and reaches the call that runs.
#[test]
fn ctrl_c_at_the_terminal_interrupts() {
    let words = ["call", "slow", "steps=9999", "delay_ms=20", "--", CARDAN, "demo"];
    let mut seat = Pty::new(80).start(&words);
    seat.sees(" of 9999").types(CTRL_C);
    seat.end().exits(130);
}

#[test]
fn a_result_is_what_is_left() {
    let shown = Pty::new(80).run(&["call", "slow", "delay_ms=1", "--", CARDAN, "demo"]).exits(0);
    assert!(shown.left().ends_with("done"), "{}", shown.written());
}
