//! Recordings of others, which lie beside the repository on some machines.

use std::path::{Path, PathBuf};

/// The folder of a corpus; says so where it is absent.
pub(crate) fn corpus(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora").join(name);
    if !folder.is_dir() {
        eprintln!("skipped: no corpus at {}", folder.display());
        return None;
    }
    Some(folder)
}

/// Equal but for so much, relative to the expected value or absolute.
pub(crate) fn close(expected: f64, found: f64, relative: f64, absolute: f64) -> bool {
    (expected - found).abs() <= (expected.abs() * relative).max(absolute)
}
