//! Records as words, for bindings to other languages.
//!
//! These time the calls of their own language, and cannot hold a [`Span`](crate::Span) meanwhile.
//!
//! ```
//! use spanwise_probe::{Site, SiteKind, raw};
//!
//! let site = Site::leak(SiteKind::Span, "call", "script.lua", 3);
//! let state = raw::state();
//! if state != raw::OFF {
//!     let start = raw::now(state);
//!     // The call.
//!     raw::record(state, [start, raw::now(state), u64::from(site.number())]);
//! }
//! ```

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::clock;
use crate::ring;
use crate::session::stop_in_forked_children;

/// Start, end (or the bits of a value), and the number of the site with the [flags](self) in its
/// upper half.
pub type Record = ring::Record;

/// Set in the third word if no other span is open on the thread when the span ends.
pub const IS_OUTERMOST: u64 = 1 << 60;
/// Set in the third word of a span that ended with an exception.
pub const HAS_FAILED: u64 = 1 << 61;
/// Set in the third word of a part of a task: the time until it waits again.
pub const IS_PART: u64 = 1 << 62;
/// Set in the third word of a span that the program started and ended by separate functions, not
/// around a call: it cost more.
pub const IS_BY_HAND: u64 = 1 << 63;

/// The highest number of arguments, or keyword arguments, that a record can have.
pub const ARGUMENTS_MAX: u64 = (1 << 14) - 1;

/// The number of arguments of a call, for the third word.
#[inline(always)]
pub fn arguments(positional: usize, keyword: usize) -> u64 {
    let (mut positional, mut keyword) = (positional as u64, keyword as u64);
    // Rarely, so that it costs the others nothing.
    if positional | keyword > ARGUMENTS_MAX {
        (positional, keyword) = (positional.min(ARGUMENTS_MAX), keyword.min(ARGUMENTS_MAX));
    }
    positional << 32 | keyword << 46
}

/// Number of the current recording; [`OFF`] if there is none.
#[inline(always)]
pub fn state() -> u32 {
    clock::state()
}

/// The state without a recording.
pub const OFF: u32 = clock::OFF;

/// The time, on the clock of a state that is not [`OFF`].
#[inline(always)]
pub fn now(state: u32) -> u64 {
    clock::now(state)
}

/// The time on the clock of states, and on the monotonic clock in nanoseconds.
pub fn clock_reading() -> (u64, i64) {
    let reading = clock::reading(clock::clock_of_states());
    (reading.tick, reading.monotonic_ns)
}

/// The time on the clock of states, whether something is recorded or not.
#[inline]
pub fn now_always() -> u64 {
    clock::now(clock::clock_of_states())
}

/// Adds a record of the calling thread, if the state has not changed.
#[inline(always)]
pub fn record(state: u32, record: Record) {
    ring::record(state, record);
}

/// The data of the calling thread; not to be used on others. In a library that is loaded late,
/// finding it costs as much as everything else at one end of a span: a function that starts and
/// ends a span finds it once.
#[derive(Debug, Clone, Copy)]
pub struct Here(*const ring::Local);

/// The data of the calling thread.
#[inline(always)]
pub fn here() -> Here {
    ring::LOCAL.with(|local| Here(local))
}

/// The thread that called last under a lock, and its data.
static LATEST_THREAD: AtomicUsize = AtomicUsize::new(0);
static LATEST_LOCAL: AtomicPtr<ring::Local> = AtomicPtr::new(ptr::null_mut());

/// As [`here`], for callers under a lock, such as that of an interpreter: the data of the thread
/// that called last is remembered, and usually that one calls again.
///
/// # Safety
///
/// All callers hold the same lock.
#[inline(always)]
pub unsafe fn here_under_lock() -> Here {
    let thread = thread_pointer();
    if thread != 0 && LATEST_THREAD.load(Ordering::Relaxed) == thread {
        return Here(LATEST_LOCAL.load(Ordering::Relaxed));
    }
    find_here(thread)
}

#[cold]
fn find_here(thread: usize) -> Here {
    let here = here();
    stop_in_forked_children();
    // A thread that is about to end is not remembered: another may get its address.
    if FORGETS_AT_END.try_with(|_| ()).is_ok() {
        LATEST_THREAD.store(0, Ordering::Relaxed);
        LATEST_LOCAL.store(here.0.cast_mut(), Ordering::Relaxed);
        LATEST_THREAD.store(thread, Ordering::Relaxed);
    }
    here
}

/// In a forked child: its threads may get the addresses of threads of the parent.
pub(crate) fn forget_latest() {
    LATEST_THREAD.store(0, Ordering::Relaxed);
}

/// Forgets the thread when it ends, which is without the lock.
struct ForgetsAtEnd;

impl Drop for ForgetsAtEnd {
    fn drop(&mut self) {
        let own = thread_pointer();
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        // A thread that was remembered since is another one, and stays.
        let _ = LATEST_THREAD.compare_exchange(own, 0, set, get);
    }
}

thread_local! {
    static FORGETS_AT_END: ForgetsAtEnd = const { ForgetsAtEnd };
}

/// A number that is unique among running threads, at the cost of one instruction; 0 if there is
/// no such number.
#[inline(always)]
fn thread_pointer() -> usize {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let pointer: usize;
        // SAFETY: the first word behind this register is its own address, on every Linux.
        unsafe {
            std::arch::asm!(
                "mov {}, fs:[0]",
                out(reg) pointer,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        pointer
    }
    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    {
        let pointer: usize;
        // SAFETY: programs may read the register, which belongs to the thread.
        unsafe {
            std::arch::asm!(
                "mrs {}, tpidr_el0",
                out(reg) pointer,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        pointer
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")))]
    0
}

impl Here {
    #[inline(always)]
    fn local(&self) -> &ring::Local {
        // SAFETY: made from the thread's own, which stays where it is until the thread is gone;
        // a pointer is not `Send`, so this is that thread.
        unsafe { &*self.0 }
    }

    /// Whether the thread has not recorded anything in this state.
    #[inline(always)]
    pub fn is_new(self, state: u32) -> bool {
        self.local().state.get() != state
    }

    /// One more span is open on the thread.
    #[inline(always)]
    pub fn enter(self) {
        let open = &self.local().open;
        open.set(open.get().wrapping_add(1));
    }

    /// One span fewer is open on the thread; returns how many are left.
    #[inline(always)]
    pub fn leave(self) -> u32 {
        let open = &self.local().open;
        open.set(open.get().saturating_sub(1));
        open.get()
    }

    /// No span is open on the thread any more.
    pub fn forget_open(self) {
        self.local().open.set(0);
        self.local().mask.set(0);
    }

    /// Number of open spans of the thread.
    #[inline(always)]
    pub fn open(self) -> u32 {
        self.local().open.get()
    }

    /// Bits set by [`Here::set_open_mask`].
    #[inline(always)]
    pub fn open_mask(self) -> u64 {
        self.local().mask.get()
    }

    /// Sets bits of the caller's own, about open spans.
    #[inline(always)]
    pub fn set_open_mask(self, mask: u64) {
        self.local().mask.set(mask);
    }

    /// Total ticks of outermost spans so far; only differences are meaningful.
    #[inline(always)]
    pub fn inside(self) -> u64 {
        self.local().inside.get()
    }

    /// Adds to [`Here::inside`].
    #[inline(always)]
    pub fn add_inside(self, ticks: u64) {
        let inside = &self.local().inside;
        inside.set(inside.get().wrapping_add(ticks));
    }

    /// Unique among running threads.
    #[inline(always)]
    pub fn id(self) -> usize {
        self.0 as usize
    }

    /// Adds a record of the thread, if the state has not changed.
    #[inline(always)]
    pub fn record(self, state: u32, record: Record) {
        self.local().record(state, record);
    }
}

/// The system's id of the calling thread.
pub fn thread_id() -> u64 {
    ring::thread_id()
}

thread_local! {
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sets the name of the calling thread in files, if the system does not know it. To be called
/// before its first record of a session.
pub fn name_thread(name: &str) {
    NAME.with(|known| *known.borrow_mut() = Some(name.to_owned()));
}

/// The name that was given to the calling thread.
pub(crate) fn thread_name() -> Option<String> {
    NAME.try_with(|known| known.borrow().clone()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread;

    /// Threads that take turns, and those that come in the places of others, each find their own.
    #[test]
    fn each_thread_finds_what_is_its_own() {
        static LOCK: Mutex<()> = Mutex::new(());
        let check = |turns: usize| {
            for _ in 0..turns {
                let lock = LOCK.lock().expect("nobody panics");
                // SAFETY: all of them hold it.
                let found = unsafe { here_under_lock() };
                drop(lock);
                assert_eq!(found.id(), here().id());
            }
        };
        for _ in 0..50 {
            let threads = [10, 1000, 1].map(|turns| thread::spawn(move || check(turns)));
            check(100);
            threads.into_iter().for_each(|thread| thread.join().expect("found its own"));
        }
    }
}
