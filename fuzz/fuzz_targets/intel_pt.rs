//! Any bytes as a recording of perf with Intel PT in it, and the code that ran: at once and in
//! pieces, the same both times.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_read::fuzzing::intel_pt(input));
