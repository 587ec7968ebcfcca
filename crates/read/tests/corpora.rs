//! Replays what fuzzing found worth keeping (`fuzz/corpus`), on stable Rust.

mod traces;

use traces::{at_root, files_below};

#[track_caller]
fn check(corpus: &str, replay: fn(&[u8])) {
    let files = files_below(&at_root("fuzz/corpus").join(corpus));
    assert!(!files.is_empty(), "the corpus is missing");
    for path in files {
        let input = std::fs::read(&path).expect("readable");
        let replayed = std::panic::catch_unwind(|| replay(&input));
        assert!(replayed.is_ok(), "{}", path.display());
    }
}

#[test]
fn json() {
    check("json", spanwise_read::fuzzing::json);
}

#[test]
fn index() {
    check("index", spanwise_read::fuzzing::index);
}

#[test]
fn perfetto() {
    check("perfetto", spanwise_read::fuzzing::perfetto);
}

#[test]
fn fxt() {
    check("fxt", spanwise_read::fuzzing::fxt);
}

#[test]
fn session() {
    check("session", spanwise_read::fuzzing::session);
}

#[test]
fn perf_data() {
    check("perf_data", spanwise_read::fuzzing::perf_data);
}

#[test]
fn intel_pt() {
    check("intel_pt", spanwise_read::fuzzing::intel_pt);
}

#[test]
fn perf_script() {
    check("perf_script", spanwise_read::fuzzing::perf_script);
}

#[test]
fn pprof() {
    check("pprof", spanwise_read::fuzzing::pprof);
}

#[test]
fn folded() {
    check("folded", spanwise_read::fuzzing::folded);
}

#[test]
fn speedscope() {
    check("speedscope", spanwise_read::fuzzing::speedscope);
}
