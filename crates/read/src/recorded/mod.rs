//! Recordings of our own, as far as they are more than their records.

pub(crate) mod clock;
pub(crate) mod torch;
