//! A whole trace, a part of it or a running session, and whether its data is sound.

pub(crate) mod info;
pub(crate) mod live;
pub(crate) mod verify;
