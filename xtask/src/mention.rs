//! Row numbers as people write them: in the names of tests and in comments.

use crate::rows::{RowId, Rows};

/// The rows one piece of text cites, or what in it looks like a row and is none.
pub(crate) type Mentions = Vec<Result<RowId, String>>;

/// Rows cited in prose: `STD-1, STD-18`, `S3-12 to S3-16`, `S3-12 to 16`.
///
/// Only words of a known area count, so that `UTF-8` is not a typing error.
pub(crate) fn in_text(text: &str, rows: &Rows) -> Mentions {
    let mut out = Mentions::new();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || "()[]{},;:/`'\"".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    let mut at = 0;
    while at < words.len() {
        let (first, joined) = split_range(words[at]);
        let Some(id) = known(first, rows) else {
            at += 1;
            continue;
        };
        let last = match joined {
            Some(last) => Some(last),
            None if matches!(words.get(at + 1), Some(&("to" | "-" | "–" | ".."))) => {
                words.get(at + 2).copied().map(trim).filter(|last| range_end(&id, last).is_some())
            }
            None => None,
        };
        match last {
            Some(last) => {
                out.extend(range(&id, last, rows));
                at += if joined.is_some() { 1 } else { 3 };
            }
            None => {
                out.push(check(id, rows));
                at += 1;
            }
        }
    }
    out
}

/// Rows cited at the start of a test's name: `s0_39_..`, `std_1_std_18_..`, `mrtr_7_to_9_..`, `f12_..`.
pub(crate) fn in_name(name: &str, rows: &Rows) -> Mentions {
    let mut out = Mentions::new();
    let parts: Vec<&str> = name.split('_').collect();
    let mut at = 0;
    while let Some((id, used)) = row_at(&parts[at..], rows) {
        at += used;
        let end = match parts[at..] {
            ["to", last, ..] if last.parse::<u32>().is_ok() => Some((last.to_owned(), 2)),
            ["to", ..] => row_at(&parts[at + 1..], rows).map(|(last, used)| (last.to_string(), used + 1)),
            _ => None,
        };
        match end {
            Some((last, used)) => {
                out.extend(range(&id, &last, rows));
                at += used;
            }
            None => out.push(check(id, rows)),
        }
    }
    out
}

/// A row at the head of the parts of a name, and how many parts it takes.
fn row_at(parts: &[&str], rows: &Rows) -> Option<(RowId, usize)> {
    let upper = |part: &&str| part.to_ascii_uppercase();
    let one = parts.first().map(upper)?;
    if let Some(id) = known(&one, rows).filter(|id| id.to_string() == one) {
        return Some((id, 1));
    }
    let two = format!("{one}-{}", parts.get(1).map(upper)?);
    known(&two, rows).map(|id| (id, 2))
}

/// A word of an area that exists. No area has a hundred rows; `http_404` is a status.
fn known(word: &str, rows: &Rows) -> Option<RowId> {
    let id = RowId::parse(trim(word))?;
    let first = RowId { area: id.area.clone(), number: 1 };
    (rows.contains_key(&first) && id.number < 100).then_some(id)
}

fn trim(word: &str) -> &str {
    word.trim_end_matches(['.', '!', '?'])
}

/// `S3-12..S3-16` as one word.
fn split_range(word: &str) -> (&str, Option<&str>) {
    match word.split_once("..") {
        Some((first, last)) if !last.trim_matches('.').is_empty() => (first, Some(trim(last))),
        _ => (word, None),
    }
}

fn range_end(first: &RowId, last: &str) -> Option<u32> {
    if let Ok(number) = last.parse() {
        return Some(number);
    }
    RowId::parse(last).filter(|last| last.area == first.area).map(|last| last.number)
}

fn range(first: &RowId, last: &str, rows: &Rows) -> Mentions {
    match range_end(first, last) {
        Some(end) if end > first.number && end < 100 => (first.number..=end)
            .map(|number| check(RowId { area: first.area.clone(), number }, rows))
            .collect(),
        _ => vec![Err(format!("{first} to {last} is not a range"))],
    }
}

fn check(id: RowId, rows: &Rows) -> Result<RowId, String> {
    if rows.contains_key(&id) { Ok(id) } else { Err(format!("{id} is not a row of docs/requirements")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Row;

    fn rows() -> Rows {
        let mut rows = Rows::new();
        for (area, last) in [("STD", 19), ("S3", 25), ("S1", 48), ("S1-C", 21), ("HTTP", 19), ("F", 40)] {
            for number in 1..=last {
                let row = Row { mark: "core".to_owned(), text: String::new() };
                rows.insert(RowId { area: area.to_owned(), number }, row);
            }
        }
        rows
    }

    fn show(mentions: Mentions) -> String {
        mentions
            .into_iter()
            .map(|mention| mention.map_or_else(|why| format!("!{why}"), |id| id.to_string()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_cite_lists_and_ranges() {
        for (text, expected) in [
            ("STD-1: one line", "STD-1"),
            ("STD-1, STD-18 and (S1-C3).", "STD-1 STD-18 S1-C3"),
            ("S3-12 to S3-14, F2", "S3-12 S3-13 S3-14 F2"),
            ("S3-12 to 14 hold", "S3-12 S3-13 S3-14"),
            ("S3-12..S3-14", "S3-12 S3-13 S3-14"),
            ("F1/F2", "F1 F2"),
            ("S3-12 to the end", "S3-12"),
            ("see UTF-8, SHA-256, HTTP-404, 0xF1, STD-", ""),
        ] {
            assert_eq!(show(in_text(text, &rows())), expected, "{text}");
        }
    }

    #[test]
    fn a_number_that_is_no_row_is_told() {
        assert_eq!(show(in_text("STD-20", &rows())), "!STD-20 is not a row of docs/requirements");
        assert_eq!(show(in_text("S3-14 to S3-12", &rows())), "!S3-14 to S3-12 is not a range");
        assert_eq!(show(in_name("f41_x", &rows())), "!F41 is not a row of docs/requirements");
    }

    #[test]
    fn names_cite_at_their_start() {
        for (name, expected) in [
            ("s3_5_split_reads_are_joined", "S3-5"),
            ("std_1_std_18_one_line", "STD-1 STD-18"),
            ("s3_12_to_14_batches", "S3-12 S3-13 S3-14"),
            ("s3_12_to_s3_13_batches", "S3-12 S3-13"),
            ("s1_c3_errors_help", "S1-C3"),
            ("s1_3_checked", "S1-3"),
            ("f12_silence", "F12"),
            ("http_404_opens_again", ""),
            ("a_reply_std_1", ""),
            ("std_1", "STD-1"),
        ] {
            assert_eq!(show(in_name(name, &rows())), expected, "{name}");
        }
    }
}
