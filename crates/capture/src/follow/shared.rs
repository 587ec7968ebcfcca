//! Numbers that programs in the kernel and the recorder both change, in one page of memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering};

use super::program::{
    LOST_AT, SHARED_BYTES, SINCE_AT, SKIPPED_AT, STACKS_LEFT_AT, SWITCHES_LEFT_AT, THRESHOLD_AT,
};
use crate::system::sys;

/// The page, mapped. To change a number costs no call of the system: while one of those is
/// inside, the kernel runs no program on that processor, and a switch would be missed.
#[derive(Debug)]
pub(super) struct Shared {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and is used by whoever has it.
unsafe impl Send for Shared {}

impl Shared {
    pub(super) fn map(numbers: &OwnedFd) -> io::Result<Shared> {
        let bytes = sys::page_bytes();
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                numbers.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Shared { base, bytes })
    }

    /// How many switches may still be written.
    pub(super) fn switches_left(&self) -> &AtomicI64 {
        self.number(SWITCHES_LEFT_AT)
    }

    /// How many stacks may still be taken.
    pub(super) fn stacks_left(&self) -> &AtomicI64 {
        self.number(STACKS_LEFT_AT)
    }

    /// Gives how much there was no room for since the last time.
    pub(super) fn take_lost(&self) -> u64 {
        u64::try_from(self.number(LOST_AT).swap(0, Ordering::Relaxed)).unwrap_or(0)
    }

    /// Since when threads that leave are noted; 0 while they are not.
    pub(super) fn since(&self) -> &AtomicI64 {
        self.number(SINCE_AT)
    }

    /// Waits of at least so many nanoseconds have their stack taken.
    pub(super) fn threshold(&self) -> &AtomicI64 {
        self.number(THRESHOLD_AT)
    }

    /// Gives how much waiting has no stack that stands for it, since the last time.
    pub(super) fn take_skipped(&self) -> u64 {
        u64::try_from(self.number(SKIPPED_AT).swap(0, Ordering::Relaxed)).unwrap_or(0)
    }

    fn number(&self, at: usize) -> &AtomicI64 {
        debug_assert!(at + 8 <= SHARED_BYTES as usize);
        // SAFETY: `at` is one of the places above, inside the page and aligned to 8 bytes; the
        // kernel's programs change it as one word, and the mapping lives as long as `self`.
        unsafe { AtomicI64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}
