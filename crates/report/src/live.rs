//! A session that is still being written, as traces of what there is so far.

use std::path::{Path, PathBuf};

use spanwise_model::{LiveSession, Trace};
use spanwise_read::{IndexUse, OpenOptions, SessionFollower};
use spanwise_write::LiveState;

use crate::ReportError;

/// Whether the program that writes a session is there. Its number may belong to another one
/// by now; that shows by a session that does not grow.
pub fn live_state(session: &LiveSession) -> LiveState {
    if session.has_ended {
        return LiveState::Ended;
    }
    let process = Path::new("/proc").join(session.process_id.to_string());
    match process.exists() {
        true => LiveState::Running,
        false => LiveState::Gone,
    }
}

/// A session's file whose program runs.
///
/// An update without news is cheap; a trace never changes, so it is read again from the start if
/// the file has grown.
pub struct LiveTrace {
    path: PathBuf,
    follower: SessionFollower,
    bytes_read: u64,
}

/// What is new in a session.
pub struct LiveUpdate {
    /// All that there is now, if that is more than at the update before.
    pub trace: Option<Trace>,
    /// Whether there may be more later.
    pub is_live: bool,
}

impl LiveTrace {
    /// Nothing where the file is no session, or one that is over.
    pub fn open(path: &Path) -> Option<Self> {
        let mut follower = SessionFollower::open(path).ok()?;
        let session = follower.poll().ok()?;
        let is_live = live_state(&session) == LiveState::Running;
        is_live.then(|| LiveTrace { path: path.to_owned(), follower, bytes_read: 0 })
    }

    /// What there is now.
    pub fn update(&mut self) -> Result<LiveUpdate, ReportError> {
        let session = self.follower.poll()?;
        let is_live = live_state(&session) == LiveState::Running;
        let has_grown = session.bytes != self.bytes_read;
        self.bytes_read = session.bytes;
        let read = || {
            // An index would be outdated at once.
            let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
            spanwise_read::open(&self.path, &options)
        };
        let trace = has_grown.then(read).transpose()?;
        Ok(LiveUpdate { trace, is_live })
    }
}
