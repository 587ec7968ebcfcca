//! Where nobody takes records out for a while, a thread gets more room, up to what is allowed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spanwise_probe::{Hub, HubOptions, Observer, SessionSummary, Site, SiteKind, raw};

/// Starts of records, by thread, in the order in which they were seen.
type RecordStarts = Arc<Mutex<Vec<(u64, u64)>>>;

struct Collect(RecordStarts);

impl Observer for Collect {
    fn before_flush(&mut self) {}

    fn see(&mut self, thread_id: u64, records: &[raw::Record]) {
        let rows = records.iter().map(|record| (thread_id, record[0]));
        self.0.lock().expect("not poisoned").extend(rows);
    }
}

/// `count` records of each thread, with nobody to take them out before the end.
fn recorded(threads: usize, count: u64) -> (SessionSummary, Vec<(u64, u64)>, usize) {
    let seen = RecordStarts::default();
    let options = HubOptions {
        records_per_thread: 16,
        records_per_thread_max: 1024,
        flush_every: Duration::from_secs(3600),
    };
    let hub = Hub::start(options, Box::new(Collect(Arc::clone(&seen)))).expect("starts");
    let path: PathBuf = std::env::temp_dir().join(format!("growth-{}", std::process::id()));
    let file = hub.open_file(&path).expect("opens");
    let site = u64::from(Site::leak(SiteKind::Span, "a step", "here.rs", 7).number());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (1..=count).for_each(|at| raw::record(raw::state(), [at, at, site])));
        }
    });
    let saved = hub.close_file(file).expect("closes");
    drop(hub);
    let bytes = std::fs::read(&path).expect("is there");
    std::fs::remove_file(&path).expect("is removed");
    let seen = seen.lock().expect("not poisoned").clone();
    (saved, seen, threads_of(&bytes))
}

/// Chunks of threads in a file: after eight bytes, kind, length and check of each.
fn threads_of(bytes: &[u8]) -> usize {
    const HEAD: usize = 16;
    const THREAD: u32 = 4;
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut found) = (8, 0);
    while at < bytes.len() {
        found += usize::from(number(at) == THREAD);
        at += HEAD + number(at + 4) as usize;
    }
    found
}

#[test]
fn rings_grow_and_what_does_not_fit_is_counted() {
    // 16, 64, 256 and 1024 records fit, one ring after the other.
    const ROOM: u64 = 16 + 64 + 256 + 1024;
    for (threads, count) in [(1, 16), (1, 17), (1, ROOM), (1, ROOM + 1), (3, 5000)] {
        let (saved, seen, threads_in_file) = recorded(threads, count);
        let kept = count.min(ROOM) * threads as u64;
        assert_eq!((saved.records, saved.dropped), (kept, count * threads as u64 - kept));
        assert_eq!(seen.len() as u64, kept);
        assert_eq!(threads_in_file, threads, "a larger ring is still the same thread's");
        for &(thread, _) in &seen {
            let of_thread = seen.iter().filter(|row| row.0 == thread);
            assert!(of_thread.map(|row| row.1).eq(1..=count.min(ROOM)), "in order, each once");
        }
    }
}
