//! Which lines of a source file are test code, and which belong to one test.
//!
//! ```text
//! #[cfg(test)] mod .. { }   test code
//! #[test] fn .. { }         test code, and one test
//! proptest! { }             test code, and one test
//! ```
//!
//! Comments and attributes directly above an item share its scope.

use crate::lex::Line;

/// How far a line is inside test code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Shipped code.
    Product,
    /// Helpers and modules compiled for tests only.
    Support,
    /// A test, its attributes and the comments above it.
    Test,
}

/// The scope of each line.
pub(crate) fn scopes(lines: &[Line]) -> Vec<Scope> {
    let mut out = vec![Scope::Product; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let head = head_of(lines, at);
        let end = if head.scope == Scope::Product { head.end } else { item_end(lines, head.end) };
        for scope in &mut out[at..end] {
            *scope = (*scope).max(head.scope);
        }
        // A module is entered, for the tests inside it; a test is passed over.
        at = if head.scope == Scope::Test { end } else { head.end.max(at + 1) };
    }
    out
}

/// Comments and attributes above an item.
struct Head {
    scope: Scope,
    /// The first line after them, where the item stands.
    end: usize,
}

fn head_of(lines: &[Line], start: usize) -> Head {
    let mut scope = Scope::Product;
    let mut end = start;
    let mut open_brackets = 0_i64;
    for line in &lines[start..] {
        let code = line.code.trim();
        let attribute = code.starts_with("#[") || open_brackets > 0;
        if code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(any(test") {
            scope = scope.max(Scope::Support);
        }
        if is_test_attribute(code) || code.starts_with("proptest!") {
            scope = Scope::Test;
        }
        let comment_only = code.is_empty() && !line.comment.is_empty();
        // `#[test] fn f() {}` on one line is the item itself.
        if !(comment_only || attribute) || code.contains("fn ") {
            break;
        }
        if attribute {
            open_brackets += balance(code, '[', ']');
        }
        end += 1;
    }
    Head { scope, end: end.max(start) }
}

fn is_test_attribute(code: &str) -> bool {
    let Some(name) = code.strip_prefix("#[") else { return false };
    let path = name.split(['(', ']', ' ', '=']).next().unwrap_or_default();
    path == "test" || path.ends_with("::test")
}

/// One past the last line of the item at `start`: its closing brace, or a semicolon before any brace.
fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_i64;
    let mut opened = false;
    for (at, line) in lines.iter().enumerate().skip(start) {
        for c in line.code.chars() {
            match c {
                '{' => {
                    depth += 1;
                    opened = true;
                }
                '}' => depth -= 1,
                ';' if !opened => return at + 1,
                _ => {}
            }
        }
        if opened && depth <= 0 {
            return at + 1;
        }
    }
    lines.len()
}

fn balance(code: &str, open: char, close: char) -> i64 {
    code.chars().fold(0, |sum, c| {
        if c == open {
            sum + 1
        } else if c == close {
            sum - 1
        } else {
            sum
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter a line: product, support, test.
    fn marks(source: &str) -> String {
        let lines = crate::lex::lines(source);
        scopes(&lines)
            .iter()
            .map(|scope| match scope {
                Scope::Product => 'p',
                Scope::Support => 's',
                Scope::Test => 't',
            })
            .collect()
    }

    #[test]
    fn a_test_takes_its_comments_and_attributes() {
        let source =
            "fn a() {}\n\n/// why\n#[test]\n#[should_panic]\nfn b() {\n    let x = \"}\";\n}\nfn c() {}";
        assert_eq!(marks(source), "ppttttttp");
    }

    #[test]
    fn a_test_module_is_support_and_its_tests_are_tests() {
        let source = "#[cfg(test)]\nmod tests {\n    fn h() {}\n\n    #[tokio::test(start_paused = true)]\n    async fn b() {}\n    fn i() {}\n}\nfn c() {}";
        assert_eq!(marks(source), "sssstt".to_owned() + "ssp");
    }

    #[test]
    fn proptest_blocks_and_one_liners() {
        assert_eq!(marks("proptest! {\n    /// STD-1\n    fn a(x in 0..1) {\n    }\n}\nfn b() {}"), "tttttp");
        assert_eq!(marks("#[test] fn a() {}\nfn b() {}"), "tp");
        assert_eq!(marks("#[cfg(test)]\nmod tests;\nfn b() {}"), "ssp");
    }

    #[test]
    fn an_attribute_over_several_lines_stays_with_its_item() {
        assert_eq!(
            marks("#[test]\n#[cfg_attr(\n    unix,\n    path = \"x\"\n)]\nfn a() {\n}\nfn b() {}"),
            "tttttttp"
        );
    }
}
