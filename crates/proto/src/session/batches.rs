//! Batches of the one revision that has them: replies are collected and go out together.

use std::collections::BTreeMap;

use super::event::LaneId;
use super::tables::BatchKey;
use crate::jsonrpc::envelope::Envelope;

/// Batches whose replies are being collected.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: BTreeMap<BatchKey, Collected>,
    minted: u64,
}

#[derive(Debug)]
struct Collected {
    lane: LaneId,
    waiting: usize,
    replies: Vec<Envelope>,
    sealed: bool,
}

impl Batches {
    pub(super) fn open(&mut self, lane: LaneId) -> BatchKey {
        self.minted += 1;
        let key = BatchKey(self.minted);
        self.open.insert(key, Collected { lane, waiting: 0, replies: Vec::new(), sealed: false });
        key
    }

    pub(super) fn add_call(&mut self, key: BatchKey) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.waiting += 1;
        }
    }

    pub(super) fn answer(&mut self, key: BatchKey, reply: Envelope) -> Option<(LaneId, Vec<Envelope>)> {
        let batch = self.open.get_mut(&key)?;
        batch.replies.push(reply);
        if batch.sealed {
            batch.waiting = batch.waiting.saturating_sub(1);
        }
        self.take_if_done(key)
    }

    /// A call of the batch was cancelled: there will be no reply to it.
    pub(super) fn drop_call(&mut self, key: BatchKey) -> Option<(LaneId, Vec<Envelope>)> {
        let batch = self.open.get_mut(&key)?;
        batch.waiting = batch.waiting.saturating_sub(1);
        self.take_if_done(key)
    }

    /// All entries are in.
    pub(super) fn seal(&mut self, key: BatchKey) -> Option<(LaneId, Vec<Envelope>)> {
        self.open.get_mut(&key)?.sealed = true;
        self.take_if_done(key)
    }

    fn take_if_done(&mut self, key: BatchKey) -> Option<(LaneId, Vec<Envelope>)> {
        let batch = self.open.get(&key)?;
        if !batch.sealed || batch.waiting > 0 {
            return None;
        }
        self.open.remove(&key).map(|batch| (batch.lane, batch.replies))
    }
}
