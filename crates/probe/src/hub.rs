//! A hub: one recording with any number of files, each with its own start and end.
//!
//! A [`Session`](crate::Session) is one file. A hub takes the records out of the rings once, and
//! gives them to every open file and to an observer in the program itself.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::output::create::create;
use crate::output::writer::{DrainedRings, Losses, Writer, drain_rings};
use crate::ring::{Room, WhenFull};
use crate::session::Turn;
use crate::{SessionSummary, clock, raw};

/// How a hub records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubOptions {
    /// Capacity of each thread in records; rounded up to a power of two.
    pub records_per_thread: usize,
    /// The maximum capacity: it is quadrupled when records come faster than they are taken out.
    pub records_per_thread_max: usize,
    /// How often records are taken out.
    pub flush_every: Duration,
}

/// Receives every record, on the hub's thread or on the one that flushes; never on two at once.
pub trait Observer: Send {
    /// Called on the hub's thread before it takes records out, for values that are recorded
    /// regularly.
    fn before_flush(&mut self);
    /// The next records of a thread, in order.
    fn see(&mut self, thread_id: u64, records: &[raw::Record]);
}

/// Records until it is dropped. There can be one at a time, and no session at the same time.
pub struct Hub {
    shared: Arc<Mutex<HubState>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Last, so that it is released when all is written.
    turn: Turn,
}

struct HubState {
    observer: Box<dyn Observer>,
    files: Vec<OpenFile>,
    files_seen: u32,
}

struct OpenFile {
    number: u32,
    path: PathBuf,
    writer: Writer<File>,
    /// Why it could not be written on.
    error: Option<io::Error>,
}

impl HubState {
    fn flush(&mut self) -> DrainedRings {
        let drained = drain_rings();
        for row in &drained.rings {
            if !row.records.is_empty() {
                self.observer.see(row.ring.thread.id, &row.records);
            }
        }
        for file in &mut self.files {
            if file.error.is_none() {
                file.error = file.writer.write(&drained).err();
            }
        }
        drained
    }
}

/// Keeps the hub's thread idle; to be held while the process forks.
pub struct Pause<'a>(#[allow(dead_code, reason = "held, not read")] MutexGuard<'a, HubState>);

impl Hub {
    /// Starts recording. Fails if something else is recording.
    pub fn start(options: HubOptions, observer: Box<dyn Observer>) -> io::Result<Self> {
        let (capacity, capacity_max) = (options.records_per_thread, options.records_per_thread_max);
        let turn = Turn::take(Room { capacity, capacity_max }, WhenFull::DropNew)?;
        let shared = HubState { observer, files: Vec::new(), files_seen: 0 };
        let shared = Arc::new(Mutex::new(shared));
        let (stop, stopped) = channel::<()>();
        let of_thread = Arc::clone(&shared);
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(options.flush_every) {
                let mut shared = lock(&of_thread);
                shared.observer.before_flush();
                shared.flush();
            }
        };
        let thread = thread::Builder::new().name("spanwise-hub".to_owned()).spawn(run)?;
        clock::turn_on(turn.state);
        Ok(Hub { shared, stop: Some(stop), thread: Some(thread), turn })
    }

    /// Gives all records so far to the files and the observer.
    pub fn flush(&self) {
        if !self.turn.is_of_parent() {
            lock(&self.shared).flush();
        }
    }

    /// Creates a file, which gets all records from now on, and returns its number.
    pub fn open_file(&self, path: &Path) -> io::Result<u32> {
        let mut shared = lock(&self.shared);
        let drained = shared.flush();
        let began = clock::reading(self.turn.state);
        let writer = Writer::new(create(path)?, self.turn.state, began)?;
        let writer = writer.leaving_out(Losses::until(&drained));
        shared.files_seen += 1;
        let number = shared.files_seen;
        shared.files.push(OpenFile { number, path: path.to_owned(), writer, error: None });
        Ok(number)
    }

    /// Completes a file, and returns what is in it.
    pub fn close_file(&self, number: u32) -> io::Result<SessionSummary> {
        let mut shared = lock(&self.shared);
        let position = shared.files.iter().position(|file| file.number == number);
        let position = position.ok_or_else(|| io::Error::other("no such file"))?;
        let nothing_new = shared.flush().emptied();
        let mut file = shared.files.remove(position);
        if let Some(error) = file.error {
            return Err(error);
        }
        let (records, dropped) = file.writer.end_with(&nothing_new)?;
        Ok(SessionSummary { path: file.path, records, dropped })
    }

    /// Waits until the hub's thread is idle, and keeps it idle.
    pub fn pause(&self) -> Pause<'_> {
        Pause(lock(&self.shared))
    }
}

fn lock(shared: &Mutex<HubState>) -> MutexGuard<'_, HubState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Hub {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.turn.is_of_parent() {
            // The thread does not exist here, and the files are its parent's.
            std::mem::forget((thread, Arc::clone(&self.shared)));
            return;
        }
        clock::turn_off();
        drop(self.stop.take());
        // A thread that panicked has nothing more to write.
        let _ = thread.join();
        let mut shared = lock(&self.shared);
        let nothing_new = shared.flush().emptied();
        for mut file in std::mem::take(&mut shared.files) {
            // Errors are reported by `close_file`.
            let _ = file.writer.end_with(&nothing_new);
        }
    }
}
