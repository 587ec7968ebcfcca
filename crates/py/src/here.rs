//! What belongs to the calling thread, found without asking the loader.
//!
//! In a library that is loaded late, as extensions of Python are, finding what belongs to a
//! thread is a call of the loader: as dear as a clock. Here the thread that asked last is
//! remembered, by the register that tells threads apart. With the interpreter's lock one thread
//! asks at a time, and mostly it is the one that asked before.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use spanwise_probe::raw::{self, Here};

/// The thread that asked last; 0 for none.
static THREAD: AtomicUsize = AtomicUsize::new(0);

struct Found(UnsafeCell<Option<Here>>);

// SAFETY: touched only with the interpreter's lock.
unsafe impl Sync for Found {}

/// What belongs to that thread.
static FOUND: Found = Found(UnsafeCell::new(None));

/// What belongs to the calling thread, which must hold the interpreter's lock.
#[inline(always)]
pub(crate) unsafe fn here() -> Here {
    let thread = thread_pointer();
    if thread != 0 && THREAD.load(Ordering::Relaxed) == thread {
        // SAFETY: the lock is held by who calls. What belongs to a thread stays where it is until
        // the thread is gone, and it is forgotten before that, so before another thread can have
        // the same number.
        if let Some(here) = unsafe { *FOUND.0.get() } {
            return here;
        }
    }
    find(thread)
}

#[cold]
fn find(thread: usize) -> Here {
    let here = raw::here();
    // A thread that is about to end is not remembered: nobody would forget it.
    if thread != 0 && LEAVING.try_with(|_| ()).is_ok() {
        // SAFETY: the interpreter's lock is held, and no borrow of it is kept.
        unsafe { *FOUND.0.get() = Some(here) };
        THREAD.store(thread, Ordering::Relaxed);
    }
    here
}

/// Has a thread forgotten when it ends, which it does without the interpreter's lock: hence a
/// word of its own that can be taken back.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let (gone, none) = (thread_pointer(), 0);
        let _ = THREAD.compare_exchange(gone, none, Ordering::Relaxed, Ordering::Relaxed);
    }
}

thread_local! {
    static LEAVING: Leaving = const { Leaving };
}

/// A number that no two living threads share; 0 where there is none to be had.
#[inline(always)]
fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: on this system the register points to the thread's block, whose first word is its
    // own address.
    unsafe {
        core::arch::asm!(
            "mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    // SAFETY: programs may read the register, which points to the thread's block.
    unsafe {
        core::arch::asm!(
            "mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        pointer = 0;
    }
    pointer
}
