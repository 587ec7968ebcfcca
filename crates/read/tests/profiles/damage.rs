//! Hostile bytes: a profile or an error, never a panic, never much memory.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{open, testdata};

const FILES: [&str; 3] = ["nasty.pb", "nasty.folded", "nasty.speedscope.json"];

/// Every part of a small pprof is needed, except for what stands at its end.
#[test]
fn no_cut_does_harm() {
    for file in FILES {
        let bytes = testdata(file);
        for end in 0..bytes.len() {
            let _ = open(&bytes[..end]);
        }
    }
}

#[test]
fn a_cut_pprof_is_refused_with_a_place() {
    let bytes = testdata("nasty.pb");
    let error = open(&bytes[..bytes.len() / 2]).expect_err("half a profile").to_string();
    assert!(error.contains(": byte ") && error.contains("not a profile"), "{error}");
}

#[test]
fn a_cut_archive_is_refused() {
    let profile = open(&testdata("nasty.pb")).expect("a profile");
    let mut bytes = Vec::new();
    let options = spanwise_write::PprofOptions::default();
    spanwise_write::write_pprof(&profile, &options, &mut bytes).expect("a vector");
    for end in 2..bytes.len() {
        assert!(open(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_change_of_bytes_does_harm(
        file in 0usize..FILES.len(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut bytes = testdata(FILES[file]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = open(&bytes);
    }

    #[test]
    fn no_bytes_at_all_do_harm(bytes in vec(any::<u8>(), 0..64)) {
        let _ = open(&bytes);
        let _ = open(&[[0x0a].as_slice(), &bytes].concat());
        let _ = open(&[b"{".as_slice(), &bytes].concat());
    }
}
