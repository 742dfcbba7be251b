//! The current time in words that every program can read.

use std::time::{SystemTime, UNIX_EPOCH};

use cardan_proto::model::date;

/// The current time in UTC, after RFC 3339.
pub(super) fn now() -> String {
    // A clock before 1970 is a clock that was never set.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date::date_time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
