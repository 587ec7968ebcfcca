//! Any bytes as a profile of speedscope: a whole one, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::speedscope(input));
