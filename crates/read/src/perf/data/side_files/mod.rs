//! Files of our recorder beside the kernel's records.

mod call_pairing;
pub(crate) mod calls;
pub(crate) mod python;
pub(crate) mod single_steps;
