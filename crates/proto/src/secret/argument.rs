//! Which part of a command's argument is a secret, told by the name before it.
//!
//! Commands name secrets more shortly than files do: what is no secret in any text, such as a `key`, is taken for one here,
//! since nothing is lost when a setting is not shown. Whoever starts a command and whoever shows one ask here.

use std::ops::Range;

use super::is_secret_name;

/// The part of `arg` that nobody is to read, if there is one; `before` is the argument before it.
#[must_use]
pub fn secret(before: Option<&str>, arg: &str) -> Option<Range<usize>> {
    if let Some((name, value)) = arg.split_once('=')
        && is_secret(name.trim_start_matches('-'), value)
    {
        return Some(name.len() + 1..arg.len());
    }
    let name = before.filter(|before| before.starts_with('-') && !before.contains('='))?;
    let is_value = !arg.starts_with("--") && is_secret(name.trim_start_matches('-'), arg);
    is_value.then_some(0..arg.len())
}

fn is_secret(name: &str, value: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or_default().to_ascii_lowercase();
    match last.as_str() {
        _ if value.is_empty() => false,
        "auth" | "key" | "pass" | "pw" | "pat" | "login" => true,
        // A port, mostly; or a password.
        "p" => value.parse::<u16>().is_err(),
        // Who, and with some commands the password too.
        "u" | "user" => value.contains(':'),
        _ => is_secret_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-C5: secrets that commands are given as arguments are known by what names them.
    #[test]
    fn s1_c5_secrets_in_arguments_are_found() {
        let rows = [
            (None, "--auth=bob:pw", Some("bob:pw")),
            (None, "key=pw", Some("pw")),
            (None, "--db-pass=pw", Some("pw")),
            (None, "--token=t", Some("t")),
            (Some("-p"), "pw", Some("pw")),
            (Some("-p"), "8080", None),
            (Some("-u"), "bob:pw", Some("bob:pw")),
            (Some("-u"), "bob", None),
            (Some("--api-key"), "k", Some("k")),
            (Some("--auth"), "--verbose", None),
            (Some("--token"), "-Ab3", Some("-Ab3")),
            (Some("serve"), "here", None),
            (None, "--keyboard=us", None),
            (None, "--monkey=1", None),
            (None, "--key=", None),
        ];
        for (before, arg, found) in rows {
            assert_eq!(secret(before, arg).map(|range| &arg[range]), found, "{before:?} {arg}");
        }
    }
}
