//! The file of a session: chunks, one after the other, each with its length and a check.
//!
//! It is only ever appended to, so what was written stays readable whatever happens to the
//! program. docs/reference/formats/session.md describes every byte.

use std::fs;
use std::io::{self, Write};

use crate::Site;
use crate::clock::ClockReading;
use crate::ring::{Record, ThreadFacts};

/// What every session file begins with.
const MAGIC: &[u8; 8] = b"SPANSES1";

/// What a chunk holds.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
enum Chunk {
    Process = 1,
    Clock = 2,
    Site = 3,
    Thread = 4,
    Records = 5,
    End = 6,
}

/// Writes chunks; each flush hands whole chunks to the file.
pub(crate) struct SessionFile<W> {
    out: W,
    waiting: Vec<u8>,
}

/// The system's id of this boot, whose monotonic clock times are of; empty where it has none.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

impl<W: Write> SessionFile<W> {
    /// Starts a file, with facts about the process.
    pub(crate) fn new(out: W, process_id: u32, program: &str) -> io::Result<Self> {
        let mut file = SessionFile { out, waiting: MAGIC.to_vec() };
        file.chunk(Chunk::Process, |body| {
            put_u32(body, process_id);
            put_text(body, program);
            put_text(body, &boot());
        });
        file.flush()?;
        Ok(file)
    }

    pub(crate) fn clock(&mut self, reading: ClockReading) {
        self.chunk(Chunk::Clock, |body| {
            put_u64(body, reading.tick);
            put_u64(body, reading.monotonic_ns as u64);
            put_u64(body, reading.calendar_ns as u64);
        });
    }

    pub(crate) fn site(&mut self, number: u32, site: &Site) {
        self.chunk(Chunk::Site, |body| {
            put_u32(body, number);
            put_u32(body, site.kind as u32);
            put_u32(body, site.line);
            put_text(body, site.name);
            put_text(body, site.file);
        });
    }

    pub(crate) fn thread(&mut self, number: u32, thread: &ThreadFacts) {
        self.chunk(Chunk::Thread, |body| {
            put_u32(body, number);
            put_u64(body, thread.id);
            put_text(body, &thread.name);
        });
    }

    /// The next records of a thread, and how many it has dropped so far.
    pub(crate) fn records(&mut self, thread: u32, dropped: u64, records: &[Record]) {
        self.chunk(Chunk::Records, |body| {
            put_u32(body, thread);
            put_u64(body, dropped);
            body.reserve(size_of_val(records));
            records.as_flattened().iter().for_each(|&word| put_u64(body, word));
        });
    }

    /// The last chunk: the session was ended, not cut off.
    pub(crate) fn end(&mut self, records: u64, dropped: u64) {
        self.chunk(Chunk::End, |body| {
            put_u64(body, records);
            put_u64(body, dropped);
        });
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.waiting)?;
        self.waiting.clear();
        self.out.flush()
    }

    fn chunk(&mut self, chunk: Chunk, fill: impl FnOnce(&mut Vec<u8>)) {
        put_u32(&mut self.waiting, chunk as u32);
        let head = self.waiting.len();
        put_u32(&mut self.waiting, 0);
        put_u64(&mut self.waiting, 0);
        let body = self.waiting.len();
        fill(&mut self.waiting);
        let len = (self.waiting.len() - body) as u32;
        let check = check(&self.waiting[body..]);
        self.waiting[head..head + 4].copy_from_slice(&len.to_le_bytes());
        self.waiting[head + 4..body].copy_from_slice(&check.to_le_bytes());
    }
}

/// Shows whether a chunk came through whole: FNV-1a over words of eight bytes, the last one
/// filled up with zeros.
fn check(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for piece in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u32(out, text.len() as u32);
    out.extend_from_slice(text.as_bytes());
}
