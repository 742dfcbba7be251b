//! Where tests cite requirement rows.
//!
//! In Rust: the name of a test, comments on it and inside it, and every comment of a file that
//! is test code as a whole. In transcripts and peers' scripts: comment lines `# rows: ..`.

use crate::{
    lex,
    mention::{self, Mentions},
    rows::Rows,
    scope::{self, Scope},
    walk::File,
};

/// One citation, or what looks like one and is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Citation {
    /// `path:line`.
    pub(crate) place: String,
    /// The row, or why it is none.
    pub(crate) row: Result<crate::rows::RowId, String>,
}

/// Everything `file` cites.
pub(crate) fn citations(file: &File, rows: &Rows) -> Vec<Citation> {
    if file.path.ends_with(".rs") { in_rust(file, rows) } else { in_script(file, rows) }
}

fn in_rust(file: &File, rows: &Rows) -> Vec<Citation> {
    let lines = lex::lines(&file.text);
    let scopes = scope::scopes(&lines);
    let mut out = Vec::new();
    for (at, (line, scope)) in lines.iter().zip(scopes).enumerate() {
        if scope == Scope::Test || file.is_test() {
            place(&mut out, file, at, mention::in_text(&line.comment, rows));
        }
        if scope == Scope::Test
            && let Some(name) = function_name(&line.code)
        {
            place(&mut out, file, at, mention::in_name(name, rows));
        }
    }
    out
}

fn in_script(file: &File, rows: &Rows) -> Vec<Citation> {
    let mut out = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let comment = line.trim_start().trim_start_matches(['#', '/', '*', ' ']);
        let is_comment = line.trim_start().starts_with(['#', '/', '*']);
        let Some(cited) = comment.strip_prefix("rows:").filter(|_| is_comment) else { continue };
        let mut found = mention::in_text(cited, rows);
        // The line is for numbers alone, so one without any is a slip.
        if found.is_empty() {
            found.push(Err(format!("`{}` cites no row", line.trim())));
        }
        place(&mut out, file, at, found);
    }
    out
}

fn place(out: &mut Vec<Citation>, file: &File, at: usize, mentions: Mentions) {
    let place = format!("{}:{}", file.path, at + 1);
    out.extend(mentions.into_iter().map(|row| Citation { place: place.clone(), row }));
}

fn function_name(code: &str) -> Option<&str> {
    let start = code.find("fn ")?;
    let alone =
        code[..start].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
    let name = code[start + 3..].trim_start();
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
    (alone && end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, RowId};

    fn cited(path: &str, text: &str) -> Vec<String> {
        let mut rows = Rows::new();
        for number in 1..=19 {
            let row = Row { mark: "core".to_owned(), text: String::new() };
            rows.insert(RowId { area: "STD".to_owned(), number }, row);
        }
        let file = File { path: path.to_owned(), text: text.to_owned() };
        citations(&file, &rows)
            .into_iter()
            .map(|citation| {
                let line = citation.place.rsplit(':').next().unwrap_or_default().to_owned();
                format!("{line} {}", citation.row.map_or_else(|why| why, |id| id.to_string()))
            })
            .collect()
    }

    #[test]
    fn names_and_comments_of_tests_count() {
        let text = "/// STD-9 is only told here\nfn product() {} // STD-8\n\n/// STD-1 and\n/// STD-2\n#[test]\nfn std_3_it_holds() {\n    // STD-4\n    let x = \"STD-5\"; // STD-6\n}\n";
        assert_eq!(cited("crates/a/src/a.rs", text), ["4 STD-1", "5 STD-2", "7 STD-3", "8 STD-4", "9 STD-6"]);
    }

    #[test]
    fn all_comments_of_a_test_file_count() {
        let text = "//! STD-1 to STD-2\nfn helper() {} // STD-3\n";
        assert_eq!(cited("crates/a/tests/a.rs", text), ["1 STD-1", "1 STD-2", "2 STD-3"]);
        assert!(cited("crates/a/src/a.rs", text).is_empty());
    }

    #[test]
    fn helpers_in_a_test_module_do_not_count() {
        let text = "#[cfg(test)]\nmod tests {\n    // STD-1\n    fn std_2_helper() {}\n}\n";
        assert!(cited("crates/a/src/a.rs", text).is_empty());
    }

    #[test]
    fn transcripts_and_scripts_cite_in_their_head() {
        assert_eq!(cited("transcripts/a.txt", "# rows: STD-1 STD-18\n> STD-2\n"), ["1 STD-1", "1 STD-18"]);
        assert_eq!(cited("peers/node-x/a.mjs", "// rows: STD-1\nrows: STD-2\n"), ["1 STD-1"]);
        assert_eq!(cited("peers/script.py", "# rows: soon\n"), ["1 `# rows: soon` cites no row"]);
    }

    #[test]
    fn a_typing_error_is_told_with_its_line() {
        assert_eq!(
            cited("crates/a/src/a.rs", "#[test]\nfn std_20_x() {}\n"),
            ["2 STD-20 is not a row of docs/requirements"]
        );
    }
}
