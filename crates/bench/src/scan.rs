//! Skipping a payload of 1 MiB, against serde_json's raw value in the same run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::decode;
use cardan_proto::limits::Limits;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Figure;

#[derive(Deserialize)]
struct Staged<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let plain = "universal joint passes turning force, ".repeat((1 << 20) / 38);
    let mixed =
        "The \"quick\" brown fox jumps over\n13 lazy dogs at the caf\u{e9} bar. ".repeat((1 << 20) / 62);
    for (name, text, budget) in [("plain", plain, Some(60.0)), ("escaped", mixed, None)] {
        let text = serde_json::to_string(&text)?;
        let frame = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{text}}}}}}}"#
        );
        let frame = Bytes::from(frame);
        let (ours, theirs) = interleaved(
            || drop(black_box(decode(black_box(&frame), Strictness::Standard, &Limits::DEFAULT))),
            || {
                drop(black_box(
                    serde_json::from_slice::<Staged<'_>>(black_box(&frame)).map(|s| s.params.get().len()),
                ))
            },
        );
        let what = format!("1 MiB of {name} text to an envelope, best of many");
        figures.push(Figure::new(what, ours.as_secs_f64() * 1e6, "us", budget));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        figures.push(Figure::new(
            format!("the same, to serde_json's raw value ({name})"),
            ratio,
            "times",
            Some(1.0),
        ));
    }
    Ok(figures)
}

/// The best time of each, taken in turns so that a noisy moment hits both.
fn interleaved(mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..200 {
        best.0 = best.0.min(timed(&mut ours));
        best.1 = best.1.min(timed(&mut theirs));
    }
    best
}

fn timed(run: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}
