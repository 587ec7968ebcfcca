//! A recording with any file, pipe or link beside its records: read, or reported as damaged.
#![no_main]

use spanwise_read::fuzzing::side_files;

const RECORDS: &[u8] = include_bytes!("../corpus/perf_data/small");

// The first byte of that input is not of the records.
libfuzzer_sys::fuzz_target!(|input: &[u8]| side_files(&RECORDS[1..], input));
