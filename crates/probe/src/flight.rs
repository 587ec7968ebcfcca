//! A flight recorder: the latest moments stay in memory until someone asks for them.

use std::fs;
use std::io;
use std::path::Path;

use crate::Saved;
use crate::clock::{self, Moment};
use crate::create::{check_replaceable, create_beside};
use crate::ring::{Room, WhenFull};
use crate::session::Turn;
use crate::writer::Writer;

/// Records into memory alone, until it is dropped. Snapshots save the latest records of each
/// thread. There is one at a time, and no session beside it.
#[derive(Debug)]
pub struct FlightRecorder {
    turn: Turn,
    began: Moment,
}

impl FlightRecorder {
    /// Keeps the latest records of each thread, 24 bytes each; their number is rounded up to
    /// a power of two.
    pub fn start(records_per_thread: usize) -> io::Result<Self> {
        let turn = Turn::take(Room::fixed(records_per_thread), WhenFull::DropOldest)?;
        let began = clock::moment(turn.state);
        clock::turn_on(turn.state);
        Ok(FlightRecorder { turn, began })
    }

    /// Saves what is there while recording goes on. The next snapshot begins where this one
    /// ended. The file appears whole or not at all, for its owner alone; nothing but a regular
    /// file is replaced.
    pub fn snapshot(&mut self, path: impl AsRef<Path>) -> io::Result<Saved> {
        let path = path.as_ref();
        if self.turn.is_of_parent() {
            return Err(io::Error::other("a forked process has no flight recorder"));
        }
        check_replaceable(path)?;
        let (making, file) = create_beside(path)?;
        let write = || -> io::Result<(u64, u64)> {
            let counts = Writer::new(file, self.turn.state, self.began)?.end()?;
            check_replaceable(path)?;
            fs::rename(&making, path)?;
            Ok(counts)
        };
        let written = write();
        let (records, dropped) = written.inspect_err(|_| {
            // What cannot be finished is of no use.
            let _ = fs::remove_file(&making);
        })?;
        Ok(Saved { path: path.to_owned(), records, dropped })
    }
}
