//! A session that is still being written, by the program that tests it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spanwise_probe::{Session as Recording, mark, span};
use spanwise_report::{LiveTrace, LiveUpdate};
use spanwise_serve::{Session, TraceView};

use crate::running::{Running, start_session};

/// More is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server says of the trace once it is so.
#[track_caller]
fn wait_until(running: &Running, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let trace = running.json("api/traces")["traces"][0].clone();
        if is_so(&trace) {
            return trace;
        }
        assert!(start.elapsed() < PATIENCE, "not {what}: {trace}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The session, once something of it is written.
fn opened(path: &std::path::Path) -> (LiveTrace, spanwise_model::Trace) {
    let start = Instant::now();
    loop {
        let live = LiveTrace::open(path).map(|mut live| (live.update().expect("readable"), live));
        if let Some((LiveUpdate { trace: Some(trace), is_live: true }, live)) = live
            && !trace.spans().is_empty()
        {
            return (live, trace);
        }
        assert!(start.elapsed() < PATIENCE, "nothing is written");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_page_follows_a_program_that_runs_and_sees_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.spanwise-session");
    let recording = Recording::start(&path).expect("a session");
    drop(span!("first"));
    let (live, trace) = opened(&path);
    let session = Session::new(vec![TraceView::new("run".to_owned(), trace)]).follow(0, live);
    let running = start_session(session);
    let before = wait_until(&running, "live", |trace| trace["live"] == true);
    let at_first = running.json("api/span?trace=0&span=0");
    assert_eq!(at_first["name"], "first");

    // A thread of its own: its track moves the numbers of other spans.
    let work = || {
        for _ in 0..100 {
            drop(span!("later"));
        }
        mark!("half way");
    };
    thread::spawn(work).join().expect("it ends");
    let now = wait_until(&running, "longer", |trace| {
        trace["spans"] == 101 && trace["tracks"].as_array().is_some_and(|all| all.len() > 1)
    });
    assert!(now["read"].as_i64() > before["read"].as_i64(), "{now}");
    assert!(now["to"].as_f64() > before["to"].as_f64(), "{now}");
    let place = format!("track={}&row=0&start={}", at_first["track"], at_first["start"]);
    let again = running.json(&format!("api/span?trace=0&read={}&{place}", now["read"]));
    assert_eq!(again["name"], "first");
    let old = running.json(&format!("api/span?trace=0&read={}&span=0", before["read"]));
    assert_eq!(old["name"], "first");
    let missing = running.get("api/span?trace=0&track=0&row=0&start=1");
    assert_eq!(missing.status, 404);
    let asked = "SELECT count(*) FROM spans WHERE name = 'later'";
    assert_eq!(running.query(asked)["rows"][0][0], 100);

    recording.finish().expect("it is written");
    let end = wait_until(&running, "over", |trace| trace["live"] == false);
    assert_eq!(end["spans"], 101);
    assert!(LiveTrace::open(&path).is_none(), "a session that has ended does not grow");
}
