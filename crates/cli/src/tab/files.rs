//! Files and folders, where a value names one.

use std::fs;
use std::path::{Path, PathBuf};

use super::Offer;
use crate::cmd::config::variable;

/// Which of them will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Folders,
}

/// More would be no help, and take time.
const MAX: usize = 1000;

/// What begins with `typed`, each behind `before`. A folder is only the way to more.
pub(super) fn files(before: &str, typed: &str, which: Which) -> Vec<Offer> {
    let (folder, start) = match typed.rfind('/') {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    let Ok(entries) = fs::read_dir(place(folder)) else { return Vec::new() };
    let entries = entries.flatten().take(MAX).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        // Hidden ones are meant by those who begin to type them.
        let fits = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
        let is_folder = fs::metadata(entry.path()).is_ok_and(|about| about.is_dir());
        match (fits, is_folder, which) {
            (true, true, _) => Some(Offer::open(format!("{before}{folder}{name}/"), "")),
            (true, false, Which::All) => Some(Offer::word(format!("{before}{folder}{name}"), "")),
            _ => None,
        }
    });
    let mut offers: Vec<_> = entries.collect();
    offers.sort_by(|one, two| one.value.cmp(&two.value));
    offers
}

/// Where it is: the shell has not always replaced `~`.
fn place(folder: &str) -> PathBuf {
    match (folder, folder.strip_prefix("~/"), variable("HOME")) {
        ("", ..) => PathBuf::from("."),
        (_, Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(folder),
    }
}
