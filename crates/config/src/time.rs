//! Times as people write them.

use std::time::Duration;

/// What [`parse`] takes, for whoever wrote something else.
pub const ACCEPTED: &str = "a number of seconds, or a number with ms, s, m or h: 500ms, 10s, 2m, 1h";

/// A time that is written on a command line, where a number has no quotes to be told from text by.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text).unwrap_or((text, 1.0));
    of(number, unit)
}

/// So many of a unit, which is given in seconds.
pub(crate) fn of(number: &str, unit: f64) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    let time = Duration::try_from_secs_f64(number * unit).ok()?;
    // Fractions of milliseconds come from the arithmetic, not from the user.
    u64::try_from((time + Duration::from_micros(500)).as_millis()).ok().map(Duration::from_millis)
}

/// A number, and its unit in seconds.
pub(crate) fn split_unit(text: &str) -> Option<(&str, f64)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit = match &text[end..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some((text[..end].trim(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_unit_or_is_in_seconds() {
        for (text, millis) in [
            ("0", Some(0)),
            ("90", Some(90_000)),
            ("1.5", Some(1_500)),
            ("500ms", Some(500)),
            ("10s", Some(10_000)),
            ("2 m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("inf", None),
            ("nan", None),
            ("1d", None),
            ("soon", None),
            ("1e300h", None),
        ] {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }
}
