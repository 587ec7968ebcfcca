//! Operations that Python code begins and ends itself, with what it measures of them.

use pyo3::prelude::*;
use spanwise_probe::raw;

use crate::core::rate;
use crate::spans::probes;
use crate::spans::record_call::{self, Open};
use crate::spans::values::Values;
use crate::sums::store::{Operation, store};
use crate::sums::tally;

/// An operation that has begun.
#[pyclass(module = "spanwise._native")]
pub(crate) struct Token {
    /// Gone once it has ended.
    open: Option<Open>,
    site: u32,
    thread_id: u64,
    probes: u8,
}

/// Begins an operation. It is recorded where something is; else it goes to who asks alone.
#[pyfunction]
pub(crate) fn begin(site: u32, probes: u8) -> Token {
    let tally = tally::of_site(u64::from(site));
    // SAFETY: called from Python, so with its lock.
    let tally = unsafe {
        (*tally).calls += 1;
        &*tally
    };
    let open = record_call::begin(raw::here(), tally).unwrap_or_else(|| alone(probes));
    Token { open: Some(open), site, thread_id: record_call::thread_id(), probes }
}

/// Begins an operation of nobody, to see what one costs.
#[pyfunction]
pub(crate) fn begin_trial(probes: u8) -> Token {
    // One after the other, they would find the memory read already.
    probes::forget_memory();
    Token { open: Some(alone(probes)), site: 0, thread_id: record_call::thread_id(), probes }
}

fn alone(probes: u8) -> Open {
    let before = (probes != 0).then(|| Box::new(probes::measure(probes)));
    Open { state: raw::OFF, start: raw::now_always(), before, mask: raw::here().open_mask() }
}

/// What two times and a record take, in seconds: the best of a few goes.
#[pyfunction]
pub(crate) fn cost_of_record() -> f64 {
    const GOES: u32 = 20;
    const RECORDS: usize = 256;
    let mut records = vec![[0; 3]; RECORDS];
    let go = |records: &mut Vec<raw::Record>| {
        let before = raw::now_always();
        for record in records.iter_mut() {
            *record = std::hint::black_box([raw::now_always(), raw::now_always(), 1]);
        }
        raw::now_always().saturating_sub(before)
    };
    let best = (0..GOES).map(|_| go(&mut records)).min().unwrap_or(0);
    rate().seconds(best) / RECORDS as f64
}

/// What is known of an operation that has ended: the thread and the tick at which it began, by
/// which what Python reports of it is found again; and how long it took, in seconds.
type Ended = (u64, u64, f64);

#[pymethods]
impl Token {
    /// Ends it; `None` if it has ended before.
    #[pyo3(signature = (exception = None))]
    fn end(&mut self, exception: Option<&str>) -> Option<Ended> {
        let open = self.open.take()?;
        let (start, state) = (open.start, open.state);
        let exception = exception.map(record_call::exception_site);
        let site = u64::from(self.site) | raw::IS_BY_HAND;
        let end = if state != raw::OFF && state == raw::state() {
            // Where it ends on another thread, that thread has it in its records.
            let is_here = record_call::thread_id() == self.thread_id;
            self.thread_id = record_call::thread_id();
            if is_here {
                record_call::end_failed(raw::here(), open, site, exception)
            } else {
                record_call::end_elsewhere(open, site, exception)
            }
        } else {
            self.end_alone(&open, exception)
        };
        Some((self.thread_id, start, rate().seconds(end.saturating_sub(start))))
    }

    /// For how long it has gone on, in seconds.
    fn elapsed(&self) -> Option<f64> {
        let start = self.open.as_ref()?.start;
        Some(rate().seconds(raw::now_always().saturating_sub(start)))
    }
}

impl Token {
    fn end_alone(&self, open: &Open, exception: Option<u64>) -> u64 {
        let end = raw::now_always();
        if open.state != raw::OFF {
            record_call::give_up(raw::here(), open);
        }
        let mut values = Values::default();
        if let Some(before) = &open.before {
            before.values().for_each(|(quantity, value)| values.set(quantity, false, value));
            let after = probes::measure(self.probes);
            after.values().for_each(|(quantity, value)| values.set(quantity, true, value));
        }
        let failed = exception.map_or(0, |_| raw::HAS_FAILED);
        store().add(Operation {
            start: open.start,
            end,
            ticks: end.saturating_sub(open.start),
            active_ticks: None,
            site: u64::from(self.site) | failed | raw::IS_OUTERMOST | raw::IS_BY_HAND,
            thread_id: self.thread_id,
            exception: exception.unwrap_or(0) as u32,
            values: (!values.is_empty()).then(|| Box::new(values)),
        });
        end
    }
}

/// An operation that was timed elsewhere and ended at a tick.
#[pyfunction]
pub(crate) fn add_past(site: u32, ended_at: u64, seconds: f64) -> Ended {
    let start = ended_at.saturating_sub(rate().ticks(seconds));
    let thread_id = add_past_ticks(site, start, ended_at);
    (thread_id, start, seconds)
}

/// An operation between two ticks that have passed; gives the thread that has it.
#[pyfunction]
pub(crate) fn add_past_ticks(site: u32, start: u64, ended_at: u64) -> u64 {
    let (site, thread_id, state) = (u64::from(site), record_call::thread_id(), raw::state());
    if state == raw::OFF {
        store().add(Operation {
            start,
            end: ended_at,
            ticks: ended_at.saturating_sub(start),
            active_ticks: None,
            site,
            thread_id,
            exception: 0,
            values: None,
        });
    } else {
        raw::record(state, [start, ended_at, site]);
    }
    thread_id
}

/// So many ticks in seconds.
#[pyfunction]
pub(crate) fn seconds(ticks: u64) -> f64 {
    rate().seconds(ticks)
}

/// Now, in ticks.
#[pyfunction]
pub(crate) fn ticks() -> u64 {
    raw::now_always()
}

/// The most memory that was seen since a tick, in MiB.
#[pyfunction]
pub(crate) fn peak_since(start: u64) -> Option<f64> {
    let sampled = store().peak(start, u64::MAX);
    match (sampled, probes::memory()) {
        (Some(sampled), Some(now)) => Some(sampled.max(now)),
        (sampled, now) => sampled.or(now),
    }
}
