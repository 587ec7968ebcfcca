//! Steps of work, counted in debug builds only.
//!
//! Tests show with them that work grows no faster than its input: unlike time, a count is the
//! same on every machine. Reading a trace or a profile counts, and so does each round of a loop
//! that a hostile file could make long. The counter belongs to a thread, so such tests work
//! inside of [`crate::on_one_thread`].

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds to the steps of this thread. Release builds do nothing.
#[inline(always)]
pub fn count_effort(steps: usize) {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get().wrapping_add(steps as u64));
    #[cfg(not(debug_assertions))]
    let _ = steps;
}

/// The steps of this thread so far; `None` in release builds, which do not count.
pub fn effort() -> Option<u64> {
    #[cfg(debug_assertions)]
    return Some(STEPS.get());
    #[cfg(not(debug_assertions))]
    return None;
}
