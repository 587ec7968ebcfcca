//! Any bytes as collapsed stacks: a whole profile, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::folded(input));
