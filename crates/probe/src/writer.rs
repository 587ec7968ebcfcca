//! Moves records from the rings of all threads to a file.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::clock::{self, Moment};
use crate::file::SessionFile;
use crate::ring::{Record, Ring, current_rings};
use crate::site::sites_after;

pub(crate) struct Writer<W> {
    file: SessionFile<W>,
    state: u32,
    known_sites: usize,
    /// By the address of a ring: its number in the file. Held with the ring, so that no other
    /// one gets its address.
    threads: HashMap<usize, (u32, Arc<Ring>)>,
    threads_seen: u32,
    records: u64,
    /// By threads that have ended.
    dropped: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file, with the moment at which recording began.
    pub(crate) fn new(out: W, state: u32, began: Moment) -> io::Result<Self> {
        let mut file = SessionFile::new(out, std::process::id(), &program())?;
        file.clock(began);
        let (threads, threads_seen) = (HashMap::new(), 0);
        Ok(Writer { file, state, known_sites: 0, threads, threads_seen, records: 0, dropped: 0 })
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
        let dropped = self.flush()?;
        self.file.end(self.records, dropped);
        self.file.flush()?;
        Ok((self.records, dropped))
    }

    /// Writes what is there; gives how many records have been dropped so far.
    fn flush(&mut self) -> io::Result<u64> {
        let (rings, homeless) = current_rings();
        let drain = |(ring, is_over): (Arc<Ring>, bool)| {
            let mut records = Vec::new();
            ring.drain(&mut records);
            (ring, is_over, records)
        };
        let drained: Vec<(Arc<Ring>, bool, Vec<Record>)> = rings.into_iter().map(drain).collect();
        // A program that records nothing for hours leaves a file that does not grow.
        if drained.iter().any(|(_, _, records)| !records.is_empty()) {
            self.file.clock(clock::moment(self.state));
        }
        // Asked for after the records: a site has its number before its first one.
        for site in sites_after(self.known_sites) {
            self.known_sites += 1;
            self.file.site(self.known_sites as u32, site);
        }
        for (ring, is_over, records) in drained {
            self.thread(&ring, &records);
            if is_over {
                self.threads.remove(&address(&ring));
                self.dropped += ring.dropped();
            }
        }
        self.file.flush()?;
        let of_threads: u64 = self.threads.values().map(|(_, ring)| ring.dropped()).sum();
        Ok(homeless + self.dropped + of_threads)
    }

    fn thread(&mut self, ring: &Arc<Ring>, records: &[Record]) {
        let known = self.threads.get(&address(ring)).map(|&(number, _)| number);
        let number = known.unwrap_or(self.threads_seen);
        if known.is_none() {
            self.threads_seen += 1;
            self.threads.insert(address(ring), (number, Arc::clone(ring)));
            self.file.thread(number, &ring.thread);
        }
        // A ring that has dropped something since was full, so it is not empty now.
        if !records.is_empty() {
            self.records += records.len() as u64;
            self.file.records(number, ring.dropped(), records);
        }
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
