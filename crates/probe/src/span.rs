//! Spans, marks and counters, as the program makes them.

use std::marker::PhantomData;

use crate::Site;
use crate::clock::{self, OFF};
use crate::ring::record;

/// Records a span when it is dropped. It belongs to the thread that made it.
#[must_use = "the span ends when this is dropped: `let _span = …`"]
#[derive(Debug)]
pub struct Span {
    start: u64,
    site: &'static Site,
    state: u32,
    of_one_thread: PhantomData<*const ()>,
}

impl Span {
    #[inline]
    pub fn enter(site: &'static Site) -> Self {
        let state = clock::state();
        let start = if state == OFF { 0 } else { clock::now(state) };
        Span { start, site, state, of_one_thread: PhantomData }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        // A session that began or ended in between has no use for half a span.
        if self.state != OFF && self.state == clock::state() {
            let end = clock::now(self.state);
            record(self.state, [self.start, end, u64::from(self.site.number())]);
        }
    }
}

/// Records a moment.
#[inline]
pub fn mark(site: &'static Site) {
    let state = clock::state();
    if state != OFF {
        let now = clock::now(state);
        record(state, [now, now, u64::from(site.number())]);
    }
}

/// Records a value over time.
#[inline]
pub fn counter(site: &'static Site, value: f64) {
    let state = clock::state();
    if state != OFF {
        record(state, [clock::now(state), value.to_bits(), u64::from(site.number())]);
    }
}
