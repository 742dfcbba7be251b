//! Connections that break at a byte, before a gateway: what its clients are told is what happened at the server behind it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod behind;
#[path = "../../../endpoint/tests/faults/proxy.rs"]
mod proxy;
#[path = "../relaying/mod.rs"]
mod relaying;
#[path = "../../../endpoint/tests/faults/rig.rs"]
mod rig;
#[path = "../../../endpoint/tests/faults/sweep.rs"]
mod sweep;

use std::sync::Arc;

use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options};
use cardan_gateway::merge::Naming;
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_runtime::memory::MemoryLink;
use relaying::{making, revisions};
use rig::{Mode, Rig, Shape};
use tokio::sync::Notify;

/// A gateway before a server of this era.
async fn gateway(era: Era) -> (Rig<Front>, Front) {
    let (runs, go) = (rig::Runs::default(), Arc::new(Notify::new()));
    let server = rig::counting(Limits::DEFAULT, &runs, &go).revisions(revisions(era)).build();
    let (making, _) = making(move |link: MemoryLink| {
        let server = server.clone();
        async move { drop(server.serve(link).await) }
    });
    let fleet = Fleet::start(vec![Spec::new("counts", "http", "digest", making)], fleet::Options::default());
    let front = Front::start(fleet, Options { naming: Naming::Never("__".into()), ..Options::default() });
    front.settled().await;
    (Rig::of(front.clone(), runs, go).await, front)
}

/// Every so manyth byte is broken with every change.
const STEP: usize = 5;

async fn breaks_anywhere(mode: Mode, shape: Shape) {
    for era in [Era::Legacy, Era::Modern] {
        let (rig, front) = gateway(era).await;
        sweep::sweep(mode, shape, STEP, rig).await;
        front.end("done").await;
    }
}

/// F11: a modern call through a gateway whose wire is reset at any byte of its stream, in either direction, has one outcome that
/// says truly whether it may have run; it is never run twice, and the next call works.
#[tokio::test]
async fn f11_modern_streams_break_anywhere_before_a_gateway() {
    breaks_anywhere(Mode::Modern, Shape::Events).await;
}

/// F11, HTL-17: the same in a legacy session, whose streams are resumed.
#[tokio::test]
async fn f11_legacy_streams_break_anywhere_before_a_gateway() {
    breaks_anywhere(Mode::Legacy, Shape::Events).await;
}

/// F11: the same where the answer is one message.
#[tokio::test]
async fn f11_replies_break_anywhere_before_a_gateway() {
    for mode in [Mode::Modern, Mode::Legacy] {
        breaks_anywhere(mode, Shape::Reply).await;
    }
}
