//! Beginning and ending a span: what every recorded call goes through.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use spanwise_probe::raw::{self, Here};
use spanwise_probe::{Site, SiteKind};

use crate::core::{LEVEL, PROBES};
use crate::spans::probes::{self, Measured};
use crate::sums::store::{Audience, Meaning, SiteFacts, store};
use crate::sums::tally::{self, Tally};

/// What a thread knows of itself, beside what is open on it.
struct OfThread {
    is_named: Cell<bool>,
    /// As the system numbers it; 0 until it was asked.
    id: Cell<u64>,
}

thread_local! {
    static OF_THREAD: OfThread = const {
        OfThread { is_named: Cell::new(false), id: Cell::new(0) }
    };
}

/// What the system calls the calling thread; asked once.
pub(crate) fn thread_id() -> u64 {
    OF_THREAD.with(|thread| {
        if thread.id.get() == 0 {
            thread.id.set(raw::thread_id());
        }
        thread.id.get()
    })
}

/// In a forked child: its one thread has another number, and nothing open of its own.
pub(crate) fn forget_thread() {
    OF_THREAD.with(|thread| thread.id.set(0));
    raw::here().forget_open();
}

/// A span that has begun.
pub(crate) struct Open {
    pub(crate) state: u32,
    pub(crate) start: u64,
    pub(crate) before: Option<Box<Measured>>,
    /// Bits of what was open around it.
    pub(crate) mask: u64,
}

/// Whether a site of this level is recorded now.
#[inline(always)]
pub(crate) fn is_on(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Whether more than the time of a site's spans is measured.
#[inline(always)]
pub(crate) fn is_measured(tally: &Tally) -> bool {
    PROBES.load(Ordering::Relaxed) & probes::OF_SPANS != 0 && tally.mode == tally::FULL
}

/// Begins a span of the calling thread; the time is taken last. `None` while nothing is
/// recorded.
#[inline(always)]
pub(crate) fn begin(here: Here, tally: &Tally) -> Option<Open> {
    begin_with(here, tally, is_measured(tally))
}

/// Begins a span, of which more than the time is measured or not.
#[inline(always)]
pub(crate) fn begin_with(here: Here, tally: &Tally, is_measured: bool) -> Option<Open> {
    let state = raw::state();
    if state == raw::OFF {
        return None;
    }
    if here.is_new(state) {
        name_thread();
    }
    here.enter();
    let mask = here.open_mask();
    here.set_open_mask(mask | tally.bit);
    let before = if is_measured { Some(measured()) } else { None };
    Some(Open { state, start: raw::now(state), before, mask })
}

/// The state for a call that is timed and becomes no row; off while nothing is recorded.
pub(crate) fn state_for_sums(here: Here) -> u32 {
    let state = raw::state();
    if state != raw::OFF && here.is_new(state) {
        name_thread();
    }
    state
}

#[cold]
fn measured() -> Box<Measured> {
    Box::new(probes::measure(PROBES.load(Ordering::Relaxed) & probes::OF_SPANS))
}

/// Ends a span of the calling thread: the time is taken first. Gives the time.
#[inline(always)]
pub(crate) fn end(here: Here, open: Open, site: u64) -> u64 {
    let end = raw::now(open.state);
    let word = site | close(here, &open, end);
    record(here, &open, end, word);
    end
}

/// One span less is open; gives the flag of one that was outermost.
#[inline(always)]
fn close(here: Here, open: &Open, end: u64) -> u64 {
    here.set_open_mask(open.mask);
    if here.leave() != 0 {
        return 0;
    }
    here.add_inside(end.saturating_sub(open.start));
    raw::IS_OUTERMOST
}

/// One span less is open, which is recorded elsewhere.
pub(crate) fn give_up(here: Here, open: &Open) {
    here.set_open_mask(open.mask);
    here.leave();
}

/// Ends a span with an exception: the site of its type's name.
#[cold]
pub(crate) fn end_failed(here: Here, open: Open, site: u64, exception: Option<u64>) -> u64 {
    let end = raw::now(open.state);
    let word = site | close(here, &open, end);
    record_failed(here, &open, end, word, exception);
    end
}

/// Ends a span that began on another thread.
pub(crate) fn end_elsewhere(open: Open, site: u64, exception: Option<u64>) -> u64 {
    let end = raw::now(open.state);
    record_failed(raw::here(), &open, end, site, exception);
    end
}

fn record_failed(here: Here, open: &Open, end: u64, mut word: u64, exception: Option<u64>) {
    if let Some(exception) = exception.filter(|_| open.state == raw::state()) {
        word |= raw::HAS_FAILED;
        here.record(open.state, [end, end, exception]);
    }
    record(here, open, end, word);
}

#[inline(always)]
fn record(here: Here, open: &Open, end: u64, word: u64) {
    // A session that began or ended in between has no use for half a span.
    if open.state != raw::state() {
        return;
    }
    if let Some(before) = &open.before {
        after(here, before, open, end);
    }
    here.record(open.state, [open.start, end, word]);
}

#[cold]
fn after(here: Here, before: &Measured, open: &Open, end: u64) {
    before.record(here, open.state, open.start);
    let wanted = PROBES.load(Ordering::Relaxed) & probes::OF_SPANS;
    probes::measure(wanted).record(here, open.state, end);
}

/// One site for each name of an exception's type.
pub(crate) fn exception_site(name: &str) -> u64 {
    static SITES: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let sites = sites.get_or_insert_with(HashMap::new);
    if let Some(&number) = sites.get(name) {
        return number;
    }
    let number = Site::leak(SiteKind::Mark, name, "", 0).number();
    let (meaning, audience) = (Meaning::Exception, Audience::default());
    store().define(number, SiteFacts { meaning, name: 0, component: 0, audience });
    sites.insert(name.to_owned(), u64::from(number));
    EXCEPTIONS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_with(HashMap::new)
        .insert(number, name.to_owned());
    u64::from(number)
}

static EXCEPTIONS: Mutex<Option<HashMap<u32, String>>> = Mutex::new(None);

/// The name of an exception's type, by the number of its site.
pub(crate) fn exception_name(number: u32) -> Option<String> {
    let names = EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    names.as_ref()?.get(&number).cloned()
}

/// Files call a thread what Python does. Looked up, not asked for: asking makes up a thread
/// object where Python has none.
#[cold]
fn name_thread() {
    if OF_THREAD.with(|thread| thread.is_named.replace(true)) {
        return;
    }
    Python::attach(|py| {
        let name = || -> PyResult<String> {
            let threading = py.import("threading")?;
            let number = threading.call_method0("get_ident")?;
            let known = threading.getattr("_active")?.call_method1("get", (number,))?;
            known.getattr("name")?.extract()
        };
        if let Ok(name) = name() {
            raw::name_thread(&name);
        }
    });
}
