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
        let there: Vec<libc::iovec> =
            addresses.iter().map(|&address| there(address, bytes)).collect();
        match self.read_pieces(&there, into)? {
            read if read < into.len() => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Reads pieces one behind the other, up to the first that is not there; how many bytes.
    fn read_pieces(self, there: &[libc::iovec], into: &mut [u8]) -> io::Result<usize> {
        let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let count = there.len() as libc::c_ulong;
        // SAFETY: the kernel writes at most `iov_len` bytes into `into`, which lives through
        // the call and is borrowed for nobody else. The other addresses are of another process
        // (or are checked by the kernel like those): nothing of ours is written there.
        let read = unsafe {
            libc::process_vm_readv(self.pid, &raw const here, 1, there.as_ptr(), count, 0)
        };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn word(self, address: u64) -> io::Result<u64> {
        Ok(word_at(&self.read(address, 8)?, 0))
    }
}

/// A piece of the other process, as the kernel wants it.
fn there(address: u64, bytes: usize) -> libc::iovec {
    let iov_base = std::ptr::without_provenance_mut(address as usize);
    libc::iovec { iov_base, iov_len: bytes }
}

/// Memory of which the parts that the last look needed are read ahead, in one call: the next
/// look most likely needs the same. Each call costs more than what it reads, and the less time
/// a look takes, the less changes meanwhile.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) memory: Memory,
    /// What the look that goes on has asked for: addresses and sizes.
    asked: Vec<(u64, usize)>,
    /// What was read ahead, by address.
    parts: Vec<Part>,
    bytes: Vec<u8>,
}

/// A stretch of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    address: u64,
    size: usize,
    /// Where in what was read ahead it begins.
    at: usize,
}

impl Part {
    fn end(self) -> u64 {
        self.address.saturating_add(self.size as u64)
    }
}

impl Ahead {
    pub(crate) fn new(memory: Memory) -> Self {
        Ahead { memory, asked: Vec::new(), parts: Vec::new(), bytes: Vec::new() }
    }

    /// Begins a look.
    pub(crate) fn begin(&mut self) {
        self.again();
        self.asked.clear();
    }

    /// Reads all that the look that goes on has asked for once more: from now on, that is what
    /// there is.
    pub(crate) fn again(&mut self) {
        self.parts = together(&mut self.asked);
        self.parts.truncate(PIECES_MAX);
        self.bytes.resize(self.parts.last().map_or(0, |part| part.at + part.size), 0);
        let there: Vec<libc::iovec> =
            self.parts.iter().map(|part| there(part.address, part.size)).collect();
        // What is no longer there ends the reading; what follows it is read when asked for.
        let read = self.memory.read_pieces(&there, &mut self.bytes).unwrap_or(0);
        self.parts.retain(|part| part.at + part.size <= read);
    }

    /// So many bytes from an address on, as they were when the look began or are now.
    pub(crate) fn read(&mut self, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let read = match self.known(address, bytes) {
            Some(known) => known.to_vec(),
            None => self.memory.read(address, bytes)?,
        };
        self.asked.push((address, bytes));
        Ok(read)
    }

    /// So many bytes from each of these addresses on, one behind the other.
    pub(crate) fn read_each(&mut self, addresses: &[u64], bytes: usize) -> io::Result<Vec<u8>> {
        let known: Option<Vec<&[u8]>> =
            addresses.iter().map(|&address| self.known(address, bytes)).collect();
        let read = match known {
            Some(known) => known.concat(),
            None => self.memory.read_each(addresses, bytes)?,
        };
        self.asked.extend(addresses.iter().map(|&address| (address, bytes)));
        Ok(read)
    }

    pub(crate) fn word(&mut self, address: u64) -> io::Result<u64> {
        Ok(word_at(&self.read(address, 8)?, 0))
    }

    fn known(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let after = self.parts.partition_point(|part| part.address <= address);
        let part = self.parts.get(after.checked_sub(1)?)?;
        let from = usize::try_from(address - part.address).ok()?;
        (from.checked_add(bytes)? <= part.size)
            .then(|| &self.bytes[part.at + from..part.at + from + bytes])
    }
}

/// The stretches that hold all of these; neighbours on a page are one.
fn together(asked: &mut [(u64, usize)]) -> Vec<Part> {
    const PAGE_BYTES: u64 = 4096;
    asked.sort_unstable();
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    for &(address, size) in &*asked {
        let end = address.saturating_add(size as u64);
        match parts.last_mut() {
            // What lies between on a page that is there, is there too.
            Some(last)
                if address <= last.end()
                    || address / PAGE_BYTES == last.end().saturating_sub(1) / PAGE_BYTES =>
            {
                let grown = end.saturating_sub(last.end()) as usize;
                last.size += grown;
                at += grown;
            }
            _ => {
                parts.push(Part { address, size, at });
                at += size;
            }
        }
    }
    parts
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

    #[test]
    fn neighbours_on_a_page_are_read_as_one() {
        #[track_caller]
        fn check(asked: &[(u64, usize)], parts: &[(u64, usize, usize)]) {
            let found = together(&mut asked.to_vec());
            let found: Vec<_> = found.iter().map(|it| (it.address, it.size, it.at)).collect();
            assert_eq!(found, parts);
        }
        check(&[], &[]);
        check(&[(4096, 8), (4096, 8), (4200, 16)], &[(4096, 120, 0)]);
        check(&[(8200, 8), (4096, 8)], &[(4096, 8, 0), (8200, 8, 8)]);
        // One that reaches into the next page, and one behind it there.
        check(&[(8184, 16), (8300, 4)], &[(8184, 120, 0)]);
        check(&[(u64::MAX - 4, 8), (8, 8)], &[(8, 8, 0), (u64::MAX - 4, 8, 8)]);
    }

    #[test]
    fn what_was_read_ahead_is_what_was_there_then() {
        let pid = std::process::id() as i32;
        let mut ahead = Ahead::new(Memory { pid });
        let places = [std::sync::atomic::AtomicU64::new(1), std::sync::atomic::AtomicU64::new(2)];
        let [first, second] = places.each_ref().map(|place| place.as_ptr() as u64);
        let store = |value| {
            places.iter().for_each(|it| it.store(value, std::sync::atomic::Ordering::SeqCst));
        };
        // Nothing is known before the first look.
        ahead.begin();
        store(3);
        assert_eq!([first, second].map(|it| ahead.word(it).ok()), [Some(3), Some(3)]);
        assert!(ahead.word(8).is_err());
        ahead.begin();
        store(4);
        assert!(ahead.word(8).is_err());
        assert_eq!([first, second].map(|it| ahead.word(it).ok()), [Some(3), Some(3)]);
        ahead.begin();
        assert_eq!(ahead.word(first).ok(), Some(4));
        ahead.begin();
        store(5);
        assert_eq!(ahead.word(first).ok(), Some(4));
        ahead.again();
        assert_eq!(ahead.word(first).ok(), Some(5));
        store(6);
        assert!(ahead.read_each(&[first, second], 8).is_ok_and(|it| word_at(&it, 0) == 6));
    }
}
