//! Records word by word, for bindings to other languages.
//!
//! They time calls of their own and cannot hold a [`Span`](crate::Span) on a stack of ours.

use std::cell::RefCell;

use crate::clock;
use crate::ring;

/// Start, end (or the bits of a value), and the number of the site with the [flags](self) in
/// its upper half.
pub type Record = ring::Record;

/// Set in the third word where nothing else is open on the thread when the span ends.
pub const IS_OUTERMOST: u64 = 1 << 60;
/// Set in the third word of a span that ended with an exception.
pub const HAS_FAILED: u64 = 1 << 61;
/// Set in the third word of a span that is a part of a task: the time until it waits again.
pub const IS_PART: u64 = 1 << 62;
/// Set in the third word of a span that the program began and ended by functions, not around a
/// call: it cost more.
pub const IS_BY_HAND: u64 = 1 << 63;

/// So many arguments and keyword arguments can be told of a call.
pub const ARGUMENTS_MAX: u64 = (1 << 14) - 1;

/// How many arguments a call has, for the third word.
#[inline]
pub fn arguments(positional: usize, keyword: usize) -> u64 {
    (positional as u64).min(ARGUMENTS_MAX) << 32 | (keyword as u64).min(ARGUMENTS_MAX) << 46
}

/// What is recorded now; [`OFF`] where nothing is.
#[inline(always)]
pub fn state() -> u32 {
    clock::state()
}

/// The state in which nothing is recorded.
pub const OFF: u32 = clock::OFF;

/// The time on the clock of a state that is not [`OFF`].
#[inline(always)]
pub fn now(state: u32) -> u64 {
    clock::now(state)
}

/// The tick and the monotonic clock of one moment, on the clock that states use.
pub fn moment() -> (u64, i64) {
    let moment = clock::moment(clock::clock_of_states());
    (moment.tick, moment.monotonic_ns)
}

/// The time on the clock that states use, whether something is recorded or not.
#[inline]
pub fn now_always() -> u64 {
    clock::now(clock::clock_of_states())
}

/// Adds a record of the calling thread, if the state still is what it was.
#[inline(always)]
pub fn record(state: u32, record: Record) {
    ring::record(state, record);
}

/// What belongs to the calling thread. Finding it costs as much as all else at one end of a
/// span, in a library that is loaded late; who begins and ends a span in one function finds it
/// once. It stays on its thread.
#[derive(Debug, Clone, Copy)]
pub struct Here(*const ring::Local);

/// What belongs to the calling thread.
#[inline(always)]
pub fn here() -> Here {
    ring::LOCAL.with(|local| Here(local))
}

impl Here {
    #[inline(always)]
    fn local(&self) -> &ring::Local {
        // SAFETY: made from the thread's own, which stays where it is until the thread is gone;
        // a pointer is not `Send`, so this is that thread.
        unsafe { &*self.0 }
    }

    /// Whether the thread has not recorded anything under this state.
    #[inline(always)]
    pub fn is_new(self, state: u32) -> bool {
        self.local().state.get() != state
    }

    /// One span more is open on the thread.
    #[inline(always)]
    pub fn enter(self) {
        let open = &self.local().open;
        open.set(open.get().wrapping_add(1));
    }

    /// One span less is open on the thread; gives how many are left.
    #[inline(always)]
    pub fn leave(self) -> u32 {
        let open = &self.local().open;
        open.set(open.get().saturating_sub(1));
        open.get()
    }

    /// Nothing is open on the thread any more.
    pub fn forget_open(self) {
        self.local().open.set(0);
        self.local().mask.set(0);
    }

    /// How many spans are open on the thread.
    #[inline(always)]
    pub fn open(self) -> u32 {
        self.local().open.get()
    }

    /// Bits that whoever opened something has set.
    #[inline(always)]
    pub fn open_mask(self) -> u64 {
        self.local().mask.get()
    }

    #[inline(always)]
    pub fn set_open_mask(self, mask: u64) {
        self.local().mask.set(mask);
    }

    /// Ticks of spans that were outermost, so far; only differences mean something.
    #[inline(always)]
    pub fn inside(self) -> u64 {
        self.local().inside.get()
    }

    #[inline(always)]
    pub fn add_inside(self, ticks: u64) {
        let inside = &self.local().inside;
        inside.set(inside.get().wrapping_add(ticks));
    }

    /// Tells threads apart while they live.
    #[inline(always)]
    pub fn id(self) -> usize {
        self.0 as usize
    }

    /// Adds a record of the thread, if the state still is what it was.
    #[inline(always)]
    pub fn record(self, state: u32, record: Record) {
        self.local().record(state, record);
    }
}

/// What the system calls the calling thread.
pub fn thread_id() -> u64 {
    ring::thread_id()
}

thread_local! {
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Names the calling thread in files, where the system does not know its name. To be called
/// before its first record of a session.
pub fn name_thread(name: &str) {
    NAME.with(|known| *known.borrow_mut() = Some(name.to_owned()));
}

/// The name that was given to the calling thread.
pub(crate) fn thread_name() -> Option<String> {
    NAME.try_with(|known| known.borrow().clone()).ok().flatten()
}
