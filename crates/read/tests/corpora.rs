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
