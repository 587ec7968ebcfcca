//! Any bytes as a recording of perf, at once and in pieces: the same both times.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::perf_data(input));
