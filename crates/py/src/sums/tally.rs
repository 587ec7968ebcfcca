//! What is kept of each site: how much of its calls is recorded, and how often it was called.
//!
//! A site that costs too much is recorded more cheaply, by steps that the Python side chooses:
//! without probes, without rows (count, sum, least and most are kept here), with the time of one
//! call in so many, not at all. All of it is touched only with the interpreter's lock, so it
//! needs no other.
//!
//! Time within time counts once here, too: for all operations exactly, whatever mixture of rows
//! and sums they are; for names unless several threads recurse at once; for components unless
//! rows of another component lie within.

use std::cell::RefCell;

use pyo3::prelude::*;
use spanwise_probe::raw::{self, Here};

use crate::sums::store::{Sums, store};

/// Everything that the level asks for.
pub(crate) const FULL: u8 = 0;
/// A row for each, without probes.
pub(crate) const ROWS: u8 = 1;
/// Sums, no rows.
pub(crate) const SUMS: u8 = 2;
/// Sums, and only some calls timed: one in two to the power of the shift.
pub(crate) const SAMPLED: u8 = 3;
/// Nothing; calls are counted where they are seen at all.
pub(crate) const OFF: u8 = 4;
/// A row, and Python is notified before and after: it records the next call in depth.
pub(crate) const WATCHED: u8 = 5;

/// One site.
pub(crate) struct Tally {
    /// Its number, as records have it.
    pub(crate) site: u64,
    pub(crate) mode: u8,
    /// How it is recorded when it is no longer watched; meaningless while it is not.
    mode_after: u8,
    shift: u8,
    /// Bit of the component, among those that are open on a thread.
    pub(crate) bit: u64,
    /// Calls that were seen, ever.
    pub(crate) calls: u64,
    /// Calls until the next one that is timed.
    countdown: u32,
    /// Where the pseudo-random gaps between timed calls stand.
    random: u64,
    /// Its thread, and how many calls of that are open, for calls within calls.
    owner: usize,
    depth: u32,
    waiting: Waiting,
    /// Of calls that were timed and not rows, ever: for when a while has none.
    timed: u64,
    timed_ticks: u64,
}

/// Calls without rows that the store does not know yet.
#[derive(Debug, Default, Clone, Copy)]
struct Waiting {
    calls: u64,
    failed: u64,
    timed: u64,
    ticks: u64,
    min: u64,
    max: u64,
    covered: u64,
    covered_name: u64,
    covered_component: u64,
}

/// A call that is timed and becomes no row.
pub(crate) struct Timed {
    pub(crate) start: u64,
    state: u32,
    inside: u64,
    mask: u64,
    is_owned: bool,
}

impl Tally {
    /// Whether a call is one of those that are timed; the others are counted here.
    #[inline(always)]
    pub(crate) fn is_timed(&mut self) -> bool {
        if self.mode == SUMS {
            return true;
        }
        if self.mode == SAMPLED {
            self.countdown = self.countdown.saturating_sub(1);
            if self.countdown == 0 {
                self.countdown = self.next_gap();
                return true;
            }
        }
        self.waiting.calls += 1;
        false
    }

    /// From 1 to twice as much as the mean: calls that come in a rhythm are not timed in one.
    fn next_gap(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random >> 32) as u32 % ((2 << self.shift) - 1)
    }

    /// Begins a call that becomes no row; the time is taken last.
    #[inline(always)]
    pub(crate) fn begin(&mut self, here: Here, state: u32) -> Timed {
        let is_owned = self.depth == 0 || self.owner == here.id();
        if is_owned {
            self.owner = here.id();
            self.depth += 1;
        }
        let mask = here.open_mask();
        here.set_open_mask(mask | self.bit);
        Timed { start: raw::now(state), state, inside: here.inside(), mask, is_owned }
    }

    /// Ends it.
    #[inline(always)]
    pub(crate) fn end(&mut self, here: Here, timed: Timed, has_failed: bool) -> u64 {
        let end = raw::now(timed.state);
        let ticks = end.saturating_sub(timed.start);
        if timed.is_owned {
            self.depth = self.depth.saturating_sub(1);
        }
        here.set_open_mask(timed.mask);
        // A session that began or ended in between has no use for half a call.
        if timed.state != raw::state() {
            return end;
        }
        self.waiting.calls += 1;
        // What rows within it cover is counted with them.
        let rows_inside = here.inside().wrapping_sub(timed.inside).min(ticks);
        let waiting = &mut self.waiting;
        if here.open() == 0 && timed.mask == 0 {
            waiting.covered += ticks - rows_inside;
        }
        if !(timed.is_owned && self.depth > 0) {
            waiting.covered_name += ticks;
        }
        if timed.mask & self.bit == 0 {
            waiting.covered_component += ticks - rows_inside;
        }
        waiting.min = if waiting.timed == 0 { ticks } else { waiting.min.min(ticks) };
        waiting.max = waiting.max.max(ticks);
        waiting.timed += 1;
        waiting.ticks += ticks;
        waiting.failed += u64::from(has_failed);
        self.timed += 1;
        self.timed_ticks += ticks;
        end
    }

    /// A call that was not timed has failed.
    pub(crate) fn note_failed(&mut self) {
        self.waiting.failed += 1;
    }

    /// How it is recorded, watched or not.
    fn mode_unwatched(&self) -> u8 {
        if self.mode == WATCHED { self.mode_after } else { self.mode }
    }

    fn set_watched(&mut self, is_watched: bool) {
        self.mode_after = self.mode_unwatched();
        self.mode = if is_watched { WATCHED } else { self.mode_after };
    }

    fn set_mode(&mut self, mode: u8, shift: u8) {
        let place = if self.mode == WATCHED { &mut self.mode_after } else { &mut self.mode };
        (*place, self.shift) = (mode, shift.min(20));
        self.countdown = self.next_gap();
    }

    /// What the store does not know yet, with the times of all calls estimated from those
    /// that were timed.
    fn take(&mut self) -> Option<Sums> {
        let Waiting { calls, timed, .. } = self.waiting;
        if calls == 0 {
            return None;
        }
        let waiting = std::mem::take(&mut self.waiting);
        // Of no call in this while was the time taken: they are taken to be like earlier ones.
        let of_none = || match self.timed {
            0 => 0,
            timed => scaled(self.timed_ticks, calls, timed),
        };
        let of_all = |ticks| if timed == 0 { of_none() } else { scaled(ticks, calls, timed) };
        Some(Sums {
            count: calls,
            failed: waiting.failed,
            by_hand: 0,
            ticks: of_all(waiting.ticks),
            covered: of_all(waiting.covered),
            min: waiting.min,
            max: waiting.max,
            without_row: calls,
            estimated: calls.saturating_sub(timed),
            covered_name: of_all(waiting.covered_name),
            covered_component: of_all(waiting.covered_component),
        })
    }
}

fn scaled(ticks: u64, calls: u64, timed: u64) -> u64 {
    u64::try_from(u128::from(ticks) * u128::from(calls) / u128::from(timed)).unwrap_or(u64::MAX)
}

/// All tallies by the number of their site; they stay where they are for good.
struct Locked(RefCell<Vec<*mut Tally>>);

// SAFETY: the interpreter's lock is held by all who touch it, and none holds a borrow while
// Python code runs.
unsafe impl Sync for Locked {}

static TALLIES: Locked = Locked(RefCell::new(Vec::new()));

/// The tally of a site, made when it is first asked for. To be called with the interpreter's
/// lock, as all that is done with what it gives.
pub(crate) fn of_site(site: u64) -> *mut Tally {
    let number = site as u32 as usize;
    let mut tallies = TALLIES.0.borrow_mut();
    if tallies.len() <= number {
        tallies.resize(number + 1, std::ptr::null_mut());
    }
    if tallies[number].is_null() {
        let component = store().component_of(number as u32);
        tallies[number] = Box::into_raw(Box::new(Tally {
            site,
            mode: FULL,
            mode_after: FULL,
            shift: 0,
            bit: 1 << (component % 64),
            calls: 0,
            countdown: 1,
            random: 0x9e37_79b9_7f4a_7c15 ^ site,
            owner: 0,
            depth: 0,
            waiting: Waiting::default(),
            timed: 0,
            timed_ticks: 0,
        }));
    }
    tallies[number]
}

fn each(mut act: impl FnMut(&mut Tally)) {
    for &tally in TALLIES.0.borrow().iter().filter(|tally| !tally.is_null()) {
        // SAFETY: made by a box and never freed; the interpreter's lock is held.
        act(unsafe { &mut *tally });
    }
}

/// Hands the store all calls that became no rows. To be called with the interpreter's lock.
pub(crate) fn hand_over() {
    each(|tally| {
        if let Some(sums) = tally.take() {
            store().add_sums(tally.site as u32, &sums);
        }
    });
}

/// In a forked child: what the parent has counted is not counted again.
pub(crate) fn forget_parent() {
    each(|tally| {
        tally.waiting = Waiting::default();
        tally.calls = 0;
        tally.depth = 0;
    });
}

/// Every site that was ever called: its number, how it is recorded, the shift, its calls.
#[pyfunction]
pub(crate) fn tallies() -> Vec<(u32, u8, u8, u64)> {
    let mut rows = Vec::new();
    each(|tally| {
        if tally.calls != 0 {
            rows.push((tally.site as u32, tally.mode_unwatched(), tally.shift, tally.calls));
        }
    });
    rows
}

/// Has a site recorded in another way from now on. Calls that are open end as they began.
#[pyfunction]
pub(crate) fn set_mode(site: u32, mode: u8, shift: u8) {
    // SAFETY: called from Python, so with its lock.
    unsafe { (*of_site(u64::from(site))).set_mode(mode, shift) };
    crate::calls::patch::switch_all();
}

/// Has Python notified before and after the calls of a site, or no longer.
#[pyfunction]
pub(crate) fn watch(site: u32, is_watched: bool) {
    // SAFETY: called from Python, so with its lock.
    unsafe { (*of_site(u64::from(site))).set_watched(is_watched) };
    crate::calls::patch::switch_all();
}

/// Has every site recorded in full again.
#[pyfunction]
pub(crate) fn reset_modes() {
    hand_over();
    each(|tally| tally.set_mode(FULL, 0));
    crate::calls::patch::switch_all();
}
