//! An index whose files are changed while they are mapped: the trace stays what it was.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::index_mapped(input));
