//! Files and folders, where a value names one.

use std::fs;
use std::path::PathBuf;

use super::Offer;
use crate::home::at_home;

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
    let place = if folder.is_empty() { PathBuf::from(".") } else { at_home(folder) };
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let named = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        // Hidden ones are meant by those who begin to type them.
        let fits = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
        fits.then(|| (entry.path(), name))
    });
    let entries = named.take(MAX).filter_map(|(path, name)| {
        let is_folder = fs::metadata(path).is_ok_and(|about| about.is_dir());
        match (is_folder, which) {
            (true, _) => Some(Offer::open(format!("{before}{folder}{name}/"), "")),
            (false, Which::All) => Some(Offer::word(format!("{before}{folder}{name}"), "")),
            (false, Which::Folders) => None,
        }
    });
    let mut offers: Vec<_> = entries.collect();
    offers.sort_by(|one, two| one.value.cmp(&two.value));
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-51: what fits is found in a folder that holds more than is offered.
    #[test]
    fn a_full_folder_hides_nothing_that_fits() {
        let folder = std::env::temp_dir().join(format!("cardan-tab-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for nth in 0..=MAX {
            fs::write(folder.join(format!("other-{nth}")), "").unwrap();
        }
        fs::write(folder.join("wanted"), "").unwrap();
        let typed = format!("{}/wan", folder.display());
        let offers = files("", &typed, Which::All);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(offers.len(), 1);
    }
}
