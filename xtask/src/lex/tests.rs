use super::*;

fn one(source: &str) -> Line {
    let lines = lines(source);
    assert_eq!(lines.len(), 1, "{source}");
    lines[0].clone()
}

#[test]
fn code_comment_and_literal_are_told_apart() {
    let line = one(r#"let a = "x // {"; // why { STD-1"#);
    assert_eq!(line.code, "let a = \"\"; ");
    assert_eq!(line.comment, "why { STD-1");
    assert_eq!(line.literals, ["x // {"]);
}

#[test]
fn escapes_raw_strings_ticks_and_chars() {
    assert_eq!(one(r#"f("a\"}b")"#).literals, [r#"a\"}b"#]);
    assert_eq!(one("f(br##\"a\"#}\"##, 1)").literals, ["a\"#}"]);
    assert_eq!(one("f(br##\"a\"#}\"##, 1)").code, "f(\"\", 1)");
    assert_eq!(one("'{' '\\'' '\\u{7b}' &'a str").code, "' ' ' ' ' ' &'a str");
    assert_eq!(one(r#"for"x""#).literals, ["x"]);
}

#[test]
fn lines_are_counted_through_literals_and_block_comments() {
    let lines = lines("a\n\"x\ny\"\n/* one\n * two */ b\nc");
    assert_eq!(lines.len(), 6);
    assert_eq!((lines[1].literals.len(), lines[2].code.as_str()), (1, ""));
    assert_eq!((lines[3].comment.as_str(), lines[4].comment.as_str()), ("one", "two"));
    assert_eq!((lines[4].code.as_str(), lines[5].code.as_str()), (" b", "c"));
}

#[test]
fn text_that_is_not_rust_is_no_panic() {
    for text in ["", "\"", "'", "'\\", "r#", "r#\"", "/*", "/* /*", "\"\\", "é'é", "\n\n", "b\"\\\n"] {
        assert_eq!(lines(text).len(), text.lines().count(), "{text:?}");
    }
}
