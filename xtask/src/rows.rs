//! The requirement rows of `docs/requirements`, and how their numbers are written.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, Result, bail};

/// A row's number: `BASE-7`, `S1-C3`, `F12`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId {
    /// What stands before the last run of digits, without the dash: `BASE`, `S1-C`, `F`.
    pub(crate) area: String,
    /// From 1, without gaps.
    pub(crate) number: u32,
}

impl RowId {
    /// Reads a whole word as a number; `None` if it has not the shape of one.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let digits = word.len() - word.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (area, number) = word.split_at(word.len() - digits);
        let number = number.parse().ok()?;
        let area = match area {
            "F" | "T" | "S1-C" => area,
            _ => area.strip_suffix('-')?,
        };
        let shaped = area.starts_with(|c: char| c.is_ascii_uppercase())
            && area.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-');
        shaped.then(|| Self { area: area.to_owned(), number })
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = if matches!(self.area.as_str(), "F" | "T" | "S1-C") { "" } else { "-" };
        write!(f, "{}{dash}{}", self.area, self.number)
    }
}

/// One requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where it is proven: one of [`MARKS`].
    pub(crate) mark: String,
    /// What holds.
    pub(crate) text: String,
}

/// Every mark a row may have, in the order of the summary.
pub(crate) const MARKS: [&str; 8] = ["core", "http", "tasks", "managed", "oauth", "gateway", "ui", "doc"];

/// All rows, in the order of their numbers.
pub(crate) type Rows = BTreeMap<RowId, Row>;

/// Reads every table below `folder`.
pub(crate) fn read(folder: &Path) -> Result<Rows> {
    let mut rows = Rows::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let is_table = path.extension().is_some_and(|end| end == "md")
            && path.file_stem().is_some_and(|stem| stem != "README");
        if is_table {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            add(&mut rows, &text).with_context(|| format!("in {}", path.display()))?;
        }
    }
    check_gaps(&rows)?;
    Ok(rows)
}

fn add(rows: &mut Rows, text: &str) -> Result<()> {
    for (at, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let heading = cells[0] == "Row" || cells[0].starts_with("---");
        if heading {
            continue;
        }
        let [id, mark, what] = cells[..] else { bail!("line {}: a row has three cells", at + 1) };
        let Some(id) = RowId::parse(id) else { bail!("line {}: `{id}` is not a row number", at + 1) };
        if !MARKS.contains(&mark) {
            bail!("line {}: `{mark}` is not a mark, use one of {}", at + 1, MARKS.join(", "));
        }
        let row = Row { mark: mark.to_owned(), text: what.to_owned() };
        if rows.insert(id.clone(), row).is_some() {
            bail!("line {}: {id} is there twice", at + 1);
        }
    }
    Ok(())
}

/// A gap is a row lost in editing.
fn check_gaps(rows: &Rows) -> Result<()> {
    let mut before: Option<&RowId> = None;
    for id in rows.keys() {
        let expected = before.filter(|last| last.area == id.area).map_or(1, |last| last.number + 1);
        if id.number != expected {
            bail!(
                "row {}{expected} is missing before {id}",
                id.to_string().trim_end_matches(|c: char| c.is_ascii_digit())
            );
        }
        before = Some(id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_and_print_the_same() {
        for word in ["BASE-7", "S0-39", "S1-C3", "SSE0-2", "F12", "T1"] {
            assert_eq!(RowId::parse(word).map(|id| id.to_string()).as_deref(), Some(word));
        }
        for word in ["", "7", "BASE", "BASE-", "base-7", "BASE7", "-7", "F"] {
            assert_eq!(RowId::parse(word), None, "{word}");
        }
    }

    #[test]
    fn a_table_gives_rows() {
        let mut rows = Rows::new();
        let table =
            "# Base\n\n| Row | Proven in | What holds |\n|---|---|---|\n| BASE-1 | core | it is JSON |\n";
        add(&mut rows, table).unwrap();
        let row = &rows[&RowId::parse("BASE-1").unwrap()];
        assert_eq!((row.mark.as_str(), row.text.as_str()), ("core", "it is JSON"));
    }

    #[test]
    fn bad_tables_are_refused() {
        let refused = |table: &str| add(&mut Rows::new(), table).unwrap_err().to_string();
        assert_eq!(refused("| BASE-1 | core |"), "line 1: a row has three cells");
        assert_eq!(refused("| BASE1 | core | x |"), "line 1: `BASE1` is not a row number");
        assert!(refused("| BASE-1 | moon | x |").contains("`moon` is not a mark"));
        assert_eq!(refused("| F1 | core | x |\n| F1 | core | y |"), "line 2: F1 is there twice");
    }

    #[test]
    fn a_gap_is_refused() {
        let mut rows = Rows::new();
        add(&mut rows, "| STD-1 | core | x |\n| STD-3 | core | y |").unwrap();
        assert_eq!(check_gaps(&rows).unwrap_err().to_string(), "row STD-2 is missing before STD-3");
    }
}
