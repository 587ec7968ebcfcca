//! Calls for a futex: who waits, and who wakes whom.

use std::collections::{HashMap, VecDeque};

use spanwise_model::{BlockedOn, Nanos};

const COMMAND: u32 = 0x7f;
const PRIVATE: u32 = 0x80;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To wait; for what, as far as the call itself says.
    Wait(BlockedOn),
    Wake,
    Other,
}

/// The commands are those of `linux/futex.h`.
pub(crate) fn purpose(op: u32, value: u64) -> Purpose {
    match op & COMMAND {
        // Locks, and those that inherit priorities.
        0 | 6 | 13 => Purpose::Wait(BlockedOn::Mutex),
        // The kernel clears the number of a thread that ended and wakes by a shared futex.
        9 if op & PRIVATE == 0 && value > 1 => Purpose::Wait(BlockedOn::Join),
        9 | 11 => Purpose::Wait(BlockedOn::Condition),
        1 | 3 | 4 | 5 | 7 | 10 | 12 => Purpose::Wake,
        _ => Purpose::Other,
    }
}

/// What a call that waited came back with.
pub(crate) fn is_woken(result: i64) -> bool {
    result == 0
}

/// A call that wakes, until all that it woke are known.
#[derive(Debug, Clone, Copy)]
struct Wake {
    waker: i64,
    time: Nanos,
    /// How many it may have woken and nobody has come back from yet.
    left: u64,
}

/// Wakers by lock. A thread that comes back was woken by the first call since it began to
/// wait that woke more than have come back: queues are served in order.
#[derive(Debug, Default)]
pub(crate) struct Wakes(HashMap<u64, VecDeque<Wake>>);

/// More than this many calls of one lock are not kept: threads come back soon.
const WAKES_MAX: usize = 256;

impl Wakes {
    /// A thread is about to wake others; how many is known when it comes back.
    pub(crate) fn begin(&mut self, lock: u64, waker: i64, time: Nanos, most: u64) {
        let wakes = self.0.entry(lock).or_default();
        if wakes.len() == WAKES_MAX {
            wakes.pop_front();
        }
        wakes.push_back(Wake { waker, time, left: most });
    }

    /// It woke `woken` threads, of at most `most`.
    pub(crate) fn end(&mut self, lock: u64, waker: i64, most: u64, woken: u64) {
        let Some(wakes) = self.0.get_mut(&lock) else { return };
        if let Some(wake) = wakes.iter_mut().rev().find(|wake| wake.waker == waker) {
            let come_back = most.saturating_sub(wake.left);
            wake.left = woken.saturating_sub(come_back);
        }
        wakes.retain(|wake| wake.left > 0);
    }

    /// Who woke the thread that waited since then, and when.
    pub(crate) fn take(&mut self, lock: u64, woken: i64, since: Nanos) -> Option<(i64, Nanos)> {
        let wakes = self.0.get_mut(&lock)?;
        let is_it = |wake: &&mut Wake| wake.left > 0 && wake.time >= since && wake.waker != woken;
        let wake = wakes.iter_mut().find(is_it)?;
        wake.left -= 1;
        Some((wake.waker, wake.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_says_what_it_is_for() {
        let check = |op, value, expected| assert_eq!(purpose(op, value), expected, "{op:#x}");
        check(0x80, 2, Purpose::Wait(BlockedOn::Mutex));
        check(0x189, 0, Purpose::Wait(BlockedOn::Condition));
        check(0x109, 23629, Purpose::Wait(BlockedOn::Join));
        check(0x81, 1, Purpose::Wake);
        check(0x02, 0, Purpose::Other);
    }

    #[test]
    fn each_wake_brings_back_as_many_as_it_woke() {
        let mut wakes = Wakes::default();
        wakes.begin(7, 1, 100, 1);
        assert_eq!(wakes.take(7, 2, 50), Some((1, 100)));
        assert_eq!(wakes.take(7, 3, 50), None);
        wakes.end(7, 1, 1, 1);
        wakes.begin(7, 1, 200, u64::MAX);
        wakes.end(7, 1, u64::MAX, 2);
        assert_eq!(wakes.take(7, 2, 250), None, "it began to wait later");
        assert_eq!(wakes.take(7, 2, 150), Some((1, 200)));
        assert_eq!(wakes.take(7, 3, 150), Some((1, 200)));
        assert_eq!(wakes.take(7, 4, 150), None);
        wakes.begin(7, 1, 300, 1);
        wakes.end(7, 1, 1, 0);
        assert_eq!(wakes.take(7, 2, 150), None, "nobody was woken");
    }
}
