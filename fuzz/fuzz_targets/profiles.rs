//! Profiles of three formats that are made as the input says, mostly valid: read, and added up.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::profiles(input));
