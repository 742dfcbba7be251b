//! How far text goes on without anything that JSON strings treat apart: what reading and writing strings share.
//!
//! A word at a time, because texts with lines in them have an escape every few dozen bytes; `memchr` takes over
//! where a text turns out to be long and plain.

/// Words before a text counts as long: that many cost less than starting `memchr`.
const WORDS: usize = 6;

/// The end of the run of plain bytes: at a quote, a backslash, a control character or the end.
#[inline]
pub(super) fn run(text: &[u8], from: usize) -> usize {
    let (words, _) = text[from..].as_chunks();
    for (n, word) in words.iter().take(WORDS).enumerate() {
        let special = special_bytes(*word);
        if special != 0 {
            return from + n * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    beyond(text, from + words.len().min(WORDS) * 8)
}

/// The same for what is left. Apart, so that short runs do not pay for the registers it needs.
#[inline(never)]
fn beyond(text: &[u8], from: usize) -> usize {
    let rest = &text[from..];
    if rest.len() >= 8 {
        let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        // Quotes are rare in long texts and control characters must not be: one vectorised check of the run.
        if rest[..end].iter().fold(u8::MAX, |least, b| least.min(*b)) >= 0x20 {
            return from + end;
        }
    }
    from + rest.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\').unwrap_or(rest.len())
}

/// The high bit of each byte that is a quote, a backslash or a control character. Bits above the
/// lowest one set may be false alarms, which does not matter: only the lowest is used.
fn special_bytes(word: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(word);
    let below = |v: u64, limit: u64| v.wrapping_sub(ONES * limit) & !v;
    // Flipping this bit puts the quote right behind the control characters, which stay among themselves.
    let quote_or_control = below(word ^ (ONES * 0x02), 0x21);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote_or_control | backslash) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_ends_the_run_or_does_not() {
        for length in [1, 7, 8, 15, 16, 17, 63, 64, 65, 100, 200] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(
                        run(&text, 0),
                        if special { at } else { length },
                        "{byte:#x} at {at} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_first_of_two_ends_the_run() {
        for (first, second) in [(3, 4), (0, 15), (15, 16), (40, 41), (70, 90)] {
            let mut text = vec![b'a'; 120];
            text[second] = b'"';
            text[first] = 0x01;
            assert_eq!(run(&text, 0), first);
            text[first] = b'\\';
            assert_eq!(run(&text, 0), first);
            assert_eq!(run(&text, first + 1), second);
        }
    }
}
