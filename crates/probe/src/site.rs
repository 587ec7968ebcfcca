//! Sites: the positions in the program that record something.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a site records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum SiteKind {
    /// Spans.
    Span = 0,
    /// Instant events.
    Mark = 1,
    /// Values over time.
    Counter = 2,
    /// Work from its start to its end, including the times in which it waited: it is not on one
    /// thread, or not all the time.
    Task = 3,
}

/// A position in the program with a name. The macros [`span!`](crate::span),
/// [`mark!`](crate::mark!) and [`counter!`](crate::counter!) each create one.
#[derive(Debug)]
pub struct Site {
    pub(crate) kind: SiteKind,
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    /// From 1, in the order of first use; 0 until then.
    number: AtomicU32,
}

/// All sites that were used, in order of their numbers.
static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

impl Site {
    /// For a static; usually a macro does this.
    pub const fn new(kind: SiteKind, name: &'static str, file: &'static str, line: u32) -> Self {
        Site { kind, name, file, line, number: AtomicU32::new(0) }
    }

    /// A site for a name that is only known at run time. It is never freed: create one per name,
    /// not one per call.
    pub fn leak(kind: SiteKind, name: &str, file: &str, line: u32) -> &'static Site {
        let text = |text: &str| -> &'static str { Box::leak(text.into()) };
        Box::leak(Box::new(Site::new(kind, text(name), text(file), line)))
    }

    /// Its number in session files.
    #[inline]
    pub fn number(&'static self) -> u32 {
        match self.number.load(Ordering::Relaxed) {
            0 => self.register(),
            number => number,
        }
    }

    #[cold]
    fn register(&'static self) -> u32 {
        let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here first.
        if self.number.load(Ordering::Relaxed) == 0 {
            sites.push(self);
            self.number.store(sites.len() as u32, Ordering::Relaxed);
        }
        self.number.load(Ordering::Relaxed)
    }
}

/// The sites with numbers above `known`.
pub(crate) fn sites_after(known: usize) -> Vec<&'static Site> {
    let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    sites.get(known..).unwrap_or_default().to_vec()
}
