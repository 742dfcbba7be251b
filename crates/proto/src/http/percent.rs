//! What `%` hides in parts of an address.

/// The text that is meant (RFC 3986, 2.1); nothing: an escape is broken, or it is no UTF-8.
#[must_use]
pub fn decoded(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_two_digits() {
        assert_eq!(decoded("a%20b%C3%A4").as_deref(), Some("a b\u{e4}"));
        for broken in ["%", "%2", "%+1", "%zz", "%ff"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }
}
