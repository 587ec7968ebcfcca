//! Any bytes as JSON, read whole, in blocks and as a stream: the same each time.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::json(input));
