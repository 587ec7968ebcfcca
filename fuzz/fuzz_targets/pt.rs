//! Any bytes as packets of Intel PT and the code that they lead through: at once and in parts, the
//! same both times.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_pt::fuzzing::streams(input));
