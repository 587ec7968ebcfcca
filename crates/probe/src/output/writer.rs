//! Moves records from the rings of all threads to a file.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::clock::{self, ClockReading};
use crate::output::file::SessionFile;
use crate::ring::{Record, Ring, current_rings};
use crate::site::sites_after;

pub(crate) struct Writer<W> {
    file: SessionFile<W>,
    state: u32,
    known_sites: usize,
    /// By the address of a ring: its number in the file. Held with the ring, so that no other
    /// one gets its address.
    threads: HashMap<usize, (u32, Arc<Ring>)>,
    /// By the owner of a ring: its number, for the larger one that takes over.
    numbers: HashMap<u64, u32>,
    threads_seen: u32,
    records: u64,
    /// By threads that have ended.
    dropped: u64,
    /// What was lost before this file began.
    earlier: Losses,
}

/// What was taken out of the rings at one time.
pub(crate) struct DrainedRings {
    pub(crate) rings: Vec<DrainedRing>,
    /// Records that found no ring, so far.
    homeless: u64,
}

pub(crate) struct DrainedRing {
    pub(crate) ring: Arc<Ring>,
    /// Its thread has ended: nothing will follow.
    is_over: bool,
    pub(crate) records: Vec<Record>,
}

impl DrainedRings {
    /// The same time, with nothing new.
    pub(crate) fn emptied(self) -> Self {
        DrainedRings { rings: Vec::new(), ..self }
    }
}

/// Takes out what is there. One at a time.
pub(crate) fn drain_rings() -> DrainedRings {
    let (rings, homeless) = current_rings();
    let drain = |(ring, is_over): (Arc<Ring>, bool)| {
        let mut records = Vec::new();
        ring.drain(&mut records);
        DrainedRing { ring, is_over, records }
    };
    DrainedRings { rings: rings.into_iter().map(drain).collect(), homeless }
}

/// Records that were dropped up to some time.
#[derive(Default)]
pub(crate) struct Losses {
    homeless: u64,
    /// By the address of a ring, held so that no other one gets it.
    of_rings: HashMap<usize, (u64, Arc<Ring>)>,
}

impl Losses {
    /// What was lost until these were taken out.
    pub(crate) fn until(drained: &DrainedRings) -> Self {
        let lost =
            |row: &DrainedRing| (address(&row.ring), (row.ring.dropped(), Arc::clone(&row.ring)));
        Losses { homeless: drained.homeless, of_rings: drained.rings.iter().map(lost).collect() }
    }

    fn since(&self, ring: &Arc<Ring>) -> u64 {
        let before = self.of_rings.get(&address(ring)).map_or(0, |row| row.0);
        ring.dropped().saturating_sub(before)
    }
}

impl<W: Write> Writer<W> {
    /// Starts a file, with the time at which recording started.
    pub(crate) fn new(out: W, state: u32, began: ClockReading) -> io::Result<Self> {
        let mut file = SessionFile::new(out, std::process::id(), &program())?;
        file.clock(began);
        Ok(Writer {
            file,
            state,
            known_sites: 0,
            threads: HashMap::new(),
            numbers: HashMap::new(),
            threads_seen: 0,
            records: 0,
            dropped: 0,
            earlier: Losses::default(),
        })
    }

    /// For a file that begins while rings are in use already.
    pub(crate) fn leaving_out(self, earlier: Losses) -> Self {
        Writer { earlier, ..self }
    }

    /// Writes again and again until `goes_on` says no; then once more, and the end.
    pub(crate) fn run(&mut self, mut goes_on: impl FnMut() -> bool) -> io::Result<(u64, u64)> {
        while goes_on() {
            self.flush()?;
        }
        self.end()
    }

    /// Writes what is there, and the end. Gives how many records were written in all, and how
    /// many dropped.
    pub(crate) fn end(&mut self) -> io::Result<(u64, u64)> {
        self.end_with(&drain_rings())
    }

    /// The same, with what was taken out already.
    pub(crate) fn end_with(&mut self, drained: &DrainedRings) -> io::Result<(u64, u64)> {
        let dropped = self.write(drained)?;
        self.file.end(self.records, dropped);
        self.file.flush()?;
        Ok((self.records, dropped))
    }

    /// Writes what is there; gives how many records have been dropped so far.
    fn flush(&mut self) -> io::Result<u64> {
        self.write(&drain_rings())
    }

    /// Writes what was taken out; gives how many records have been dropped so far.
    pub(crate) fn write(&mut self, drained: &DrainedRings) -> io::Result<u64> {
        // A program that records nothing for hours leaves a file that does not grow.
        if drained.rings.iter().any(|row| !row.records.is_empty()) {
            self.file.clock(clock::reading(self.state));
        }
        // Asked for after the records: a site has its number before its first one.
        for site in sites_after(self.known_sites) {
            self.known_sites += 1;
            self.file.site(self.known_sites as u32, site);
        }
        for row in &drained.rings {
            self.thread(&row.ring, &row.records);
            if row.is_over {
                self.threads.remove(&address(&row.ring));
                self.dropped += self.earlier.since(&row.ring);
                if !row.ring.is_replaced() {
                    self.numbers.remove(&row.ring.owner);
                }
            }
        }
        self.file.flush()?;
        let of_threads: u64 = self.threads.values().map(|(_, ring)| self.earlier.since(ring)).sum();
        Ok(drained.homeless - self.earlier.homeless + self.dropped + of_threads)
    }

    fn thread(&mut self, ring: &Arc<Ring>, records: &[Record]) {
        let known = self.threads.get(&address(ring)).map(|&(number, _)| number);
        // A thread that has recorded nothing since the file began has no place in it.
        if known.is_none() && records.is_empty() && self.earlier.since(ring) == 0 {
            return;
        }
        let number = known.unwrap_or_else(|| self.number(ring));
        if known.is_none() {
            self.threads.insert(address(ring), (number, Arc::clone(ring)));
        }
        // A ring that has dropped something since was full, so it is not empty now.
        if !records.is_empty() {
            self.records += records.len() as u64;
            self.file.records(number, self.earlier.since(ring), records);
        }
    }
}

impl<W: Write> Writer<W> {
    /// The number of a ring that the file does not know: that of its thread, if it knows that.
    fn number(&mut self, ring: &Ring) -> u32 {
        if let Some(&number) = self.numbers.get(&ring.owner) {
            return number;
        }
        let number = self.threads_seen;
        self.threads_seen += 1;
        self.numbers.insert(ring.owner, number);
        self.file.thread(number, &ring.thread);
        number
    }
}

fn address(ring: &Arc<Ring>) -> usize {
    Arc::as_ptr(ring) as usize
}

/// The program's name, without its folder.
fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
