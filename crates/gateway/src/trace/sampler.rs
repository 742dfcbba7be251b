//! Which calls are recorded.

use super::context::TraceParent;

/// Is a call recorded?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Record,
    Pass,
}

/// Decides which calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sampler {
    /// How it is decided where nobody has.
    root: Root,
    parent: Parent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Always,
    Never,
    /// Traces whose names are below this.
    Below(u64),
}

/// Does it count what the client has decided?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Followed,
    Ignored,
}

/// The names that the standard variable takes.
pub(super) const NAMES: [&str; 6] = [
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
    "always_on",
    "always_off",
    "traceidratio",
];

impl Default for Sampler {
    /// As the client has decided; every trace that begins here.
    fn default() -> Self {
        Self { root: Root::Always, parent: Parent::Followed }
    }
}

impl Sampler {
    /// The sampler of this name, as `OTEL_TRACES_SAMPLER` has it. Nothing: there is none, or its ratio is none.
    pub(super) fn parse(name: &str, ratio: Option<&str>) -> Option<Self> {
        let (parent, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (Parent::Followed, root),
            None => (Parent::Ignored, name),
        };
        let root = match root {
            "always_on" => Root::Always,
            "always_off" => Root::Never,
            "traceidratio" => below(ratio.map_or(Ok(1.0), |ratio| ratio.trim().parse()).ok()?)?,
            _ => return None,
        };
        Some(Self { root, parent })
    }

    /// Is a call of this trace recorded?
    pub(super) fn judge(self, trace: &[u8; 16], parent: Option<TraceParent>) -> Verdict {
        let recorded = match (self.parent, parent, self.root) {
            (Parent::Followed, Some(parent), _) => parent.is_sampled(),
            (_, _, Root::Always) => true,
            (_, _, Root::Never) => false,
            // The half that is random in every trace; 63 bits of it, as others compare.
            (_, _, Root::Below(bound)) => (u128::from_be_bytes(*trace) as u64) >> 1 < bound,
        };
        if recorded { Verdict::Record } else { Verdict::Pass }
    }
}

fn below(ratio: f64) -> Option<Root> {
    match ratio {
        0.0 => Some(Root::Never),
        1.0 => Some(Root::Always),
        ratio if ratio > 0.0 && ratio < 1.0 => Some(Root::Below((ratio * (1_u64 << 63) as f64) as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(flags: u8) -> TraceParent {
        TraceParent { trace: [7; 16], span: [1; 8], flags }
    }

    #[test]
    fn what_the_client_decided_holds_where_it_is_followed() {
        let low = 1_u128.to_be_bytes();
        let high = u128::MAX.to_be_bytes();
        // Name, ratio; then: a low trace and a high one that begin here, one that is recorded, one that is not.
        for (name, ratio, wanted) in [
            ("parentbased_always_on", None, [true, true, true, false]),
            ("parentbased_always_off", None, [false, false, true, false]),
            ("parentbased_traceidratio", Some("0.5"), [true, false, true, false]),
            ("always_on", None, [true, true, true, true]),
            ("always_off", Some("1"), [false, false, false, false]),
            ("traceidratio", Some("0.25"), [true, false, true, true]),
            ("traceidratio", None, [true, true, true, true]),
        ] {
            let sampler = Sampler::parse(name, ratio).unwrap();
            let judged = [(low, None), (high, None), (low, Some(parent(1))), (low, Some(parent(0)))]
                .map(|(trace, parent)| sampler.judge(&trace, parent) == Verdict::Record);
            assert_eq!(judged, wanted, "{name} {ratio:?}");
        }
    }

    #[test]
    fn every_name_is_known_and_no_other() {
        assert!(NAMES.iter().all(|name| Sampler::parse(name, None).is_some()));
        for (name, ratio) in
            [("jaeger_remote", None), ("traceidratio", Some("2")), ("traceidratio", Some("x"))]
        {
            assert_eq!(Sampler::parse(name, ratio), None, "{name}");
        }
        assert_eq!(Sampler::parse("parentbased_always_on", None), Some(Sampler::default()));
    }
}
