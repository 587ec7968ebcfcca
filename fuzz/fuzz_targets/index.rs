//! An index with edits in it and checksums made right: refused, or a sound trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::index(input));
