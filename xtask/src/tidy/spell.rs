//! What the rules look for in code and literals.

/// The first part of every method's name that has two.
const METHOD_FAMILIES: [&str; 12] = [
    "tools",
    "resources",
    "prompts",
    "completion",
    "logging",
    "sampling",
    "elicitation",
    "roots",
    "tasks",
    "server",
    "subscriptions",
    "notifications",
];

/// Whether `word` stands in `code` by itself.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

/// `20dd-dd-dd` and nothing else; a sentence may cite the revision it comes from.
pub(super) fn is_revision(literal: &str) -> bool {
    let fits =
        |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    literal.len() == 10 && literal.starts_with("20") && literal.bytes().enumerate().all(fits)
}

/// The name of a method, whole.
pub(super) fn is_method(literal: &str) -> bool {
    if literal == "initialize" {
        return true;
    }
    let Some((family, name)) = literal.split_once('/') else { return false };
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'/');
    named && METHOD_FAMILIES.contains(&family)
}

/// A number from -32000 to -32999, with or without an underscore.
pub(super) fn has_code(code: &str) -> bool {
    code.split('-').skip(1).any(|after| {
        let digits: String =
            after.chars().take_while(|c| c.is_ascii_digit() || *c == '_').filter(|c| *c != '_').collect();
        digits.len() == 5 && digits.starts_with("32")
    })
}
