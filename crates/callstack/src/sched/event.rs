//! What is recorded about threads that run and wait.

use spanwise_model::{Nanos, StrId};

/// How a thread left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftAs {
    /// It could have gone on.
    Preempted,
    /// It waits, and nobody said for what.
    Waiting,
    /// It waits and cannot be interrupted: mostly for a disk.
    Uninterruptible,
    /// It has ended.
    Dead,
}

impl LeftAs {
    /// The letters of `prev_state`: `S`, `D`, `R+`, `X`, `Z` and so on.
    pub fn from_letters(letters: &[u8]) -> LeftAs {
        match letters.first() {
            Some(b'R') => LeftAs::Preempted,
            Some(b'D') => LeftAs::Uninterruptible,
            Some(b'X' | b'Z') => LeftAs::Dead,
            _ => LeftAs::Waiting,
        }
    }

    /// The number of `prev_state`, as the kernel's tracepoint holds it.
    pub fn from_bits(bits: u64) -> LeftAs {
        match bits & 0xff {
            // The bit above says "preempted", without any other the thread is runnable.
            0 => LeftAs::Preempted,
            state if state & 0x2 != 0 => LeftAs::Uninterruptible,
            state if state & 0x30 != 0 => LeftAs::Dead,
            _ => LeftAs::Waiting,
        }
    }
}

/// When something happened, and on which processor, where that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    pub time: Nanos,
    pub cpu: Option<u32>,
}

/// One event, raised by the thread that ran then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedEvent {
    /// The thread left its processor.
    Out { is_preempted: bool },
    /// The thread came to a processor.
    In,
    /// One thread made place for another: says both of the above.
    Switch { prev: i64, left: LeftAs, next: i64 },
    /// The thread stands where it has waited, and is about to go on; since when it waited is said
    /// where that is recorded of this very wait.
    Waited { since: Option<Nanos> },
    /// A thread that waited may run again.
    Wake { woken: i64 },
    /// The thread called for a futex.
    FutexEnter { address: u64, op: u32, value: u64 },
    /// The call returned.
    FutexExit { result: i64 },
    /// A probe at the beginning of a function was passed, or one at its return.
    Probe { function: StrId, is_return: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_numbers_of_a_state_say_the_same() {
        let states = [
            ("R", 0),
            ("R+", 0x100),
            ("S", 0x1),
            ("D", 0x2),
            ("T", 0x4),
            ("X", 0x10),
            ("Z", 0x20),
            ("I", 0x80),
        ];
        for (letters, bits) in states {
            let left = LeftAs::from_letters(letters.as_bytes());
            assert_eq!(left, LeftAs::from_bits(bits), "{letters}");
        }
        assert_eq!(LeftAs::from_bits(0x100), LeftAs::Preempted);
        assert_eq!(LeftAs::from_bits(0x1), LeftAs::Waiting);
    }
}
