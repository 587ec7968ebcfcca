//! Any bytes as text of `perf script`: at once, in pieces and in blocks the same calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::perf_script(input));
