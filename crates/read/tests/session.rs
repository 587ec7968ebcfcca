//! Sessions that real programs record, read back: nothing lost, nothing counted twice.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spanwise_model::{NoticeKind, Trace, TrackKind};
use spanwise_probe::{
    FlightRecorder, Session, SessionOptions, Site, SiteKind, Span, counter, in_span, mark, raw,
    span,
};
use spanwise_read::{IndexUse, OpenOptions, open};

/// One session at a time records.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> Trace {
    let trace = open(path, &OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() });
    let trace = trace.expect("a session is read");
    trace.check().expect("the trace holds together");
    trace
}

fn lost(trace: &Trace) -> u64 {
    trace.notices().count(NoticeKind::EventsLost)
}

fn count(trace: &Trace, name: &str) -> usize {
    trace.spans().ids().filter(|&span| trace.name(span) == name).count()
}

#[test]
fn spans_nest_and_stand_on_their_threads() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    let work = || {
        let _outer = span!("outer");
        {
            let _inner = span!("inner");
            std::thread::sleep(Duration::from_millis(2));
        }
        mark!("half way");
        counter!("queue", 2.5);
    };
    std::thread::Builder::new()
        .name("worker".into())
        .spawn(work)
        .expect("starts")
        .join()
        .expect("ends");
    let saved = session.finish().expect("is written");
    assert_eq!((saved.records, saved.dropped), (4, 0));
    let trace = read(&path);
    assert_eq!(trace.info().format, "spanwise session");
    assert!(trace.info().base_time_ns.is_some_and(|base| base > 0));
    assert_eq!(trace.info().properties.get("session"), None);
    let spans = trace.spans();
    let names: Vec<&str> = spans.ids().map(|span| trace.name(span)).collect();
    assert_eq!(names, ["outer", "inner"]);
    let [outer, inner] = [0, 1].map(spanwise_model::SpanId);
    assert_eq!(spans.parent(inner), Some(outer));
    assert!(spans.dur(inner) >= 2_000_000 && spans.dur(inner) <= spans.dur(outer));
    let track = trace.tracks().get(spans.track(outer));
    assert_eq!(trace.strings().get(track.thread_name), "worker");
    assert_eq!(trace.instants().len(), 1);
    assert_eq!(&trace.counters().value[..], [2.5]);
    let counter = trace.tracks().rows().iter().find(|track| track.kind == TrackKind::Counter);
    assert_eq!(trace.strings().get(counter.expect("a counter").thread), "queue");
}

/// What bindings to other languages record: tasks have lanes of their own, and what is in the
/// upper half of a record's third word does not hide its site.
#[test]
fn tasks_stand_beside_threads_and_flags_do_no_harm() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    let part = u64::from(Site::leak(SiteKind::Span, "fetch", "a.py", 3).number());
    let whole = u64::from(Site::leak(SiteKind::Task, "fetch", "a.py", 3).number());
    let state = raw::state();
    let times: [u64; 6] = std::array::from_fn(|_| {
        std::thread::sleep(Duration::from_micros(50));
        raw::now(state)
    });
    let flags = raw::IS_PART | raw::IS_OUTERMOST | raw::arguments(3, 1);
    raw::record(state, [times[0], times[1], part | flags]);
    raw::record(state, [times[2], times[3], part | flags]);
    raw::record(state, [times[0], times[3], whole | raw::HAS_FAILED | raw::IS_BY_HAND]);
    raw::record(state, [times[1], times[5], whole]);
    session.finish().expect("is written");
    let trace = read(&path);
    let spans = trace.spans();
    let kind = |span| trace.tracks().get(spans.track(span)).kind;
    let of_kind = |wanted| spans.ids().filter(move |&span| kind(span) == wanted);
    assert!(spans.ids().all(|span| trace.name(span) == "fetch"));
    assert_eq!(of_kind(TrackKind::Thread).count(), 2);
    assert_eq!(of_kind(TrackKind::Async).count(), 2);
    let longest = of_kind(TrackKind::Async).map(|span| spans.dur(span)).max();
    assert!(longest >= Some(200_000), "{longest:?}");
    assert_eq!(trace.notices().count(NoticeKind::EventSkipped), 0);
}

#[test]
fn one_name_at_two_places_is_distinguished() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    drop(span!("same"));
    drop(span!("same"));
    drop(span!("other"));
    session.finish().expect("is written");
    let trace = read(&path);
    let names: Vec<&str> = trace.spans().ids().map(|span| trace.name(span)).collect();
    assert!(names[0].starts_with("same (") && names[1].starts_with("same ("), "{names:?}");
    assert_ne!(names[0], names[1]);
    assert_eq!(names[2], "other");
}

/// Every span of eight threads is there, or counted as dropped.
#[test]
fn no_span_is_lost_or_counted_twice() {
    let _alone = alone();
    const SPANS: usize = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    for waits_for_room in [true, false] {
        let path = folder.path().join(format!("run-{waits_for_room}"));
        let records_per_thread = 1 << 10;
        let options =
            SessionOptions { waits_for_room, records_per_thread, ..SessionOptions::default() };
        let session = Session::start_with(&path, options).expect("a session");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..SPANS).for_each(|_| drop(span!("work"))));
            }
        });
        let saved = session.finish().expect("is written");
        assert_eq!(saved.records + saved.dropped, 8 * SPANS as u64);
        let trace = read(&path);
        assert_eq!(count(&trace, "work") as u64, saved.records);
        assert_eq!(lost(&trace), saved.dropped);
        if waits_for_room {
            assert_eq!(saved.dropped, 0);
        }
    }
}

#[test]
fn a_file_does_not_grow_while_nothing_is_recorded() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    drop(span!("once"));
    let len = || std::fs::metadata(&path).expect("is there").len();
    let deadline = Instant::now() + Duration::from_secs(60);
    while count(&read(&path), "once") == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = len();
    std::thread::sleep(SessionOptions::default().flush_every * 5);
    assert_eq!(len(), before);
    session.finish().expect("is written");
    assert_eq!(count(&read(&path), "once"), 1);
}

#[test]
fn threads_that_come_and_go_all_count() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    for _ in 0..200 {
        let thread = std::thread::spawn(|| drop(span!("short")));
        thread.join().expect("ends");
    }
    let saved = session.finish().expect("is written");
    assert_eq!((saved.records, saved.dropped), (200, 0));
    assert_eq!(count(&read(&path), "short"), 200);
}

#[test]
fn panics_and_recursion_are_spans_like_others() {
    fn deep(left: u32) {
        let _span = span!("deep");
        match left {
            0 => std::panic::resume_unwind(Box::new("as planned")),
            _ => deep(left - 1),
        }
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    assert!(std::panic::catch_unwind(|| deep(9)).is_err());
    session.finish().expect("is written");
    let trace = read(&path);
    assert_eq!(count(&trace, "deep"), 10);
    let depth = |span| std::iter::successors(Some(span), |&at| trace.spans().parent(at)).count();
    assert_eq!(trace.spans().ids().map(depth).max(), Some(10));
}

#[test]
fn polls_of_a_future_are_spans_and_a_canceled_one_ends() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    static SITE: Site = Site::new(SiteKind::Span, "task", "here", 1);
    let session = Session::start(&path).expect("a session");
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut polls = 0;
    let twice = std::future::poll_fn(|_| {
        polls += 1;
        if polls < 3 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    });
    let mut task = Box::pin(in_span(&SITE, twice));
    while task.as_mut().poll(&mut context).is_pending() {}
    let mut canceled = Box::pin(in_span(&SITE, std::future::pending::<()>()));
    assert!(canceled.as_mut().poll(&mut context).is_pending());
    drop(canceled);
    session.finish().expect("is written");
    assert_eq!(count(&read(&path), "task"), 4);
}

#[test]
fn sessions_follow_each_other_and_do_not_mix() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let early = span!("before any session");
    let session = Session::start(&first).expect("a session");
    assert!(Session::start(&second).is_err(), "one at a time");
    drop(early);
    drop(span!("in the first"));
    let over = span!("begun in the first");
    session.finish().expect("is written");
    let session = Session::start(&second).expect("another session");
    drop(over);
    drop(span!("in the second"));
    session.finish().expect("is written");
    let names = |path: &Path| -> Vec<String> {
        let trace = read(path);
        trace.spans().ids().map(|span| trace.name(span).to_owned()).collect()
    };
    assert_eq!(names(&first), ["in the first"]);
    assert_eq!(names(&second), ["in the second"]);
}

#[test]
fn a_flight_recorder_saves_the_latest_and_goes_on() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    static SITE: Site = Site::new(SiteKind::Span, "work", "here", 1);
    let mut recorder = FlightRecorder::start(64).expect("a recorder");
    (0..1000).for_each(|_| drop(Span::enter(&SITE)));
    let saved = recorder.snapshot(&first).expect("a snapshot");
    assert_eq!(saved.records + saved.dropped, 1000);
    assert!((60..=64).contains(&saved.records), "{saved:?}");
    assert_eq!(count(&read(&first), "work") as u64, saved.records);
    (0..5).for_each(|_| drop(Span::enter(&SITE)));
    let saved = recorder.snapshot(&second).expect("another one");
    assert_eq!(saved.records, 5);
    assert_eq!(count(&read(&second), "work"), 5);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("listed").collect();
    assert_eq!(left.len(), 2, "nothing half made is left");
}

/// Set for the copy of this program that is to be killed: where it records.
const TO_BE_KILLED: &str = "SPANWISE_TEST_SESSION";

fn record_until_killed(path: &Path) -> ! {
    let _session = Session::start(path).expect("a session");
    loop {
        let _outer = span!("outer");
        let _inner = span!("inner");
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn a_killed_program_leaves_all_up_to_the_last_flush() {
    if let Some(path) = std::env::var_os(TO_BE_KILLED) {
        record_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let mut program = Command::new(std::env::current_exe().expect("this test"));
    program.args(["--exact", "a_killed_program_leaves_all_up_to_the_last_flush"]);
    program.env(TO_BE_KILLED, &path).stdout(Stdio::null());
    let mut program = program.spawn().expect("starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    // A file that still grows is read as far as it goes.
    let mut seen = 0;
    while seen < 100 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        if path.exists() && std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
            seen = count(&read(&path), "inner");
        }
    }
    program.kill().expect("is killed");
    program.wait().expect("has ended");
    assert!(seen >= 100, "{seen} spans while it ran");
    let trace = read(&path);
    assert!(count(&trace, "inner") >= seen);
    assert!(trace.info().properties.contains_key("session"), "it says that it did not end");
}

#[test]
fn a_session_that_cannot_be_written_says_so() {
    let _alone = alone();
    #[cfg(target_os = "linux")]
    assert!(Session::start("/dev/full").is_err());
    let folder = tempfile::tempdir().expect("a folder");
    assert!(Session::start(folder.path().join("no").join("such")).is_err());
    let session = Session::start(folder.path().join("run")).expect("not busy any more");
    session.finish().expect("is written");
}

/// A child that is forked in the middle records nothing, and harms nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_leaves_the_file_alone() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    drop(span!("parent"));
    // SAFETY: the child only makes spans and exits.
    let child = unsafe { fork() };
    if child == 0 {
        (0..100_000).for_each(|_| drop(span!("child")));
        // SAFETY: nothing of the parent's is torn down.
        unsafe { _exit(0) };
    }
    let mut status = -1;
    // SAFETY: the child is ours.
    unsafe { waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    drop(span!("parent"));
    let saved = session.finish().expect("is written");
    assert_eq!((saved.records, saved.dropped), (2, 0));
    let trace = read(&path);
    assert_eq!(count(&trace, "child"), 0);
    assert_eq!(trace.spans().len(), 2);
}

/// Damage costs the chunk that it is in.
#[test]
fn damage_is_reported_and_costs_little() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let session = Session::start(&path).expect("a session");
    (0..10).for_each(|_| drop(span!("work")));
    session.finish().expect("is written");
    let whole = std::fs::read(&path).expect("there");
    for cut in 0..whole.len() {
        let mut file = std::fs::File::create(&path).expect("is made");
        file.write_all(&whole[..cut]).expect("is written");
        drop(file);
        let trace = open(&path, &OpenOptions { index: IndexUse::Ignore, ..Default::default() });
        if let Ok(trace) = trace {
            trace.check().expect("the trace holds together");
        }
    }
    for at in 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).expect("is written");
        let trace = read(&path);
        assert!(trace.notices().iter().next().is_some(), "byte {at} changed unseen");
    }
}
