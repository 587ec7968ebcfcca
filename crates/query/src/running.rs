//! The query that the current thread runs: when it must stop, and what it may still use.
//!
//! SQLite calls us from deep inside: its allocator, its progress handler and our tables. None of
//! them knows which query it works for, so the query is kept per thread. That is sound because
//! a query runs on one thread from its first step to its last. SQLite's own heap limit was refused:
//! it holds for the whole process, so one greedy query would fail all others.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::answer::Limits;

/// How often somebody is asked whether the answer is still wanted; the clock is read more often.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Rows that tables go through between two reads of the clock.
const ROWS_BETWEEN_CHECKS: usize = 1 << 18;

thread_local! {
    /// Bytes that the query may still allocate; nothing where no query runs.
    static MEMORY_LEFT: Cell<Option<i64>> = const { Cell::new(None) };
    static VALUE_BYTES_MAX: Cell<usize> = const { Cell::new(usize::MAX) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Why a query was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Time,
    /// Nobody waits for the answer.
    Unwanted,
}

struct Watch {
    end: Option<Instant>,
    is_wanted: Box<dyn Fn() -> bool>,
    next_ask: Instant,
    rows_since_check: usize,
    stopped: Option<StopReason>,
}

impl Watch {
    fn must_stop(&mut self) -> bool {
        let now = Instant::now();
        if self.stopped.is_some() {
            return true;
        }
        if self.end.is_some_and(|end| now >= end) {
            self.stopped = Some(StopReason::Time);
        } else if now >= self.next_ask {
            self.next_ask = now + ASK_EVERY;
            self.stopped = (!(self.is_wanted)()).then_some(StopReason::Unwanted);
        }
        self.stopped.is_some()
    }
}

/// The query of this thread, from `start` until it is dropped.
pub(crate) struct Running {
    /// It belongs to one thread.
    _of_thread: std::marker::PhantomData<*const ()>,
}

impl Running {
    pub(crate) fn start(limits: Limits, is_wanted: Box<dyn Fn() -> bool>) -> Self {
        let now = Instant::now();
        let end = limits.time_max.and_then(|time| now.checked_add(time));
        let watch =
            Watch { end, is_wanted, next_ask: now + ASK_EVERY, rows_since_check: 0, stopped: None };
        WATCH.set(Some(watch));
        VALUE_BYTES_MAX.set(limits.value_bytes_max);
        MEMORY_LEFT.set(Some(i64::try_from(limits.memory_max).unwrap_or(i64::MAX)));
        Running { _of_thread: std::marker::PhantomData }
    }

    pub(crate) fn stopped(&self) -> Option<StopReason> {
        WATCH.with_borrow(|watch| watch.as_ref().and_then(|watch| watch.stopped))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        WATCH.set(None);
        VALUE_BYTES_MAX.set(usize::MAX);
        MEMORY_LEFT.set(None);
    }
}

/// Whether the query of this thread must stop.
pub(crate) fn must_stop() -> bool {
    WATCH.with_borrow_mut(|watch| watch.as_mut().is_some_and(Watch::must_stop))
}

/// The same for a table that is about to go through `rows` rows, in one step of SQLite.
pub(crate) fn must_stop_before(rows: usize) -> bool {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch else { return false };
        watch.rows_since_check = watch.rows_since_check.saturating_add(rows);
        if watch.rows_since_check < ROWS_BETWEEN_CHECKS {
            return false;
        }
        watch.rows_since_check = 0;
        watch.must_stop()
    })
}

/// Counts memory as used; refuses where the query would have more than it may.
pub(crate) fn take_memory(bytes: usize) -> bool {
    let Some(left) = MEMORY_LEFT.get() else { return true };
    let after = left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    if after < 0 {
        return false;
    }
    MEMORY_LEFT.set(Some(after));
    true
}

/// Counts memory as free again. What an earlier query on this connection left may come back here,
/// so there may be more than at the start: never more than that query was allowed.
pub(crate) fn give_memory(bytes: usize) {
    let Some(left) = MEMORY_LEFT.get() else { return };
    MEMORY_LEFT.set(Some(left.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))));
}

/// The longest text that a function may give.
pub(crate) fn value_bytes_max() -> usize {
    VALUE_BYTES_MAX.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::{Column, Relation, Source};

    fn start(limits: Limits) -> Running {
        Running::start(limits, Box::new(|| true))
    }

    #[test]
    fn tables_read_the_clock_once_they_have_gone_through_many_rows() {
        let running = start(Limits { time_max: Some(Duration::ZERO), ..Limits::NONE });
        assert!(!must_stop_before(ROWS_BETWEEN_CHECKS / 2));
        assert!(must_stop_before(ROWS_BETWEEN_CHECKS / 2));
        assert_eq!(running.stopped(), Some(StopReason::Time));
        drop(running);
        assert!(!must_stop_before(ROWS_BETWEEN_CHECKS) && !must_stop());
    }

    #[test]
    fn memory_is_refused_beyond_the_limit_and_comes_back() {
        let running = start(Limits { memory_max: 100, ..Limits::NONE });
        assert!(take_memory(60) && !take_memory(60) && take_memory(40));
        give_memory(60);
        assert!(take_memory(60) && !take_memory(1));
        drop(running);
        assert!(take_memory(usize::MAX), "no query runs");
    }

    #[test]
    fn a_list_of_rows_is_not_made_for_a_query_that_must_stop() {
        let rows = ROWS_BETWEEN_CHECKS + 1;
        let id = Column::new("id", "", Source::Int(Box::new(|row| Some(row as i64))));
        let columns = vec![id];
        let relation = Relation { name: "t", about: "", rows, columns, ascending: None };
        assert!(relation.select(&[], &[]).is_some());
        let _running = start(Limits { time_max: Some(Duration::ZERO), ..Limits::NONE });
        assert!(relation.select(&[], &[]).is_none());
    }
}
