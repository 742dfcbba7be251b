//! Texts that are kept in files beside the tests. `CARDAN_SNAPSHOTS=write` writes them anew.

use std::fs;
use std::path::Path;

/// The text is the one that is kept under this name.
#[track_caller]
pub(crate) fn same(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("CARDAN_SNAPSHOTS").is_some_and(|value| value == "write") {
        fs::create_dir_all(&folder).unwrap();
        return fs::write(&file, text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    if kept != text {
        let differs = kept.lines().zip(text.lines()).position(|(kept, new)| kept != new);
        let line = differs.unwrap_or_else(|| kept.lines().count().min(text.lines().count())) + 1;
        panic!(
            "{name} differs from line {line} on; if it is meant to, run the test with CARDAN_SNAPSHOTS=write\n\
             --- kept\n{kept}\n--- now\n{text}"
        );
    }
}
