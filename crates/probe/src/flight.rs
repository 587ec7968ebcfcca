//! A flight recorder: the latest records stay in memory until a snapshot is requested.

use std::io;
use std::path::Path;

use crate::SessionSummary;
use crate::clock::{self, ClockReading};
use crate::output::create::NewFile;
use crate::output::writer::Writer;
use crate::ring::{Room, WhenFull};
use crate::session::Turn;

/// Records to memory only, until it is dropped. Snapshots save the latest records of each
/// thread. There can be one at a time, and no session at the same time.
///
/// ```
/// use spanwise_probe::{FlightRecorder, span};
///
/// # let folder = std::env::temp_dir().join(format!("flight-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("slow.spanwise-session");
/// let mut recorder = FlightRecorder::start(10_000)?;
/// for _ in 0..3 {
///     let _request = span!("request");
/// }
/// // Something was slow:
/// let saved = recorder.snapshot(&file)?;
/// assert_eq!(saved.records, 3);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FlightRecorder {
    turn: Turn,
    began: ClockReading,
}

impl FlightRecorder {
    /// Keeps the latest records of each thread, 24 bytes each; their number is rounded up to a
    /// power of two.
    pub fn start(records_per_thread: usize) -> io::Result<Self> {
        let turn = Turn::take(Room::fixed(records_per_thread), WhenFull::DropOldest)?;
        let began = clock::reading(turn.state);
        clock::turn_on(turn.state);
        Ok(FlightRecorder { turn, began })
    }

    /// Saves the records while recording continues. The next snapshot starts where this one
    /// ended. The file appears complete or not at all, readable by its owner only; only a regular
    /// file is replaced.
    pub fn snapshot(&mut self, path: impl AsRef<Path>) -> io::Result<SessionSummary> {
        let path = path.as_ref();
        if self.turn.is_of_parent() {
            return Err(io::Error::other("a forked process has no flight recorder"));
        }
        let (new, file) = NewFile::create(path)?;
        let (records, dropped) = Writer::new(file, self.turn.state, self.began)?.end()?;
        new.keep()?;
        Ok(SessionSummary { path: path.to_owned(), records, dropped })
    }
}
