//! Keeps a program's arguments and environment out of recordings.
//!
//! A sample has a copy of the top of its thread's stack, for unwinding. A shallow stack of the
//! first thread ends within such a copy, and what the kernel puts above it is copied as well: the
//! auxiliary vector, and above that the texts of all arguments and environment variables, secrets
//! among them. No unwinding needs anything from there, so copies are cut where the auxiliary
//! vector begins.
//!
//! Where a stack ends before the copy does, the kernel leaves what stood in the ring before: parts
//! of older copies, uncut. That is cleared, too.
//!
//! The place is recognized by the vector's content, which the kernel writes in the same order
//! since Linux 2.6. `/proc/PID/stat` says it too, but not of processes that have ended or that run
//! another program by the time the rings are emptied.

use super::event::REGISTERS_X86_64;
use super::records::{RecordMut, records_mut};

/// Identifier, instruction, process and thread, time, processor and period of a sample.
const FIXED_BYTES: usize = 48;

/// Numbers in the auxiliary vector that are the same on every x86-64: the size of a page, the
/// ticks of a second, and what stands beside them.
const VECTOR: [u64; 4] = [6, 4096, 17, 100];

/// Clears what lies above the stack in all copies of stacks among some records.
pub(crate) fn clear_arguments(bytes: &mut [u8]) {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for record in records_mut(bytes) {
        if let Some(copy) = StackCopy::of(record) {
            copy.cut();
        }
    }
}

/// The copy of a stack in a sample, and how much of it the kernel has filled.
struct StackCopy<'a> {
    stack: &'a mut [u8],
    filled: &'a mut [u8; 8],
    word_bytes: usize,
}

impl<'a> StackCopy<'a> {
    /// Samples with a copy are identified by their form: callers, registers, the copy and its
    /// length fill exactly the record.
    fn of(record: RecordMut<'a>) -> Option<StackCopy<'a>> {
        if !record.is_sample() {
            return None;
        }
        let mut rest = record.into_body().get_mut(FIXED_BYTES..)?;
        let callers = number(take(&mut rest, 8)?)?;
        take(&mut rest, callers.checked_mul(8)?)?;
        let word_bytes = match number(take(&mut rest, 8)?)? {
            // As the kernel numbers programs of 32 and of 64 bits.
            1 => 4,
            2 => 8,
            _ => return None,
        };
        take(&mut rest, REGISTERS_X86_64.count_ones() as usize * 8)?;
        let len = number(take(&mut rest, 8)?)?;
        let stack = take(&mut rest, len)?;
        let filled = rest.try_into().ok()?;
        (len > 0).then_some(StackCopy { stack, filled, word_bytes })
    }

    fn cut(self) {
        let filled = (u64::from_ne_bytes(*self.filled) as usize).min(self.stack.len());
        let (filled_part, rest) = self.stack.split_at_mut(filled);
        // What the kernel does not fill holds what stood in the ring before: other copies.
        rest.fill(0);
        let Some(at) = find_vector(filled_part, self.word_bytes) else { return };
        self.stack[at..].fill(0);
        *self.filled = (at as u64).to_ne_bytes();
    }
}

/// Where the auxiliary vector begins to be recognizable, in a stack of words of this size.
fn find_vector(stack: &[u8], word_bytes: usize) -> Option<usize> {
    let words = |at: usize| stack[at..].chunks_exact(word_bytes).map(word);
    let first = |&at: &usize| word(&stack[at..at + word_bytes]) == VECTOR[0];
    let places = 0..(stack.len() + 1).saturating_sub(word_bytes * VECTOR.len());
    places.step_by(word_bytes).filter(first).find(|&at| words(at).take(VECTOR.len()).eq(VECTOR))
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn number(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

/// Splits bytes off the beginning.
fn take<'a>(rest: &mut &'a mut [u8], len: usize) -> Option<&'a mut [u8]> {
    let (taken, left) = std::mem::take(rest).split_at_mut_checked(len)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample with callers and a copy of a stack of which `filled` bytes are filled.
    fn sample(abi: u64, stack: &[u8], filled: usize) -> Vec<u8> {
        let registers = REGISTERS_X86_64.count_ones() as usize;
        let mut body = vec![7; FIXED_BYTES];
        let word = |body: &mut Vec<u8>, word: u64| body.extend(word.to_ne_bytes());
        [2, 0x1000, 0x2000, abi].iter().for_each(|&number| word(&mut body, number));
        body.extend(vec![9; registers * 8]);
        word(&mut body, stack.len() as u64);
        body.extend(stack);
        word(&mut body, filled as u64);
        let mut bytes = Vec::from(9_u32.to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend((body.len() as u16 + 8).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    /// Frames, the auxiliary vector and the texts above it, in words of 8 or 4 bytes.
    fn first_stack(frames: usize, word_bytes: usize) -> Vec<u8> {
        let mut stack = Vec::new();
        let mut word = |word: u64| stack.extend(&word.to_le_bytes()[..word_bytes]);
        (0..frames as u64).for_each(|frame| word(frame % 7));
        // Three environment variables, and the end of them.
        [0x7fff_1000, 0x7fff_1010, 0x7fff_1020, 0].into_iter().for_each(&mut word);
        [33, 0x7fff_8000, 16, 0xbfeb_fbff].into_iter().for_each(&mut word);
        VECTOR.into_iter().for_each(&mut word);
        [3, 0x40_0040, 4, 56, 0, 0].into_iter().for_each(&mut word);
        stack.extend(b"./program\0--password\0hunter2\0TOKEN=hunter2\0./program\0");
        stack.resize(stack.len().next_multiple_of(8), 0);
        stack
    }

    #[track_caller]
    fn check(abi: u64, stack: &[u8], filled: usize, left: usize) {
        let mut bytes = sample(abi, stack, filled);
        let (before, len) = (bytes.clone(), bytes.len());
        clear_arguments(&mut bytes);
        let mut expected = before;
        let end = len - 8;
        expected[end - stack.len() + left..end].fill(0);
        expected[end..].copy_from_slice(&(left as u64).to_ne_bytes());
        assert!(bytes == expected, "abi {abi}, filled {filled}");
    }

    #[test]
    fn copies_end_where_the_auxiliary_vector_begins() {
        let stack = first_stack(100, 8);
        check(2, &stack, stack.len(), (100 + 8) * 8);
        let small = first_stack(100, 4);
        check(1, &small, small.len(), (100 + 8) * 4);
    }

    #[test]
    fn what_stood_in_the_ring_before_is_cleared() {
        let mut older = first_stack(4, 8);
        older.extend(b"SECRET=hunter2\0\0");
        let mut bytes = sample(2, &older, 16);
        clear_arguments(&mut bytes);
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"));
        // A count that cannot be right is taken for all of it.
        let mut bytes = sample(2, &older, older.len() + 8);
        clear_arguments(&mut bytes);
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"));
    }

    #[test]
    fn a_copy_that_does_not_reach_it_stays() {
        let stack = first_stack(100, 8);
        check(2, &stack, 100 * 8, 100 * 8);
        check(2, &[6, 0, 0, 0, 0, 0, 0, 0], 8, 8);
        check(2, &[0; 64], 0, 0);
    }

    #[test]
    fn other_records_stay() {
        let stack = first_stack(0, 8);
        for cut in [0, 8, 56, 64, 100] {
            let mut bytes = sample(2, &stack, stack.len());
            bytes.truncate(bytes.len() - cut);
            let size = (bytes.len() as u16).to_ne_bytes();
            bytes[6..8].copy_from_slice(&size);
            if cut == 0 {
                // Not a sample, whatever its form.
                bytes[0] = 10;
            }
            let before = bytes.clone();
            clear_arguments(&mut bytes);
            assert!(bytes == before, "{cut}");
        }
        // Threads of the kernel have neither registers nor a stack.
        check(0, &stack, stack.len(), stack.len());
    }
}
