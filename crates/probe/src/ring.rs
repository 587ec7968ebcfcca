//! The records of one thread: one writer, one reader, no lock, no wait.
//!
//! Slots are words that are stored one by one, as cheap as plain memory. In a ring that
//! keeps the latest, the reader may meet a slot that is being written; it reads the
//! writer's place before and after and leaves out what may have changed in between.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{clock, raw};

/// Words of a record: start, end (or the bits of a value), number of the site.
pub(crate) const RECORD_WORDS: usize = 3;

pub(crate) type Record = [u64; RECORD_WORDS];

/// What happens where the program records faster than records are taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// New records are dropped and counted; the program never waits.
    DropNew,
    /// New records take the place of the oldest: a flight recorder.
    DropOldest,
    /// The program waits until there is room: nothing is lost, and timing suffers.
    Wait,
}

/// How many records a thread has room for: at first, and at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) capacity: usize,
    pub(crate) capacity_max: usize,
}

impl Room {
    /// Room that stays as it is.
    pub(crate) fn fixed(capacity: usize) -> Self {
        Room { capacity, capacity_max: capacity }
    }
}

/// How long a thread that waits for space sleeps between checks.
const NAP: Duration = Duration::from_micros(50);

pub(crate) struct Ring {
    slots: Box<[[AtomicU64; RECORD_WORDS]]>,
    when_full: WhenFull,
    /// Records ever written.
    written: AtomicU64,
    /// Records ever taken out.
    taken: AtomicU64,
    dropped: AtomicU64,
    is_over: AtomicBool,
    /// Where the reader was when the writer last checked; used by the writer alone.
    taken_seen: Cell<u64>,
    pub(crate) thread: ThreadFacts,
    /// Its thread among those of the process; a larger ring that takes over has the same.
    pub(crate) owner: u64,
    /// A larger one has taken over.
    is_replaced: AtomicBool,
}

// SAFETY: everything but `taken_seen` is atomic or never changes, and only the thread that
// the ring belongs to touches that.
unsafe impl Sync for Ring {}
// SAFETY: as above; the cell is a plain number.
unsafe impl Send for Ring {}

/// What files contain about a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadFacts {
    /// As the system numbers it.
    pub(crate) id: u64,
    pub(crate) name: String,
}

impl Ring {
    pub(crate) fn new(capacity: usize, when_full: WhenFull, thread: ThreadFacts) -> Self {
        let capacity = capacity.next_power_of_two().max(2);
        SLOTS.fetch_add(capacity, Ordering::Relaxed);
        Ring {
            slots: zeroed(capacity),
            when_full,
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            taken_seen: Cell::new(0),
            thread,
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            is_replaced: AtomicBool::new(false),
        }
    }

    /// Adds a record; false where there is no room for it, which who asks may count as dropped.
    /// Only the thread that the ring belongs to may call it.
    #[inline(always)]
    pub(crate) fn push(&self, record: Record) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.taken_seen.get() == self.slots.len() as u64 && !self.has_room(written) {
            return false;
        }
        let slot = &self.slots[written as usize & (self.slots.len() - 1)];
        for (word, value) in slot.iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        self.written.store(written + 1, Ordering::Release);
        true
    }

    #[cold]
    fn has_room(&self, written: u64) -> bool {
        if self.when_full == WhenFull::DropOldest {
            // The place is known before what stands there changes.
            fence(Ordering::Release);
            self.taken_seen.set(self.taken_seen.get() + 1);
            return true;
        }
        loop {
            self.taken_seen.set(self.taken.load(Ordering::Acquire));
            if written - self.taken_seen.get() < self.slots.len() as u64 {
                return true;
            }
            // Nobody makes room any more once recording is off.
            if self.when_full == WhenFull::DropNew || clock::state() == clock::OFF {
                return false;
            }
            thread::sleep(NAP);
        }
    }

    fn count_dropped(&self, more: u64) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        self.dropped.store(dropped + more, Ordering::Relaxed);
    }

    /// Takes out what is there, oldest first. One reader at a time.
    pub(crate) fn drain(&self, out: &mut Vec<Record>) {
        let written = self.written.load(Ordering::Acquire);
        let len = self.slots.len() as u64;
        let taken = self.taken.load(Ordering::Relaxed);
        let from = taken.max(written.saturating_sub(len));
        let first = out.len();
        for at in from..written {
            let slot = &self.slots[at as usize & (self.slots.len() - 1)];
            out.push(std::array::from_fn(|word| slot[word].load(Ordering::Relaxed)));
        }
        if self.when_full == WhenFull::DropOldest {
            fence(Ordering::Acquire);
            let written_since = self.written.load(Ordering::Relaxed);
            // The one that is being written now stands where this one stood.
            let untouched = (written_since + 1).saturating_sub(len);
            let torn = untouched.saturating_sub(from).min(written - from);
            out.drain(first..first + torn as usize);
            // In such a ring the reader counts, since only it knows what it missed.
            self.count_dropped(from - taken + torn);
        }
        self.taken.store(written, Ordering::Release);
    }

    /// Records that were lost: there was no room, or newer ones took their place.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether its thread has ended, or has a larger one.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether its thread goes on in a larger one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        SLOTS.fetch_sub(self.slots.len(), Ordering::Relaxed);
    }
}

/// Numbers the threads that have rings.
static OWNERS: AtomicU64 = AtomicU64::new(0);

/// Slots of all rings that there are. Rings stop growing where there are as many as this: 384
/// MiB of them.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
const SLOTS_MAX: usize = 1 << 24;

/// Slots of zeros, as the system hands them out: what is never written is never touched, so
/// that a thread with one span does not pay for room for thousands.
fn zeroed(slots: usize) -> Box<[[AtomicU64; RECORD_WORDS]]> {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    let plain = vec![[0_u64; RECORD_WORDS]; slots].into_boxed_slice();
    // SAFETY: an atomic word has the size of a plain one, as asserted its alignment too, and
    // nobody else knows of this memory.
    unsafe { Box::from_raw(Box::into_raw(plain) as *mut [[AtomicU64; RECORD_WORDS]]) }
}

/// The rings of a session.
pub(crate) struct Rings {
    /// As the state of the clock spells it.
    state: u32,
    capacity: usize,
    /// What rings may grow to.
    capacity_max: usize,
    when_full: WhenFull,
    rings: Vec<Arc<Ring>>,
    /// Records of threads that end so late that they have no ring any more.
    homeless: u64,
}

/// A flight recorder keeps the rings of this many ended threads.
const ENDED_MAX: usize = 64;

impl Rings {
    /// Where nobody takes records out until a snapshot, threads come and go all the while.
    fn forget_old(&mut self) {
        let ended = self.rings.iter().filter(|ring| ring.is_over()).count();
        if self.when_full == WhenFull::DropOldest && ended > ENDED_MAX {
            let oldest = self.rings.iter().position(|ring| ring.is_over());
            let oldest = self.rings.remove(oldest.expect("some have ended"));
            self.homeless += oldest.written.load(Ordering::Relaxed);
        }
    }
}

/// The rings of the session that records now.
static RINGS: Mutex<Option<Rings>> = Mutex::new(None);

pub(crate) fn open_rings(state: u32, room: Room, when_full: WhenFull) {
    let Room { capacity, capacity_max } = room;
    let rings = Vec::new();
    *lock() = Some(Rings { state, capacity, capacity_max, when_full, rings, homeless: 0 });
}

/// All rings, with whether it is for the last time since their threads have ended; and how
/// many records found no ring.
pub(crate) fn current_rings() -> (Vec<(Arc<Ring>, bool)>, u64) {
    let mut rings = lock();
    let Some(rings) = rings.as_mut() else { return (Vec::new(), 0) };
    let with_end = |ring: &Arc<Ring>| (Arc::clone(ring), ring.is_over());
    let current: Vec<(Arc<Ring>, bool)> = rings.rings.iter().map(with_end).collect();
    rings.rings = current.iter().filter(|(_, is_over)| !is_over).map(|row| row.0.clone()).collect();
    (current, rings.homeless)
}

pub(crate) fn close_rings() {
    *lock() = None;
}

fn lock() -> std::sync::MutexGuard<'static, Option<Rings>> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread knows of its ring.
pub(crate) struct Local {
    ring: Cell<*const Ring>,
    /// The state under which the ring was made.
    pub(crate) state: Cell<u32>,
    has_ended: Cell<bool>,
    /// Spans that have begun and not ended, for who counts them.
    pub(crate) open: Cell<u32>,
    /// For who sums up: a bit for each sort of thing that is open.
    pub(crate) mask: Cell<u64>,
    /// For who sums up: ticks of all spans that were outermost.
    pub(crate) inside: Cell<u64>,
}

impl Local {
    /// Adds a record of the thread, if the state still is what it was.
    #[inline(always)]
    pub(crate) fn record(&self, state: u32, record: Record) {
        if self.state.get() != state && !find_ring(self, state) {
            return;
        }
        // SAFETY: the owner holds the ring until the thread ends or gets another one, and
        // takes the pointer away before it lets go.
        if !unsafe { (*self.ring.get()).push(record) } {
            self.record_in_larger(state, record);
        }
    }

    /// A full ring makes way for one of four times its size, as long as that is allowed: who
    /// takes records out may be slow, but the program does not wait, and loses nothing.
    #[cold]
    fn record_in_larger(&self, state: u32, record: Record) {
        // SAFETY: as above; the borrow ends before the owner lets go of it.
        let full = unsafe { &*self.ring.get() };
        let larger = full.slots.len() * 4;
        let mut rings = lock();
        let rings = rings.as_mut().filter(|rings| rings.state == state);
        let slots = SLOTS.load(Ordering::Relaxed) + larger;
        let Some(rings) = rings.filter(|one| larger <= one.capacity_max && slots <= SLOTS_MAX)
        else {
            full.count_dropped(1);
            return;
        };
        let mut ring = Ring::new(larger, rings.when_full, full.thread.clone());
        ring.owner = full.owner;
        ring.push(record);
        full.is_replaced.store(true, Ordering::Release);
        full.is_over.store(true, Ordering::Release);
        self.keep(rings, Arc::new(ring));
    }

    /// Has the thread record into a ring from now on.
    fn keep(&self, rings: &mut Rings, ring: Arc<Ring>) {
        rings.rings.push(Arc::clone(&ring));
        self.ring.set(Arc::as_ptr(&ring));
        self.state.set(rings.state);
        // The old one goes only now that nothing points to it.
        OWNER.with(|owner| drop(owner.0.replace(Some(ring))));
    }
}

/// Keeps a thread's ring alive, and says when the thread ends.
struct RingOwner(Cell<Option<Arc<Ring>>>);

impl Drop for RingOwner {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            local.state.set(clock::OFF);
            local.ring.set(ptr::null());
            local.has_ended.set(true);
        });
        if let Some(ring) = self.0.take() {
            ring.is_over.store(true, Ordering::Release);
        }
    }
}

thread_local! {
    pub(crate) static LOCAL: Local = const {
        Local {
            ring: Cell::new(ptr::null()),
            state: Cell::new(clock::OFF),
            has_ended: Cell::new(false),
            open: Cell::new(0),
            mask: Cell::new(0),
            inside: Cell::new(0),
        }
    };
    static OWNER: RingOwner = const { RingOwner(Cell::new(None)) };
}

/// Adds a record of the calling thread, if the state still is what it was.
#[inline]
pub(crate) fn record(state: u32, record: Record) {
    LOCAL.with(|local| local.record(state, record));
}

/// Gives the thread a ring of the session; false where that is over.
#[cold]
fn find_ring(local: &Local, state: u32) -> bool {
    let mut rings = lock();
    let Some(rings) = rings.as_mut().filter(|rings| rings.state == state) else { return false };
    if local.has_ended.get() {
        rings.homeless += 1;
        return false;
    }
    let ring = Arc::new(Ring::new(rings.capacity, rings.when_full, this_thread()));
    rings.forget_old();
    local.keep(rings, ring);
    true
}

fn this_thread() -> ThreadFacts {
    let given = raw::thread_name();
    let name = given.unwrap_or_else(|| thread::current().name().unwrap_or_default().to_owned());
    ThreadFacts { id: thread_id(), name }
}

#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u64 {
    unsafe extern "C" {
        fn gettid() -> std::ffi::c_int;
    }
    // SAFETY: it takes nothing and cannot fail.
    unsafe { gettid() as u64 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(when_full: WhenFull) -> Ring {
        Ring::new(4, when_full, ThreadFacts { id: 1, name: String::new() })
    }

    fn push(ring: &Ring, record: Record) {
        if !ring.push(record) {
            ring.count_dropped(1);
        }
    }

    #[track_caller]
    fn check(ring: &Ring, expected: &[u64], dropped: u64) {
        let mut out = Vec::new();
        ring.drain(&mut out);
        assert_eq!(out.iter().map(|record| record[0]).collect::<Vec<_>>(), expected);
        assert_eq!(ring.dropped(), dropped);
    }

    #[test]
    fn records_come_out_in_order_and_once() {
        let ring = ring(WhenFull::DropNew);
        (0..3).for_each(|at| push(&ring, [at, 0, 0]));
        check(&ring, &[0, 1, 2], 0);
        (3..6).for_each(|at| push(&ring, [at, 0, 0]));
        check(&ring, &[3, 4, 5], 0);
        check(&ring, &[], 0);
    }

    #[test]
    fn a_full_ring_drops_what_is_new_and_counts_it() {
        let ring = ring(WhenFull::DropNew);
        (0..7).for_each(|at| push(&ring, [at, 0, 0]));
        check(&ring, &[0, 1, 2, 3], 3);
        push(&ring, [9, 0, 0]);
        check(&ring, &[9], 3);
    }

    #[test]
    fn a_flight_recorder_keeps_the_latest() {
        let ring = ring(WhenFull::DropOldest);
        (0..7).for_each(|at| push(&ring, [at, 0, 0]));
        // The writer may be about to write over the oldest one.
        check(&ring, &[4, 5, 6], 4);
        check(&ring, &[], 4);
    }

    #[test]
    fn a_reader_beside_the_writer_loses_and_invents_nothing() {
        for when_full in [WhenFull::DropNew, WhenFull::DropOldest] {
            // Miri takes a thousand times as long.
            const COUNT: u64 = if cfg!(miri) { 300 } else { 200_000 };
            let ring = Ring::new(64, when_full, ThreadFacts { id: 1, name: String::new() });
            let mut seen = Vec::new();
            thread::scope(|scope| {
                let ring = &ring;
                let writer = scope.spawn(move || {
                    (1..=COUNT).for_each(|at| push(ring, [at, at * 3, at * 7]));
                });
                while !writer.is_finished() {
                    ring.drain(&mut seen);
                }
            });
            ring.drain(&mut seen);
            assert!(seen.iter().all(|&[a, b, c]| b == a * 3 && c == a * 7), "no torn record");
            assert!(seen.is_sorted());
            assert_eq!(seen.len() as u64 + ring.dropped(), COUNT);
        }
    }
}
