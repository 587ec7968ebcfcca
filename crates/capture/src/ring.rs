//! The memory that the kernel writes records into, one ring a processor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Where the kernel says how far it has written, and where we say how far we have read.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// A ring, shared with the kernel: a page about it, and then its bytes.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

impl Ring {
    /// Maps the ring of an event; `data_bytes` is a power of two, and not less than a page.
    pub(crate) fn map(event: &OwnedFd, data_bytes: usize) -> io::Result<Ring> {
        let page_bytes = sys::page_bytes();
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Ring { base, page_bytes, data_bytes })
    }

    /// Appends what the kernel has written since the last time, and makes room for more.
    ///
    /// The kernel writes whole records, so whole records are what comes out.
    pub(crate) fn drain(&mut self, into: &mut Vec<u8>) {
        let head = self.counter(HEAD_AT).load(Ordering::Acquire);
        let tail = self.counter(TAIL_AT).load(Ordering::Relaxed);
        let ready = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let from = tail as usize & (self.data_bytes - 1);
        let first = ready.min(self.data_bytes - from);
        // SAFETY: the bytes between tail and head are initialised, the kernel leaves them
        // alone until the tail moves, and `from`, `first` and the rest lie inside the ring.
        unsafe {
            let data = self.base.as_ptr().add(self.page_bytes);
            into.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, ready - first));
        }
        self.counter(TAIL_AT).store(head, Ordering::Release);
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of two places in the first page, aligned to 8 bytes, which the
        // kernel as well reads and writes as one word; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes);
        }
    }
}
