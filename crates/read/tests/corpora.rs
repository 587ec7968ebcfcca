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
fn index_mapped() {
    check("index_mapped", spanwise_read::fuzzing::index_mapped);
}

#[test]
fn side_files() {
    check("side_files", |input| {
        const RECORDS: &[u8] = include_bytes!("../../../fuzz/corpus/perf_data/small");
        // The first byte of that input is not of the records.
        spanwise_read::fuzzing::side_files(&RECORDS[1..], input);
    });
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

#[test]
fn generated_profiles_are_read_and_add_up() {
    check("profiles", spanwise_read::fuzzing::profiles);
    // And what bytes in a row choose, so that a change of a reader shows without a fuzzer.
    for seed in 0..2_000_u64 {
        let mut state = seed;
        let input = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        spanwise_read::fuzzing::profiles(&input.take(300).collect::<Vec<_>>());
    }
}
