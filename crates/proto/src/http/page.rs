//! What is told of a body that nobody expected.

use std::borrow::Cow;
use std::fmt;

/// Behind what is told of an answer: the beginning of its body, of a page for people only its title or its text.
pub(super) fn write(excerpt: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &*words(excerpt) {
        "" => Ok(()),
        words => write!(f, ": {words}"),
    }
}

/// What is worth telling of the beginning of a body: of a page for people its title, or else its text, without any markup.
#[must_use]
pub fn words(excerpt: &str) -> Cow<'_, str> {
    let excerpt = excerpt.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let begins = |with: &str| excerpt.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    if !begins("<!doctype html") && !begins("<html") {
        return Cow::Borrowed(excerpt);
    }
    let lower = excerpt.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| Some(at + lower[at..].find('>')? + 1));
    let title =
        title.and_then(|at| excerpt[at..].split('<').next()).map(str::trim).filter(|title| !title.is_empty());
    title.map_or_else(|| Cow::Owned(text(excerpt)), Cow::Borrowed)
}

/// What stands between the tags.
fn text(page: &str) -> String {
    let between = page.split('<').filter_map(|piece| piece.split_once('>'));
    between.map(|(_, text)| text.trim()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages are told by their titles, everything else as it is.
    #[test]
    fn pages_are_told_by_their_titles() {
        for (excerpt, told) in [
            ("404 page not found", "404 page not found"),
            ("<!DOCTYPE html><html><head><title>Log in</title>", "Log in"),
            ("<html>\r\n<head><title lang=\"en\">502 Bad Gateway", "502 Bad Gateway"),
            (r"<html>\r\n<head><title>502 Bad Gateway</title>", "502 Bad Gateway"),
            ("<html><body>No <b>title</b> here", "No title here"),
            ("<html><head><title></title>", ""),
            ("<html><head><title", ""),
            ("{\"error\":1}", "{\"error\":1}"),
            ("<h1>short</h1>", "<h1>short</h1>"),
            ("", ""),
        ] {
            assert_eq!(words(excerpt), told, "{excerpt}");
        }
    }
}
