//! A value that is replaced now and then, while others look at it.

use std::sync::OnceLock;

/// The editions of a value, newest last. Whoever looks borrows one, so none is taken away: for what changes rarely.
#[derive(Debug)]
pub(crate) struct Editions<T> {
    value: T,
    next: OnceLock<Box<Self>>,
}

impl<T> Editions<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, next: OnceLock::new() }
    }

    /// The newest.
    pub(crate) fn newest(&self) -> &T {
        &self.last().value
    }

    /// Adds one that is newer than all.
    pub(crate) fn add(&self, value: T) {
        let mut next = Box::new(Self::new(value));
        // Someone may add at the same time: then ours comes after theirs.
        while let Err(back) = self.last().next.set(next) {
            next = back;
        }
    }

    fn last(&self) -> &Self {
        let mut at = self;
        while let Some(next) = at.next.get() {
            at = next;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_borrowed_stays() {
        let editions = Editions::new(1);
        let first = editions.newest();
        editions.add(2);
        editions.add(3);
        assert_eq!((*first, *editions.newest()), (1, 3));
    }
}
