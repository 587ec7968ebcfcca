//! The text of JSON: how it is walked over, and what its values mean.

pub(crate) mod decimal;
pub(crate) mod digits;
pub(crate) mod event;
pub(crate) mod layout;
pub(crate) mod lenient;
pub(crate) mod scan;
pub(crate) mod simd;
pub(crate) mod text;
