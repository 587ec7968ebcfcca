//! Sessions that are read on while they grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spanwise_model::{LiveSession, Trace, TrackKind};
use spanwise_probe::{Session, SessionOptions, counter, mark, span};
use spanwise_read::{IndexUse, OpenOptions, SessionFollower, open};

/// One session at a time records.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/session/steps.spanwise-session")
}

fn poll(path: &Path) -> LiveSession {
    SessionFollower::open(path).and_then(|mut follower| follower.poll()).expect("a session")
}

/// The spans that a poll returns: by name how many, in all, self, the longest.
fn sums(session: &LiveSession) -> BTreeMap<&str, (u64, i128, i128, i64)> {
    let row =
        |row: &'_ spanwise_model::LiveSpans| (row.count, row.total_ns, row.self_ns, row.max_ns);
    session.spans.iter().map(|spans| (spans.name.as_str(), row(spans))).collect()
}

/// The same of a trace, from each span and its children.
fn sums_of_trace(trace: &Trace) -> BTreeMap<&str, (u64, i128, i128, i64)> {
    let spans = trace.spans();
    let mut own: BTreeMap<_, i128> = BTreeMap::new();
    for span in spans.ids() {
        *own.entry(span).or_default() += i128::from(spans.dur(span));
        if let Some(parent) = spans.parent(span) {
            *own.entry(parent).or_default() -= i128::from(spans.dur(span));
        }
    }
    let mut sums: BTreeMap<&str, (u64, i128, i128, i64)> = BTreeMap::new();
    let is_of_thread = |span| trace.tracks().get(spans.track(span)).kind == TrackKind::Thread;
    for span in spans.ids().filter(|&span| is_of_thread(span)) {
        let row = sums.entry(trace.name(span)).or_default();
        row.0 += 1;
        row.1 += i128::from(spans.dur(span));
        row.2 += own[&span];
        row.3 = row.3.max(spans.dur(span));
    }
    sums
}

fn read(path: &Path) -> Trace {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    open(path, &options).expect("a session is read")
}

#[test]
fn a_poll_says_what_the_trace_says() {
    let path = recorded();
    let session = poll(&path);
    assert_eq!(sums(&session), sums_of_trace(&read(&path)));
    assert!(session.has_ended && session.damaged == 0 && !session.spans.is_empty());
    assert_eq!(session.bytes, fs::metadata(&path).expect("there").len());
    let busy: i128 = session.threads.iter().map(|thread| thread.busy_ns).sum();
    assert_eq!(busy, session.spans.iter().map(|row| row.self_ns).sum::<i128>());
}

#[test]
fn it_does_not_matter_how_a_file_grew() {
    let whole = fs::read(recorded()).expect("testdata");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("growing");
    for step in [1, 7, 100, 4096] {
        fs::write(&path, &whole[..8]).expect("writable");
        let mut follower = SessionFollower::open(&path).expect("a session");
        let (mut records, mut new_count) = (0, 0);
        let mut last = None;
        for end in (8..whole.len()).step_by(step).chain([whole.len()]) {
            fs::write(&path, &whole[..end]).expect("writable");
            let session = follower.poll().expect("a session");
            assert!(session.records >= records, "{step}: nothing is forgotten");
            assert!(!session.has_ended || end == whole.len());
            records = session.records;
            new_count += session.spans.iter().map(|row| row.new_count).sum::<u64>();
            last = Some(session);
        }
        let last = last.expect("at least one poll");
        assert_eq!(new_count, last.spans.iter().map(|row| row.count).sum::<u64>());
        assert_eq!(sums(&last), sums(&poll(&recorded())), "in steps of {step}");
    }
}

/// What was read is not read again: it may be anything by then.
#[test]
fn only_what_is_new_is_read() {
    let whole = fs::read(recorded()).expect("testdata");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("growing");
    let half = whole.len() / 2;
    fs::write(&path, &whole[..half]).expect("writable");
    let mut follower = SessionFollower::open(&path).expect("a session");
    follower.poll().expect("a session");
    let mut spoiled = whole.clone();
    // The beginning identifies the session.
    spoiled[100..half].fill(0xff);
    fs::write(&path, &spoiled).expect("writable");
    let session = follower.poll().expect("a session");
    assert_eq!((sums(&session), session.damaged), (sums(&poll(&recorded())), 0));
}

#[test]
fn another_session_in_the_same_place_is_read_anew() {
    let whole = fs::read(recorded()).expect("testdata");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("again");
    fs::write(&path, &whole).expect("writable");
    let mut follower = SessionFollower::open(&path).expect("a session");
    let before = follower.poll().expect("a session");
    // Of another process; and longer than what was read, so its length alone decides nothing.
    let mut other = whole.clone();
    other[8 + 16] ^= 1;
    other.extend_from_slice(&whole[8..]);
    fs::write(&path, &other).expect("writable");
    let after = follower.poll().expect("a session");
    assert!(after.records > before.records && after.records < 3 * before.records);
    fs::write(&path, &whole[..8]).expect("writable");
    assert_eq!(follower.poll().expect("a session").records, 0);
}

#[test]
fn damage_is_counted_and_passed_over() {
    let mut bytes = fs::read(recorded()).expect("testdata");
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged");
    fs::write(&path, &bytes).expect("writable");
    let session = poll(&path);
    assert_eq!((session.damaged, session.has_ended), (1, false));
    fs::write(&path, b"<html>").expect("writable");
    let error = SessionFollower::open(&path).err().expect("no session").to_string();
    assert!(error.contains("no session of spanwise") && error.contains("<html>"), "{error}");
}

#[test]
fn a_running_program_is_seen_without_being_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let options = SessionOptions { flush_every: Duration::from_millis(1), ..Default::default() };
    let session = Session::start_with(&path, options).expect("a session");
    let mut follower = SessionFollower::open(&path).expect("a session");
    let mut seen = 0;
    for round in 1..=3_u64 {
        for _ in 0..10 {
            drop(span!("step"));
        }
        mark!("round");
        counter!("queue", round as f64);
        let live = loop {
            let live = follower.poll().expect("a session");
            let counted = live.spans.first().map_or(0, |row| row.count);
            let is_reported =
                live.counters.first().is_some_and(|row| row.last_value == round as f64);
            seen += live.spans.first().map_or(0, |row| row.new_count);
            if counted == round * 10 && is_reported {
                break live;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(!live.has_ended && live.process_id == std::process::id());
        assert_eq!((live.marks.len() as u64, live.marks[0].name.as_str()), (round, "round"));
        assert_eq!((live.counters[0].min, live.counters[0].max), (1.0, round as f64));
        assert_eq!(live.threads.len(), 1);
        assert!(live.began > 0 && live.until >= live.marks[0].time);
    }
    assert_eq!(seen, 30);
    session.finish().expect("is written");
    assert!(follower.poll().expect("a session").has_ended);
}
