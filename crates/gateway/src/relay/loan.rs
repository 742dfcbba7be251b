//! A connection that someone else keeps, and by which those who use it can be asked.

use std::fmt;
use std::sync::{Arc, Weak};

use cardan_client::Connector;
use serde_json::Value;

use super::askable::Askable;
use super::line::{Hears, heard};
use super::voice::Voice;

/// What may be asked on a connection of whoever holds it, and who that is. Cheap to clone.
#[derive(Clone)]
pub struct Loan {
    pub(super) askable: Askable,
    pub(super) voice: Arc<Voice>,
}

impl Loan {
    /// A connector that declares `capabilities`, by whose links the holder is asked and told things.
    pub(crate) fn of(connector: Connector, capabilities: &Value) -> (Connector, Self) {
        let askable = Askable::of(capabilities.to_string().as_bytes());
        let voice = Arc::new(Voice::default());
        let hears: Weak<Voice> = Arc::downgrade(&voice);
        let hears: Weak<dyn Hears> = hears;
        (heard(connector, askable.capabilities(), hears), Self { askable, voice })
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("askable", &self.askable).finish_non_exhaustive()
    }
}
