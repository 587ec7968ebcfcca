//! Spans, instant events and counters.

use std::marker::PhantomData;

use crate::Site;
use crate::clock::{self, OFF};
use crate::ring::record;

/// Records a span from its creation until it is dropped, on the same thread.
#[must_use = "the span ends when this is dropped: `let _span = …`"]
#[derive(Debug)]
pub struct Span {
    start: u64,
    site: &'static Site,
    state: u32,
    of_one_thread: PhantomData<*const ()>,
}

impl Span {
    /// Starts a span. [`span!`](crate::span) does so with a site of its own.
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
        // Of a session that started or ended in between, half of the span is missing.
        if self.state != OFF && self.state == clock::state() {
            let end = clock::now(self.state);
            record(self.state, [self.start, end, u64::from(self.site.number())]);
        }
    }
}

/// Records an instant event. [`mark!`](crate::mark!) does so with a site of its own.
#[inline]
pub fn mark(site: &'static Site) {
    let state = clock::state();
    if state != OFF {
        let now = clock::now(state);
        record(state, [now, now, u64::from(site.number())]);
    }
}

/// Records a value of a counter. [`counter!`](crate::counter!) does so with a site of its own.
#[inline]
pub fn counter(site: &'static Site, value: f64) {
    let state = clock::state();
    if state != OFF {
        record(state, [clock::now(state), value.to_bits(), u64::from(site.number())]);
    }
}
