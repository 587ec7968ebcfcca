//! Asks a spanwise that watches this program to save the moments before.
//!
//! `spanwise attach --trigger .` watches [`spanwise_snapshot`] by its name, and the functions
//! here call it: a nanosecond or two while nobody watches. C programs have the same in
//! `include/spanwise.h`.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::monotonic_ns;

thread_local! {
    /// When this thread has begun what it does now; 0 where it has not said.
    static STARTED_NS: Cell<u64> = const { Cell::new(0) };
}

/// The function that is watched, by its name; [`take_snapshot`] calls it.
// SAFETY: nothing else has this name but the same function of the header for C, which is weak.
#[unsafe(no_mangle)]
#[inline(never)]
#[doc(hidden)]
pub extern "C" fn spanwise_snapshot(started_ns: u64, argument: u64) {
    // So that calls are not left out, and the arguments are there.
    std::hint::black_box((started_ns, argument));
}

/// This thread begins something now: with `--duration-thresh` only what takes longer is saved.
pub fn mark_start() {
    STARTED_NS.set(now_ns());
}

/// Saves the moments before now.
pub fn take_snapshot() {
    take_snapshot_with_arg(0);
}

/// Saves the moments before now, and says a number with them.
pub fn take_snapshot_with_arg(argument: u64) {
    spanwise_snapshot(STARTED_NS.get(), argument);
}

/// Saves the moments before now where at least so long has passed since [`mark_start`]: decided
/// here, so that what is short costs nothing although somebody watches. True where it is so.
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
