//! Monotonic time as a plain value.
//!
//! The core never reads a clock: whoever drives it says what time it is. A [`Moment`] counts
//! from an arbitrary start chosen by the driver, so a test can start at zero and a simulation
//! can run a day in a millisecond.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A point in monotonic time, in nanoseconds since the driver's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The driver's start.
    pub const ZERO: Self = Self(0);

    /// The moment `elapsed` after the driver's start.
    #[must_use]
    pub fn after(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time passed since `earlier`; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time passed since the driver's start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturates_instead_of_wrapping() {
        let late = Moment::ZERO + Duration::MAX;
        assert_eq!(late + Duration::from_secs(1), late);
        assert_eq!(Moment::ZERO.since(late), Duration::ZERO);
    }
}
