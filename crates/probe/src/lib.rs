//! Records spans of your own program, at about the cost of two clock reads.
//!
//! ```
//! use spanwise_probe::{Session, span};
//!
//! # let folder = std::env::temp_dir().join(format!("probe-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("run.spanwise-session");
//! let session = Session::start(&file)?;
//! for batch in 0..3 {
//!     let _step = span!("step");
//!     spanwise_probe::counter!("batch", batch);
//! }
//! let saved = session.finish()?;
//! assert_eq!((saved.records, saved.dropped), (6, 0));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `spanwise report run.spanwise-session` then shows where the time went; every other command
//! reads the file, too, also while the program is running.
//!
//! A whole function is a span with [`instrument`], each poll of a future with [`in_span`].
//! [`FlightRecorder`] keeps the latest records in memory, for snapshots of what was slow.
//! [`Hub`] and [`raw`] are for bindings to other languages.
//!
//! Each thread writes to a ring of its own; a thread of the session moves the records to the
//! file. A full ring drops new records and counts them: nothing ever waits. Without a session a
//! span costs one relaxed load; with the feature `off` it is not compiled.

#![warn(missing_docs)]

mod clock;
mod flight;
mod hub;
mod output;
pub mod raw;
mod ring;
mod session;
mod site;
mod snapshot;
mod span;
mod task;

pub use flight::FlightRecorder;
pub use hub::{Hub, HubOptions, Observer, Pause};
pub use session::{Session, SessionOptions, SessionSummary};
pub use site::{Site, SiteKind};
pub use snapshot::{
    mark_start, spanwise_snapshot, take_snapshot, take_snapshot_min_duration,
    take_snapshot_with_arg,
};
pub use span::{Span, counter, mark};
pub use spanwise_probe_macros::instrument;
pub use task::{InSpan, in_span};

/// A static site at the position of the macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    ($kind:ident, $name:expr) => {{
        static SITE: $crate::Site =
            $crate::Site::new($crate::SiteKind::$kind, $name, file!(), line!());
        &SITE
    }};
}

/// Records a span from here to the end of the block: `let _work = span!("work");`.
#[macro_export]
macro_rules! span {
    ($name:expr) => {
        $crate::Span::enter($crate::__site!(Span, $name))
    };
}

/// Records an instant event: `mark!("checkpoint");`.
#[macro_export]
macro_rules! mark {
    ($name:expr) => {
        $crate::mark($crate::__site!(Mark, $name))
    };
}

/// Records a value of a counter: `counter!("queue length", queue.len() as f64);`.
#[macro_export]
macro_rules! counter {
    ($name:expr, $value:expr) => {
        $crate::counter($crate::__site!(Counter, $name), f64::from($value))
    };
}
