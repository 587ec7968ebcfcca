//! Records word by word, for bindings to other languages.
//!
//! They time calls of their own and cannot hold a [`Span`](crate::Span) on a stack of ours.

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::clock;
use crate::ring;
use crate::session::stop_in_forked_children;

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
#[inline(always)]
pub fn arguments(positional: usize, keyword: usize) -> u64 {
    let (mut positional, mut keyword) = (positional as u64, keyword as u64);
    // Seldom, so that it costs the others nothing.
    if positional | keyword > ARGUMENTS_MAX {
        (positional, keyword) = (positional.min(ARGUMENTS_MAX), keyword.min(ARGUMENTS_MAX));
    }
    positional << 32 | keyword << 46
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

/// The thread that asked last under a lock, and what belongs to it.
static LATEST_THREAD: AtomicUsize = AtomicUsize::new(0);
static LATEST_LOCAL: AtomicPtr<ring::Local> = AtomicPtr::new(ptr::null_mut());

/// As [`here`], for those who hold a lock, as an interpreter has one: what belongs to the thread
/// that asked last is remembered, and mostly it is the same one that asks.
///
/// # Safety
///
/// All who call it hold one and the same lock.
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
    // One that is about to end is not remembered: another thread may get its place.
    if FORGETS_AT_END.try_with(|_| ()).is_ok() {
        LATEST_THREAD.store(0, Ordering::Relaxed);
        LATEST_LOCAL.store(here.0.cast_mut(), Ordering::Relaxed);
        LATEST_THREAD.store(thread, Ordering::Relaxed);
    }
    here
}

/// In a forked child: threads that it makes may get the places of threads that the parent has.
pub(crate) fn forget_latest() {
    LATEST_THREAD.store(0, Ordering::Relaxed);
}

/// Forgets the thread when it ends, which is without the lock.
struct ForgetsAtEnd;

impl Drop for ForgetsAtEnd {
    fn drop(&mut self) {
        let own = thread_pointer();
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        // Whoever was remembered since is another one, and stays.
        let _ = LATEST_THREAD.compare_exchange(own, 0, set, get);
    }
}

thread_local! {
    static FORGETS_AT_END: ForgetsAtEnd = const { ForgetsAtEnd };
}

/// What tells threads apart while they live, at the cost of one instruction; 0 where there is no
/// such thing.
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
