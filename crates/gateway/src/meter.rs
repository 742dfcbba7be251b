//! How much each principal has asked for: calls in a time, and calls at a time.
//!
//! A bucket of tokens for each principal, filled at its rate up to its burst; each call takes one. Buckets that are full again and
//! whose calls have ended are as good as none, and are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_config::Config;
use cardan_config::allowance::{Allowance, Rate};
use cardan_proto::jsonrpc::fault::{Fault, code};
use serde_json::json;
use tokio::time::Instant;

use crate::fleet::lock;
use crate::front::Refused;

/// Who may ask for how much.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowances {
    others: Allowance,
    named: HashMap<Box<str>, Allowance>,
}

impl Allowances {
    /// As a configuration says.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let others = config.gateway.allowance;
        let keys = config.gateway.keys.iter().flatten();
        let named = keys.map(|key| (key.name.as_str().into(), key.allowance.or(others)));
        Self { others, named: named.collect() }
    }

    fn for_whom(&self, principal: Option<&str>) -> Allowance {
        principal.and_then(|principal| self.named.get(principal)).copied().unwrap_or(self.others)
    }
}

/// Buckets before those are looked for that can be forgotten.
const SWEEP: usize = 64;

/// Measures what principals ask for.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    allowances: Mutex<Arc<Allowances>>,
    buckets: Mutex<HashMap<Option<Arc<str>>, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    running: u32,
    /// When it is full again.
    rests: Instant,
}

/// What a call occupies while it runs.
pub(crate) struct Pass {
    meter: Arc<Meter>,
    principal: Option<Arc<str>>,
}

/// What counts as running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// A call does, until it ends.
    Call,
    /// A listen stands and asks for nothing.
    Listen,
}

impl Meter {
    pub(crate) fn set(&self, allowances: Allowances) {
        *lock(&self.allowances) = Arc::new(allowances);
    }

    /// Lets a call pass, or says when to come again. Where nothing is bounded, nothing is kept.
    pub(crate) fn admit(
        self: &Arc<Self>,
        principal: Option<&Arc<str>>,
        span: Span,
    ) -> Result<Option<Pass>, (Refused, Fault)> {
        let allowance = lock(&self.allowances).for_whom(principal.map(|principal| &**principal));
        if allowance.rate.is_none() && allowance.concurrency.is_none() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= SWEEP {
            buckets.retain(|_, bucket| bucket.running > 0 || bucket.rests > now);
        }
        let full = allowance.rate.map_or(0.0, |rate| burst(rate, allowance));
        let fresh = || Bucket { tokens: full, filled: now, running: 0, rests: now };
        let bucket = buckets.entry(principal.cloned()).or_insert_with(fresh);
        if let Some(most) = allowance.concurrency.filter(|most| span == Span::Call && bucket.running >= *most)
        {
            let message = format!("too many calls at a time: at most {most} may run; wait for one to end");
            return Err((Refused::Concurrency, busy(message, "concurrency", Duration::from_secs(1))));
        }
        if let Some(rate) = allowance.rate {
            bucket.take(rate, full, now).map_err(|wait| {
                let message = format!(
                    "too many calls: at most {rate} are allowed; try again in {} ms",
                    wait.as_millis()
                );
                (Refused::Rate, busy(message, "rate", wait))
            })?;
        }
        if span == Span::Listen {
            return Ok(None);
        }
        bucket.running += 1;
        Ok(Some(Pass { meter: Arc::clone(self), principal: principal.cloned() }))
    }
}

impl Bucket {
    /// Takes a token, or tells when there will be one.
    fn take(&mut self, rate: Rate, full: f64, now: Instant) -> Result<(), Duration> {
        let each = rate.per.as_secs_f64() / f64::from(rate.count);
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        // A rate that was changed may leave more than fits.
        self.tokens = (self.tokens + since / each).min(full);
        self.filled = now;
        if self.tokens < 1.0 {
            // Whoever comes after exactly this long finds a token, whatever was rounded.
            return Err(Duration::from_secs_f64((1.0 - self.tokens) * each) + Duration::from_millis(1));
        }
        self.tokens -= 1.0;
        self.rests = now + Duration::from_secs_f64((full - self.tokens) * each);
        Ok(())
    }
}

fn burst(rate: Rate, allowance: Allowance) -> f64 {
    f64::from(allowance.burst.unwrap_or(rate.count).max(1))
}

fn busy(message: String, reason: &str, wait: Duration) -> Fault {
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Fault::new(code::BUSY, message).with_data(&json!({ "reason": reason, "retryAfterMs": wait }))
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(bucket) = lock(&self.meter.buckets).get_mut(&self.principal) {
            bucket.running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardan_config::File;

    use super::*;

    fn meter(text: &str) -> Arc<Meter> {
        let file = File::parse(Path::new("cardan.toml"), text, None).unwrap();
        assert_eq!(file.problems, []);
        let meter = Arc::new(Meter::default());
        let keys = file.gateway.keys.iter().flatten();
        let named = keys.map(|key| (key.name.as_str().into(), key.allowance.or(file.gateway.allowance)));
        meter.set(Allowances { others: file.gateway.allowance, named: named.collect() });
        meter
    }

    fn why(meter: &Arc<Meter>, who: Option<&Arc<str>>, span: Span) -> Result<Option<Pass>, (Refused, u64)> {
        meter.admit(who, span).map_err(|(why, fault)| {
            let data: serde_json::Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
            (why, data["retryAfterMs"].as_u64().unwrap())
        })
    }

    /// F26: a burst passes, then as much as the rate allows; whoever waits as told is let in, and nobody pays for another.
    #[tokio::test(start_paused = true)]
    async fn f26_rates_hold_for_each_principal() {
        let meter = meter(
            "[gateway]\nrate = \"10/s\"\nburst = 3\n[[gateway.keys]]\nname = \"bob\"\nenv = \"B\"\nrate = \"1/m\"\n",
        );
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let ask = |who: Option<&Arc<str>>| why(&meter, who, Span::Call).map(drop);
        for _ in 0..3 {
            ask(Some(&ada)).unwrap();
        }
        assert_eq!(ask(Some(&ada)), Err((Refused::Rate, 101)));
        ask(None).unwrap();
        ask(Some(&bob)).unwrap();
        assert_eq!(ask(Some(&bob)), Err((Refused::Rate, 60_001)));
        tokio::time::advance(Duration::from_millis(101)).await;
        ask(Some(&ada)).unwrap();
        ask(Some(&ada)).unwrap_err();
        // However long the pause, no more than the burst is saved up.
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..10).filter(|_| ask(Some(&ada)).is_ok()).count(), 3);
        // Over a long time the rate is what passes.
        let mut passed = 0;
        for _ in 0..1000 {
            tokio::time::advance(Duration::from_millis(10)).await;
            passed += usize::from(ask(Some(&ada)).is_ok());
        }
        assert!((99..=101).contains(&passed), "{passed}");
    }

    /// F37: calls that run are counted until they end; a listen is none.
    #[tokio::test(start_paused = true)]
    async fn f37_concurrency_holds_for_each_principal() {
        let meter = meter("[gateway]\nconcurrency = 2\n");
        let ada: Arc<str> = "ada".into();
        let mut held = [(); 2].map(|()| why(&meter, Some(&ada), Span::Call).unwrap());
        assert!(matches!(why(&meter, Some(&ada), Span::Call), Err((Refused::Concurrency, 1000))));
        assert!(why(&meter, Some(&ada), Span::Listen).unwrap().is_none());
        let others = why(&meter, None, Span::Call).unwrap();
        held[0] = None;
        let again = why(&meter, Some(&ada), Span::Call).unwrap();
        why(&meter, Some(&ada), Span::Call).map(drop).unwrap_err();
        drop((again, others, held));
    }

    /// T19: principals that are at rest are forgotten, and where nothing is bounded nothing is kept.
    #[tokio::test(start_paused = true)]
    async fn t19_idle_buckets_are_forgotten() {
        let bounded = meter("[gateway]\nrate = \"1/s\"\n");
        for number in 0..10_000 {
            let who: Arc<str> = format!("p{number}").into();
            bounded.admit(Some(&who), Span::Call).map(drop).unwrap();
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(lock(&bounded.buckets).len() <= SWEEP);
        }
        let open = meter("");
        assert!(open.admit(None, Span::Call).unwrap().is_none());
        assert!(lock(&open.buckets).is_empty());
    }
}
