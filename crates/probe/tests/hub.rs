//! A hub hands what is recorded to every file that is open, and to its observer, once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spanwise_probe::{Hub, HubOptions, Observer, Site, SiteKind, Span, raw};

struct Collect(Arc<Mutex<Vec<raw::Record>>>);

impl Observer for Collect {
    fn before_flush(&mut self) {}

    fn see(&mut self, _thread_id: u64, records: &[raw::Record]) {
        self.0.lock().expect("not poisoned").extend(records);
    }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("hub-{}-{name}", std::process::id()))
}

fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("is there");
    std::fs::remove_file(path).expect("is removed");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn files_get_what_is_recorded_while_they_are_open() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = HubOptions {
        records_per_thread: 1024,
        records_per_thread_max: 1024,
        flush_every: Duration::from_millis(1),
    };
    let hub = Hub::start(options, Box::new(Collect(Arc::clone(&seen)))).expect("starts");
    let site = Site::leak(SiteKind::Span, "a step", "here.rs", 7);
    let steps = |count: u32| (0..count).for_each(|_| drop(Span::enter(site)));
    steps(5);
    let first_path = file("first");
    let first = hub.open_file(&first_path).expect("opens");
    steps(10);
    let second_path = file("second");
    let second = hub.open_file(&second_path).expect("opens");
    steps(20);
    let saved = hub.close_file(first).expect("closes");
    assert_eq!((saved.records, saved.dropped), (30, 0));
    std::thread::spawn(move || steps(40)).join().expect("ends");
    let saved = hub.close_file(second).expect("closes");
    assert_eq!((saved.records, saved.dropped), (60, 0));
    assert!(hub.close_file(second).is_err(), "it is closed already");
    drop(hub);
    let seen = seen.lock().expect("not poisoned");
    assert_eq!(seen.len(), 75);
    assert!(seen.iter().all(|&[start, end, number]| start <= end && number == 1));
    assert!(text(&first_path).contains("a step") && text(&second_path).contains("a step"));
}

#[test]
fn counts_of_arguments_leave_the_site_alone() {
    let word = 7 | raw::arguments(3, usize::MAX) | raw::HAS_FAILED | raw::IS_OUTERMOST;
    assert_eq!(word as u32, 7);
    assert_eq!(word >> 32 & raw::ARGUMENTS_MAX, 3);
    assert_eq!(word >> 46 & raw::ARGUMENTS_MAX, raw::ARGUMENTS_MAX);
}
