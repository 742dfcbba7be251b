//! Who hears log notes where they come in, and so in their order among everything else that comes by a link. Whoever may
//! be late reads them from the board instead.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use cardan_proto::session::event::Event;

/// Those who hear. They come when they like, and leave when they are told something.
#[derive(Default)]
pub(super) struct Overhearers(Mutex<Vec<Overhearer>>);

type Overhearer = Box<dyn Fn(&Event) -> ControlFlow<()> + Send + Sync>;

impl Overhearers {
    pub(super) fn join(&self, hears: impl Fn(&Event) -> ControlFlow<()> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(hears));
    }

    pub(super) fn tell(&self, event: &Event) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|hears| hears(event).is_continue());
    }
}

impl fmt::Debug for Overhearers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overhearers").finish_non_exhaustive()
    }
}
