//! The memory that the kernel writes records into, one ring a processor; and that of hardware
//! which writes a trace by itself.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pt::TraceClock;
use crate::system::sys;

/// Where the kernel says how far it has written, and where we say how far we have read.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;
/// The same of what hardware writes; and where we want that, and how large.
const AUX_HEAD_AT: usize = 1056;
const AUX_TAIL_AT: usize = 1064;
const AUX_OFFSET_AT: usize = 1072;
const AUX_SIZE_AT: usize = 1080;
/// How the processor's counter becomes time; all of it changes while the first number is odd.
const LOCK_AT: usize = 8;
const CAPABILITIES_AT: usize = 40;
const SCALE_AT: usize = 48;
const ZERO_AT: usize = 64;
const HAS_ZERO: u64 = 1 << 4;

/// A ring, shared with the kernel: a page about it, and then its bytes.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
    pub(crate) data_bytes: usize,
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

    /// Maps memory behind the ring for hardware to write into: a power of two of bytes. With
    /// `keeps_last` the oldest is overwritten, which the kernel takes from our not writing there.
    pub(crate) fn map_aux(
        &self,
        event: &OwnedFd,
        bytes: usize,
        keeps_last: bool,
    ) -> io::Result<AuxRing> {
        let offset = self.page_bytes + self.data_bytes;
        self.counter(AUX_OFFSET_AT).store(offset as u64, Ordering::Relaxed);
        self.counter(AUX_SIZE_AT).store(bytes as u64, Ordering::Release);
        let rights = if keeps_last { 0 } else { libc::PROT_WRITE } | libc::PROT_READ;
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let base = unsafe {
            let (fd, shared) = (event.as_raw_fd(), libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), bytes, rights, shared, fd, offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(AuxRing { base, bytes })
    }

    pub(crate) fn aux_head(&self) -> u64 {
        self.counter(AUX_HEAD_AT).load(Ordering::Acquire)
    }

    pub(crate) fn free_aux_until(&self, place: u64) {
        self.counter(AUX_TAIL_AT).store(place, Ordering::Release);
    }

    /// How the processor's counter becomes the time of records.
    pub(crate) fn clock(&self) -> TraceClock {
        let load = |at: usize| self.counter(at).load(Ordering::Acquire);
        let lock = || load(LOCK_AT) as u32;
        let read = |_| {
            let before = lock();
            let scale = load(SCALE_AT);
            let clock = TraceClock {
                shift: (scale >> 16) as u16,
                factor: (scale >> 32) as u32,
                zero: load(ZERO_AT),
                is_known: load(CAPABILITIES_AT) & HAS_ZERO != 0,
            };
            (before & 1 == 0 && before == lock()).then_some(clock)
        };
        (0..1000).find_map(read).unwrap_or_default()
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of the places above in the first page, aligned to 8 bytes, which the
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

/// Memory that hardware writes into; how far, the ring of its event says.
#[derive(Debug)]
pub(crate) struct AuxRing {
    base: NonNull<u8>,
    pub(crate) bytes: usize,
}

impl AuxRing {
    /// Appends what is there from a place on, and goes on at the beginning; at most once around.
    pub(crate) fn copy(&self, from: u64, len: usize, into: &mut Vec<u8>) {
        let len = len.min(self.bytes);
        let from = from as usize & (self.bytes - 1);
        let first = len.min(self.bytes - from);
        // SAFETY: all of it is mapped and was zero before the hardware wrote, and `from`, `first`
        // and the rest lie inside. What is read the hardware leaves alone: it lies in front of
        // the tail, or tracing was stopped. Were it not so, bytes would be wrong, and nothing else.
        unsafe {
            let data = self.base.as_ptr();
            into.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, len - first));
        }
    }
}

impl Drop for AuxRing {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}
