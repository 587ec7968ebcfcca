//! Any bytes as the head of a request to the viewer's server: the same request whole and in pieces,
//! or refused; and none passes the guard without the token.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spanwise_serve::fuzzing::http(input));
