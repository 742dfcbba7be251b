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
    view: Arc<View>,
}

impl Gated {
    /// What the policy that is in force together with the names of `of` leaves of it for a principal.
    pub(super) fn view(&self, of: Arc<View>, principal: Option<&str>) -> Arc<View> {
        let gate = Arc::clone(of.house.policy.gate(principal));
        if gate.is_open() {
            return of;
        }
        let mut made = lock(&self.0);
        // What was made of something else is not asked for again.
        made.retain(|made| Arc::ptr_eq(&made.of, &of));
        if let Some(made) = made.iter().find(|made| Arc::ptr_eq(&made.gate, &gate)) {
            return Arc::clone(&made.view);
        }
        let view = Arc::new(of.behind(&gate));
        made.push(Made { of, gate, view: Arc::clone(&view) });
        view
    }
}
