//! A session's file, read on while it grows.
//!
//! The file is only ever appended to, chunk by chunk, so each poll reads what is new and
//! nothing else. The program that writes it is not asked, and does not notice.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use spanwise_files::open_regular;
use spanwise_model::LiveSession;

use super::chunks::{HEAD_BYTES, MAGIC, next_chunk};
use super::sums::Sums;
use crate::{ReadError, ReadErrorKind};

/// How much is read at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Enough of the beginning to distinguish one session from the next in the same place: process and
/// clock.
const IDENTITY_BYTES: usize = 64;

/// Follows one file.
///
/// ```
/// use spanwise_read::SessionFollower;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("run.spanwise-session");
/// let session = spanwise_probe::Session::start(&path)?;
/// drop(spanwise_probe::span!("step"));
/// # session.finish()?;
///
/// // Usually in another process, and again and again until `has_ended`.
/// let mut follower = SessionFollower::open(&path)?;
/// let sums = follower.poll()?;
/// assert_eq!((sums.spans[0].name.as_str(), sums.spans[0].count), ("step", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SessionFollower {
    path: PathBuf,
    /// What the file began with.
    identity: Vec<u8>,
    /// Up to where it has been read.
    offset: u64,
    /// The beginning of a chunk that is not whole yet.
    rest: Vec<u8>,
    sums: Sums,
}

impl SessionFollower {
    /// For a file that is a session, be it only its beginning.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let follower = SessionFollower {
            path: path.to_owned(),
            identity: Vec::new(),
            offset: 0,
            rest: Vec::new(),
            sums: Sums::default(),
        };
        follower.check_head().map_err(|kind| follower.error(kind))?;
        Ok(follower)
    }

    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError { path: self.path.clone(), kind }
    }

    fn check_head(&self) -> Result<(), ReadErrorKind> {
        let head = beginning(&mut open_regular(&self.path)?, MAGIC.len())?;
        if head == MAGIC {
            return Ok(());
        }
        let found = format!("{:?}", String::from_utf8_lossy(&head));
        Err(ReadErrorKind::NotATrace { offset: 0, what: "no session of spanwise", found })
    }

    /// Reads what is new, and returns the sums so far. A file that starts over, since another
    /// session is written to its place, is read from its start.
    pub fn poll(&mut self) -> Result<LiveSession, ReadError> {
        self.read_new().map_err(|error| self.error(error.into()))?;
        let mut session = self.sums.report();
        session.bytes = self.offset;
        session.unread_bytes = self.rest.len() as u64;
        Ok(session)
    }

    fn read_new(&mut self) -> io::Result<()> {
        let mut file = open_regular(&self.path)?;
        let len = file.metadata()?.len();
        let head = beginning(&mut file, IDENTITY_BYTES)?;
        if len < self.offset || !head.starts_with(&self.identity) {
            (self.offset, self.sums) = (0, Sums::default());
            self.rest.clear();
        }
        self.identity = head;
        file.seek(SeekFrom::Start(self.offset))?;
        while self.offset < len {
            let piece = (&mut file).take(PIECE_BYTES.min(len - self.offset));
            let count = { piece }.read_to_end(&mut self.rest)? as u64;
            if count == 0 {
                break;
            }
            let is_beginning = self.offset == 0;
            self.offset += count;
            self.take_chunks(if is_beginning { MAGIC.len() } else { 0 });
        }
        Ok(())
    }

    /// Takes in the chunks that are whole, from a place of what was read.
    fn take_chunks(&mut self, from: usize) {
        let mut at = from.min(self.rest.len());
        while self.rest.len() - at >= HEAD_BYTES {
            let Some((chunk, len)) = next_chunk(&self.rest[at..]) else { break };
            if chunk.and_then(|chunk| self.sums.take(chunk)).is_none() {
                self.sums.damage();
            }
            at += len;
        }
        self.rest.drain(..at);
    }
}

/// The first bytes of a file, fewer where it is shorter.
fn beginning(file: &mut File, len: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(len);
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
