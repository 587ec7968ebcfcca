//! Time: ticks of the processor where they are even, else the system's clock.
//!
//! A tick costs 7 to 10 ns, a call of the system's clock two to three times as much. What
//! ticks are in nanoseconds follows from pairs of both that go to the file regularly.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nothing is recorded.
pub(crate) const OFF: u32 = 0;
/// Recording on the processor's ticks; else on the system's clock.
const TICKS: u32 = 1;

/// Whether to record, for which session and by which clock, in one word: a span that is off
/// reads only this.
static STATE: AtomicU32 = AtomicU32::new(OFF);

/// One point in time on all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) tick: u64,
    pub(crate) monotonic_ns: i64,
    pub(crate) calendar_ns: i64,
}

/// The state while the session of this number, from 1, records.
pub(crate) fn state_of(session: u32) -> u32 {
    session << 1 | u32::from(ticks_are_even())
}

/// The clock of every state, without a session. Asking the processor takes longer than
/// reading its ticks by far, so it is asked once.
#[inline]
pub(crate) fn clock_of_states() -> u32 {
    static CLOCK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CLOCK.get_or_init(|| state_of(0))
}

pub(crate) fn turn_on(state: u32) {
    STATE.store(state, Ordering::Release);
}

pub(crate) fn turn_off() {
    STATE.store(OFF, Ordering::Release);
}

/// What is recorded now; [`OFF`] where nothing is.
#[inline(always)]
pub(crate) fn state() -> u32 {
    if cfg!(feature = "off") { OFF } else { STATE.load(Ordering::Relaxed) }
}

/// The time on the clock of a state that is not [`OFF`].
#[inline(always)]
pub(crate) fn now(state: u32) -> u64 {
    if state & TICKS != 0 { processor_ticks() } else { monotonic_ns() as u64 }
}

/// A tick of a state and the clocks around it, from the closest of a few tries.
pub(crate) fn reading(state: u32) -> ClockReading {
    let tries = (0..5).map(|_| {
        let before = monotonic_ns();
        let tick = now(state);
        let calendar_ns = calendar_ns();
        let after = monotonic_ns();
        (after - before, ClockReading { tick, monotonic_ns: before, calendar_ns })
    });
    let (_, mut closest) = tries.min_by_key(|&(apart_ns, _)| apart_ns).expect("five tries");
    if state & TICKS == 0 {
        closest.monotonic_ns = closest.tick as i64;
    }
    closest
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn processor_ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn processor_ticks() -> u64 {
    let tick: u64;
    // SAFETY: user programs may read the virtual counter.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) tick, options(nomem, nostack)) };
    tick
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor_ticks() -> u64 {
    monotonic_ns() as u64
}

/// Whether ticks have one rate, whatever the processor's clock does.
#[cfg(target_arch = "x86_64")]
fn ticks_are_even() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
}

#[cfg(target_arch = "aarch64")]
fn ticks_are_even() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ticks_are_even() -> bool {
    false
}

/// Nanoseconds since 1970.
fn calendar_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The clock that recordings of the kernel use as well, so that both can be joined.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic_ns() -> i64 {
    #[repr(C)]
    struct Time {
        seconds: std::ffi::c_long,
        nanoseconds: std::ffi::c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: std::ffi::c_int, time: *mut Time) -> std::ffi::c_int;
    }
    const MONOTONIC: std::ffi::c_int = 1;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the time is there to be written, and this clock exists on every Linux.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic_ns() -> i64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_ascend() {
        let state = state_of(1);
        let (first, second) = (reading(state), reading(state));
        assert!(first.tick <= second.tick && first.monotonic_ns <= second.monotonic_ns);
        assert!(first.calendar_ns > 1_600_000_000_000_000_000, "after 2020");
    }
}
