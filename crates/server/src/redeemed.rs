//! Request state that was used: remembered until it expires, so that none is used twice.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use cardan_proto::jsonrpc::fault::{Fault, code};

/// What tells one sealed state from all others: the random number it was sealed with.
pub(crate) type Mark = [u8; 24];

/// The memory of one process.
#[derive(Debug)]
pub(crate) struct Redeemed {
    max: usize,
    used: Mutex<Used>,
}

/// Marks by the second in which their state expires.
#[derive(Debug, Default)]
struct Used {
    by_expiry: BTreeMap<u64, HashSet<Mark>>,
    count: usize,
}

impl Redeemed {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, used: Mutex::default() }
    }

    /// Takes note that the state is used now; a fault if it was before. When the memory is full
    /// nothing can be promised, so nothing is run.
    pub(crate) fn redeem(&self, mark: Mark, until: u64, now: u64) -> Result<(), Fault> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.forget_expired(now);
        if used.by_expiry.get(&until).is_some_and(|marks| marks.contains(&mark)) {
            return Err(Fault::invalid_params(
                "params.requestState: it was used before; start the call again",
            ));
        }
        if used.count >= self.max {
            return Err(Fault::new(code::BUSY, "too many calls with input at once; try again later"));
        }
        used.by_expiry.entry(until).or_default().insert(mark);
        used.count += 1;
        Ok(())
    }
}

impl Used {
    /// Expired state is refused for its age: nothing need be known about it.
    fn forget_expired(&mut self, now: u64) {
        while let Some(first) = self.by_expiry.first_entry().filter(|first| *first.key() <= now) {
            self.count -= first.remove().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MRTR-10: the memory is bounded, refuses when full, and forgets what has expired.
    #[test]
    fn the_memory_is_bounded_and_forgets() {
        let redeemed = Redeemed::new(2);
        let code_of =
            |mark: u8, until, now| redeemed.redeem([mark; 24], until, now).map_err(|fault| fault.code);
        assert_eq!(code_of(1, 10, 0), Ok(()));
        assert_eq!(code_of(1, 10, 9), Err(code::INVALID_PARAMS));
        assert_eq!(code_of(2, 12, 9), Ok(()));
        assert_eq!(code_of(3, 12, 9), Err(code::BUSY));
        assert_eq!(code_of(3, 20, 10), Ok(()), "the first has expired");
        assert_eq!(code_of(2, 12, 10), Err(code::INVALID_PARAMS), "the second has not");
    }
}
