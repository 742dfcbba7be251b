//! What goes wrong in one run, and what the two sides are: all of it drawn before the run begins.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::finding::Strictness;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::{Config, Disclosure, EraChoice, Role};

use crate::rng::Rng;

/// Everything that is settled before the first step.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The client's configuration.
    pub client: Arc<Config>,
    /// The server's.
    pub server: Arc<Config>,
    /// What the link does to the client's bytes.
    pub up: Weather,
    /// What it does to the server's.
    pub down: Weather,
    /// How much later than asked for a tick comes.
    pub tick_late: Duration,
    /// How many commands our sides give.
    pub commands: u64,
    /// How long they pause between two, at most.
    pub pause_ms: u64,
    /// Who ends the link.
    pub ending: Ending,
}

/// How a run ends when nothing else has ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The client closes.
    Client,
    /// The server closes.
    Server,
    /// The link breaks when everything is at rest.
    Cut,
}

/// What happens to one direction of the link.
#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// A chunk is at most this long; zero: whatever there is.
    pub chunk_bytes: u64,
    /// Between two writes, at most.
    pub write_ms: u64,
    /// From writing to arrival, at most.
    pub delay_ms: u64,
    /// No byte is taken from this moment on, for this long.
    pub stall: Option<(Duration, Duration)>,
    /// The link is cut once this many bytes are written, which may be within a frame.
    pub cut_bytes: Option<u64>,
    /// This direction ends, the other one goes on.
    pub half_close_bytes: Option<u64>,
    /// Percent of frames that come with something evil.
    pub evil: u64,
}

impl Weather {
    fn draw(rng: &mut Rng) -> Self {
        let mut weather = Self {
            chunk_bytes: rng.pick(&[0, 0, 1, 7, 64, 200]),
            write_ms: rng.pick(&[0, 0, 0, 1, 20]),
            delay_ms: rng.pick(&[0, 1, 5, 50, 300]),
            ..Self::default()
        };
        // One byte at a time is thorough, but a run of it is slow: let few do it.
        if weather.chunk_bytes == 1 && !rng.percent(20) {
            weather.chunk_bytes = 16;
        }
        if weather.chunk_bytes == 1 {
            weather.write_ms = 0;
        }
        match rng.below(12) {
            0 => weather.stall = Some((millis(rng.below(800)), millis(rng.within(10, 4000)))),
            1 => weather.cut_bytes = Some(rng.within(1, 16_000)),
            2 => weather.half_close_bytes = Some(rng.within(1, 16_000)),
            3 | 4 => weather.evil = rng.within(5, 40),
            _ => {}
        }
        weather
    }

    /// Whatever is sent arrives, unchanged and in time.
    fn is_calm(&self) -> bool {
        self.stall.is_none()
            && self.cut_bytes.is_none()
            && self.half_close_bytes.is_none()
            && self.evil == 0
            && self.chunk_bytes != 1
            && self.write_ms < 20
            && self.delay_ms < 50
    }
}

impl Plan {
    /// Draws a plan.
    pub fn draw(rng: &mut Rng) -> Self {
        Self {
            client: Arc::new(client(rng)),
            server: Arc::new(server(rng)),
            up: Weather::draw(rng),
            down: Weather::draw(rng),
            tick_late: millis(rng.pick(&[0, 0, 0, 1, 30])),
            commands: rng.within(4, 48),
            pause_ms: rng.pick(&[0, 3, 40, 250]),
            ending: rng.pick(&[Ending::Client, Ending::Client, Ending::Server, Ending::Cut]),
        }
    }

    /// Nothing goes wrong, so everything must go right.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.up.is_calm() && self.down.is_calm()
    }

    /// Every frame that was sent arrives, some time.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        [&self.up, &self.down].into_iter().all(|weather| {
            weather.cut_bytes.is_none() && weather.half_close_bytes.is_none() && weather.evil == 0
        })
    }

    /// The era that the two sides must settle on, if they can.
    #[must_use]
    pub fn common_era(&self) -> Option<Era> {
        let (ours, theirs) = (self.client.revisions, self.server.revisions);
        let modern =
            self.client.era != EraChoice::Legacy && ours.of(Era::Modern).any(|revision| theirs.has(revision));
        if modern {
            return Some(Era::Modern);
        }
        let offered = ours.newest(Era::Legacy).filter(|_| self.client.era != EraChoice::Modern)?;
        let settled = if theirs.has(offered) { Some(offered) } else { theirs.newest(Era::Legacy) };
        settled.filter(|revision| ours.has(*revision)).map(|_| Era::Legacy)
    }
}

fn client(rng: &mut Rng) -> Config {
    let capabilities = rng.pick(&[
        r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#,
        r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}"#,
        r#"{"roots":{},"sampling":{},"elicitation":{"form":{}}}"#,
        r#"{"elicitation":{}}"#,
        "{}",
    ]);
    let mut config = config(Role::Client, capabilities, rng);
    config.era = rng.pick(&[EraChoice::Auto, EraChoice::Auto, EraChoice::Legacy, EraChoice::Modern]);
    config.revisions = revisions(rng);
    config
}

/// What a server can offer.
const FULL: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}"#;

fn server(rng: &mut Rng) -> Config {
    let capabilities = rng.pick(&[
        FULL,
        FULL,
        r#"{"tools":{},"resources":{"subscribe":true},"logging":{}}"#,
        r#"{"tools":{}}"#,
    ]);
    let mut config = config(Role::Server, capabilities, rng);
    config.revisions = revisions(rng);
    config
}

fn config(role: Role, capabilities: &'static str, rng: &mut Rng) -> Config {
    let identity = Bytes::from_static(br#"{"name":"sim","version":"1"}"#);
    let mut config = Config::new(role, identity, Bytes::from_static(capabilities.as_bytes()));
    config.strictness =
        rng.pick(&[Strictness::Standard, Strictness::Standard, Strictness::Lenient, Strictness::Strict]);
    config.disclosure = rng.pick(&[Disclosure::Named, Disclosure::Anonymous]);
    config.limits = limits(rng);
    config
}

/// Dual-era sides are the rule; the others are drawn often enough to meet each other.
fn revisions(rng: &mut Rng) -> Revisions {
    match rng.below(10) {
        0 => Revisions::LEGACY,
        1 => Revisions::MODERN,
        2 => Revisions::only(rng.pick(&Revision::ALL)),
        3 => [rng.pick(&Revision::ALL), Revision::LATEST_MODERN].into_iter().collect(),
        _ => Revisions::ALL,
    }
}

/// Small bounds are met often; a bound that is never met is a branch that is never taken.
fn limits(rng: &mut Rng) -> Limits {
    let mut limits = Limits {
        frame_bytes: 4096,
        outbox_bytes: 16 << 10,
        probe_timeout: millis(rng.pick(&[400, 1000, 5000])),
        open_timeout: millis(rng.pick(&[1000, 5000])),
        call_idle_timeout: millis(rng.pick(&[500, 2000, 10_000])),
        call_total_timeout: millis(rng.pick(&[3000, 10_000])),
        drain_timeout: millis(rng.pick(&[0, 300, 2000])),
        eof_grace: millis(rng.pick(&[0, 100, 1000])),
        ..Limits::DEFAULT
    };
    if rng.percent(40) {
        limits.calls_inbound = rng.within(1, 4) as usize;
    }
    if rng.percent(40) {
        limits.calls_outbound = rng.within(1, 6) as usize;
    }
    if rng.percent(40) {
        limits.tombstones = rng.within(0, 4) as usize;
    }
    if rng.percent(25) {
        limits.ask_rounds = rng.within(0, 2) as usize;
    }
    if rng.percent(40) {
        limits.progress_per_second = rng.within(1, 2) as u32;
    }
    if rng.percent(30) {
        limits.asks_per_round = rng.within(1, 2) as usize;
    }
    if rng.percent(20) {
        limits.asks_per_minute = rng.within(0, 3) as u32;
    }
    if rng.percent(30) {
        limits.listens = rng.within(1, 2) as usize;
        limits.listen_uris = rng.within(1, 2) as usize;
    }
    if rng.percent(30) {
        limits.noise_lines = rng.within(0, 3) as usize;
        limits.findings = rng.within(0, 3) as usize;
    }
    limits
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dice fall on every kind of run, or a check that needs one kind never fails.
    #[test]
    fn every_kind_of_run_is_drawn() {
        let plans: Vec<_> = (0..2000).map(|seed| Plan::draw(&mut Rng::seeded(seed))).collect();
        let share = |what: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| what(plan)).count();
        assert!(share(&|plan| plan.is_calm()) > 100);
        assert!(share(&|plan| !plan.is_honest()) > 400);
        assert!(share(&|plan| plan.common_era() == Some(Era::Modern)) > 400);
        assert!(share(&|plan| plan.common_era() == Some(Era::Legacy)) > 400);
        assert!(share(&|plan| plan.common_era().is_none()) > 50);
        assert!(share(&|plan| plan.server.limits.calls_inbound == 1) > 50);
    }
}
