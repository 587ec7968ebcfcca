//! Samples among or beside the events.

pub(crate) mod cpu_profiles;
pub(crate) mod stack_samples;
