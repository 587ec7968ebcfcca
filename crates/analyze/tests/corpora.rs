//! Replays what fuzzing found worth keeping (`fuzz/corpus`), on stable Rust.

use std::path::Path;

#[test]
fn baseline() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/baseline");
    let entries = std::fs::read_dir(&folder).expect("the corpus is there");
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus is missing");
    for path in paths {
        let input = std::fs::read(&path).expect("readable");
        let replayed = std::panic::catch_unwind(|| spanwise_analyze::fuzzing::baseline(&input));
        assert!(replayed.is_ok(), "{}", path.display());
    }
}
