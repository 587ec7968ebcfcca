//! Any bytes as a session of a program, at once and in pieces: the same both times.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::session(input));
