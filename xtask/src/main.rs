//! Cardan's chores.
fn main() {}
