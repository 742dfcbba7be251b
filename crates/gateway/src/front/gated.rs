//! What is offered to one principal: what the policy leaves of what is offered.

use std::sync::{Arc, Mutex};

use super::view::View;
use crate::fleet::lock;
use crate::policy::Gate;

/// Views of principals, made once for all that have the same gate.
#[derive(Default)]
pub(super) struct Gated(Mutex<Vec<Made>>);

struct Made {
    of: Arc<View>,
    gate: Arc<Gate>,
    separator: Box<str>,
    view: Arc<View>,
}

impl Gated {
    /// What `gate` leaves of `of`. Rules name tools with `separator` behind the server.
    pub(super) fn view(&self, of: Arc<View>, gate: &Arc<Gate>, separator: &str) -> Arc<View> {
        if gate.is_open() {
            return of;
        }
        let mut made = lock(&self.0);
        // What was made of something else is not asked for again.
        made.retain(|made| Arc::ptr_eq(&made.of, &of) && *made.separator == *separator);
        if let Some(made) = made.iter().find(|made| Arc::ptr_eq(&made.gate, gate)) {
            return Arc::clone(&made.view);
        }
        let view = Arc::new(of.behind(gate, separator));
        made.push(Made { of, gate: Arc::clone(gate), separator: separator.into(), view: Arc::clone(&view) });
        view
    }
}
