//! A session: from its start to its end, all records of the program go to one file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::output::create::create;
use crate::output::writer::Writer;
use crate::ring::{Room, WhenFull, close_rings, open_rings};
use crate::{clock, raw};

/// How a session records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Capacity of each thread for records that are not yet written, 24 bytes each; rounded up
    /// to a power of two.
    pub records_per_thread: usize,
    /// How often records go to the file. A crash loses at most this much time.
    pub flush_every: Duration,
    /// Whether to wait for space instead of dropping records: nothing is lost, but the program
    /// slows down when it records faster than the file is written.
    pub waits_for_room: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            records_per_thread: 1 << 16,
            flush_every: Duration::from_millis(20),
            waits_for_room: false,
        }
    }
}

/// The result of a finished session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The file.
    pub path: PathBuf,
    /// Records in the file.
    pub records: u64,
    /// Records that were lost for lack of space.
    pub dropped: u64,
}

/// Records to a file until it is finished or dropped. There can be one at a time.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    /// Dropping it stops the writer.
    stop: Option<Sender<()>>,
    writer: Option<JoinHandle<io::Result<(u64, u64)>>>,
    /// Last, so that it is released when all is written.
    turn: Turn,
}

/// Whether a session records. There is one at a time, so that spans need not choose.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// Number of sessions so far, by which threads notice a new one.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The right to record; released when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) state: u32,
    process_id: u32,
}

impl Turn {
    pub(crate) fn take(room: Room, when_full: WhenFull) -> io::Result<Self> {
        if IS_BUSY.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other("another session records already"));
        }
        stop_in_forked_children();
        let state = clock::state_of(COUNT.fetch_add(1, Ordering::Relaxed) + 1);
        open_rings(state, room, when_full);
        Ok(Turn { state, process_id: std::process::id() })
    }

    /// Whether this is a fork of the process that records.
    pub(crate) fn is_of_parent(&self) -> bool {
        std::process::id() != self.process_id
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_of_parent() {
            clock::turn_off();
            close_rings();
            IS_BUSY.store(false, Ordering::Release);
        }
    }
}

/// A forked child has no thread that writes, and the file is its parent's: it records
/// nothing until it starts a session of its own.
pub(crate) fn stop_in_forked_children() {
    static ONCE: Once = Once::new();
    #[cfg(unix)]
    ONCE.call_once(|| {
        type Handler = Option<extern "C" fn()>;
        unsafe extern "C" {
            fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler)
            -> std::ffi::c_int;
        }
        extern "C" fn in_child() {
            clock::turn_off();
            raw::forget_latest();
            IS_BUSY.store(false, Ordering::Release);
        }
        // SAFETY: the handler only stores to three atomic words.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}

impl Session {
    /// Starts recording to a new file, with default options.
    pub fn start(path: impl AsRef<Path>) -> io::Result<Self> {
        Session::start_with(path, SessionOptions::default())
    }

    /// Starts recording to a new file. Fails if another session is recording, or if the file
    /// cannot be created.
    pub fn start_with(path: impl AsRef<Path>, options: SessionOptions) -> io::Result<Self> {
        let when_full = if options.waits_for_room { WhenFull::Wait } else { WhenFull::DropNew };
        let turn = Turn::take(Room::fixed(options.records_per_thread), when_full)?;
        let path = path.as_ref().to_owned();
        let began = clock::reading(turn.state);
        let mut writer = Writer::new(create(&path)?, turn.state, began)?;
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let result = writer.run(|| {
                matches!(stopped.recv_timeout(options.flush_every), Err(RecvTimeoutError::Timeout))
            });
            // Nobody would make room for more.
            clock::turn_off();
            result
        };
        clock::turn_on(turn.state);
        let writer = thread::Builder::new().name("spanwise-session".to_owned()).spawn(run)?;
        Ok(Session { path, stop: Some(stop), writer: Some(writer), turn })
    }

    /// Stops recording, and returns what is in the file.
    pub fn finish(mut self) -> io::Result<SessionSummary> {
        let (records, dropped) = self.end()?;
        Ok(SessionSummary { path: std::mem::take(&mut self.path), records, dropped })
    }

    fn end(&mut self) -> io::Result<(u64, u64)> {
        let Some(writer) = self.writer.take() else { return Ok((0, 0)) };
        if self.turn.is_of_parent() {
            // The thread does not exist here.
            std::mem::forget(writer);
            return Ok((0, 0));
        }
        clock::turn_off();
        drop(self.stop.take());
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Errors are reported by `finish`.
        let _ = self.end();
    }
}
