//! How long a result may be kept, and by whom.

use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serialize};

use super::flaw::Flaw;
use super::open::open_enum;

open_enum! {
    /// Who may share a kept result.
    CacheScope {
        /// Every caller.
        Public = "public",
        /// Callers with the same authorization.
        Private = "private",
    }
}

/// The hints that stand in the results of six methods in the modern era.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHints {
    /// Milliseconds from its arrival during which it is fresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    /// Who may share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
}

impl CacheHints {
    /// Never fresh, never shared: what a server says when it knows nothing better.
    #[must_use]
    pub fn stale() -> Self {
        Self { ttl_ms: Some(0), cache_scope: Some(CacheScope::Private) }
    }

    /// Fresh for this long.
    #[must_use]
    pub fn fresh(ttl: Duration, scope: CacheScope) -> Self {
        Self { ttl_ms: Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)), cache_scope: Some(scope) }
    }

    /// How long it is fresh. Absent, zero and negative all mean: stale at once.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0))
    }

    /// May callers with different authorization share it? Only when it says so.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.cache_scope == Some(CacheScope::Public)
    }

    /// What a modern server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        match self.ttl_ms {
            None => flaws.push(Flaw::at("ttlMs", "is missing")),
            Some(..0) => flaws.push(Flaw::at("ttlMs", "is negative")),
            Some(_) => {}
        }
        match &self.cache_scope {
            None => flaws.push(Flaw::at("cacheScope", "is missing")),
            Some(CacheScope::Other(_)) => flaws.push(Flaw::at("cacheScope", "is neither public nor private")),
            Some(_) => {}
        }
        flaws
    }
}

/// A result that carries cache hints.
pub trait Cacheable: Sized {
    /// The hints.
    fn cache(&self) -> CacheHints;
    /// With these hints.
    #[must_use]
    fn with_cache(self, hints: CacheHints) -> Self;
}

/// Defines a result that carries cache hints, with the members that all of them have.
macro_rules! cacheable_result {
    ($(#[$doc:meta])* $type:ident { $($(#[$member_doc:meta])* $member:ident: $of:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $type {
            /// Modern: always there.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub result_type: Option<$crate::model::result::ResultType>,
            $($(#[$member_doc])* pub $member: $of,)*
            /// Modern: how long it is fresh.
            #[serde(default, deserialize_with = "super::cache::ttl", skip_serializing_if = "Option::is_none")]
            pub ttl_ms: Option<i64>,
            /// Modern: who may share it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cache_scope: Option<$crate::model::cache::CacheScope>,
            /// Metadata.
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            pub meta: Option<$crate::model::meta::Meta>,
        }

        impl $crate::model::cache::Cacheable for $type {
            fn cache(&self) -> $crate::model::cache::CacheHints {
                $crate::model::cache::CacheHints { ttl_ms: self.ttl_ms, cache_scope: self.cache_scope.clone() }
            }
            fn with_cache(mut self, hints: $crate::model::cache::CacheHints) -> Self {
                (self.ttl_ms, self.cache_scope) = (hints.ttl_ms, hints.cache_scope);
                self
            }
        }
    };
}

pub(crate) use cacheable_result;

/// Reads `ttlMs` from any number: a hint spelled `60000.0` must not cost the whole result.
pub(crate) fn ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    struct Ttl;
    impl Visitor<'_> for Ttl {
        type Value = Option<i64>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("milliseconds")
        }
        fn visit_i64<E: Error>(self, ms: i64) -> Result<Option<i64>, E> {
            Ok(Some(ms))
        }
        fn visit_u64<E: Error>(self, ms: u64) -> Result<Option<i64>, E> {
            Ok(Some(i64::try_from(ms).unwrap_or(i64::MAX)))
        }
        fn visit_f64<E: Error>(self, ms: f64) -> Result<Option<i64>, E> {
            // A cast from float saturates, so no number is out of range.
            Ok(Some(ms.floor() as i64))
        }
        fn visit_unit<E: Error>(self) -> Result<Option<i64>, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tool::ListToolsResult;

    fn hints(members: &str) -> CacheHints {
        serde_json::from_str::<ListToolsResult>(&format!(r#"{{"tools":[]{members}}}"#)).unwrap().cache()
    }

    /// CACHE-8: zero, absent and negative are stale at once.
    #[test]
    fn only_a_positive_ttl_is_fresh() {
        let rows = [
            ("", 0),
            (r#","ttlMs":0"#, 0),
            (r#","ttlMs":-5"#, 0),
            (r#","ttlMs":null"#, 0),
            (r#","ttlMs":60000"#, 60_000),
            (r#","ttlMs":60000.0"#, 60_000),
            (r#","ttlMs":-1e300"#, 0),
        ];
        for (members, ms) in rows {
            assert_eq!(hints(members).fresh_for(), Duration::from_millis(ms), "{members}");
        }
    }

    /// CACHE-2, CACHE-3: what a server may say.
    #[test]
    fn hints_are_checked() {
        assert_eq!(CacheHints::stale().check(), []);
        assert_eq!(CacheHints::fresh(Duration::MAX, CacheScope::Public).check(), []);
        let places = |members| hints(members).check().into_iter().map(|flaw| flaw.at).collect::<Vec<_>>();
        assert_eq!(places(r#","ttlMs":-1,"cacheScope":"shared""#), ["/ttlMs", "/cacheScope"]);
        assert_eq!(places(""), ["/ttlMs", "/cacheScope"]);
        assert!(!hints(r#","cacheScope":"shared""#).is_shared());
        assert!(hints(r#","cacheScope":"public""#).is_shared());
    }
}
