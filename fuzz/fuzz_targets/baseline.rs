//! Any bytes as a baseline of a comparison: read, written and compared with itself, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_analyze::fuzzing::baseline(input));
