//! Dates and times as text: RFC 3339 and the looser ISO 8601, checked without a calendar crate.

/// `2025-01-31`.
#[must_use]
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) =
        (number(&bytes[..4]), number(&bytes[5..7]), number(&bytes[8..]))
    else {
        return false;
    };
    (1..=12).contains(&month) && (1..=days(year, month)).contains(&day)
}

/// `2025-01-31T12:00:00Z`, with an offset and perhaps a fraction of a second.
#[must_use]
pub fn is_date_time(text: &str) -> bool {
    split(text).is_some_and(|(date, time)| is_date(date) && is_time(time, Offset::Required))
}

/// A date, or a date and time whose offset may be left out.
#[must_use]
pub fn is_iso_8601(text: &str) -> bool {
    is_date(text) || split(text).is_some_and(|(date, time)| is_date(date) && is_time(time, Offset::Optional))
}

/// So many milliseconds after the start of 1970 in UTC, after RFC 3339.
#[must_use]
pub fn date_time(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date so many days after 1970-01-01.
///
/// Years begin in March here, so that the leap day is the last of its year; four hundred of them, an
/// age, always have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_AGE: u64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (age, day) = (days / DAYS_OF_AGE, days % DAYS_OF_AGE);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (age * 400 + year + next, month, day)
}

#[derive(PartialEq)]
enum Offset {
    Required,
    Optional,
}

fn split(text: &str) -> Option<(&str, &str)> {
    let (date, time) = text.split_at_checked(10)?;
    time.strip_prefix(['T', 't', ' ']).map(|time| (date, time))
}

fn is_time(time: &str, offset: Offset) -> bool {
    let Some((clock, mut rest)) = time.split_at_checked(8) else { return false };
    if !is_clock(clock.as_bytes()) {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    match rest.as_bytes() {
        [] => offset == Offset::Optional,
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => is_clock(&[*h1, *h2, b':', *m1, *m2, b':', b'0', b'0']),
        _ => false,
    }
}

/// `12:00:00`; second 60 is a leap second.
fn is_clock(clock: &[u8]) -> bool {
    clock[2] == b':'
        && clock[5] == b':'
        && number(&clock[..2]).is_some_and(|hour| hour < 24)
        && number(&clock[3..5]).is_some_and(|minute| minute < 60)
        && number(&clock[6..8]).is_some_and(|second| second <= 60)
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_dates_are_right_around_leap_days_and_centuries() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(date_time(seconds * 1000 + 7), text);
            assert!(is_date_time(text));
        }
    }

    #[test]
    fn dates_and_times() {
        for good in ["2025-01-31", "2024-02-29", "2000-02-29"] {
            assert!(is_date(good) && is_iso_8601(good) && !is_date_time(good), "{good}");
        }
        for good in
            ["2025-01-12T15:00:58Z", "2025-01-12t15:00:60.123456789+05:30", "2025-01-12 15:00:58-00:00"]
        {
            assert!(is_date_time(good) && is_iso_8601(good), "{good}");
        }
        assert!(is_iso_8601("2025-01-12T15:00:58") && !is_date_time("2025-01-12T15:00:58"));
        let bad = [
            "",
            "2025-1-1",
            "2025-02-30",
            "1900-02-29",
            "2025-13-01",
            "2025-00-10",
            "20250101",
            "2025-01-12T",
            "2025-01-12T24:00:00Z",
            "2025-01-12T15:00:58.Z",
            "2025-01-12T15:00:58+5",
            "2025-01-12T15:00:58é",
            "2025-01-é2",
            "äöüäöüäöü",
            "2025-01-12T15-00-58Z",
            "2025-01-12T1é:00:58Z",
        ];
        for bad in bad {
            assert!(!is_iso_8601(bad) && !is_date_time(bad), "{bad}");
        }
    }
}
