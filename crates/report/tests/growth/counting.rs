//! Counts what a thread asks for: bytes and pieces of memory, and steps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use spanwise_model::{effort, on_one_thread};

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static PIECES: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of what this thread asks for.
struct Counting;

fn count(bytes: usize) {
    // A thread that ends may still free and ask for memory.
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes as u64));
    let _ = PIECES.try_with(|sum| sum.set(sum.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps to the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes, pieces and steps.
pub(crate) type Work = [u64; 3];

pub(crate) const UNITS: [&str; 3] = ["bytes", "pieces of memory", "steps"];

pub(crate) fn counted(work: impl FnOnce()) -> Work {
    let now = || [BYTES.get(), PIECES.get(), effort().unwrap_or(0)];
    let before = now();
    on_one_thread(work);
    let after = now();
    [0, 1, 2].map(|unit| after[unit] - before[unit])
}
