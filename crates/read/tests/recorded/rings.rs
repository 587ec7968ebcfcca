//! Rings as the kernel and the processor keep them, without either.
//!
//! What a processor would write is known; it comes while others read. In a ring that is emptied
//! the hardware stops where there is no room, and goes on, on request, at the next place
//! where decoding can begin. In one that is overwritten it goes round and round, and says where
//! in the ring it is, not how often it was there.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use spanwise_capture::{TraceClock, TraceRings};

use crate::stepping::perf_data::{File, PiecePlace, ZERO};

pub(crate) const TRUNCATED: u64 = 1;
pub(crate) const PARTIAL: u64 = 4;
pub(crate) const COLLISION: u64 = 8;

/// One processor: what it will write, and what it has.
pub(crate) struct Processor {
    stream: Vec<u8>,
    /// How much of the stream has happened.
    at: Cell<usize>,
    ring: RefCell<Vec<u8>>,
    written: Cell<u64>,
    tail: Cell<u64>,
    is_on: Cell<bool>,
}

pub(crate) struct Rings {
    pub(crate) processors: Vec<Processor>,
    ring_bytes: usize,
    is_overwritten: bool,
    pid: i32,
    /// What the hardware writes while somebody copies.
    pub(crate) meanwhile: usize,
    /// Said of each piece besides what is so.
    pub(crate) flags: u64,
    /// The kernel's own ring: records that nobody has read, how many bytes it can hold, and
    /// how many records found no room.
    records: RefCell<VecDeque<Vec<u8>>>,
    pub(crate) records_max: usize,
    lost: Cell<u64>,
}

impl Rings {
    pub(crate) fn new(
        pid: i32,
        streams: Vec<Vec<u8>>,
        ring_bytes: usize,
        is_overwritten: bool,
    ) -> Rings {
        let processor = |stream| Processor {
            stream,
            at: Cell::new(0),
            ring: RefCell::new(vec![0; ring_bytes]),
            written: Cell::new(0),
            tail: Cell::new(0),
            is_on: Cell::new(true),
        };
        Rings {
            processors: streams.into_iter().map(processor).collect(),
            ring_bytes,
            is_overwritten,
            pid,
            meanwhile: 0,
            flags: 0,
            records: RefCell::default(),
            records_max: usize::MAX,
            lost: Cell::new(0),
        }
    }

    /// The hardware goes on for this many bytes; false where all has happened.
    pub(crate) fn run(&self, ring: usize, len: usize) -> bool {
        let processor = &self.processors[ring];
        let from = processor.at.get();
        let end = (from + len).min(processor.stream.len());
        processor.at.set(end);
        if processor.is_on.get() {
            self.write(ring, &processor.stream[from..end]);
        }
        end < processor.stream.len()
    }

    fn write(&self, ring: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let processor = &self.processors[ring];
        let start = processor.written.get();
        let used = start - processor.tail.get();
        let room = match self.is_overwritten {
            true => bytes.len(),
            false => bytes.len().min(self.ring_bytes - used as usize),
        };
        for (at, &byte) in bytes[..room].iter().enumerate() {
            processor.ring.borrow_mut()[(start as usize + at) % self.ring_bytes] = byte;
        }
        processor.written.set(start + room as u64);
        let is_full = room < bytes.len();
        let flags = if is_full { self.flags | TRUNCATED } else { self.flags };
        // Rings that are overwritten are reported only for a reason.
        if flags != 0 || !self.is_overwritten {
            let place = PiecePlace { queue: ring as u32, tid: -1, cpu: ring as i32, offset: start };
            let mut file = File::default();
            file.aux_piece(self.pid, place, room, flags);
            self.say(file.into_records());
        }
        processor.is_on.set(!is_full);
    }

    /// The kernel writes a record, if it has room.
    pub(crate) fn say(&self, record: Vec<u8>) {
        let mut records = self.records.borrow_mut();
        let used: usize = records.iter().map(Vec::len).sum();
        match used + record.len() <= self.records_max {
            true => records.push_back(record),
            false => self.lost.set(self.lost.get() + 1),
        }
    }

    /// All records so far, which makes room; behind them, how many were lost.
    pub(crate) fn read_records(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.records.borrow_mut().drain(..).flatten().collect();
        if self.lost.get() > 0 {
            let mut file = File::default();
            file.lost(self.pid, self.lost.replace(0));
            bytes.extend(file.into_records());
        }
        bytes
    }
}

impl TraceRings for Rings {
    fn processors(&self) -> Vec<i32> {
        (0..self.processors.len() as i32).collect()
    }

    fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    fn head(&self, ring: usize) -> u64 {
        let written = self.processors[ring].written.get();
        if self.is_overwritten { written % self.ring_bytes as u64 } else { written }
    }

    fn copy(&self, ring: usize, from: u64, len: usize, into: &mut Vec<u8>) {
        assert!(len <= self.ring_bytes);
        self.run(ring, self.meanwhile);
        let data = self.processors[ring].ring.borrow();
        into.extend((0..len).map(|at| data[(from as usize + at) % self.ring_bytes]));
    }

    fn free_until(&self, ring: usize, place: u64) {
        let processor = &self.processors[ring];
        assert!((processor.tail.get()..=processor.written.get()).contains(&place));
        assert!(!self.is_overwritten, "such memory cannot be written");
        processor.tail.set(place);
    }

    fn stop(&self) {
        self.processors.iter().for_each(|processor| processor.is_on.set(false));
    }

    fn start(&self, ring: usize) {
        let processor = &self.processors[ring];
        if !processor.is_on.replace(true) {
            let from = processor.at.get();
            let next = spanwise_pt::find_psb(&processor.stream, from);
            processor.at.set(next.unwrap_or(processor.stream.len()));
        }
    }

    fn clock(&self) -> TraceClock {
        TraceClock { shift: 0, factor: 1, zero: ZERO, is_known: true }
    }

    fn ticks(&self) -> u64 {
        crate::stepping::record::FIRST_TICK
    }
}
