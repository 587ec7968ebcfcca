//! Requests a snapshot from a spanwise that watches this program.
//!
//! `spanwise attach --trigger .` watches [`spanwise_snapshot`] by its name, and the functions
//! here call it, at a nanosecond or two while it is not watched. C programs have the same in
//! `include/spanwise.h`.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::monotonic_ns;

thread_local! {
    /// Set by [`mark_start`]; 0 if it was not called.
    static STARTED_NS: Cell<u64> = const { Cell::new(0) };
}

/// The watched function; [`take_snapshot`] calls it.
// SAFETY: nothing else has this name but the same function of the header for C, which is weak.
#[unsafe(no_mangle)]
#[inline(never)]
#[doc(hidden)]
pub extern "C" fn spanwise_snapshot(started_ns: u64, argument: u64) {
    // Keeps the calls and their arguments.
    std::hint::black_box((started_ns, argument));
}

/// Marks the start of an operation of this thread: with `--duration-thresh` only longer ones
/// are saved.
pub fn mark_start() {
    STARTED_NS.set(now_ns());
}

/// Requests a snapshot of the time before now.
pub fn take_snapshot() {
    take_snapshot_with_arg(0);
}

/// Requests a snapshot of the time before now, and passes a number along.
pub fn take_snapshot_with_arg(argument: u64) {
    spanwise_snapshot(STARTED_NS.get(), argument);
}

/// Requests a snapshot of the time before now if at least `min_duration` has passed since
/// [`mark_start`], and returns whether it did. Shorter operations cost nothing, even if watched.
pub fn take_snapshot_min_duration(min_duration: Duration, argument: u64) -> bool {
    let started_ns = STARTED_NS.get();
    let lasted = Duration::from_nanos(now_ns().saturating_sub(started_ns));
    let is_long = started_ns != 0 && lasted >= min_duration;
    if is_long {
        take_snapshot_with_arg(argument);
    }
    is_long
}

fn now_ns() -> u64 {
    u64::try_from(monotonic_ns()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_long_enough_is_saved() {
        let check = |min_duration, expected| {
            assert_eq!(take_snapshot_min_duration(min_duration, 1), expected, "{min_duration:?}");
        };
        check(Duration::ZERO, false);
        mark_start();
        check(Duration::ZERO, true);
        check(Duration::from_secs(3600), false);
        // Other threads have begun nothing.
        std::thread::spawn(move || assert!(!take_snapshot_min_duration(Duration::ZERO, 1)))
            .join()
            .expect("no panic");
        take_snapshot();
    }
}
