//! A value that is replaced now and then, while others look at it.

use std::sync::{Arc, PoisonError, RwLock};

/// The latest of several values, one after another. Whoever looks has it for as long as they like; one that nobody has any
/// more is gone, so however often it is replaced, no more are kept than are in use.
#[derive(Debug)]
pub(crate) struct Latest<T>(RwLock<Arc<T>>);

impl<T> Latest<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        // What is there is whole: it is replaced in one step.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What someone has stays; what nobody has is gone.
    #[test]
    fn none_is_kept_that_nobody_has() {
        let latest = Latest::new(1);
        let first = latest.get();
        latest.put(2);
        let second = Arc::downgrade(&latest.get());
        latest.put(3);
        assert_eq!((*first, *latest.get()), (1, 3));
        assert_eq!(second.strong_count(), 0);
        drop(latest);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
