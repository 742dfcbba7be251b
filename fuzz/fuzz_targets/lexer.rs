//! Any text through the lexer behind `tidy` and the count of requirements: no panic, no line
//! lost or made up, and no code where there was none.

#![no_main]

#[path = "../../xtask/src/lex.rs"]
mod lex;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let lines = lex::lines(source);
    assert_eq!(lines.len(), source.lines().count());
    let literals: usize = lines.iter().flat_map(|line| &line.literals).map(String::len).sum();
    assert!(literals <= source.len(), "a literal is longer than its file");
});
