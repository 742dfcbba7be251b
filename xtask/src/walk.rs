//! The files of the repository, without what tools put there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// A text file, by its path from the repository's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// With forward slashes, on every system.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl File {
    /// Whether the whole file is test code: below `tests`, or a module of tests in a file of its own.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || parts.any(|folder| matches!(folder, "tests" | "benches" | "fuzz_targets"))
    }
}

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 7] = ["target", "node_modules", ".git", ".venv", "__pycache__", "corpus", "artifacts"];

/// Every file below `folder` with one of the `ends`, in the order of their paths.
pub(crate) fn files(root: &Path, folder: &str, ends: &[&str]) -> Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        // A folder that is not there yet holds no files.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !SKIPPED.contains(&name) {
                    folders.push(path);
                }
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.iter().map(|path| read(root, path)).collect()
}

fn read(root: &Path, path: &Path) -> Result<File> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    // Transcripts may hold bytes that are not UTF-8 on purpose.
    Ok(File { path, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_owned(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_are_known_by_their_path() {
        let is_test = |path: &str| File { path: path.to_owned(), text: String::new() }.is_test();
        assert!(is_test("crates/proto/tests/stdio.rs"));
        assert!(is_test("crates/proto/src/codec/line/tests.rs"));
        assert!(is_test("crates/proto/src/codec/line_tests.rs"));
        assert!(is_test("fuzz/fuzz_targets/line.rs"));
        assert!(!is_test("crates/proto/src/codec/line.rs"));
    }

    #[test]
    fn the_root_holds_this_crate() {
        let files = files(&root(), "xtask", &["walk.rs"]).unwrap();
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["xtask/src/walk.rs"]);
    }
}
