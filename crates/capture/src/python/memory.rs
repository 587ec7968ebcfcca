//! The memory of another process, read while that process runs on.

use std::io;

/// The kernel takes no more pieces than this in one call.
const PIECES_MAX: usize = 1024;

/// The memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) pid: i32,
}

impl Memory {
    /// So many bytes from an address on; all of them, or an error.
    pub(crate) fn read(self, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.read_each(&[address], bytes)
    }

    /// So many bytes from each of these addresses on, one behind the other.
    pub(crate) fn read_each(self, addresses: &[u64], bytes: usize) -> io::Result<Vec<u8>> {
        let mut all = vec![0_u8; addresses.len() * bytes];
        let parts = all.chunks_mut(PIECES_MAX * bytes.max(1));
        for (addresses, part) in addresses.chunks(PIECES_MAX).zip(parts) {
            self.read_into(addresses, bytes, part)?;
        }
        Ok(all)
    }

    fn read_into(self, addresses: &[u64], bytes: usize, into: &mut [u8]) -> io::Result<()> {
        let there = |&address: &u64| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize),
            iov_len: bytes,
        };
        let there: Vec<libc::iovec> = addresses.iter().map(there).collect();
        let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let count = there.len() as libc::c_ulong;
        // SAFETY: the kernel writes at most `iov_len` bytes into `into`, which lives through
        // the call and is borrowed for nobody else. The other addresses are of another process
        // (or are checked by the kernel like those): nothing of ours is written there.
        let read = unsafe {
            libc::process_vm_readv(self.pid, &raw const here, 1, there.as_ptr(), count, 0)
        };
        match usize::try_from(read) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(read) if read < into.len() => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
        }
    }

    pub(crate) fn word(self, address: u64) -> io::Result<u64> {
        Ok(word_at(&self.read(address, 8)?, 0))
    }
}

/// A number out of bytes that were read; 0 beyond their end.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

pub(crate) fn number_at(bytes: &[u8], at: usize) -> i32 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| i32::from_ne_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_piece_by_piece() {
        let own = Memory { pid: std::process::id() as i32 };
        let values: Vec<u64> = (0..3000).collect();
        let addresses: Vec<u64> = values.iter().map(|value| &raw const *value as u64).collect();
        let read = own.read_each(&addresses, 8).expect("our own memory");
        let read: Vec<u64> = (0..3000).map(|at| word_at(&read, at * 8)).collect();
        assert_eq!(read, values);
        assert!(own.read(8, 8).is_err());
        assert!(own.read_each(&[], 8).is_ok_and(|read| read.is_empty()));
    }
}
