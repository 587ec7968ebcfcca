//! The stacks of waits: of every long one, and of short ones a share.
//!
//! Where threads wait is asked for once they are back, when it is known how long it took; they
//! stand then where they waited. So no budget decides which waits are seen: each that took at
//! least as long as a threshold has its stack, and of shorter ones every so much waiting of a
//! thread has one, which stands for all of it. Sums by stack are then those of all waits, except
//! for chance, however many there were.
//!
//! Of a wait that was long when another recorded thread ended it, that one's stack is taken, too:
//! it says who held the lock, and where.
//!
//! A stack costs ten microseconds or so. Where there are too many, the threshold rises: longer
//! waits than that still have theirs, and sums stay what they are.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spanwise_recording::perf::{event_id, event_name};

use crate::follow::{Followed, WAIT_PREEMPTED, WAIT_SHARE, WAIT_WAKER};
use crate::perf::event::{Attr, Event, Stacks};
use crate::perf::records::records;
use crate::perf::rings::{ANYBODY, Rings};
use crate::system::processes;
use crate::system::sys;

/// Stacks of waits in a second on each processor.
const STACKS_MAX: u64 = 1000;

/// Waits of at least this long have their stack taken, if nothing else is said.
pub const WAIT_THRESHOLD: Duration = Duration::from_millis(1);

/// The threshold never rises above this.
const THRESHOLD_MAX_NS: u64 = 1_000_000_000;

/// What became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitCounts {
    /// What was asked for, and how high it rose.
    pub threshold_ns: u64,
    pub threshold_max_ns: u64,
    /// Waits that were at least as long and have their stack.
    pub long: u64,
    /// Stacks that stand for shorter ones.
    pub shares: u64,
    /// Stacks of threads that ended waits of others.
    pub wakers: u64,
    /// How much waiting no stack stands for.
    pub skipped_ns: u64,
}

#[derive(Debug)]
pub(crate) struct WaitStacks {
    _open: Vec<OwnedFd>,
    ids: BTreeSet<u64>,
    events: [Event; 3],
    threshold_ns: u64,
    /// None where there may be any number.
    per_second: Option<u64>,
    /// So many fit into half of a ring until it is emptied: the clock's samples need the rest.
    at_once: u64,
    since: Instant,
    in_second: u64,
    pub(crate) counts: WaitCounts,
}

impl WaitStacks {
    /// Opens events on all processors, and has the kernel's program write to them.
    pub(crate) fn open(
        how: Stacks,
        threshold: Option<Duration>,
        rings: &Rings,
        kernel: &mut Followed,
    ) -> io::Result<WaitStacks> {
        let attr = Attr::wait_stacks(how).of_processor().on_clock_of(&rings.event.attr);
        let written = attr.with_fetched();
        let (open, ids) = rings.open_beside(&[ANYBODY], |_, cpu| {
            let event = sys::open_event(&written, ANYBODY, cpu)?;
            kernel.put_stacks(cpu, &event).map(|()| event)
        })?;
        let threshold_ns =
            threshold.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let threshold_ns = threshold_ns.min(i64::MAX as u64);
        let processors = processes::processors().len() as u64;
        let per_second = threshold.map(|_| STACKS_MAX * processors.max(1));
        let at_once = (rings.data_bytes() / 2 / record_bytes(how)).max(1) as u64;
        let event = Event { name: event_name::WAIT.to_owned(), attr, ids: ids.clone() };
        let share = Event {
            name: event_name::WAIT_SHARE.to_owned(),
            attr,
            ids: vec![event_id::WAIT_SHARES],
        };
        let waker = Event { name: event_name::WAKER.to_owned(), attr, ids: vec![event_id::WAKERS] };
        let counts =
            WaitCounts { threshold_ns, threshold_max_ns: threshold_ns, ..WaitCounts::default() };
        let stacks = WaitStacks {
            _open: open,
            ids: ids.into_iter().collect(),
            events: [event, share, waker],
            threshold_ns,
            per_second,
            at_once,
            since: Instant::now(),
            in_second: 0,
            counts,
        };
        kernel.take_stacks(threshold_ns as i64, stacks.most())?;
        Ok(stacks)
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    fn most(&self) -> i64 {
        self.per_second.map_or(i64::MAX, |most| most.min(self.at_once) as i64)
    }

    /// Makes samples of what the program has written: of the instant before the thread came back,
    /// with the waiting that they stand for as their period.
    pub(crate) fn make_samples<'a>(&mut self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let (mut at, mut kept) = (0, 0);
        loop {
            let Some(record) = records(&bytes[at..]).next() else { break };
            let len = record.bytes.len();
            let is_wait = record.event_id().is_some_and(|id| self.ids.contains(&id));
            if kept < at {
                bytes.copy_within(at..at + len, kept);
            }
            let record = &mut bytes[kept..kept + len];
            kept += match Wait::of(record).filter(|_| is_wait) {
                Some(wait) => {
                    self.in_second += 1;
                    *wait.count_of(&mut self.counts) += 1;
                    wait.put(record)
                }
                None => len,
            };
            at += len;
        }
        &mut bytes[..kept]
    }

    /// Checks how many there were, and raises the threshold or lowers it. True where it has risen
    /// for the first time.
    pub(crate) fn spend(&mut self, kernel: &Followed) -> bool {
        self.counts.skipped_ns += kernel.take_skipped();
        let Some(most) = self.per_second else { return false };
        kernel.stacks_left().store(self.most(), Ordering::Relaxed);
        let is_over = self.since.elapsed() >= Duration::from_secs(1);
        let before = self.threshold_ns;
        if self.in_second > most {
            self.threshold_ns = (before.max(1000) * 2).min(THRESHOLD_MAX_NS.max(before));
        } else if is_over && self.in_second < most / 4 {
            self.threshold_ns = (before / 2).max(self.counts.threshold_ns);
        }
        if is_over || self.in_second > most {
            (self.since, self.in_second) = (Instant::now(), 0);
        }
        if self.threshold_ns != before {
            kernel.threshold().store(self.threshold_ns as i64, Ordering::Relaxed);
        }
        let was_raised = self.counts.threshold_max_ns > self.counts.threshold_ns;
        self.counts.threshold_max_ns = self.counts.threshold_max_ns.max(self.threshold_ns);
        !was_raised && self.counts.threshold_max_ns > self.counts.threshold_ns
    }
}

/// How much room a stack takes at most.
fn record_bytes(how: Stacks) -> usize {
    /// What is there beside the copy: callers in the kernel, registers.
    const BESIDE: usize = 2048;
    match how {
        Stacks::Dwarf { bytes } => BESIDE + bytes as usize,
        Stacks::FramePointers => BESIDE,
    }
}

/// What a record of the program says, and where.
struct Wait {
    weight: u64,
    came: u64,
    flags: u64,
    raw_at: usize,
    raw_bytes: usize,
}

impl Wait {
    fn of(record: &[u8]) -> Option<Wait> {
        const CALLERS_AT: usize = 56;
        let word =
            |at: usize| record.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let callers = usize::try_from(word(CALLERS_AT)?).ok()?;
        let raw_at = callers.checked_mul(8)?.checked_add(CALLERS_AT + 8)?;
        let len = record.get(raw_at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))?;
        let raw_bytes = usize::try_from(len).ok()?.checked_add(4)?;
        if raw_bytes % 8 != 0 || record.len() < raw_at.checked_add(raw_bytes)? {
            return None;
        }
        let [weight, came, flags] = [4, 12, 20].map(|at| word(raw_at + at));
        Some(Wait { weight: weight?, came: came?, flags: flags?, raw_at, raw_bytes })
    }

    fn has(&self, flags: i32) -> bool {
        self.flags & flags as u64 != 0
    }

    fn count_of<'a>(&self, counts: &'a mut WaitCounts) -> &'a mut u64 {
        match (self.has(WAIT_WAKER), self.has(WAIT_SHARE)) {
            (true, _) => &mut counts.wakers,
            (false, true) => &mut counts.shares,
            (false, false) => &mut counts.long,
        }
    }

    /// Gives how long the record is now.
    fn put(&self, record: &mut [u8]) -> usize {
        let len = record.len() - self.raw_bytes;
        record.copy_within(self.raw_at + self.raw_bytes.., self.raw_at);
        record[6..8].copy_from_slice(&(len as u16).to_ne_bytes());
        if self.has(WAIT_WAKER) {
            record[8..16].copy_from_slice(&event_id::WAKERS.to_ne_bytes());
        } else if self.has(WAIT_SHARE | WAIT_PREEMPTED) {
            record[8..16].copy_from_slice(&event_id::WAIT_SHARES.to_ne_bytes());
        }
        record[32..40].copy_from_slice(&self.came.saturating_sub(1).to_ne_bytes());
        record[48..56].copy_from_slice(&self.weight.to_ne_bytes());
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::records::test_sample;

    /// As the kernel writes it: two callers, what the program says, registers and a stack of `7`.
    fn written(id: u64, weight: u64, flags: u64) -> Vec<u8> {
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let body = [
            words(&[id, 0, 7, 900, 0, 0, 2, 0x10, 0x20]),
            28_u32.to_ne_bytes().to_vec(),
            words(&[weight, 500, flags]),
            vec![0; 4],
            words(&[2, 7, 7]),
        ]
        .concat();
        let mut bytes = Vec::from(9_u32.to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend((body.len() as u16 + 8).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn stacks() -> WaitStacks {
        let event = || Event { name: String::new(), attr: Attr::nothing(), ids: Vec::new() };
        WaitStacks {
            _open: Vec::new(),
            ids: BTreeSet::from([3]),
            events: [event(), event(), event()],
            threshold_ns: 1000,
            per_second: None,
            at_once: 1,
            since: Instant::now(),
            in_second: 0,
            counts: WaitCounts::default(),
        }
    }

    /// Of each sample that is left: event, time, period, callers and what follows.
    fn samples_made(stacks: &mut WaitStacks, bytes: &[u8]) -> Vec<(u64, u64, u64, Vec<u64>)> {
        let mut bytes = bytes.to_vec();
        let kept = stacks.make_samples(&mut bytes);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight"));
        let sample = |bytes: &[u8]| {
            let words: Vec<u64> = bytes[8..].chunks_exact(8).map(word).collect();
            (words[0], words[3], words[5], words[6..].to_vec())
        };
        records(kept).map(|record| sample(record.bytes)).collect()
    }

    #[test]
    fn what_the_program_says_becomes_time_and_period() {
        let mut stacks = stacks();
        let rest = vec![2, 0x10, 0x20, 2, 7, 7];
        let bytes = [written(3, 4000, 0), test_sample(5), written(3, 1000, 1), written(9, 1, 1)];
        let of_waker = written(3, 70, 4);
        let found = samples_made(&mut stacks, &[bytes.concat(), of_waker].concat());
        assert_eq!(found.len(), 5);
        assert_eq!(found[4], (event_id::WAKERS, 499, 70, rest.clone()));
        assert_eq!(found[0], (3, 499, 4000, rest.clone()));
        assert_eq!(found[1].1, 5, "others stay as they are");
        assert_eq!(found[2], (event_id::WAIT_SHARES, 499, 1000, rest));
        assert_eq!((found[3].0, found[3].1), (9, 900));
        let WaitCounts { long, shares, wakers, .. } = stacks.counts;
        assert_eq!((long, shares, wakers), (1, 1, 1));
    }

    #[test]
    fn a_record_that_is_too_short_stays() {
        let whole = written(3, 4000, 0);
        for len in (16..whole.len()).step_by(8) {
            let mut bytes = whole[..len].to_vec();
            bytes[6..8].copy_from_slice(&(len as u16).to_ne_bytes());
            let mut stacks = stacks();
            assert!(stacks.make_samples(&mut bytes).len() <= len);
        }
    }
}
