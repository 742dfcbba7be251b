//! Dated revisions and the two eras they fall into. Nobody else compares them.

use std::fmt;

/// A published revision of the protocol. Later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first stable one.
    V2024_11_05,
    /// Streamable HTTP, batches.
    V2025_03_26,
    /// Structured output, elicitation, no batches.
    V2025_06_18,
    /// Tasks, elicitation by address, icons.
    V2025_11_25,
    /// Stateless: no handshake, no server calls.
    V2026_07_28,
}

/// A family of revisions with one lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize`, sessions, server calls.
    Legacy,
    /// `_meta` on every call, no handshake.
    Modern,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest that has a handshake.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest without one.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// From its date. Equality is exact: there is no "at least".
    #[must_use]
    pub fn parse(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.date() == date)
    }

    /// Its date, as on the wire.
    #[must_use]
    pub const fn date(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The family it belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.date())
    }
}

/// The revisions one side speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revisions(u8);

impl Revisions {
    /// All of them.
    pub const ALL: Self = Self(0b1_1111);
    /// Those with a handshake.
    pub const LEGACY: Self = Self(0b0_1111);
    /// Those without.
    pub const MODERN: Self = Self(0b1_0000);

    /// Only this one.
    #[must_use]
    pub const fn only(revision: Revision) -> Self {
        Self(1 << revision as u8)
    }

    /// Is `revision` among them?
    #[must_use]
    pub const fn has(self, revision: Revision) -> bool {
        self.0 & (1 << revision as u8) != 0
    }

    /// Those of one era, newest first.
    pub fn of(self, era: Era) -> impl Iterator<Item = Revision> {
        self.newest_first().filter(move |revision| revision.era() == era)
    }

    /// All, newest first.
    pub fn newest_first(self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(move |revision| self.has(*revision))
    }

    /// The newest of one era.
    #[must_use]
    pub fn newest(self, era: Era) -> Option<Revision> {
        self.of(era).next()
    }
}

impl FromIterator<Revision> for Revisions {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        Self(revisions.into_iter().fold(0, |set, revision| set | Self::only(revision).0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_back_and_order() {
        for pair in Revision::ALL.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].date() < pair[1].date());
        }
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.date()), Some(revision));
        }
        assert_eq!(Revision::parse("2025-06-19"), None);
        assert_eq!(Revision::parse("2024-10-07"), None);
    }

    #[test]
    fn sets_know_their_newest() {
        assert_eq!(Revisions::ALL.newest(Era::Legacy), Some(Revision::LATEST_LEGACY));
        assert_eq!(Revisions::LEGACY.newest(Era::Modern), None);
        let set: Revisions = [Revision::V2024_11_05, Revision::V2026_07_28].into_iter().collect();
        assert_eq!(set.newest_first().collect::<Vec<_>>(), [Revision::V2026_07_28, Revision::V2024_11_05]);
    }
}
