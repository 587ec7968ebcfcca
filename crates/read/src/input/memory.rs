//! How much memory reading may take.
//!
//! A few kilobytes of compressed text can stand for gigabytes, so the size of a file says nothing
//! about what it costs to read. Readers ask here, every few megabytes of what they decompress,
//! whether to go on; a file that would need more than its share becomes an error while the
//! machine still has room. What counts is the memory that this process really holds, not the
//! decompressed size: a sound trace of 10 GB of text fits where a bomb of 2 GB does not. The limit
//! belongs to the process, since files that are read side by side share the machine.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ReadErrorKind;

/// The environment variable with the limit in bytes, for those who have no command line.
const VARIABLE: &str = "SPANWISE_MAX_MEMORY";

/// As set by [`set_memory_max`]; 0 while nobody did.
static MEMORY_MAX: AtomicU64 = AtomicU64::new(0);

/// While text is read, its rows are held once; joining them into columns holds them twice.
const JOIN_FACTOR: u64 = 2;

/// Where nothing says how much memory there is.
const UNKNOWN_MEMORY_BYTES: u64 = 4 << 30;

/// From now on, this process reads nothing that makes it hold more than `bytes`. Unless this is
/// called, three quarters of the memory that was free at the first reading may be used.
pub fn set_memory_max(bytes: u64) {
    MEMORY_MAX.store(bytes.max(1), Ordering::Relaxed);
}

/// What this process may hold in all.
fn memory_max() -> u64 {
    static DERIVED: OnceLock<u64> = OnceLock::new();
    match MEMORY_MAX.load(Ordering::Relaxed) {
        0 => *DERIVED.get_or_init(|| {
            let variable = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
            variable.unwrap_or_else(|| held_bytes().unwrap_or(0) + available_bytes() / 4 * 3)
        }),
        set => set,
    }
}

/// How much more this process may come to hold.
pub fn memory_left() -> u64 {
    memory_max().saturating_sub(held_bytes().unwrap_or(0))
}

/// Memory that one reading may take, counted from when it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryShare {
    /// Held by others before.
    before: u64,
}

impl MemoryShare {
    pub(crate) fn start() -> MemoryShare {
        MemoryShare { before: held_bytes().unwrap_or(0) }
    }

    /// Whether the rows of what was decompressed so far can still be joined.
    pub(crate) fn check(self, decompressed_bytes: u64) -> Result<(), ReadErrorKind> {
        // Elsewhere than on Linux, rows are taken to be as large as their text.
        let held = held_bytes().map_or(decompressed_bytes, |held| held.saturating_sub(self.before));
        if self.before.saturating_add(held.saturating_mul(JOIN_FACTOR)) > memory_max() {
            return Err(too_large(decompressed_bytes));
        }
        Ok(())
    }
}

pub(crate) fn too_large(decompressed_bytes: u64) -> ReadErrorKind {
    ReadErrorKind::TooLarge { decompressed_bytes, memory_max: memory_max() }
}

/// Memory of this process that is not a file's. `None` where the system does not say.
fn held_bytes() -> Option<u64> {
    kilobytes_in("/proc/self/status", "RssAnon:")
}

/// The number behind a key, in bytes.
fn kilobytes_in(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// What can be had without taking memory from others: of the machine, and of the control group.
fn available_bytes() -> u64 {
    let of_machine = kilobytes_in("/proc/meminfo", "MemAvailable:");
    let of_group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        group_available(group)
    });
    let known = [of_machine, of_group].into_iter().flatten().min();
    known.unwrap_or(UNKNOWN_MEMORY_BYTES)
}

/// The least that a control group or one around it leaves.
fn group_available(group: &str) -> Option<u64> {
    let mut least = None;
    for group in Path::new(group).ancestors() {
        let inside = group.strip_prefix("/").unwrap_or(group);
        let folder = Path::new("/sys/fs/cgroup").join(inside);
        let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        // `max` is no number: no limit at this level.
        let left = number("memory.max").zip(number("memory.current"));
        let left = left.map(|(max, current)| max.saturating_sub(current));
        least = [least, left].into_iter().flatten().min();
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_known_and_less_than_the_limit() {
        let held = held_bytes().expect("Linux says");
        assert!(held > 0 && held < memory_max(), "{held} of {}", memory_max());
        assert!(memory_left() > 0);
        assert!(MemoryShare::start().check(1 << 40).is_ok(), "what is held counts, not the text");
    }
}
