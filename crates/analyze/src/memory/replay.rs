//! Plays the events of one device again: what was held when.
//!
//! An allocation ends with the next free of its address. What the recorded total says
//! beyond the allocations that are known was there before the recording, so that the two
//! add up to the total at every instant. A free of such memory has no start; it lowers what
//! was there before, and nothing ever falls below zero.

use std::collections::hash_map::Entry;

use spanwise_model::{Nanos, QuickMap, SpanId};

use super::TotalBytes;

/// One event, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time: Nanos,
    /// Old recordings have none, so that frees cannot be matched.
    pub(super) address: Option<i64>,
    /// Above 0 allocated, below 0 freed.
    pub(super) bytes: i64,
    pub(super) total: Option<i64>,
    pub(super) reserved: Option<i64>,
    /// Row of the event among the instants of the trace.
    pub(super) row: usize,
}

/// Memory that was asked for while the trace was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub from: Nanos,
    /// When it was freed; `None` while it is still held, or when that is not known.
    pub to: Option<Nanos>,
    pub bytes: i64,
    /// The innermost span open on the thread that asked, where that was searched for.
    pub span: Option<SpanId>,
    /// Row among the instants of the trace.
    pub(crate) row: usize,
    /// The first level that has it, and the first one that has it no more. They are equal
    /// where the event has no address.
    born: usize,
    gone: usize,
}

impl Allocation {
    /// Whether it is part of a level of its device.
    pub fn is_held_at(&self, level: usize) -> bool {
        (self.born..self.gone).contains(&level)
    }

    /// How long it was held, where it was freed.
    pub fn lifetime_ns(&self) -> Option<i128> {
        self.to.map(|to| i128::from(to) - i128::from(self.from))
    }
}

/// How much was held from one event to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub time: Nanos,
    /// All that was held, what was there before the recording included.
    pub allocated: TotalBytes,
    /// The part of it that is known allocations.
    pub known: TotalBytes,
    /// What the allocator had taken from the driver.
    pub reserved: Option<TotalBytes>,
}

impl Level {
    /// Held, and allocated before the recording.
    pub fn before(&self) -> TotalBytes {
        self.allocated - self.known
    }

    /// Taken from the driver, and not in use.
    pub fn unused(&self) -> Option<TotalBytes> {
        self.reserved.map(|reserved| (reserved - self.allocated).max(0))
    }
}

/// A device's events, played.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// In order of time.
    pub allocations: Vec<Allocation>,
    /// Before the first event, and after each one.
    pub levels: Vec<Level>,
    pub frees: u64,
    /// Frees of memory from before the recording: the level after each, and its bytes.
    pub early_frees: Vec<(usize, TotalBytes)>,
    /// Events without an address: they count in totals, but belong to nobody.
    pub unpaired: u64,
    /// Events at which the recorded total is not what the events before it give.
    pub contradictions: u64,
}

/// `events` ascend by time. The first level begins at `start`.
pub(super) fn replay(events: &[Event], start: Nanos) -> Replayed {
    debug_assert!(events.is_sorted_by_key(|event| event.time));
    let mut replayed = Replayed::default();
    let known = pair(events, &mut replayed);
    let mut net: TotalBytes = 0;
    let mut missing: TotalBytes = 0;
    for (event, &known) in events.iter().zip(&known[1..]) {
        net += i128::from(event.bytes);
        missing = missing.max(known - net);
    }
    let first = events.first();
    let recorded = first
        .and_then(|first| first.total.map(|total| i128::from(total) - i128::from(first.bytes)));
    // Without a recorded total: the least that explains every free.
    let mut expected = recorded.unwrap_or(missing).max(0);
    let reserved = first.and_then(|first| first.reserved).map(i128::from);
    let at_start = Level { time: start, allocated: expected, known: 0, reserved };
    replayed.levels.push(at_start);
    for (event, &known) in events.iter().zip(&known[1..]) {
        expected += i128::from(event.bytes);
        let allocated = event.total.map_or(expected, i128::from);
        replayed.contradictions += u64::from(allocated != expected || allocated < known);
        // A total below what is certainly held is not believed.
        expected = allocated.max(known);
        let (time, reserved) = (event.time, event.reserved.map(i128::from));
        replayed.levels.push(Level { time, allocated: expected, known, reserved });
    }
    replayed
}

/// Finds the end of each allocation; gives the sum of those that are held at each level.
fn pair(events: &[Event], replayed: &mut Replayed) -> Vec<TotalBytes> {
    let mut known: TotalBytes = 0;
    let mut levels = vec![0];
    // By address: the allocation that is held there. Only asked by key.
    let mut held: QuickMap<i64, usize> = QuickMap::default();
    for (at, event) in events.iter().enumerate() {
        let level = at + 1;
        let mut end = |allocation: usize, allocations: &mut [Allocation]| {
            let allocation = &mut allocations[allocation];
            (allocation.to, allocation.gone) = (Some(event.time), level);
            known -= i128::from(allocation.bytes);
        };
        replayed.unpaired += u64::from(event.address.is_none());
        if event.bytes > 0 {
            let index = replayed.allocations.len();
            let gone = if event.address.is_some() { usize::MAX } else { level };
            replayed.allocations.push(Allocation {
                from: event.time,
                to: None,
                bytes: event.bytes,
                span: None,
                row: event.row,
                born: level,
                gone,
            });
            if let Some(address) = event.address {
                // What was there has been freed unseen.
                if let Some(old) = held.insert(address, index) {
                    end(old, &mut replayed.allocations);
                }
                known += i128::from(event.bytes);
            }
        } else if event.bytes < 0 {
            replayed.frees += 1;
            match event.address.map(|address| held.entry(address)) {
                Some(Entry::Occupied(entry)) => end(entry.remove(), &mut replayed.allocations),
                Some(Entry::Vacant(_)) => {
                    replayed.early_frees.push((level, -i128::from(event.bytes)));
                }
                None => {}
            }
        }
        levels.push(known);
    }
    levels
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = -7;

    /// An event at its place in the list; address 0 stands for none.
    fn event(at: usize, address: i64, bytes: i64, total: Option<i64>) -> Event {
        let (time, row) = (at as i64 * 10, at);
        let address = (address != 0).then_some(address);
        Event { time, address, bytes, total, reserved: None, row }
    }

    /// (address, bytes, recorded total)
    type Quick = (i64, i64, Option<i64>);

    fn played(events: &[Quick]) -> Replayed {
        let event = |(at, &(address, bytes, total))| event(at, address, bytes, total);
        replay(&events.iter().enumerate().map(event).collect::<Vec<_>>(), START)
    }

    /// For each level what was there before and what is known.
    #[track_caller]
    fn check(events: &[Quick], expected: &[(i128, i128)], contradictions: u64) {
        let replayed = played(events);
        let levels: Vec<(i128, i128)> =
            replayed.levels.iter().map(|level| (level.before(), level.known)).collect();
        assert_eq!(levels, expected);
        assert_eq!(replayed.contradictions, contradictions);
    }

    #[test]
    fn the_recorded_total_shows_what_was_there_before() {
        let events = [(1, 10, Some(110)), (9, -30, Some(80)), (1, -10, Some(70))];
        check(&events, &[(100, 0), (100, 10), (70, 10), (70, 0)], 0);
        assert_eq!(played(&events).early_frees, [(2, 30)]);
    }

    #[test]
    fn without_totals_early_frees_show_the_least_that_was_there() {
        let events = [(1, 10, None), (9, -30, None), (8, -5, None)];
        check(&events, &[(35, 0), (35, 10), (5, 10), (0, 10)], 0);
    }

    #[test]
    fn without_addresses_only_the_sum_is_known() {
        let events = [(0, 10, None), (0, -10, None), (0, -5, None)];
        check(&events, &[(5, 0), (15, 0), (5, 0), (0, 0)], 0);
        let replayed = played(&events);
        assert_eq!(replayed.unpaired, 3);
        assert_eq!(replayed.allocations.len(), 1);
        assert!((0..4).all(|level| !replayed.allocations[0].is_held_at(level)));
    }

    #[test]
    fn an_address_used_again_was_freed_unseen() {
        let events = [(1, 10, Some(10)), (1, 20, Some(20))];
        check(&events, &[(0, 0), (0, 10), (0, 20)], 1);
        assert_eq!(played(&events).allocations[0].to, Some(10));
    }

    #[test]
    fn a_total_below_what_is_held_is_not_believed() {
        let events = [(1, 10, Some(10)), (2, 5, Some(3)), (2, -5, Some(10))];
        check(&events, &[(0, 0), (0, 10), (0, 15), (0, 10)], 1);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let most = i64::MAX;
        let events = [(1, most, Some(0)), (2, most, None), (3, i64::MIN, Some(i64::MIN))];
        let replayed = played(&events);
        assert!(replayed.levels.iter().all(|level| level.before() >= 0));
    }

    /// Allocations and frees as an allocator would record them: some memory is there from
    /// the beginning, and each step asks for some or frees any one of what is held.
    fn recording(before: &[i64], steps: &[(bool, usize, i64)]) -> (Vec<Quick>, Vec<Vec<i64>>) {
        let mut held: Vec<(i64, i64)> =
            before.iter().enumerate().map(|(at, &bytes)| (-1 - at as i64, bytes)).collect();
        let total = |held: &[(i64, i64)]| held.iter().map(|row| row.1).sum::<i64>();
        let (mut events, mut states) = (Vec::new(), Vec::new());
        for &(is_free, which, bytes) in steps {
            if is_free && !held.is_empty() {
                let (address, bytes) = held.remove(which % held.len());
                events.push((address, -bytes, Some(total(&held))));
            } else {
                let is_used = |address: i64| held.iter().any(|row| row.0 == address);
                let address = (1..).find(|&address| !is_used(address)).expect("one is unused");
                held.push((address, bytes));
                events.push((address, bytes, Some(total(&held))));
            }
            let mut known: Vec<i64> =
                held.iter().filter(|row| row.0 > 0).map(|row| row.1).collect();
            known.sort_unstable();
            states.push(known);
        }
        (events, states)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn agrees_with_a_list_of_what_is_held(
            before in prop::collection::vec(1..100_i64, 0..4),
            steps in prop::collection::vec((any::<bool>(), 0..9_usize, 1..100_i64), 0..40),
        ) {
            let (events, states) = recording(&before, &steps);
            let replayed = played(&events);
            prop_assert_eq!(replayed.contradictions, 0);
            prop_assert_eq!(replayed.levels.len(), events.len() + 1);
            for (at, expected) in states.iter().enumerate() {
                let level = at + 1;
                let held = replayed.allocations.iter().filter(|row| row.is_held_at(level));
                let mut held: Vec<i64> = held.map(|row| row.bytes).collect();
                held.sort_unstable();
                prop_assert_eq!(&held, expected);
                let total = events[at].2.map(i128::from);
                prop_assert_eq!(Some(replayed.levels[level].allocated), total);
                let freed = replayed.early_frees.iter().filter(|free| free.0 <= level);
                let there: i128 = before.iter().map(|&bytes| i128::from(bytes)).sum();
                let freed: i128 = freed.map(|free| free.1).sum();
                prop_assert_eq!(replayed.levels[level].before(), there - freed);
            }
        }

        #[test]
        fn nothing_is_ever_negative(
            events in prop::collection::vec(
                (0..6_i64, -50..50_i64, prop::option::of(-20..200_i64)), 0..40),
        ) {
            let replayed = played(&events);
            for (at, level) in replayed.levels.iter().enumerate() {
                prop_assert!(level.before() >= 0 && level.known >= 0, "{:?}", level);
                let held = replayed.allocations.iter().filter(|row| row.is_held_at(at));
                let held: i128 = held.map(|row| i128::from(row.bytes)).sum();
                prop_assert_eq!(held, level.known);
            }
        }
    }
}
