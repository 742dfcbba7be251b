//! Addresses: is it a URI after RFC 3986, and which scheme does it have?

use std::borrow::Cow;

use super::flaw::Flaw;
use crate::http::url::Url;

/// The scheme, without its colon, when the text begins with one.
#[must_use]
pub fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    fits.then_some(scheme)
}

/// An absolute URI: a scheme, then only characters that RFC 3986 allows, with whole percent triplets.
pub fn check(uri: &str) -> Result<(), Flaw> {
    let Some(scheme) = scheme(uri) else {
        return Err(Flaw::here("does not start with a scheme such as file: or https:"));
    };
    let rest = &uri[scheme.len() + 1..];
    if rest.is_empty() {
        return Err(Flaw::here("has nothing behind its scheme"));
    }
    let bytes = rest.as_bytes();
    let mut hashes = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'%' if !matches!(bytes.get(at + 1..at + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()) =>
            {
                return Err(Flaw::here("has a % without two hex digits behind it"));
            }
            b'#' => hashes += 1,
            b'%' => {}
            byte if is_unreserved(*byte) || is_reserved(*byte) => {}
            _ => return Err(Flaw::here("has a character that must be percent-encoded")),
        }
    }
    if hashes > 1 {
        return Err(Flaw::here("has more than one #"));
    }
    check_authority(rest)
}

/// An address that a person can be sent to: of the web, written as RFC 3986 has it, without a user name.
/// Everything else, `javascript:` and `file:` first of all, is for no browser to open.
pub fn web(uri: &str) -> Result<Url, Flaw> {
    if !authority(uri).is_ascii() {
        return Err(Flaw::here(
            "has a host that is not ASCII and so may look like another; Punycode names it",
        ));
    }
    check(uri)?;
    Url::parse(uri).map_err(|why| Flaw::here(why.to_string()))
}

/// What stands between the slashes and the path.
fn authority(uri: &str) -> &str {
    let behind = uri.split_once("://").map_or("", |(_, behind)| behind);
    &behind[..behind.find(['/', '?', '#']).unwrap_or(behind.len())]
}

/// With what is not ASCII percent-encoded behind the host, as browsers do it. A host stays as it is: there, another character means
/// another place. So do spaces: no address has them, and what stands behind one may be meant for somebody else.
#[must_use]
pub fn encoded(uri: &str) -> Cow<'_, str> {
    let authority = authority(uri);
    let path = uri.find("://").map_or(0, |at| at + 3) + authority.len();
    if authority.is_empty() || uri[path..].is_ascii() {
        return Cow::Borrowed(uri);
    }
    let mut out = uri[..path].to_owned();
    for byte in uri[path..].bytes() {
        match byte.is_ascii() {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Cow::Owned(out)
}

/// Brackets stand around an IP address in the authority, and nowhere else.
fn check_authority(rest: &str) -> Result<(), Flaw> {
    let (authority, path) = match rest.strip_prefix("//") {
        Some(behind) => behind.split_at(behind.find(['/', '?', '#']).unwrap_or(behind.len())),
        None => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let literal = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let outside = match literal {
        Some((_, port)) => port,
        None => host,
    };
    let (name, port) = outside.split_once(':').unwrap_or((outside, ""));
    if path.contains(['[', ']']) || outside.contains(['[', ']']) || (literal.is_some() && !name.is_empty()) {
        return Err(Flaw::here("has brackets outside an IP address"));
    }
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Flaw::here("has a port that is not a number"));
    }
    Ok(())
}

pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

pub(crate) fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ELI-20: a path may be written as people read it, a host may not.
    #[test]
    fn eli_20_a_path_is_encoded_and_a_host_is_not() {
        for (written, sent) in [
            ("https://example.com/\u{fc}?q=a b#\u{e4}", "https://example.com/%C3%BC?q=a b#%C3%A4"),
            ("https://example.com", "https://example.com"),
            ("https://ex\u{e4}mple.com/\u{fc}", "https://ex\u{e4}mple.com/%C3%BC"),
            ("a b", "a b"),
            ("https:// /x", "https:// /x"),
        ] {
            assert_eq!(encoded(written), sent);
        }
        let flaw = web("https://ex\u{e4}mple.com/").unwrap_err();
        assert!(flaw.to_string().contains("not ASCII"), "{flaw}");
        assert!(web("https://example.com/\u{fc}").is_err(), "who sends it encodes it");
    }

    /// RES-12, RES-13: any scheme, and only what RFC 3986 allows behind it.
    #[test]
    fn addresses_follow_rfc_3986() {
        for good in [
            "file:///a/b%20c",
            "https://u@example.com:8080/x?y=z#f",
            "urn:isbn:0451450523",
            "x-a+b.c:d",
            "http://[::1]:80/",
            "note://a",
            "data:image/png;base64,AA==",
            "mailto:a@b",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "a",
            "/a",
            "1a:b",
            "a_b:c",
            "a:",
            ":a",
            "a:b c",
            "a:b%2",
            "a:b%zz",
            "a:\u{0}",
            "a:b\n",
            "a:é",
            "a:<b>",
            "a:b#c#d",
            "a://[::1/",
            "a://b[c]/",
            "a:/b[c]",
            "a://b:c/",
            "a:b\\c",
            "a:b%2é",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(scheme("HTTP://x"), Some("HTTP"));
    }

    /// SEC-10: only whole addresses of the web are opened, and no reader is left to guess.
    #[test]
    fn only_the_web_is_visited() {
        for good in ["https://example.com/a?b=c#d", "http://127.0.0.1:8080/", "HTTPS://[::1]/"] {
            assert!(web(good).is_ok(), "{good}");
        }
        for bad in HOSTILE {
            assert!(web(bad).is_err(), "{bad}");
        }
    }

    const HOSTILE: [&str; 14] = [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "ssh://-oProxyCommand=x/",
        "ftp://example.com/",
        "https:example.com",
        "https://user:secret@example.com/",
        "https://example.com\\@evil.com/",
        " https://example.com/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://ex\u{430}mple.com/",
        "https://",
        "//example.com/",
    ];

    #[test]
    fn schemes_are_found() {
        assert_eq!(scheme("//x:y"), None);
    }
}
