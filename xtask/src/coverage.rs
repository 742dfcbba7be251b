//! `coverage-of-requirements`: which rows have a test.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::{
    args::Args,
    mention,
    rows::{self, MARKS, Row, RowId, Rows},
    run::show,
    scan, walk,
};

/// Prints the count, and the open rows if asked. Rows that are required must not be open.
pub(crate) fn run(mut args: Args) -> Result<()> {
    let open = args.flag("--open");
    let filter = args.value("--area")?;
    let required = args.value("--require")?;
    args.finish()?;

    let root = walk::root();
    let all = rows::read(&root.join("docs/requirements"))?;
    let covered = covered(&root, &all)?;
    if let Some(required) = required {
        let known = excused(&root, &all)?;
        return demand(choose(all, Some(&required))?, &covered, &known, &required);
    }
    let chosen = choose(all, filter.as_deref())?;
    show(&summary(&chosen, &covered));
    if open {
        show(&listing(&chosen, &covered));
    }
    Ok(())
}

/// Fails with the list of the rows that have neither a test nor a reason.
fn demand(rows: Rows, covered: &BTreeSet<RowId>, excused: &BTreeSet<RowId>, name: &str) -> Result<()> {
    let open = rows.into_iter().filter(|(id, _)| !covered.contains(id));
    let (known, open): (Rows, Rows) = open.partition(|(id, _)| excused.contains(id));
    if !known.is_empty() {
        show(&format!("rows of `{name}` that docs/rough-edges.md explains\n{}", lines(&known)));
    }
    if open.is_empty() {
        return Ok(());
    }
    bail!("rows of `{name}` without a test: {}; add one that cites each\n{}", open.len(), lines(&open))
}

/// The rows of which docs/rough-edges.md says why they do not hold yet.
fn excused(root: &Path, rows: &Rows) -> Result<BTreeSet<RowId>> {
    let page = "docs/rough-edges.md";
    let text = std::fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {page}"))?;
    mention::in_text(&text, rows).into_iter().map(|row| row.map_err(|why| anyhow!("{page}: {why}"))).collect()
}

/// Every row cited anywhere; a citation of a row that does not exist is an error.
fn covered(root: &Path, rows: &Rows) -> Result<BTreeSet<RowId>> {
    let mut covered = BTreeSet::new();
    let mut wrong = Vec::new();
    // This crate cites rows to test the citing; it proves none.
    let mut files = walk::files(root, "crates", &[".rs", ".txt"])?;
    files.extend(walk::files(root, "fuzz/fuzz_targets", &[".rs"])?);
    files.extend(walk::files(root, "tests", &[".rs", ".txt"])?);
    files.extend(walk::files(root, "transcripts", &[".txt"])?);
    files.extend(walk::files(root, "peers", &[".rs", ".txt", ".mjs", ".js", ".ts", ".py", ".sh"])?);
    for file in &files {
        for citation in scan::citations(file, rows) {
            match citation.row {
                Ok(id) => drop(covered.insert(id)),
                Err(why) => wrong.push(format!("  {}: {why}", citation.place)),
            }
        }
    }
    if !wrong.is_empty() {
        bail!("tests cite rows that do not exist, correct the number or add the row\n{}", wrong.join("\n"));
    }
    Ok(covered)
}

/// The rows of one mark (`core`) or one area (`STD`).
fn choose(rows: Rows, filter: Option<&str>) -> Result<Rows> {
    let Some(filter) = filter else { return Ok(rows) };
    let chosen: Rows = rows
        .into_iter()
        .filter(|(id, row)| row.mark == filter || id.area.eq_ignore_ascii_case(filter))
        .collect();
    if chosen.is_empty() {
        bail!("no row has the mark or area `{filter}`; marks are {}", MARKS.join(", "));
    }
    Ok(chosen)
}

#[derive(Default, Clone, Copy)]
struct Count {
    covered: usize,
    total: usize,
}

impl Count {
    fn add(&mut self, is_covered: bool) {
        self.covered += usize::from(is_covered);
        self.total += 1;
    }

    fn line(self, name: &str) -> String {
        let percent = (self.covered * 100).checked_div(self.total).unwrap_or(0);
        format!("{name:<8} {:>4} of {:>4}  {percent:>3} %\n", self.covered, self.total)
    }
}

fn summary(rows: &Rows, covered: &BTreeSet<RowId>) -> String {
    let mut areas: BTreeMap<&str, Count> = BTreeMap::new();
    let mut marks: BTreeMap<&str, Count> = BTreeMap::new();
    let mut total = Count::default();
    for (id, row) in rows {
        let is_covered = covered.contains(id);
        areas.entry(&id.area).or_default().add(is_covered);
        marks.entry(&row.mark).or_default().add(is_covered);
        total.add(is_covered);
    }
    let mut out = String::from("rows with a test, by area\n");
    out.extend(areas.into_iter().map(|(area, count)| count.line(area)));
    out.push_str("\nby where they are proven\n");
    out.extend(MARKS.iter().filter_map(|mark| marks.get(mark).map(|count| count.line(mark))));
    out.push_str(&total.line("all"));
    out
}

fn listing(rows: &Rows, covered: &BTreeSet<RowId>) -> String {
    let open = rows.iter().filter(|(id, _)| !covered.contains(id));
    format!("\nopen rows\n{}", lines(open))
}

fn lines<'a>(rows: impl IntoIterator<Item = (&'a RowId, &'a Row)>) -> String {
    let line = |(id, row): (&RowId, &Row)| format!("{:<8} {:<8} {}\n", id.to_string(), row.mark, row.text);
    rows.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Rows, BTreeSet<RowId>) {
        let mut rows = Rows::new();
        for (word, mark) in [("STD-1", "core"), ("STD-2", "core"), ("HTM-1", "http")] {
            let row = Row { mark: mark.to_owned(), text: format!("text of {word}") };
            rows.insert(RowId::parse(word).unwrap(), row);
        }
        (rows, BTreeSet::from([RowId::parse("STD-1").unwrap()]))
    }

    #[test]
    fn rows_are_counted_by_area_and_mark() {
        let (rows, covered) = three();
        let text = summary(&rows, &covered);
        assert!(text.contains("STD         1 of    2   50 %"), "{text}");
        assert!(text.contains("http        0 of    1    0 %"), "{text}");
        assert!(text.ends_with("all         1 of    3   33 %\n"), "{text}");
    }

    #[test]
    fn open_rows_are_listed_with_their_text() {
        let (rows, covered) = three();
        let text = listing(&rows, &covered);
        assert!(text.contains("STD-2    core     text of STD-2\n") && !text.contains("STD-1"), "{text}");
    }

    #[test]
    fn required_rows_must_not_be_open() {
        let (rows, mut covered) = three();
        let core = || choose(rows.clone(), Some("core")).unwrap();
        let none = BTreeSet::new();
        let why = demand(core(), &covered, &none, "core").unwrap_err().to_string();
        assert!(
            why.starts_with("rows of `core` without a test: 1;") && why.contains("text of STD-2"),
            "{why}"
        );
        assert!(!why.contains("STD-1") && !why.contains("HTM-1"), "{why}");
        let second = BTreeSet::from([RowId::parse("STD-2").unwrap()]);
        demand(core(), &covered, &second, "core").expect("there is a reason");
        covered.extend(second);
        demand(core(), &covered, &none, "core").unwrap();
    }

    #[test]
    fn a_filter_takes_a_mark_or_an_area() {
        let (rows, _) = three();
        assert_eq!(choose(rows.clone(), Some("core")).unwrap().len(), 2);
        assert_eq!(choose(rows.clone(), Some("htm")).unwrap().len(), 1);
        assert!(choose(rows, Some("moon")).is_err());
    }

    /// The repository's own tables and citations must be sound at any time.
    #[test]
    fn our_tables_and_citations_are_sound() {
        let root = walk::root();
        let rows = rows::read(&root.join("docs/requirements")).unwrap();
        assert!(rows.len() > 800, "{} rows", rows.len());
        covered(&root, &rows).unwrap();
        assert!(excused(&root, &rows).unwrap().contains(&RowId::parse("CLI-39").unwrap()));
    }
}
