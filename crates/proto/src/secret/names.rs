//! Names that tell that a secret follows, and where in a text it does.

use std::ops::Range;

/// Is it the name of something secret: of a header, a variable, a member, a query parameter?
///
/// The last word decides: `api_key`, `clientSecret` and `X-Auth-Token` are, `token_count` and `maxTokens`
/// are not. A progress token opens nothing.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let last = words.last().map_or("", String::as_str);
    let before = words.len().checked_sub(2).map_or("", |at| words[at].as_str());
    match last {
        "token" => before != "progress",
        "key" => {
            matches!(before, "api" | "access" | "private" | "secret" | "signing" | "encryption" | "auth")
        }
        "id" => before == "session",
        "password" | "passwd" | "passphrase" | "pwd" | "secret" | "authorization" | "cookie"
        | "credential" | "credentials" | "apikey" | "bearer" | "jwt" => true,
        _ => false,
    }
}

/// Is it the name of a variable with a secret? `PWD` and `OLDPWD` are where a shell is and was, and every shell sets them:
/// elsewhere the same word is a password.
#[must_use]
pub fn is_secret_variable(name: &str) -> bool {
    !matches!(name, "PWD" | "OLDPWD") && is_secret_name(name)
}

/// The words of a name, however they are joined.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        let begins = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && small);
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// So far behind the beginning of an address it is looked for the end of a password.
const MAX_USER_BYTES: usize = 1024;

/// Longer names are no names.
const MAX_NAME_BYTES: usize = 64;

/// Where the values of secret names stand: behind `:` or `=`, behind an option, behind `Bearer`, and between
/// `://` and `@`.
pub(super) fn values(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        // What lies inside a value is part of it, and each byte is looked at once.
        if found.last().is_some_and(|last: &Range<usize>| at < last.end) {
            continue;
        }
        let range = match byte {
            b':' if text[at..].starts_with("://") => user_of_address(text, at + 3),
            b':' | b'=' => name_before(text, at).and_then(|name| value_behind(text, at + 1, name)),
            b' ' => option_before(text, at).or_else(|| scheme_before(text, at)),
            _ => None,
        };
        found.extend(range.filter(|range| !range.is_empty()));
    }
    found
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The secret name that ends at `end`, but for blanks and quotes.
fn name_before(text: &str, end: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = (0..end).rev().find(|at| !matches!(bytes[*at], b' ' | b'"' | b'\'' | b'\\'))? + 1;
    let from = end.saturating_sub(MAX_NAME_BYTES);
    let start = (from..end).rev().take_while(|at| is_name_byte(bytes[*at])).last()?;
    let name = &text[start..end];
    is_secret_name(name).then_some(name)
}

/// The value that begins at or behind `from`.
fn value_behind(text: &str, from: usize, name: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = (from..bytes.len()).find(|at| !matches!(bytes[*at], b' ' | b'\t'))?;
    match bytes[start] {
        // What is nested has names of its own.
        b'{' | b'[' if !text[start..].starts_with(super::REDACTED) => None,
        quote @ (b'"' | b'\'') => Some(start + 1..quoted_end(bytes, start + 1, quote)),
        b'\\' if bytes.get(start + 1) == Some(&b'"') => {
            let end = text[start + 2..].find("\\\"").map_or(bytes.len(), |at| start + 2 + at);
            Some(start + 2..end)
        }
        _ => Some(start..plain_end(text, start, name)),
    }
}

/// The quote that is not escaped, or the end.
fn quoted_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Headers go to the end of their line; other values are one word, after the word for their scheme.
fn plain_end(text: &str, start: usize, name: &str) -> usize {
    let whole = words(name).last().is_some_and(|last| matches!(last.as_str(), "authorization" | "cookie"));
    let word_end = |from: usize| {
        let stops = |c: char| c.is_whitespace() || ",;&\"'<>)}\\".contains(c);
        text[from..].find(stops).map_or(text.len(), |at| from + at)
    };
    if whole {
        let line = text[start..].find(['\n', '\r', '"', '\'', '\\']).map_or(text.len(), |at| start + at);
        return line;
    }
    let end = word_end(start);
    if is_scheme(&text[start..end]) && text[end..].starts_with(' ') { word_end(end + 1) } else { end }
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "digest", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// The value of a header without the word for its scheme.
pub(super) fn behind_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if is_scheme(scheme) => rest.trim_start(),
        _ => value,
    }
}

/// `--api-key VALUE`: the blank stands at `at`.
fn option_before(text: &str, at: usize) -> Option<Range<usize>> {
    let word = text[..at].rsplit(char::is_whitespace).next()?;
    let name = word.strip_prefix("--")?;
    (name.len() <= MAX_NAME_BYTES && is_secret_name(name)).then_some(())?;
    value_behind(text, at + 1, "")
}

/// `Bearer VALUE` without any name: the blank stands at `at`. Short words are prose.
fn scheme_before(text: &str, at: usize) -> Option<Range<usize>> {
    let word = text.as_bytes()[..at].last_chunk::<6>()?;
    let alone = text.as_bytes()[..at - 6].last().is_none_or(|byte| !is_name_byte(*byte));
    (alone && word.eq_ignore_ascii_case(b"bearer")).then_some(())?;
    value_behind(text, at + 1, "").filter(|range| range.len() >= 8)
}

/// Where who logs in is told by a token, if at all. Elsewhere a user without a password is a name.
const BY_TOKEN: [&str; 5] = ["http", "https", "ws", "wss", "tcp"];

/// Who logs in at an address, which begins at `from`: `user:password`, or a token alone, where nobody logs in by name. Behind the name of a host stands a number: what stands there instead is a password, and goes to the last `@`, also where it
/// has characters that should have been escaped.
fn user_of_address(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..];
    let stops = |c: char, more: &str| c.is_whitespace() || "\"'<>".contains(c) || more.contains(c);
    let authority = &rest[..rest.find(|c| stops(c, "/?#")).unwrap_or(rest.len())];
    if let Some(user) = authority.rfind('@') {
        let scheme = text[..from - 3].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let by_token = BY_TOKEN.iter().any(|one| scheme.eq_ignore_ascii_case(one));
        return (by_token || authority[..user].contains(':')).then_some(from..from + user);
    }
    let (host, port) = authority.split_once(':')?;
    if host.is_empty() || host.starts_with('[') || port.parse::<u16>().is_ok() {
        return None;
    }
    let reach = rest.char_indices().take_while(|(at, c)| *at < MAX_USER_BYTES && !stops(*c, ""));
    let user = reach.filter(|(_, c)| *c == '@').last()?.0;
    Some(from..from + user)
}

#[cfg(test)]
mod tests {
    use super::super::Redactor;
    use super::*;

    /// S1-C5: which names tell of a secret.
    #[test]
    fn the_last_word_decides() {
        for name in [
            "token",
            "API_KEY",
            "apiKey",
            "x-api-key",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "password",
            "Authorization",
            "Proxy-Authorization",
            "set-cookie",
            "access_token",
            "Mcp-Session-Id",
            "GITHUB_TOKEN",
            "db.password",
            "id_token",
            "GoogleCredentials",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            "maxTokens",
            "token_count",
            "progressToken",
            "key",
            "keyboard",
            "id",
            "secretary",
            "path",
            "HOME",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    /// S1-C5: where a shell is, is no secret; a password is one wherever it stands.
    #[test]
    fn the_directory_of_a_shell_is_no_secret() {
        for (name, secret) in [
            ("PWD", false),
            ("OLDPWD", false),
            ("pwd", true),
            ("DB_PWD", true),
            ("API_KEY", true),
            ("HOME", false),
        ] {
            assert_eq!(is_secret_variable(name), secret, "{name}");
        }
        assert!(is_secret_name("PWD"), "of a header or a key");
        assert_eq!(Redactor::default().redact("UID=sa;PWD=abc"), "UID=sa;PWD=[redacted]");
    }

    /// S1-C5: by name: headers, members, variables, options, query parameters, addresses.
    #[test]
    fn named_values_are_found() {
        let redactor = Redactor::default();
        for (text, clean) in [
            ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
            ("authorization: Basic dXNlcjpw\nnext: line", "authorization: [redacted]\nnext: line"),
            ("-H 'Authorization: Bearer abc' x", "-H 'Authorization: [redacted]' x"),
            ("Cookie: a=b; c=d", "Cookie: [redacted]"),
            (r#"{"token":"abc","n":1}"#, r#"{"token":"[redacted]","n":1}"#),
            (r#"{"password": "a\"b\\", "n": 1}"#, r#"{"password": "[redacted]", "n": 1}"#),
            (r#"{\"apiKey\":\"abc\",\"n\":1}"#, r#"{\"apiKey\":\"[redacted]\",\"n\":1}"#),
            ("API_KEY=abc PATH=/bin", "API_KEY=[redacted] PATH=/bin"),
            ("export TOKEN='a b'", "export TOKEN='[redacted]'"),
            ("GET /x?access_token=abc&n=1", "GET /x?access_token=[redacted]&n=1"),
            ("--api-key abc --n 1", "--api-key [redacted] --n 1"),
            ("--token=abc --n 1", "--token=[redacted] --n 1"),
            ("x-api-key: Token abc def", "x-api-key: [redacted] def"),
            ("sent Bearer abcdefghi", "sent Bearer [redacted]"),
            ("postgres://ada:pw@db/x", "postgres://[redacted]@db/x"),
            ("postgres://ada:p/w@db/x", "postgres://[redacted]@db/x"),
            ("at 'http://ada:p?w#@x@db/x': no", "at 'http://[redacted]@db/x': no"),
            ("http://ada:/pw@db:1/x y@z", "http://[redacted]@db:1/x y@z"),
            ("https://pa55@db/x", "https://[redacted]@db/x"),
            ("HTTP://pa55@db/x wss://pa55@db", "HTTP://[redacted]@db/x wss://[redacted]@db"),
            ("ssh://git@db/x ssh://git:pw@db/x", "ssh://git@db/x ssh://[redacted]@db/x"),
            ("imap://ada@mail/INBOX", "imap://ada@mail/INBOX"),
            ("http://db:4873/@scope/x", "http://db:4873/@scope/x"),
            ("http://[::1]:80/@x http://db/a@b", "http://[::1]:80/@x http://db/a@b"),
            ("password: pässwört!", "password: [redacted]"),
            ("secret", "secret"),
            ("token:", "token:"),
            ("token: ", "token: "),
            ("the bearer of news", "the bearer of news"),
            ("see https://example.com/a:b@c", "see https://example.com/a:b@c"),
            (r#"{"maxTokens":5,"progressToken":7}"#, r#"{"maxTokens":5,"progressToken":7}"#),
            (
                r#"{"credentials":{"user":"ada","password":"x1"}}"#,
                r#"{"credentials":{"user":"ada","password":"[redacted]"}}"#,
            ),
        ] {
            assert_eq!(redactor.redact(text), clean);
        }
    }

    /// T21: hostile text neither panics nor takes long.
    #[test]
    fn odd_text_is_survived() {
        let redactor = Redactor::default();
        for odd in [
            "=",
            ":",
            "\\\"",
            "é=é:é",
            "token=\"",
            "token=\"\\",
            "token='é\\",
            "://@",
            "://:@",
            "--token ",
            "bearer ",
        ] {
            for times in [1, 2, 300] {
                let _ = redactor.redact(&odd.repeat(times));
            }
        }
    }
}
