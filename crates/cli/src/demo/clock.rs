//! The current time in words that every program can read.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in UTC, after RFC 3339.
pub(super) fn now() -> String {
    // A clock before 1970 is a clock that was never set.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs())
}

fn rfc3339(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01.
///
/// Years begin in March here, so that the leap day is the last of its year; four hundred of them, an
/// age, always have the same number of days.
fn date(days: u64) -> (u64, u64, u64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
