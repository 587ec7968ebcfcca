//! The traces that are looked at, and what was worked out about them once.

use std::sync::{Arc, Mutex, OnceLock};

use spanwise_analyze::{LaunchedWork, ProfileOptions, Rows};
use spanwise_model::{Nanos, Profile, Trace, TrackId, map_indices, threads_available};
use spanwise_query::Database;
use spanwise_write::Document;

/// What the program around the server can do and the server need not know how.
#[derive(Clone, Copy)]
pub struct Shell {
    /// The usual report on a trace.
    pub report: fn(&Trace, &str) -> Document,
    /// What changed from the first trace to the second.
    pub compare: fn(&Viewed, &Viewed) -> Document,
}

/// All that is looked at.
pub struct Session {
    pub(crate) traces: Vec<Viewed>,
    pub(crate) shell: Shell,
    /// Made when first asked; one question at a time.
    pub(crate) database: Mutex<Option<Database>>,
}

impl Session {
    pub fn new(traces: Vec<Viewed>, shell: Shell) -> Self {
        Session { traces, shell, database: Mutex::new(None) }
    }
}

/// One trace.
pub struct Viewed {
    pub(crate) file: String,
    pub(crate) trace: Arc<Trace>,
    /// One entry a track.
    rows: Vec<Rows>,
    launches: OnceLock<LaunchedWork>,
    profile: OnceLock<Profile>,
    pub(crate) report: OnceLock<String>,
}

impl Viewed {
    /// `file` is what people know it by.
    pub fn new(file: String, trace: Trace) -> Self {
        let trace = Arc::new(trace);
        let tracks = trace.tracks().rows();
        let rows = map_indices(tracks.len(), threads_available(), |track| {
            Rows::of(&trace, &tracks[track])
        });
        let (launches, profile, report) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Viewed { file, rows, trace, launches, profile, report }
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn rows(&self, track: TrackId) -> &Rows {
        &self.rows[track.index()]
    }

    pub(crate) fn launches(&self) -> &LaunchedWork {
        self.launches.get_or_init(|| LaunchedWork::of(&self.trace))
    }

    pub(crate) fn profile(&self) -> &Profile {
        let make = || spanwise_analyze::profile(&self.trace, &ProfileOptions::default());
        self.profile.get_or_init(make)
    }

    /// Times are told since here.
    pub(crate) fn zero(&self) -> Nanos {
        self.trace.window().map_or(0, |(from, _)| from)
    }

    /// A time of the trace for the page.
    pub(crate) fn told(&self, time: Nanos) -> i128 {
        i128::from(time) - i128::from(self.zero())
    }

    /// A time of the page for the trace.
    pub(crate) fn meant(&self, time: i64) -> Nanos {
        time.saturating_add(self.zero())
    }
}
