//! The ring that programs in the kernel write hits into: mapped, and read where it lies.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::system::sys;

const IS_BUSY: u32 = 1 << 31;
const IS_DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

/// A page that says how far we have read; one that says how far was written; the bytes, twice
/// in a row, so that no record is in two parts.
#[derive(Debug)]
pub(crate) struct HitRing {
    reader: NonNull<u8>,
    writer: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mappings belong to this value alone, and are used by whoever has it.
unsafe impl Send for HitRing {}

impl HitRing {
    pub(crate) fn map(ring: &OwnedFd, data_bytes: usize) -> io::Result<HitRing> {
        let page_bytes = sys::page_bytes();
        let map = |bytes: usize, rights: libc::c_int, from: usize| {
            let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
            // SAFETY: a new mapping at a place that the kernel chooses touches no memory of
            // ours.
            let base = unsafe {
                let nowhere = std::ptr::null_mut();
                libc::mmap(nowhere, bytes, rights, libc::MAP_SHARED, ring.as_raw_fd(), from)
            };
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at zero"))
        };
        let reader = map(page_bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let writer = match map(page_bytes + 2 * data_bytes, libc::PROT_READ, page_bytes) {
            Ok(writer) => writer,
            Err(error) => {
                // SAFETY: it was mapped just now, and nothing refers to it.
                unsafe { libc::munmap(reader.as_ptr().cast(), page_bytes) };
                return Err(error);
            }
        };
        Ok(HitRing { reader, writer, page_bytes, data_bytes })
    }

    /// Hands over the content of each record since the last time, and makes room for more.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        // SAFETY: both are 64-bit numbers at the beginning of their pages, which the kernel as
        // well reads and writes as one word; the mappings live as long as `self`.
        let (read, written) = unsafe {
            let read = AtomicU64::from_ptr(self.reader.as_ptr().cast());
            let written = &*self.writer.as_ptr().cast::<AtomicU64>();
            (read, written)
        };
        let mut at = read.load(Ordering::Relaxed);
        let end = written.load(Ordering::Acquire);
        while at < end {
            let place = at as usize & (self.data_bytes - 1);
            // SAFETY: a record begins at `at`, which is less than what was written and a
            // multiple of eight; its header is one word that the kernel writes last.
            let header = unsafe {
                let data = self.writer.as_ptr().add(self.page_bytes + place);
                (*data.cast::<AtomicU32>()).load(Ordering::Acquire)
            };
            if header & IS_BUSY != 0 {
                break;
            }
            let bytes = (header & !(IS_BUSY | IS_DISCARDED)) as usize;
            if bytes > self.data_bytes {
                break;
            }
            if header & IS_DISCARDED == 0 {
                // SAFETY: the record is not longer than the ring, which is mapped twice in a
                // row, and the kernel leaves it alone until we say that we have read it.
                take(unsafe {
                    let from = self.page_bytes + place + HEADER_BYTES;
                    std::slice::from_raw_parts(self.writer.as_ptr().add(from), bytes)
                });
            }
            at += (HEADER_BYTES + bytes).next_multiple_of(8) as u64;
            read.store(at, Ordering::Release);
        }
    }
}

impl Drop for HitRing {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.reader.as_ptr().cast(), self.page_bytes);
            let bytes = self.page_bytes + 2 * self.data_bytes;
            libc::munmap(self.writer.as_ptr().cast(), bytes);
        }
    }
}
